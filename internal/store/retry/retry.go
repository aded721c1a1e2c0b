// Package retry makes a store try again what fails for a moment: throttling, a store that
// cannot be reached, timeouts. It waits longer each time, with full jitter, and gives up after
// a bounded number of attempts and a bounded time, naming both and the last cause.
//
// Nothing is done twice that may not be: listings go on behind the last object they told,
// streams at the byte where they broke and in the same version, and of an upload whose
// response was lost it is found out whether it happened. What will not get better by waiting
// (missing, forbidden, locked, existing, no space) is answered at once, and so is an outage
// that outlasts the limits: it is an error, never an empty answer.
package retry

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"druid.internal/druid/internal/store"
)

// Options bound the patience. The zero value is a good choice.
type Options struct {
	// Attempts is how often something is tried without progress, the first time included;
	// 0 means 6.
	Attempts int
	// Base is the upper bound of the first wait, which doubles with every further one up to
	// Cap; 0 means 500 ms and 30 s. The waits are drawn evenly from zero to their bound.
	Base, Cap time.Duration
	// Total bounds the time from the first attempt, or the last progress, to the last
	// attempt's beginning; 0 means 5 minutes.
	Total time.Duration

	// Notify is told of every failed attempt that will be repeated after wait. May be nil.
	Notify func(op, key string, attempt int, wait time.Duration, err error)

	// The clock, for tests: nil means the real one.
	Now    func() time.Time
	Sleep  func(ctx context.Context, d time.Duration) error // returns ctx's error if that ends first
	Jitter func() float64                                   // evenly from [0, 1)
}

// Store is a store that tries again. It offers every optional capability, and answers
// store.ErrUnsupported for those the store behind it lacks.
type Store struct {
	inner store.Store
	o     Options
}

var _ interface {
	store.Store
	store.Deleter
	store.Extender
	store.Holder
	store.Tagger
	store.Copier
	store.Inspector
} = (*Store)(nil)

// New wraps s.
func New(s store.Store, o Options) *Store {
	o.Attempts = orElse(o.Attempts, 6)
	o.Base = orElse(o.Base, 500*time.Millisecond)
	o.Cap = orElse(o.Cap, 30*time.Second)
	o.Total = orElse(o.Total, 5*time.Minute)
	if o.Notify == nil {
		o.Notify = func(string, string, int, time.Duration, error) {}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Sleep == nil {
		o.Sleep = sleep
	}
	if o.Jitter == nil {
		o.Jitter = rand.Float64
	}
	return &Store{inner: s, o: o}
}

func orElse[T int | time.Duration](v, standard T) T {
	if v <= 0 {
		return standard
	}
	return v
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Unwrap is the store behind the retries.
func (s *Store) Unwrap() store.Reader { return s.inner }

// Capabilities implements store.Reader.
func (s *Store) Capabilities() store.Capabilities { return s.inner.Capabilities() }

// Error is the end of patience.
type Error struct {
	Op, Key  string
	Attempts int           // without progress
	Elapsed  time.Duration // since the first of them
	Err      error         // the last attempt's
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s %s: gave up after %d attempts in %s: %v", e.Op, e.Key, e.Attempts, e.Elapsed.Round(time.Millisecond), e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// patience is what is left of it for one operation.
type patience struct {
	s        *Store
	op, key  string
	began    time.Time
	attempts int // that failed since the last progress
}

func (s *Store) patience(op, key string) *patience {
	return &patience{s: s, op: op, key: key, began: s.o.Now()}
}

// progress starts anew, because something was achieved.
func (p *patience) progress() { p.attempts, p.began = 0, p.s.o.Now() }

// wait returns nil when it is time for a further attempt after err, and otherwise the error to
// answer: err itself if trying again is pointless.
func (p *patience) wait(ctx context.Context, err error) error {
	p.attempts++
	if ctx.Err() != nil || !passing(err) {
		return p.final(err)
	}
	o, bound := &p.s.o, p.s.o.Cap
	if shift := p.attempts - 1; shift < 30 && o.Base<<shift < bound {
		bound = o.Base << shift
	}
	wait := time.Duration(o.Jitter() * float64(bound))
	if p.attempts >= o.Attempts || o.Now().Add(wait).Sub(p.began) > o.Total {
		return p.final(err)
	}
	o.Notify(p.op, p.key, p.attempts, wait, err)
	if stopped := o.Sleep(ctx, wait); stopped != nil {
		return p.final(fmt.Errorf("%w, while waiting to repeat what failed with: %w", stopped, err))
	}
	return nil
}

// final names the attempts, if there was more than one.
func (p *patience) final(err error) error {
	if p.attempts <= 1 {
		return err
	}
	return &Error{Op: p.op, Key: p.key, Attempts: p.attempts, Elapsed: p.s.o.Now().Sub(p.began), Err: err}
}

// passing says whether err may be gone a moment later.
func passing(err error) bool {
	if errors.Is(err, store.ErrThrottled) || errors.Is(err, store.ErrUnreachable) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
		return true
	}
	if settling := (settlingError{}); errors.As(err, &settling) {
		return true
	}
	var timeout interface{ Timeout() bool }
	return errors.As(err, &timeout) && timeout.Timeout()
}

// do calls fn until it succeeds, fails for good or patience ends. fn may be done twice.
func (s *Store) do(ctx context.Context, op, key string, fn func() error) error {
	p := s.patience(op, key)
	for {
		err := fn()
		if err == nil {
			return nil
		}
		if errors.Is(err, store.ErrUnknownOutcome) && !passing(err) {
			err = fmt.Errorf("%w: %w", store.ErrUnreachable, err) // done again, it has an outcome
		}
		if err = p.wait(ctx, err); err != nil {
			return err
		}
	}
}
