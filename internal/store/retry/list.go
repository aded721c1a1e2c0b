package retry

import (
	"context"

	"druid.internal/druid/internal/store"
)

// List implements store.Reader. A listing that broke is made again from its beginning, and
// what fn was told already is passed over. Memory is bounded by the versions of one key.
func (s *Store) List(ctx context.Context, prefix string, fn func(store.Object) error) error {
	p := s.patience("list", prefix)
	l := listing{fn: fn, p: p}
	for {
		l.skipping = l.started
		l.passed, l.held = false, nil
		err := s.inner.List(ctx, prefix, l.meet)
		if err == nil && l.stopped == nil {
			err = l.release() // versions held back at the very end
		}
		if l.stopped != nil {
			return l.stopped
		}
		if err == nil {
			return nil
		}
		if err = p.wait(ctx, err); err != nil {
			return err
		}
	}
}

// listing is what fn was told so far.
type listing struct {
	fn      func(store.Object) error
	p       *patience
	stopped error // what fn said

	started bool
	key     string          // the last key told
	told    map[string]bool // its versions that were told

	// While a repeated listing is at the last key told, its versions are held back until one
	// turns up that was told: those in front of it are newer than the first listing and stay
	// out, so that versions are never told out of order, and those behind it are told. If
	// none turns up, because they were deleted meanwhile, all of them are told.
	skipping bool
	passed   bool // a version that was told turned up
	held     []store.Object
}

// meet is told every object of every attempt.
func (l *listing) meet(o store.Object) error {
	switch {
	case !l.skipping:
		return l.tell(o)
	case o.Key < l.key:
		return nil
	case o.Key == l.key && l.told[o.ID]:
		l.held, l.passed = nil, true
		return nil
	case o.Key == l.key && !l.passed:
		l.held = append(l.held, o)
		return nil
	}
	if err := l.release(); err != nil {
		return err
	}
	return l.tell(o)
}

// release ends the skipping and tells what was held back.
func (l *listing) release() error {
	l.skipping = false
	held := l.held
	l.held = nil
	for _, o := range held {
		if err := l.tell(o); err != nil {
			return err
		}
	}
	return nil
}

func (l *listing) tell(o store.Object) error {
	if !l.started || o.Key != l.key {
		l.started, l.key, l.told = true, o.Key, map[string]bool{}
	}
	l.told[o.ID] = true
	l.p.progress()
	l.stopped = l.fn(o)
	return l.stopped
}
