package s3

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"

	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/dial"
)

// failure is an error of the server or of the way to it, in the words of the port: what it
// is, what the server said, and what to do about it.
type failure struct {
	kind   error // a sentinel of package store; nil if none fits
	said   string
	remedy string
	cause  error
}

func (f *failure) Error() string {
	var b strings.Builder
	if f.kind != nil {
		b.WriteString(f.kind.Error())
		b.WriteString(": ")
	}
	b.WriteString(f.said)
	if f.remedy != "" {
		b.WriteString("; ")
		b.WriteString(f.remedy)
	}
	return b.String()
}

func (f *failure) Unwrap() []error {
	if f.kind == nil {
		return []error{f.cause}
	}
	return []error{f.kind, f.cause}
}

// rule classifies errors by the server's code, else by the HTTP status.
type rule struct {
	codes  []string
	status []int
	kind   error
	remedy string
}

// rules are tried in order; codes of all rules go before statuses of any.
var rules = []rule{
	{codes: []string{"NoSuchKey", "NoSuchVersion", "NotFound"}, kind: store.ErrNotFound},
	{codes: []string{"NoSuchBucket"}, kind: store.ErrNoBucket, remedy: "check the container's name and the endpoint, or create it"},
	{codes: []string{"InvalidBucketName"}, kind: store.ErrNoBucket, remedy: "this cannot be the name of a bucket, check the container"},
	{codes: []string{"PreconditionFailed"}, kind: store.ErrExists},
	{codes: []string{"InvalidAccessKeyId", "InvalidToken", "InvalidClientTokenId", "UnrecognizedClientException"}, kind: store.ErrCredentials,
		remedy: "check accessKeyID, and that the key belongs to this endpoint and still exists"},
	{codes: []string{"SignatureDoesNotMatch"}, kind: store.ErrCredentials, remedy: "check secretAccessKey, it does not fit accessKeyID"},
	{codes: []string{"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "RequestExpired"}, kind: store.ErrCredentials,
		remedy: "the session has expired, renew the token"},
	{codes: []string{"RequestTimeTooSkewed"}, kind: store.ErrCredentials,
		remedy: "this machine's clock differs from the store's by more than 15 minutes, set the clock"},
	{codes: []string{"AccessDenied", "Forbidden", "AccountProblem", "AllAccessDisabled"}, status: []int{http.StatusForbidden}, kind: store.ErrForbidden,
		remedy: "grant the action to this identity (docs/operations/permissions.md lists what each role needs)"},
	{codes: []string{"AuthorizationHeaderMalformed", "PermanentRedirect", "IllegalLocationConstraintException", "Redirect", "TemporaryRedirect"},
		status: []int{http.StatusMovedPermanently, http.StatusTemporaryRedirect},
		remedy: "the bucket is in another region or at another endpoint, set the field region or --store-endpoint-override"},
	{codes: []string{"SlowDown", "Throttling", "ThrottlingException", "RequestLimitExceeded", "TooManyRequests", "BandwidthLimitExceeded", "SlowDownRead", "SlowDownWrite", "XMinioServerNotInitialized"},
		status: []int{http.StatusTooManyRequests}, kind: store.ErrThrottled, remedy: "try again later, or with fewer --max-parallel-chunk-uploads"},
	{codes: []string{"XMinioStorageFull", "QuotaExceeded", "XMinioAdminBucketQuotaExceeded", "InsufficientStorage"}, status: []int{http.StatusInsufficientStorage}, kind: store.ErrNoSpace,
		remedy: "enlarge the store or its quota"},
	{codes: []string{"NotImplemented"}, status: []int{http.StatusNotImplemented}, kind: store.ErrUnsupported},
	{codes: []string{"BadDigest", "XAmzContentSHA256Mismatch", "XAmzContentChecksumMismatch", "InvalidDigest"},
		remedy: "what arrived is not what was sent; if it happens again, look for a proxy that alters bodies, or set requestChecksumCalculation to when_required for a server without newer checksums"},
	{codes: []string{"NoSuchUpload"}, remedy: "the upload was aborted by somebody else, for example by a lifecycle rule for incomplete uploads"},
	{codes: []string{"EntityTooLarge"}, remedy: "raise --min-chunk-size"},
	{codes: []string{"ConditionalRequestConflict"}, remedy: "another writer was writing the same key, try again"},
	{status: []int{http.StatusNotFound}, kind: store.ErrNotFound},
	{status: []int{http.StatusUnauthorized}, kind: store.ErrCredentials, remedy: "check the credentials"},
	{status: []int{http.StatusPreconditionFailed}, kind: store.ErrExists},
}

// classify turns an error of the SDK into one of the port's. It is the only place that does.
func (s *Store) classify(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if f := (*failure)(nil); errors.As(err, &f) {
		return err
	}
	if p := dial.OfProxy(err); p != nil {
		return &failure{kind: store.ErrUnreachable, said: p.Error(), remedy: dial.CheckProxy, cause: err}
	}
	var api smithy.APIError
	if errors.As(err, &api) {
		if ofRole(err) {
			return &failure{kind: store.ErrCredentials, said: "the role cannot be assumed: " + serverWords(err),
				remedy: "check roleARN, the token and whom the role trusts", cause: err}
		}
		return s.classifyAnswer(err, api.ErrorCode(), api.ErrorMessage())
	}
	var creds *credentialsError
	if errors.As(err, &creds) {
		return &failure{kind: store.ErrCredentials, said: creds.Error(), cause: err}
	}
	if f := s.classifyNetwork(err); f != nil {
		return f
	}
	if status := statusOf(err); status != 0 {
		return s.classifyAnswer(err, "", "")
	}
	if strings.Contains(err.Error(), "failed to refresh cached credentials") || strings.Contains(err.Error(), "get identity") {
		return &failure{kind: store.ErrCredentials, said: "no usable credentials were found: " + innermost(err),
			remedy: "give credentials by their environment variable, or run where an identity is ambient", cause: err}
	}
	return &failure{said: innermost(err), cause: err}
}

// ofRole says whether the error came from exchanging a token for credentials.
func ofRole(err error) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		if op, ok := err.(*smithy.OperationError); ok && op.Service() == sts.ServiceID { //nolint:errorlint // the chain is walked by hand
			return true
		}
	}
	return false
}

// unknownMessage is the SDK's stand-in where the server sent none.
const unknownMessage = "UnknownError"

// classifyAnswer is for what the server answered.
func (s *Store) classifyAnswer(err error, code, message string) error {
	status := statusOf(err)
	said := strings.TrimSpace(code + ": " + message)
	if message == "" || message == code || message == unknownMessage {
		said = code
	}
	if status != 0 {
		said = strings.TrimPrefix(fmt.Sprintf("%s (HTTP %d)", said, status), " ")
	}
	said = strings.Join(strings.Fields(said), " ")
	f := &failure{said: said, cause: err}
	for _, r := range rules {
		if slices.Contains(r.codes, code) {
			f.kind, f.remedy = r.kind, r.remedy
			return f
		}
	}
	for _, r := range rules {
		if slices.Contains(r.status, status) {
			f.kind, f.remedy = r.kind, r.remedy
			return f
		}
	}
	if status >= 500 {
		f.kind, f.remedy = store.ErrUnreachable, s.opts.describe()+" answers but fails, try again later"
	}
	return f
}

// classifyNetwork is for what happened on the way. nil: nothing of that kind.
func (s *Store) classifyNetwork(err error) error {
	where := s.opts.describe()
	f := &failure{kind: store.ErrUnreachable, cause: err}
	var (
		dns     *net.DNSError
		timeout net.Error
	)
	trust := dial.Untrusted(err)
	switch {
	case trust != nil:
		f.said = fmt.Sprintf("the certificate of %s is not trusted: %v", where, trust)
		f.remedy = "give the CA's certificate in the field trustedCaCert"
	case errors.Is(err, http.ErrSchemeMismatch):
		f.said = where + " speaks plain http, not https"
		f.remedy = "correct the endpoint's scheme"
	case errors.As(err, &dns):
		f.said = fmt.Sprintf("the name %q cannot be resolved: %s", dns.Name, dns.Err)
		f.remedy = "check the endpoint and the region"
	case errors.Is(err, syscall.ECONNREFUSED):
		f.said = "connection refused by " + where
		f.remedy = "check the endpoint and that the server runs"
	case errors.As(err, &timeout) && timeout.Timeout():
		f.said = where + " did not answer in time: " + innermost(err)
		f.remedy = "check the network and the endpoint"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		f.said = "the connection to " + where + " broke: " + innermost(err)
		f.remedy = "try again"
	default:
		var op *net.OpError
		var record tls.RecordHeaderError
		if !errors.As(err, &op) && !errors.As(err, &record) && !isSendError(err) {
			return nil
		}
		f.said = "no connection to " + where + ": " + innermost(err)
		f.remedy = "check the endpoint and the network"
	}
	return f
}

func isSendError(err error) bool {
	var send interface{ ConnectionError() bool }
	return errors.As(err, &send) && send.ConnectionError()
}

// describe names the server.
func (o Options) describe() string {
	if o.Endpoint != "" {
		return o.Endpoint
	}
	return "S3 in " + o.Region
}

// codeOf is the server's error code, or "".
func codeOf(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	return ""
}

// statusOf is the HTTP status of the answer, or 0 if none arrived.
func statusOf(err error) int {
	var resp *awshttp.ResponseError
	if errors.As(err, &resp) {
		return resp.HTTPStatusCode()
	}
	return 0
}

// innermost is the last error in the chain: the SDK wraps in many words that say nothing.
func innermost(err error) string {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err.Error()
		}
		err = next
	}
}
