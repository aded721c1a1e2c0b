package swift

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"druid.internal/druid/internal/store/dial"
)

// newHTTPClient is of this store alone.
func newHTTPClient(o Options) (*http.Client, error) {
	return dial.Client(dial.Options{TrustedCAs: o.TrustedCAs, InsecureSkipVerify: o.InsecureSkipVerify, Proxy: o.Proxy, IdleTimeout: o.IdleTimeout})
}

// request is one that is sent to the storage URL.
type request struct {
	method    string
	container string
	object    string // empty: about the container
	query     url.Values
	header    map[string]string
	body      []byte // nil: none
}

// answerError is a definite answer other than success.
type answerError struct {
	status int
	said   string // the server's own words, on one line
}

func (e *answerError) Error() string {
	if e.said == "" {
		return fmt.Sprintf("HTTP %d %s", e.status, http.StatusText(e.status))
	}
	return fmt.Sprintf("%s (HTTP %d)", e.said, e.status)
}

// do sends a request until it is answered for good, a few times at most. Requests are such
// that repeating them does no harm. The response has a status of success; the caller closes
// its body. Errors are not yet classified.
func (s *Store) do(ctx context.Context, r request) (*http.Response, error) {
	for attempt := 1; ; attempt++ {
		resp, err := s.once(ctx, r)
		if err == nil {
			return resp, nil
		}
		if ctx.Err() != nil || attempt >= s.opts.Attempts || !repeatable(err) {
			return nil, err
		}
		if err := pause(ctx, attempt); err != nil {
			return nil, err
		}
	}
}

// done is do for answers without a body that matters.
func (s *Store) done(ctx context.Context, r request) (http.Header, error) {
	resp, err := s.do(ctx, r)
	if err != nil {
		return nil, err
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)) // so that the connection is used again
	resp.Body.Close()
	return resp.Header, nil
}

// pause waits before the next attempt, with full jitter.
func pause(ctx context.Context, attempt int) error {
	bound := min(firstBackoff<<(attempt-1), maxBackoff)
	timer := time.NewTimer(time.Duration(rand.Int64N(int64(bound) + 1)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// repeatable says whether err may be gone a moment later.
func repeatable(err error) bool {
	var answer *answerError
	if errors.As(err, &answer) {
		switch answer.status {
		case http.StatusRequestTimeout, http.StatusTooManyRequests, statusRateLimited:
			return true
		case http.StatusNotImplemented, http.StatusInsufficientStorage:
			return false
		}
		return answer.status >= 500
	}
	var creds *credentialsError
	return !errors.As(err, &creds) && !dial.Final(err)
}

// once sends a request with a token that is valid; one that the server has forgotten is
// renewed.
func (s *Store) once(ctx context.Context, r request) (*http.Response, error) {
	rejected := ""
	for {
		t, err := s.session.token(ctx, rejected)
		if err != nil {
			return nil, err
		}
		resp, err := s.send(ctx, r, t)
		if err != nil {
			return nil, err
		}
		if resp.StatusCode >= 200 && resp.StatusCode < 300 {
			return resp, nil
		}
		said := words(resp)
		resp.Body.Close()
		if resp.StatusCode == http.StatusUnauthorized && rejected == "" {
			rejected = t.value
			continue
		}
		return nil, &answerError{status: resp.StatusCode, said: said}
	}
}

func (s *Store) send(ctx context.Context, r request, t token) (*http.Response, error) {
	u, err := url.Parse(t.storageURL)
	if err != nil {
		return nil, fmt.Errorf("the storage URL %q cannot be understood: %w", redact(t.storageURL), err)
	}
	u.RawPath = u.EscapedPath() + "/" + escape(r.container)
	u.Path += "/" + r.container
	if r.object != "" {
		u.RawPath += "/" + escape(r.object)
		u.Path += "/" + r.object
	}
	u.RawQuery = r.query.Encode()
	var body io.Reader
	if r.body != nil {
		body = bytes.NewReader(r.body)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, u.String(), body)
	if err != nil {
		return nil, err
	}
	for name, value := range r.header {
		req.Header.Set(name, value)
	}
	req.Header.Set("X-Auth-Token", t.value)
	return s.http.Do(req)
}

// escape is a path with everything encoded that servers might take for something else; the
// slashes stay.
func escape(path string) string {
	return strings.ReplaceAll(url.PathEscape(path), "%2F", "/")
}

// maxWords bounds what is read and shown of a server's explanation.
const maxWords = 1 << 10

var tags = regexp.MustCompile(`<[^>]*>`)

// words is what a server says about its refusal: HTML, plain text or nothing.
func words(resp *http.Response) string {
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxWords))
	if err != nil {
		return "" // the status says enough
	}
	said := strings.Join(strings.Fields(tags.ReplaceAllString(string(b), " ")), " ")
	if len(said) > 200 {
		said = strings.ToValidUTF8(said[:200], "") + "..."
	}
	return said
}
