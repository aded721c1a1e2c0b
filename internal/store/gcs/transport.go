package gcs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"druid.internal/druid/internal/store/dial"
)

// newTransport is of this store alone.
func newTransport(o Options) (*http.Transport, error) {
	t, err := dial.Transport(dial.Options{TrustedCAs: o.TrustedCAs, Proxy: o.Proxy, IdleTimeout: o.IdleTimeout})
	if err == nil {
		t.DisableCompression = false // listings come packed; of contents see RoundTrip
	}
	return t, err
}

// transport authorizes requests, and keeps for the caller what the SDK drops of the answers.
type transport struct {
	base   http.RoundTripper
	tokens *tokens // nil: nobody authenticates
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	seen, _ := ctx.Value(seenKey{}).(*seen)
	if seen.done() {
		return nil, seen.broken()
	}
	out := r.Clone(ctx)
	if r.Method == http.MethodGet && r.URL.Query().Get("alt") == "media" {
		// The bytes as they are stored: neither the service nor net/http shall unpack them.
		out.Header.Set("Accept-Encoding", "gzip")
	}
	resp, err := t.send(out)
	if err != nil {
		return nil, err
	}
	seen.note(r, resp)
	return resp, nil
}

// send authorizes the request. A token that the server refuses, though it has not ended by our
// clock, is replaced once.
func (t *transport) send(r *http.Request) (*http.Response, error) {
	if t.tokens == nil {
		return t.base.RoundTrip(r)
	}
	token, err := t.tokens.get(r.Context())
	if err != nil {
		if r.Body != nil {
			r.Body.Close()
		}
		return nil, err
	}
	token.SetAuthHeader(r)
	resp, err := t.base.RoundTrip(r)
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		return resp, err
	}
	t.tokens.forget(token)
	again := r.Clone(r.Context())
	if r.Body != nil && r.Body != http.NoBody {
		if r.GetBody == nil {
			return resp, nil
		}
		if again.Body, err = r.GetBody(); err != nil {
			return resp, nil
		}
	}
	next, err := t.tokens.get(r.Context())
	if err != nil {
		return resp, nil // the server's words are as good
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)) // so that the connection can be used again
	resp.Body.Close()
	next.SetAuthHeader(again)
	return t.base.RoundTrip(again)
}

// seen is what answers to one call told besides their content. A nil one notes nothing.
type seen struct {
	once bool // a download, of which there shall be no second part

	mu      sync.Mutex
	date    time.Time
	session string // where a resumable upload goes on
	opened  bool
	failure error // why the download broke
}

type seenKey struct{}

// watch returns a context by whose requests s learns.
func watch(ctx context.Context, s *seen) context.Context { return context.WithValue(ctx, seenKey{}, s) }

// errBroken is what the SDK gets when it wants to take up a broken download by itself. It
// would do so for ever; package retry does it with measure.
var errBroken = errors.New("the download broke off")

// done says whether there shall be no further request.
func (s *seen) done() bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.once && s.opened
}

func (s *seen) broken() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failure == nil {
		return errBroken
	}
	return fmt.Errorf("%w: %w", errBroken, s.failure)
}

// note takes what matters from an answer.
func (s *seen) note(r *http.Request, resp *http.Response) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if date, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		s.date = date
	}
	if location := resp.Header.Get("Location"); r.URL.Query().Get("uploadType") == "resumable" && location != "" {
		s.session = location
	}
	if s.once && resp.StatusCode/100 == 2 {
		s.opened = true
		resp.Body = &watched{ReadCloser: resp.Body, s: s}
	}
}

// watched remembers how a body ended.
type watched struct {
	io.ReadCloser
	s *seen
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		w.s.mu.Lock()
		w.s.failure = err
		w.s.mu.Unlock()
	}
	return n, err
}

// serverTime is the clock of the last answer, or zero.
func (s *seen) serverTime() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.date
}

// upload is where the resumable upload goes on, "" if none was begun.
func (s *seen) upload() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.session
}
