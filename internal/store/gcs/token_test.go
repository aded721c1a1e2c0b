package gcs

import (
	"net/http"
	"syscall"
	"testing"
)

type failing struct{ error }

func (f failing) RoundTrip(*http.Request) (*http.Response, error) { return nil, f.error }

func TestWhoGivesNoTokenIsNamedWithoutTheQuery(t *testing.T) {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://tokens.example:8443/t?assertion=secret", nil)
	if err != nil {
		t.Fatal(err)
	}
	e := &exchange{base: failing{syscall.ECONNREFUSED}}
	if resp, err := e.RoundTrip(r); err == nil {
		resp.Body.Close()
		t.Fatal("there was an answer")
	}
	if want := "https://tokens.example:8443/t"; e.failure == nil || e.failure.issuer != want {
		t.Errorf("the failure is %+v, want it to name %s", e.failure, want)
	}
}
