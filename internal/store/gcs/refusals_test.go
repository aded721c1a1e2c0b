package gcs

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"druid.internal/druid/internal/store"
)

func TestABodyThatAProxyRefusesNamesTheProxy(t *testing.T) {
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		io.WriteString(w, "<html><body>nginx</body></html>")
	}))
	_, err := s.Put(t.Context(), "key", strings.NewReader("body"), store.PutOptions{})
	if err == nil || !strings.Contains(err.Error(), "client_max_body_size") || strings.Contains(err.Error(), "5 TiB") {
		t.Errorf("%v, want the proxy's limit", err)
	}
}
