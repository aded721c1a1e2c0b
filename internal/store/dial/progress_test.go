package dial

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"druid.internal/druid/internal/store"
)

func TestProgressOfBodiesIsReported(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(w, r.Body)
		if err != nil || n != r.ContentLength {
			t.Errorf("%d of %d bytes arrived, %v", n, r.ContentLength, err)
		}
	}))
	defer server.Close()
	client, err := Client(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	const size = 300_000
	for _, reported := range []bool{true, false} {
		var calls, moved atomic.Int64
		ctx := t.Context()
		if reported {
			ctx = store.WithProgress(ctx, func(n int) { calls.Add(1); moved.Add(int64(n)) })
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPut, server.URL, strings.NewReader(strings.Repeat("x", size)))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := io.Copy(io.Discard, resp.Body); err != nil || n != size {
			t.Errorf("%d bytes came back, %v", n, err)
		}
		resp.Body.Close()
		switch {
		case !reported && calls.Load() != 0:
			t.Error("progress was reported that is not asked for")
		case reported && (moved.Load() != 2*size || calls.Load() < 4):
			t.Errorf("%d bytes moved in %d steps, want %d of the request and the answer in several", moved.Load(), calls.Load(), 2*size)
		}
	}
}
