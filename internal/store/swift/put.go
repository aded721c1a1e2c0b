package swift

import (
	"context"
	"crypto/md5"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/store"
)

// Put implements store.Store. What fits into one part goes in one request, the rest as
// segments and a manifest, which alone makes the object visible. Memory is PartSize times
// ParallelParts + 1.
func (s *Store) Put(ctx context.Context, key string, body io.Reader, opts store.PutOptions) (store.Object, error) {
	o, err := s.put(ctx, key, body, opts)
	if err != nil {
		return store.Object{}, fmt.Errorf("put %s into %s: %w", key, s.caps.Location, err)
	}
	return o, nil
}

func (s *Store) put(ctx context.Context, key string, body io.Reader, opts store.PutOptions) (store.Object, error) {
	if err := checkKey(key); err != nil {
		return store.Object{}, err
	}
	if r := opts.Retention; r != nil && (r.Hold || r.Mode != "" && r.Mode != immutability.ModeNone) {
		return store.Object{}, fmt.Errorf("Swift has no object lock: %w", store.ErrUnsupported)
	}
	if len(opts.Tags) > 0 {
		return store.Object{}, fmt.Errorf("Swift has no tags: %w", store.ErrUnsupported)
	}
	w := &write{s: s, key: key, nonce: rand.Text()}
	if err := w.free(ctx); err != nil {
		return store.Object{}, err
	}
	r := untilDone{ctx, body}
	first, err := piecesOf(r, int(s.opts.PartSize), nil)
	if err != nil {
		return store.Object{}, err
	}
	if len(first) < int(s.opts.PartSize) {
		return w.small(ctx, first)
	}
	// Exactly one part, or the first of several: only reading on can tell.
	second, err := piecesOf(r, int(s.opts.PartSize), nil)
	switch {
	case err != nil:
		return store.Object{}, err
	case len(second) == 0:
		return w.small(ctx, first)
	}
	return w.large(ctx, r, first, second)
}

// write is one new object on its way.
type write struct {
	s   *Store
	key string
	// nonce stands in the object's metadata and in the names of its segments. By it we
	// recognise our own write when its answer was lost.
	nonce string
}

// headerNonce is where the nonce stands.
const headerNonce = "X-Object-Meta-Druid-Upload"

// free looks whether the key is still free, where the server is not relied on to say so.
func (w *write) free(ctx context.Context) error {
	if w.s.caps.ConditionalPut {
		return nil
	}
	h, err := w.s.head(ctx, w.key, true)
	switch {
	case statusOf(err) == http.StatusNotFound:
		return nil
	case err != nil:
		return w.s.classify(ctx, err)
	case h.Get(headerNonce) == w.nonce:
		return nil // ours: the write that follows finds that out
	}
	return &store.Failure{Kind: store.ErrExists, Said: "it was there before", Cause: errors.New("the key is taken")}
}

// header is what all writes that make the object visible have in common.
func (w *write) header(contentType string) map[string]string {
	h := map[string]string{headerNonce: w.nonce, "Content-Type": contentType}
	if c := w.s.opts.ConditionalPut; c == nil || *c {
		h["If-None-Match"] = "*"
	}
	return h
}

// small writes an object by one request.
func (w *write) small(ctx context.Context, body []byte) (store.Object, error) {
	if err := ctx.Err(); err != nil {
		return store.Object{}, err
	}
	h := w.header("application/octet-stream")
	h["Etag"] = digestOf(body) // the server compares it with what arrives
	_, err := w.s.done(ctx, request{method: http.MethodPut, container: w.s.opts.Container, object: w.key, header: h, body: notNil(body)})
	if err != nil {
		return w.settle(ctx, int64(len(body)), err)
	}
	return w.object(int64(len(body))), nil
}

// object describes what was written.
func (w *write) object(size int64) store.Object {
	return store.Object{Version: store.Version{Key: w.key}, Size: size, Latest: true, Retention: unlocked()}
}

func digestOf(b []byte) string {
	sum := md5.Sum(b)
	return hex.EncodeToString(sum[:])
}

// notNil is b as a body that exists, be it empty.
func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// piecesOf reads one piece of a stream into buf, or into a new one that grows as needed: most
// objects are much smaller than a part. A piece that is not full is the last one. Errors of
// the stream come wrapped, and never together with data; its end is none.
func piecesOf(r io.Reader, size int, buf []byte) ([]byte, error) {
	if buf == nil {
		buf = make([]byte, 0, min(size, 64<<10))
	}
	buf = buf[:0]
	for len(buf) < size {
		if len(buf) == cap(buf) {
			grown := make([]byte, len(buf), min(size, 4*cap(buf)))
			copy(grown, buf)
			buf = grown
		}
		n, err := r.Read(buf[len(buf):min(cap(buf), size)])
		buf = buf[:len(buf)+n]
		switch {
		case err == io.EOF:
			return buf, nil
		case err != nil:
			return nil, fmt.Errorf("read the body: %w", err)
		}
	}
	return buf, nil
}

// untilDone ends a stream when its context does.
type untilDone struct {
	ctx context.Context
	r   io.Reader
}

func (u untilDone) Read(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.r.Read(p)
}
