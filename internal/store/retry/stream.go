package retry

import (
	"context"
	"errors"
	"fmt"
	"io"

	"druid.internal/druid/internal/store"
)

// Open implements store.Reader. A stream that breaks is taken up at the byte where it broke.
// Where that could be another version's byte, because the caller named none or the store lets
// objects be replaced, the version is pinned by a Stat first.
func (s *Store) Open(ctx context.Context, v store.Version, off, n int64) (io.ReadCloser, error) {
	st := &stream{ctx: ctx, s: s, v: v, off: off, left: n, p: s.patience("read", v.String())}
	c := s.Capabilities()
	if c.Versions && v.ID == "" || !c.Versions && !c.ConditionalPut {
		o, err := s.Stat(ctx, v)
		if err != nil {
			return nil, err
		}
		st.v = o.Version
		st.pinned, st.was = !c.Versions, o
	}
	err := s.do(ctx, "open", v.String(), func() (err error) {
		st.r, err = s.inner.Open(ctx, st.v, st.off, st.left)
		return err
	})
	if err != nil {
		return nil, err
	}
	return st, nil
}

// stream is a download that survives interruptions.
type stream struct {
	ctx  context.Context
	s    *Store
	v    store.Version
	off  int64 // of the next byte
	left int64 // bytes still to come; negative: to the end
	p    *patience

	r       io.ReadCloser // nil while it is broken
	pending error         // what came together with the last bytes
	end     error         // the final answer, once there is one

	pinned bool // was must still hold when the stream is taken up again
	was    store.Object
}

func (st *stream) Read(b []byte) (int, error) {
	if len(b) == 0 || st.end != nil {
		return 0, st.end
	}
	for {
		n, err := 0, st.pending
		if st.pending = nil; err == nil {
			if n, err = st.read(b); n > 0 {
				st.pending = err
				st.off += int64(n)
				if st.left > 0 {
					st.left -= int64(n)
				}
				st.p.progress()
				return n, nil
			}
		}
		switch {
		case err == nil:
			return 0, nil
		case err == io.EOF:
			st.end = io.EOF
			return 0, io.EOF
		}
		if st.end = st.mend(err); st.end != nil {
			return 0, st.end
		}
	}
}

// read takes up the stream if it is broken.
func (st *stream) read(b []byte) (int, error) {
	if st.r != nil {
		return st.r.Read(b)
	}
	if st.left == 0 {
		return 0, io.EOF // it broke after its last byte
	}
	if st.pinned {
		now, err := st.s.inner.Stat(st.ctx, st.v)
		if err != nil {
			return 0, err
		}
		if now.Size != st.was.Size || !now.Modified.Equal(st.was.Modified) {
			return 0, fmt.Errorf("read %s: it was replaced while it was read", st.v)
		}
	}
	r, err := st.s.inner.Open(st.ctx, st.v, st.off, st.left)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		// It is the object that is too short, not the connection that broke.
		return 0, &shortError{err}
	}
	if err != nil {
		return 0, err
	}
	st.r = r
	return r.Read(b)
}

// mend closes what broke and waits for the next attempt, or returns the final error.
func (st *stream) mend(err error) error {
	if st.r != nil {
		_ = st.r.Close() // it is broken; err says why
		st.r = nil
	}
	var short *shortError
	if errors.As(err, &short) {
		return st.p.final(short.error)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) && !passing(err) {
		err = brokenError{err}
	}
	return st.p.wait(st.ctx, err)
}

func (st *stream) Close() error {
	if st.end == nil {
		st.end = errors.New("read of a closed stream")
	}
	if st.r == nil {
		return nil
	}
	r := st.r
	st.r = nil
	return r.Close()
}

// shortError is a range that the store says does not exist.
type shortError struct{ error }

func (e *shortError) Unwrap() error { return e.error }

// brokenError makes a stream's early end pass for a broken connection, and keeps its words.
type brokenError struct{ error }

func (e brokenError) Unwrap() []error { return []error{e.error, store.ErrUnreachable} }
