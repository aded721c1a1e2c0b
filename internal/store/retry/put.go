package retry

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"

	"druid.internal/druid/internal/store"
)

// Put implements store.Store. It is repeated only if the body can be read again from where it
// was: if nothing of it was read yet, or it is an io.Seeker that can go back. After
// store.ErrUnknownOutcome the store is asked what it has under the key: the same content is
// success, other content store.ErrExists, and nothing at all is a failed attempt.
//
// The body's errors are the caller's and never lead to a repetition. Providers repeat the
// parts of a large upload themselves.
func (s *Store) Put(ctx context.Context, key string, body io.Reader, opts store.PutOptions) (store.Object, error) {
	p := s.patience("put", key)
	b := newReplay(body)
	for {
		o, err := s.inner.Put(ctx, key, b, opts)
		if err == nil {
			return o, nil
		}
		if b.err != nil {
			return store.Object{}, p.failed(err)
		}
		unknown := errors.Is(err, store.ErrUnknownOutcome)
		if unknown || errors.Is(err, store.ErrExists) && p.attempts > 0 {
			// Of an existing object, an earlier attempt of ours may be the origin.
			o, found, cerr := s.compare(ctx, key, b)
			switch {
			case cerr != nil:
				return store.Object{}, p.failed(fmt.Errorf("%w; looking whether it is there: %w", err, cerr))
			case found == same && unlocked(o, opts):
				return store.Object{}, p.failed(fmt.Errorf("put %s: it is there without the lock that was asked for: %w", key, err))
			case found == same:
				return o, nil
			case found == other && s.Capabilities().ConditionalPut:
				return store.Object{}, p.failed(fmt.Errorf("put %s: another writer's content is there: %w", key, store.ErrExists))
			case unknown:
				err = absentError{err}
			}
		}
		if !b.rewind() {
			return store.Object{}, p.failed(notRepeatable(err))
		}
		if err = p.wait(ctx, err); err != nil {
			return store.Object{}, err
		}
	}
}

// unlocked says whether what is there lacks the lock it was to have.
func unlocked(o store.Object, opts store.PutOptions) bool {
	return opts.Retention != nil && !o.Retention.Covers(*opts.Retention)
}

// failed is an attempt that is the last one.
func (p *patience) failed(err error) error {
	p.attempts++
	return p.final(err)
}

func notRepeatable(err error) error {
	if !passing(err) {
		return err
	}
	return fmt.Errorf("%w (not repeated: the body cannot be read again)", err)
}

// absentError makes the loss of a response pass when the object is not there.
type absentError struct{ error }

func (e absentError) Unwrap() []error { return []error{e.error, store.ErrUnreachable} }

// The answers of compare.
type found int

const (
	nothing found = iota
	same
	other
)

// compare says whether what is under key is what was read from b.
func (s *Store) compare(ctx context.Context, key string, b *replay) (store.Object, found, error) {
	o, err := s.Stat(ctx, store.Version{Key: key})
	if errors.Is(err, store.ErrNotFound) {
		return store.Object{}, nothing, nil
	}
	if err != nil {
		return store.Object{}, nothing, err
	}
	if b.complete() && o.Size == b.n {
		sum, err := s.sum(ctx, s, o.Version, b.hash.Seed())
		if err != nil {
			return store.Object{}, nothing, err
		}
		if sum == b.hash.Sum64() {
			return o, same, nil
		}
	}
	return o, other, nil
}

// sum hashes an object's content.
func (s *Store) sum(ctx context.Context, from store.Reader, v store.Version, seed maphash.Seed) (uint64, error) {
	r, err := from.Open(ctx, v, 0, -1)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	var h maphash.Hash
	h.SetSeed(seed)
	if _, err := io.Copy(&h, r); err != nil {
		return 0, fmt.Errorf("read %s: %w", v, err)
	}
	return h.Sum64(), nil
}

// replay is a body that remembers what was read of it. The hash is of 64 bits with a secret
// seed: it need not convince anyone but this process, of a response lost by accident.
type replay struct {
	r      io.Reader
	seeker io.Seeker // nil if it cannot go back
	start  int64

	n     int64
	hash  maphash.Hash
	ended bool  // read to its end
	err   error // its own failure
}

func newReplay(r io.Reader) *replay {
	b := &replay{r: r}
	if s, ok := r.(io.Seeker); ok {
		if at, err := s.Seek(0, io.SeekCurrent); err == nil { // a pipe says no
			b.seeker, b.start = s, at
		}
	}
	return b
}

func (b *replay) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	b.n += int64(n)
	_, _ = b.hash.Write(p[:n]) // never fails
	switch err {
	case nil:
	case io.EOF:
		b.ended = true
	default:
		b.err = err
	}
	return n, err
}

// complete reads the body to its end, if that is needed and can be done, since a store that
// refuses an existing key may not have looked at the body.
func (b *replay) complete() bool {
	if !b.ended && b.rewind() && b.seeker != nil {
		_, _ = io.Copy(io.Discard, b) // an error is in b.err
	}
	return b.ended && b.err == nil
}

// rewind makes the body what it was before the attempt, if that is possible.
func (b *replay) rewind() bool {
	if b.n > 0 || b.ended {
		if b.seeker == nil {
			return b.n == 0
		}
		if _, err := b.seeker.Seek(b.start, io.SeekStart); err != nil {
			return false
		}
	}
	b.n, b.ended = 0, false
	b.hash.Reset()
	return true
}

// Copy implements store.Copier. Like Put, it finds out what a lost response has done.
func (s *Store) Copy(ctx context.Context, from store.Reader, src store.Version, key string, opts store.PutOptions) (store.Object, error) {
	c, ok := store.As[store.Copier](s.inner)
	if !ok {
		return store.Object{}, fmt.Errorf("copy %s: %w", src, store.ErrUnsupported)
	}
	p := s.patience("copy", key)
	for {
		o, err := c.Copy(ctx, from, src, key, opts)
		if err == nil {
			return o, nil
		}
		unknown := errors.Is(err, store.ErrUnknownOutcome)
		if unknown || errors.Is(err, store.ErrExists) && p.attempts > 0 {
			o, found, cerr := s.compareCopy(ctx, from, src, key)
			switch {
			case cerr != nil:
				return store.Object{}, p.failed(fmt.Errorf("%w; looking whether it is there: %w", err, cerr))
			case found == same && unlocked(o, opts):
				return store.Object{}, p.failed(fmt.Errorf("copy %s: it is there without the lock that was asked for: %w", key, err))
			case found == same:
				return o, nil
			case found == other && s.Capabilities().ConditionalPut:
				return store.Object{}, p.failed(fmt.Errorf("copy %s: other content is there: %w", key, store.ErrExists))
			case unknown:
				err = absentError{err}
			}
		}
		if err = p.wait(ctx, err); err != nil {
			return store.Object{}, err
		}
	}
}

// compareCopy says whether what is under key is what src is.
func (s *Store) compareCopy(ctx context.Context, from store.Reader, src store.Version, key string) (store.Object, found, error) {
	o, err := s.Stat(ctx, store.Version{Key: key})
	if errors.Is(err, store.ErrNotFound) {
		return store.Object{}, nothing, nil
	}
	if err != nil {
		return store.Object{}, nothing, err
	}
	seed := maphash.MakeSeed()
	want, err := s.sum(ctx, from, src, seed)
	if err != nil {
		return store.Object{}, nothing, err
	}
	got, err := s.sum(ctx, s, o.Version, seed)
	if err != nil {
		return store.Object{}, nothing, err
	}
	if got != want {
		return o, other, nil
	}
	return o, same, nil
}
