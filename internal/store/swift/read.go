package swift

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"druid.internal/druid/internal/store"
)

// Open implements store.Reader.
func (s *Store) Open(ctx context.Context, v store.Version, off, n int64) (io.ReadCloser, error) {
	r, err := s.open(ctx, v, off, n)
	if err != nil {
		return nil, fmt.Errorf("open %s in %s: %w", v, s.caps.Location, err)
	}
	return r, nil
}

func (s *Store) open(ctx context.Context, v store.Version, off, n int64) (io.ReadCloser, error) {
	switch {
	case off < 0:
		return nil, fmt.Errorf("the offset %d is negative", off)
	case v.ID != "":
		return nil, noVersions()
	case n == 0:
		return s.nothing(ctx, v, off)
	}
	resp, err := s.get(ctx, s.opts.Container, v.Key, off, n)
	switch {
	case statusOf(err) == http.StatusRequestedRangeNotSatisfiable:
		return s.unsatisfied(ctx, v, off, n)
	case err != nil:
		return nil, s.whyMissing(ctx, s.classify(ctx, err))
	}
	if manifest := resp.Header.Get(headerDynamic); manifest != "" {
		resp.Body.Close()
		return s.openDynamic(ctx, v, manifest, off, n)
	}
	b, err := s.body(ctx, v.String(), resp, off, n)
	if err != nil {
		resp.Body.Close()
		return nil, err
	}
	if off == 0 && n < 0 && resp.Header.Get(headerStatic) == "" {
		b.expect(etagOf(resp.Header))
	}
	return b, nil
}

// noVersions is the answer about a version that is named: there are none here.
func noVersions() error {
	return &store.Failure{Kind: store.ErrNotFound, Said: "this store keeps no versions", Cause: errors.New("a version was named")}
}

// get asks for a range of an object.
func (s *Store) get(ctx context.Context, container, name string, off, n int64) (*http.Response, error) {
	r := request{method: http.MethodGet, container: container, object: name, header: map[string]string{}}
	switch {
	case n > 0 && off <= math.MaxInt64-n:
		r.header["Range"] = fmt.Sprintf("bytes=%d-%d", off, off+n-1)
	case off > 0:
		r.header["Range"] = fmt.Sprintf("bytes=%d-", off)
	}
	return s.do(ctx, r)
}

// unsatisfied is for a range that the server says does not exist.
func (s *Store) unsatisfied(ctx context.Context, v store.Version, off, n int64) (io.ReadCloser, error) {
	h, err := s.head(ctx, v.Key, false)
	if err != nil {
		return nil, s.whyMissing(ctx, s.classify(ctx, err))
	}
	if manifest := h.Get(headerDynamic); manifest != "" {
		return s.openDynamic(ctx, v, manifest, off, n)
	}
	if n < 0 { // to the end of which there is nothing left, unless it is beyond it
		return s.nothing(ctx, v, off)
	}
	return nil, fmt.Errorf("%d bytes from %d: %w", n, off, io.ErrUnexpectedEOF)
}

// nothing is the empty stream at off of an object that exists and reaches that far.
func (s *Store) nothing(ctx context.Context, v store.Version, off int64) (io.ReadCloser, error) {
	o, err := s.stat(ctx, v, false)
	if err != nil {
		return nil, err
	}
	if off > o.Size {
		return nil, fmt.Errorf("offset %d of %d bytes: %w", off, o.Size, io.ErrUnexpectedEOF)
	}
	return http.NoBody, nil
}

// body is a download that knows how much must come and, of a whole one, with which digest.
type body struct {
	ctx  context.Context
	s    *Store
	what string
	rc   io.ReadCloser
	left int64
	sum  hash.Hash // nil: the digest is not known
	want string
}

// body checks that the answer is the range that was asked for.
func (s *Store) body(ctx context.Context, what string, resp *http.Response, off, n int64) (*body, error) {
	if off > 0 && resp.StatusCode != http.StatusPartialContent {
		return nil, errors.New("the server ignores ranges, a restore in parallel is not possible with it")
	}
	want := n
	if n < 0 {
		if want = resp.ContentLength; want < 0 {
			return nil, errors.New("the server does not tell the length, so that a broken download could not be noticed")
		}
	}
	return &body{ctx: ctx, s: s, what: what, rc: resp.Body, left: want}, nil
}

// expect has the content compared with its MD5 at the end.
func (b *body) expect(etag string) {
	if raw, err := hex.DecodeString(etag); err == nil && len(raw) == md5.Size {
		b.sum, b.want = md5.New(), etag
	}
}

func (b *body) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, b.end()
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.rc.Read(p)
	b.left -= int64(n)
	if b.sum != nil {
		b.sum.Write(p[:n])
	}
	switch {
	case err == nil:
		return n, nil
	case errors.Is(err, io.EOF) && b.left == 0:
		return n, b.end()
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return n, fmt.Errorf("read %s: %d bytes are missing: %w", b.what, b.left, io.ErrUnexpectedEOF)
	case b.ctx.Err() != nil:
		return n, fmt.Errorf("read %s: %w", b.what, b.ctx.Err())
	}
	// A broken connection is an early end as well, whatever it is called on the way.
	return n, fmt.Errorf("read %s: %d bytes are missing: %w: %w", b.what, b.left, io.ErrUnexpectedEOF, b.s.classify(b.ctx, err))
}

// end is io.EOF, unless what came is not what the server has the digest of.
func (b *body) end() error {
	if b.sum != nil && hex.EncodeToString(b.sum.Sum(nil)) != b.want {
		return fmt.Errorf("read %s: its MD5 is not %s, what arrived is not what was stored", b.what, b.want)
	}
	return io.EOF
}

func (b *body) Close() error { return b.rc.Close() }

// Stat implements store.Reader.
func (s *Store) Stat(ctx context.Context, v store.Version) (store.Object, error) {
	o, err := s.stat(ctx, v, true)
	if err != nil {
		return store.Object{}, fmt.Errorf("stat %s in %s: %w", v, s.caps.Location, err)
	}
	return o, nil
}

func (s *Store) stat(ctx context.Context, v store.Version, newest bool) (store.Object, error) {
	if v.ID != "" {
		return store.Object{}, noVersions()
	}
	h, err := s.head(ctx, v.Key, newest)
	if err != nil {
		return store.Object{}, s.whyMissing(ctx, s.classify(ctx, err))
	}
	size, err := s.sizeOf(ctx, v.Key, h)
	if err != nil {
		return store.Object{}, err
	}
	return store.Object{
		Version: v, Size: size, Modified: modified(h), Latest: true,
		Retention: unlocked(), ServerTime: httpTime(h.Get("Date")),
	}, nil
}

// head asks about an object. newest asks all replicas, so that what was written a moment ago
// is not missed.
func (s *Store) head(ctx context.Context, key string, newest bool) (http.Header, error) {
	if key == "" { // would ask about the container
		return nil, &answerError{status: http.StatusNotFound, said: "the key is empty"}
	}
	r := request{method: http.MethodHead, container: s.opts.Container, object: key}
	if newest {
		r.header = map[string]string{"X-Newest": "true"}
	}
	return s.done(ctx, r)
}

// modified is when the object itself was written. Last-Modified is rounded, and of a dynamic
// large object it is the time of its newest segment.
func modified(h http.Header) time.Time {
	if seconds, err := strconv.ParseFloat(h.Get("X-Timestamp"), 64); err == nil && seconds > 0 && seconds < 1e12 {
		return time.UnixMicro(int64(math.Round(seconds * 1e6))).UTC()
	}
	return httpTime(h.Get("Last-Modified"))
}

// httpTime is the time in a header, or zero.
func httpTime(s string) time.Time {
	t, err := http.ParseTime(s)
	if err != nil {
		return time.Time{}
	}
	return t
}

// etagOf is the digest that the server tells, without the quotes that newer servers add.
func etagOf(h http.Header) string { return strings.Trim(h.Get("Etag"), `"`) }
