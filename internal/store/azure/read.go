package azure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"

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
	if off < 0 {
		return nil, fmt.Errorf("the offset %d is negative", off)
	}
	if n == 0 {
		return s.nothing(ctx, v, off)
	}
	c, err := s.blob(v)
	if err != nil {
		return nil, err
	}
	resp, err := c.DownloadStream(ctx, &blob.DownloadStreamOptions{Range: blob.HTTPRange{Offset: off, Count: max(n, 0)}})
	if err != nil {
		if statusOf(err) == http.StatusRequestedRangeNotSatisfiable {
			if n < 0 { // to the end of which there is nothing left, unless it is beyond it
				return s.nothing(ctx, v, off)
			}
			return nil, fmt.Errorf("%d bytes from %d: %w", n, off, io.ErrUnexpectedEOF)
		}
		return nil, s.classifyVersion(ctx, v, err)
	}
	if off > 0 && resp.ContentRange == nil {
		resp.Body.Close()
		return nil, errors.New("the server ignores ranges, a restore in parallel is not possible with it")
	}
	want := n
	if n < 0 {
		if resp.ContentLength == nil || *resp.ContentLength < 0 {
			resp.Body.Close()
			return nil, errors.New("the server does not tell the length, so that a broken download could not be noticed")
		}
		want = *resp.ContentLength
	}
	return &body{ctx: ctx, s: s, what: v, rc: resp.Body, left: want}, nil
}

// nothing is the empty stream at off of a blob that exists and reaches that far.
func (s *Store) nothing(ctx context.Context, v store.Version, off int64) (io.ReadCloser, error) {
	props, err := s.properties(ctx, v)
	if err != nil {
		return nil, err
	}
	if size := value(props.ContentLength); off > size {
		return nil, fmt.Errorf("offset %d of %d bytes: %w", off, size, io.ErrUnexpectedEOF)
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
	switch {
	case b.left == 0:
		return 0, io.EOF
	case int64(len(p)) > b.left:
		p = p[:b.left]
	}
	n, err := b.rc.Read(p)
	b.left -= int64(n)
	switch {
	case err == nil:
		return n, nil
	case errors.Is(err, io.EOF) && b.left == 0:
		return n, io.EOF
	case b.ctx.Err() != nil:
		return n, fmt.Errorf("read %s: %w", b.what, b.ctx.Err())
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return n, fmt.Errorf("read %s: %d bytes are missing: %w", b.what, b.left, io.ErrUnexpectedEOF)
	}
	// A broken connection is an early end as well, whatever it is called on the way.
	return n, fmt.Errorf("read %s: %d bytes are missing: %w: %w", b.what, b.left, io.ErrUnexpectedEOF, b.s.classify(b.ctx, err))
}

func (b *body) Close() error { return b.rc.Close() }

// Stat implements store.Reader.
func (s *Store) Stat(ctx context.Context, v store.Version) (store.Object, error) {
	o, err := s.stat(ctx, v)
	if err != nil {
		return store.Object{}, fmt.Errorf("stat %s in %s: %w", v, s.caps.Location, err)
	}
	return o, nil
}

func (s *Store) stat(ctx context.Context, v store.Version) (store.Object, error) {
	props, err := s.properties(ctx, v)
	if err != nil {
		return store.Object{}, err
	}
	p, err := s.protection(ctx)
	if err != nil {
		return store.Object{}, err
	}
	o := store.Object{
		Version:    store.Version{Key: v.Key, ID: value(props.VersionID)},
		Size:       value(props.ContentLength),
		Modified:   value(props.LastModified),
		Latest:     v.ID == "" || value(props.IsCurrentVersion),
		Retention:  p.retention(lockOf(props)),
		ServerTime: value(props.Date),
	}
	if v.ID != "" {
		o.ID = v.ID
	}
	if o.Tags, err = s.tagsOf(ctx, v, props.TagCount); err != nil {
		return store.Object{}, err
	}
	return o, nil
}
