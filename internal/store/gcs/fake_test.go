package gcs

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// serve is a store whose bucket is answered for by handler, but for the configuration, which
// is an ordinary one.
func serve(t *testing.T, handler http.Handler) *Store {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/storage/v1/b/b") {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"kind":"storage#bucket","name":"b"}`))
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	s, err := New(t.Context(), Options{Bucket: "b", Endpoint: server.URL, Attempts: 2, ChunkSize: 256 << 10})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.CloseIdle)
	return s
}
