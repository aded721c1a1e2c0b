package swift

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"druid.internal/druid/internal/store"
)

// openDynamic reads a dynamic large object segment by segment. The server could put them
// together as well, but it would not notice one that is missing or altered.
func (s *Store) openDynamic(ctx context.Context, v store.Version, manifest string, off, n int64) (io.ReadCloser, error) {
	segments, size, err := s.dynamicSegments(ctx, v.Key, manifest)
	if err != nil {
		return nil, err
	}
	if n < 0 {
		n = size - off
	}
	if off > size || n > size-off {
		return nil, fmt.Errorf("%d bytes from %d of %d: %w", max(n, 0), off, size, io.ErrUnexpectedEOF)
	}
	c := &chain{ctx: ctx, s: s}
	for _, seg := range segments {
		from, to := max(off, 0), min(off+n, seg.size)
		if from < to {
			c.pieces = append(c.pieces, piece{seg, from, to - from})
		}
		off -= seg.size
		if off+n <= 0 {
			break
		}
	}
	return c, nil
}

// piece is a range of a segment.
type piece struct {
	segment
	off, n int64
}

// chain reads pieces one after the other.
type chain struct {
	ctx    context.Context
	s      *Store
	pieces []piece
	now    *body // nil between two pieces
}

func (c *chain) Read(p []byte) (int, error) {
	for {
		if c.now == nil {
			if len(c.pieces) == 0 {
				return 0, io.EOF
			}
			next, err := c.s.openPiece(c.ctx, c.pieces[0])
			if err != nil {
				return 0, err
			}
			c.now, c.pieces = next, c.pieces[1:]
		}
		n, err := c.now.Read(p)
		if err == io.EOF {
			c.now.Close()
			c.now, err = nil, nil
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

func (c *chain) Close() error {
	c.pieces = nil
	if c.now == nil {
		return nil
	}
	return c.now.Close()
}

// openPiece reads a range of a segment, which must be the one that was listed.
func (s *Store) openPiece(ctx context.Context, p piece) (*body, error) {
	what := "segment " + p.name
	n := p.n
	if p.off == 0 && n == p.size {
		n = -1 // whole, so that its digest can be compared
	}
	resp, err := s.get(ctx, p.container, p.name, p.off, n)
	switch {
	case statusOf(err) == http.StatusNotFound:
		return nil, fmt.Errorf("read: %s is missing: %w", what, io.ErrUnexpectedEOF)
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", what, s.classify(ctx, err))
	}
	b, err := s.body(ctx, what, resp, p.off, n)
	switch {
	case err != nil:
	case p.etag != "" && etagOf(resp.Header) != p.etag:
		err = fmt.Errorf("it was replaced: its digest is %s, listed was %s", etagOf(resp.Header), p.etag)
	case b.left != p.n:
		err = fmt.Errorf("it has %d bytes, listed were %d", b.left, p.n)
	}
	if err != nil {
		resp.Body.Close()
		return nil, fmt.Errorf("read %s: %w", what, err)
	}
	if n < 0 {
		b.expect(p.etag)
	}
	return b, nil
}
