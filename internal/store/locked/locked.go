// Package locked locks whatever is written, for a period from its upload, where the bucket itself stamps
// no lock on new objects.
package locked

import (
	"context"
	"fmt"
	"io"
	"time"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/store"
)

// Store is a store whose new objects are locked. Everything but Put and Copy goes to the store behind it.
type Store struct {
	store.Store
	mode   immutability.Mode
	period time.Duration
	now    func() time.Time
}

// New wraps s: what is put or copied without a lock of its own is locked with the mode for the period.
// A bucket that cannot lock single objects refuses each of them with store.ErrUnsupported.
//
// The date is counted from the local clock. Every store that locks refuses requests of clocks that are wrong
// by more than a quarter of an hour, so that is how wrong it can be.
func New(s store.Store, mode immutability.Mode, period time.Duration, now func() time.Time) (*Store, error) {
	switch {
	case mode != immutability.ModeGovernance && mode != immutability.ModeCompliance:
		return nil, fmt.Errorf("objects cannot be locked with the mode %q: use governance or compliance", string(mode))
	case period <= 0 || period > immutability.MaxPeriod:
		return nil, fmt.Errorf("objects cannot be locked for %s: the period must be above 0 and at most %s, as a lock cannot be shortened", immutability.Period(period), immutability.Period(immutability.MaxPeriod))
	}
	return &Store{Store: s, mode: mode, period: period, now: now}, nil
}

// Unwrap is the store behind this one.
func (s *Store) Unwrap() store.Reader { return s.Store }

// Put implements store.Store.
func (s *Store) Put(ctx context.Context, key string, body io.Reader, opts store.PutOptions) (store.Object, error) {
	return s.Store.Put(ctx, key, body, s.lock(opts))
}

// Copy implements store.Copier.
func (s *Store) Copy(ctx context.Context, from store.Reader, src store.Version, key string, opts store.PutOptions) (store.Object, error) {
	c, ok := store.As[store.Copier](s.Store)
	if !ok {
		return store.Object{}, fmt.Errorf("copy %s: %w", src, store.ErrUnsupported)
	}
	return c.Copy(ctx, from, src, key, s.lock(opts))
}

// lock adds the lock to options without one, up to a whole second, as stores keep no fractions.
func (s *Store) lock(opts store.PutOptions) store.PutOptions {
	if opts.Retention == nil {
		until := s.now().Add(s.period)
		if whole := until.Truncate(time.Second); !whole.Equal(until) {
			until = whole.Add(time.Second)
		}
		opts.Retention = &immutability.Retention{Mode: s.mode, Until: until.UTC()}
	}
	return opts
}
