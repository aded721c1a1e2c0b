package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"druid.internal/druid/internal/agent/metrics"
	"druid.internal/druid/internal/engine/snapshotter"
	"druid.internal/druid/internal/store"
)

// Source says how to reach a store.
type Source struct {
	// Open opens the store. The context bounds the opening, not the life of the store.
	Open func(context.Context) (store.Store, error)
	// Changed reports whether the credentials changed since Open was called last; nil: they never
	// do. It is asked before each use of the store.
	Changed func() bool
}

// renewing is a store that is opened when it is used first, and again when its credentials
// changed. What is under way then ends with the store it began with. While it cannot be opened
// again, the one before is used: its answers tell more than none.
type renewing struct {
	role    string // metrics.Primary or Secondary
	source  Source
	retry   snapshotter.Backoff
	now     func() time.Time
	log     *slog.Logger
	metrics *metrics.Catalogue
	turn    chan struct{} // a token for who opens
	proofs  proofs        // of what is below the prefix

	mu       sync.Mutex
	inner    store.Store
	stale    bool // the credentials changed since inner was opened
	changes  int  // that were noticed
	failures int
	err      error     // of the last attempt
	next     time.Time // when to try again
}

const (
	// openPatience bounds one opening.
	openPatience = time.Minute
	// openDelay bounds the wait between two. A store that answers again is used soon, whatever the
	// general backoff has grown to.
	openDelay = 10 * time.Second
)

func newRenewing(role string, s Source, c Config) *renewing {
	retry := c.Snapshots.Retry
	if retry.Max == 0 || retry.Max > openDelay {
		retry.Max = openDelay
	}
	return &renewing{role: role, source: s, retry: retry, now: c.Now, log: c.Log.With("store", role), metrics: c.Metrics, turn: make(chan struct{}, 1)}
}

// current returns the store to use now, opening it if need be.
func (r *renewing) current(ctx context.Context) (store.Store, error) {
	changed := r.source.Changed != nil && r.source.Changed()
	if s, err, settled := r.look(changed); settled {
		return s, err
	}
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	default:
		r.mu.Lock()
		before := r.inner
		r.mu.Unlock()
		if before != nil {
			return before, nil // somebody opens it again, which may take long
		}
		select {
		case r.turn <- struct{}{}:
			defer func() { <-r.turn }()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if s, err, settled := r.look(false); settled { // somebody else was faster
		return s, err
	}
	r.mu.Lock()
	before := r.changes
	r.mu.Unlock()
	opened, err := r.open(ctx)
	if ctx.Err() != nil && err != nil {
		return nil, ctx.Err() // says nothing about the store
	}
	r.metrics.Opened(r.role, err == nil)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.failures++
		wait := r.retry.Delay(r.failures)
		r.err, r.next = fmt.Errorf("open the %s store: %w", r.role, err), r.now().Add(wait)
		r.log.Error("the store cannot be opened, trying again", "error", err, "failures", r.failures, "wait", wait, "goesOnWithTheLast", r.inner != nil)
		if r.inner == nil {
			return nil, r.err
		}
		return r.inner, nil
	}
	r.log.Info("the store is open", "again", r.inner != nil, "provider", opened.Capabilities().Provider, "location", opened.Capabilities().Location)
	r.inner, r.stale, r.failures, r.err, r.next = opened, r.changes != before, 0, nil, time.Time{}
	return opened, nil
}

// look says what to use if nothing has to be opened now.
func (r *renewing) look(changed bool) (s store.Store, err error, settled bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if changed {
		r.changes++ // also while it is opened, which may have read what was before
	}
	if changed && r.inner != nil && !r.stale {
		r.log.Info("the credentials of the store changed")
		r.stale, r.failures, r.next = true, 0, time.Time{}
	}
	switch waits := r.now().Before(r.next); {
	case r.inner != nil && (!r.stale || waits):
		return r.inner, nil, true
	case waits:
		return nil, r.err, true
	}
	return nil, nil, false
}

// open opens within openPatience and ctx. The context that the store gets ends with neither once
// it is open: it may have kept it.
func (r *renewing) open(ctx context.Context) (store.Store, error) {
	bounded, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	tooLong := fmt.Errorf("%w: it did not open within %s", store.ErrUnreachable, openPatience)
	timer := time.AfterFunc(openPatience, func() { cancel(tooLong) })
	defer timer.Stop()
	defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()
	s, err := r.source.Open(bounded)
	if err != nil {
		if cause := context.Cause(bounded); cause != nil && !errors.Is(err, cause) {
			err = fmt.Errorf("%w: %w", cause, err)
		}
		cancel(err)
		return nil, err
	}
	return s, nil
}

// ready returns nil once the store was opened: from then on its capabilities are known.
func (r *renewing) ready(ctx context.Context) error {
	_, err := r.current(ctx)
	return err
}

// List implements store.Reader.
func (r *renewing) List(ctx context.Context, prefix string, fn func(store.Object) error) error {
	s, err := r.current(ctx)
	if err != nil {
		return err
	}
	return s.List(ctx, prefix, fn)
}

// Open implements store.Reader.
func (r *renewing) Open(ctx context.Context, v store.Version, off, n int64) (io.ReadCloser, error) {
	s, err := r.current(ctx)
	if err != nil {
		return nil, err
	}
	return s.Open(ctx, v, off, n)
}

// Stat implements store.Reader.
func (r *renewing) Stat(ctx context.Context, v store.Version) (store.Object, error) {
	s, err := r.current(ctx)
	if err != nil {
		return store.Object{}, err
	}
	return s.Stat(ctx, v)
}

// Put implements store.Store.
func (r *renewing) Put(ctx context.Context, key string, body io.Reader, opts store.PutOptions) (store.Object, error) {
	s, err := r.current(ctx)
	if err != nil {
		return store.Object{}, err
	}
	return s.Put(ctx, key, body, opts)
}

// Capabilities implements store.Reader. They are known once it is ready.
func (r *renewing) Capabilities() store.Capabilities {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.inner == nil {
		return store.Capabilities{}
	}
	return r.inner.Capabilities()
}

// Unwrap is for store.As: capabilities are those of the store that is open now.
func (r *renewing) Unwrap() store.Reader {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.inner == nil {
		return nil
	}
	return r.inner
}
