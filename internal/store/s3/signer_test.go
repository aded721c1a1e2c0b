package s3

import (
	"net/http"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
)

func TestAnotherSecretOfTheSameKeySignsWhatFollows(t *testing.T) {
	var kept signer
	signature := func(s *signer, secret string) string {
		t.Helper()
		r, err := http.NewRequest(http.MethodGet, "https://s3.example.org/backups/a%2Bb", nil)
		if err != nil {
			t.Fatal(err)
		}
		c := aws.Credentials{AccessKeyID: "AKIDEXAMPLE", SecretAccessKey: secret}
		if err := s.SignHTTP(t.Context(), c, r, "hash", "s3", "here", time.Unix(1_700_000_000, 0)); err != nil {
			t.Fatal(err)
		}
		return r.Header.Get("Authorization")
	}
	for _, secret := range []string{"mistyped", "corrected", "corrected", "mistyped"} {
		if got, want := signature(&kept, secret), signature(new(signer), secret); got != want {
			t.Errorf("with the secret %q:\n%s\nwant, as without anything before:\n%s", secret, got, want)
		}
	}
}
