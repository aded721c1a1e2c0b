package retry

import (
	"context"
	"errors"
	"time"

	"druid.internal/druid/internal/store"
)

// settleTime is how long after an upload an eventually consistent store may refuse to change the
// object: some of its servers do not have it yet, and answer as if it were missing.
const settleTime = time.Minute

// settlingError is a refusal that may be gone when the store has settled.
type settlingError struct{ error }

func (e settlingError) Unwrap() error { return e.error }

// maySettle marks the refusal of a change as one to repeat, if v was written less than settleTime
// ago. The age is by the clock of the store. Of an older version a refusal is final.
func (s *Store) maySettle(ctx context.Context, v store.Version, err error) error {
	var immutable *store.ImmutableError
	if !errors.Is(err, store.ErrForbidden) && !errors.Is(err, store.ErrNotFound) || errors.As(err, &immutable) {
		return err
	}
	o, statErr := s.inner.Stat(ctx, v)
	if statErr != nil {
		return err
	}
	now := o.ServerTime
	if now.IsZero() {
		now = s.o.Now()
	}
	if o.Modified.IsZero() || now.Sub(o.Modified) >= settleTime {
		return err
	}
	return settlingError{err}
}
