package gcs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"time"

	"cloud.google.com/go/storage"

	"druid.internal/druid/internal/store"
)

// Open implements store.Reader. A whole object is verified by its CRC32C; of a part there is
// none, so there only the generation and the length are sure.
func (s *Store) Open(ctx context.Context, v store.Version, off, n int64) (io.ReadCloser, error) {
	r, err := s.open(ctx, v, off, n)
	if err != nil {
		return nil, fmt.Errorf("open %s in %s: %w", v, s.caps.Location, err)
	}
	return r, nil
}

func (s *Store) open(ctx context.Context, v store.Version, off, n int64) (io.ReadCloser, error) {
	if off < 0 {
		return nil, fmt.Errorf("the offset %d is negative", off)
	}
	if n == 0 {
		return s.nothing(ctx, v, off)
	}
	h, err := s.handle(v)
	if err != nil {
		return nil, err
	}
	seen := &seen{once: true}
	r, err := h.NewRangeReader(watch(ctx, seen), off, max(n, -1))
	if err != nil {
		if statusOf(err) == http.StatusRequestedRangeNotSatisfiable {
			if n < 0 { // to the end, of which there is nothing left, unless it is beyond it
				return s.nothing(ctx, v, off)
			}
			return nil, fmt.Errorf("%d bytes from %d: %w", n, off, io.ErrUnexpectedEOF)
		}
		return nil, s.whyMissing(ctx, s.classify(ctx, err))
	}
	want := n
	switch {
	case r.Attrs.StartOffset != off:
		r.Close()
		return nil, errors.New("the server ignores ranges, a restore in parallel is not possible with it")
	case n < 0 && r.Attrs.Size < 0:
		r.Close()
		return nil, errors.New("the server does not tell the length, so that a broken download could not be noticed")
	case n < 0:
		want = r.Attrs.Size - off
	}
	return &body{ctx: ctx, s: s, what: v, rc: r, left: want}, nil
}

// nothing is the empty stream at off of an object that exists and reaches that far.
func (s *Store) nothing(ctx context.Context, v store.Version, off int64) (io.ReadCloser, error) {
	attrs, _, err := s.attrs(ctx, v)
	if err != nil {
		return nil, err
	}
	if off > attrs.Size {
		return nil, fmt.Errorf("offset %d of %d bytes: %w", off, attrs.Size, io.ErrUnexpectedEOF)
	}
	return http.NoBody, nil
}

// body is a download that knows how much must come.
type body struct {
	ctx  context.Context
	s    *Store
	what store.Version
	rc   io.ReadCloser
	left int64
}

func (b *body) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, fmt.Errorf("read %s: %w", b.what, err)
	}
	if b.left == 0 {
		return 0, b.end(p)
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.rc.Read(p)
	b.left -= int64(n)
	switch {
	case err == nil:
		return n, nil
	case errors.Is(err, io.EOF) && !errors.Is(err, errBroken) && b.left == 0:
		return n, io.EOF
	case b.ctx.Err() != nil:
		return n, fmt.Errorf("read %s: %w", b.what, b.ctx.Err())
	case b.left == 0:
		return n, fmt.Errorf("read %s: %w", b.what, err) // what came is not what was stored
	case errors.Is(err, io.EOF) && !errors.Is(err, errBroken):
		return n, fmt.Errorf("read %s: %d bytes are missing: %w", b.what, b.left, io.ErrUnexpectedEOF)
	}
	// A broken connection is an early end as well, whatever it is called on the way.
	return n, fmt.Errorf("read %s: %d bytes are missing: %w: %w", b.what, b.left, io.ErrUnexpectedEOF, b.s.classify(b.ctx, err))
}

// end reads the server's own end of stream, where the SDK compares checksums.
func (b *body) end(p []byte) error {
	if len(p) == 0 {
		return nil
	}
	var probe [1]byte
	n, err := b.rc.Read(probe[:])
	switch {
	case n > 0:
		return fmt.Errorf("read %s: the server sends more than it announced", b.what)
	case err == nil, err == io.EOF, errors.Is(err, errBroken): // all that was asked for is here
		return io.EOF
	case b.ctx.Err() != nil:
		return fmt.Errorf("read %s: %w", b.what, b.ctx.Err())
	}
	return fmt.Errorf("read %s: %w", b.what, err)
}

func (b *body) Close() error { return b.rc.Close() }

// Stat implements store.Reader.
func (s *Store) Stat(ctx context.Context, v store.Version) (store.Object, error) {
	attrs, at, err := s.attrs(ctx, v)
	if err != nil {
		return store.Object{}, fmt.Errorf("stat %s in %s: %w", v, s.caps.Location, err)
	}
	o := s.object(attrs)
	o.ServerTime = at
	if v.ID != "" {
		o.ID = v.ID
	}
	return o, nil
}

// attrs asks for everything about one version, and what time it is there.
func (s *Store) attrs(ctx context.Context, v store.Version) (*storage.ObjectAttrs, time.Time, error) {
	h, err := s.handle(v)
	if err != nil {
		return nil, time.Time{}, err
	}
	seen := &seen{}
	attrs, err := h.Attrs(watch(ctx, seen))
	if err != nil {
		return nil, time.Time{}, s.whyMissing(ctx, s.classify(ctx, err))
	}
	return attrs, seen.serverTime(), nil
}

// object translates what the service tells.
func (s *Store) object(attrs *storage.ObjectAttrs) store.Object {
	return store.Object{
		Version:   store.Version{Key: attrs.Name, ID: s.idOf(attrs)},
		Size:      attrs.Size,
		Modified:  attrs.Created,
		Latest:    attrs.Deleted.IsZero(),
		Retention: s.retentionOf(attrs),
		Tags:      tagsOf(attrs.Metadata),
	}
}

// tagsOf is the custom metadata without what this package has put there.
func tagsOf(metadata map[string]string) map[string]string {
	tags := make(map[string]string, len(metadata))
	maps.Copy(tags, metadata)
	delete(tags, nonceKey)
	return tags
}

// whyMissing tells a missing bucket from a missing object, where the answer did not.
func (s *Store) whyMissing(ctx context.Context, err error) error {
	api := apiError(err)
	if !errors.Is(err, store.ErrNotFound) || api == nil || strings.HasPrefix(api.Message, "No such object") {
		return err
	}
	if _, bucketErr := s.bucketAttrs(ctx); errors.Is(bucketErr, store.ErrNoBucket) {
		return bucketErr
	}
	return err
}
