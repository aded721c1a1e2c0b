package s3

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// signer is the SDK's, made anew when the secret of an access key changes. The SDK keeps what it derives of a secret for a
// day by the name of the key alone, and servers of one's own can give the same key another secret.
type signer struct {
	mu     sync.Mutex
	secret string
	made   *v4.Signer // for secret; nil: none yet
}

// SignHTTP implements the SDK's HTTPSignerV4.
func (s *signer) SignHTTP(ctx context.Context, c aws.Credentials, r *http.Request, payloadHash, service, region string, at time.Time, options ...func(*v4.SignerOptions)) error {
	return s.of(c.SecretAccessKey).SignHTTP(ctx, c, r, payloadHash, service, region, at, options...)
}

func (s *signer) of(secret string) *v4.Signer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.made == nil || s.secret != secret {
		s.secret = secret
		s.made = v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true }) // as S3 wants it
	}
	return s.made
}
