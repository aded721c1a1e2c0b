package backup

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"druid.internal/druid/internal/agent/metrics"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/storetest"
)

// opener is a Source whose outcome a test decides.
type opener struct {
	mu      sync.Mutex
	store   store.Store
	err     error
	opened  int
	changed bool
	hang    bool
}

func (o *opener) source() Source {
	return Source{
		Open: func(ctx context.Context) (store.Store, error) {
			o.mu.Lock()
			hang := o.hang
			o.mu.Unlock()
			if hang {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			o.mu.Lock()
			defer o.mu.Unlock()
			o.opened++
			if o.err != nil {
				return nil, o.err
			}
			o.changed = false
			return o.store, nil
		},
		Changed: func() bool {
			o.mu.Lock()
			defer o.mu.Unlock()
			return o.changed
		},
	}
}

func (o *opener) set(fn func(*opener)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	fn(o)
}

func (o *opener) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.opened
}

func renewingOf(t *testing.T, o *opener, clock *storetest.Clock) *renewing {
	t.Helper()
	c, err := Config{
		Local: func(context.Context) (Member, error) { return nil, errors.New("no etcd") }, Voters: func(context.Context) ([]Voter, error) { return nil, nil },
		Store: o.source(), Now: clock.Now,
	}.complete()
	if err != nil {
		t.Fatal(err)
	}
	return newRenewing(metrics.Primary, c.Store, c)
}

func start() *storetest.Clock {
	return storetest.NewClock(time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC))
}

func put(ctx context.Context, s store.Store, key, body string) error {
	_, err := s.Put(ctx, key, strings.NewReader(body), store.PutOptions{})
	return err
}

func TestARenewingStoreIsAStore(t *testing.T) {
	for name, options := range storetest.MemoryOptions() {
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, options(func(inner store.Store) store.Store {
				r := renewingOf(t, &opener{store: inner}, start())
				if err := r.ready(t.Context()); err != nil {
					t.Fatal(err)
				}
				return r
			}))
		})
	}
}

func TestAStoreIsOpenedAgainWhenItsCredentialsChanged(t *testing.T) {
	first, second := storetest.NewMemory(storetest.S3Like()), storetest.NewMemory(storetest.S3Like())
	o := &opener{store: first}
	r := renewingOf(t, o, start())
	if got := r.Capabilities(); got.Provider != "" {
		t.Errorf("before it was opened it is a %s, want nothing to be known", got.Provider)
	}
	for _, key := range []string{"a", "b"} {
		if err := put(t.Context(), r, key, "one"); err != nil {
			t.Fatal(err)
		}
	}
	under, err := r.Open(t.Context(), store.Version{Key: "a"}, 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	o.set(func(o *opener) { o.store, o.changed = second, true })
	if err := put(t.Context(), r, "c", "two"); err != nil {
		t.Fatal(err)
	}
	if got := o.count(); got != 2 {
		t.Errorf("it was opened %d times, want 2", got)
	}
	if _, err := second.Stat(t.Context(), store.Version{Key: "c"}); err != nil {
		t.Errorf("what was written after the change is not in the new store: %v", err)
	}
	if b, err := io.ReadAll(under); string(b) != "one" || err != nil {
		t.Errorf("the stream that was open gives %q and %v, want all of it", b, err)
	}
	if got, _ := store.As[*storetest.Memory](r); got != second {
		t.Error("capabilities are looked for in the old store")
	}
}

// An endpoint that swallows what is sent to it must not stop those who have a store that works.
func TestNobodyWaitsForAStoreThatSomebodyElseOpensAgain(t *testing.T) {
	memory := storetest.NewMemory(storetest.S3Like())
	o := &opener{store: memory}
	r := renewingOf(t, o, start())
	if err := r.ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	o.set(func(o *opener) { o.hang, o.changed = true, true })
	opening := make(chan error, 1)
	go func() { opening <- put(ctx, r, "a", "one") }()
	for len(r.turn) == 0 { // until it is being opened
		time.Sleep(time.Millisecond)
	}
	if err := put(t.Context(), r, "b", "two"); err != nil {
		t.Fatal(err)
	}
	if _, err := memory.Stat(t.Context(), store.Version{Key: "b"}); err != nil {
		t.Errorf("it is not in the store of before: %v", err)
	}
	cancel()
	if err := <-opening; !errors.Is(err, context.Canceled) {
		t.Errorf("who opens it: %v, want that he was told to end", err)
	}
}

// What changes while a store is opened again may not have been read by that.
func TestAChangeWhileAStoreIsOpenedIsNotLost(t *testing.T) {
	first, second := storetest.NewMemory(storetest.S3Like()), storetest.NewMemory(storetest.S3Like())
	opened, changed := 0, false
	var r *renewing
	clock := start()
	r = renewingOf(t, &opener{}, clock)
	r.source = Source{
		Open: func(ctx context.Context) (store.Store, error) {
			switch opened++; opened {
			case 2: // somebody asks meanwhile
				changed = true
				if _, err := r.Stat(ctx, store.Version{Key: "x"}); !errors.Is(err, store.ErrNotFound) {
					t.Errorf("while it is opened: %v", err)
				}
				return first, nil
			case 3:
				return second, nil
			}
			return first, nil
		},
		Changed: func() bool { was := changed; changed = false; return was },
	}
	for i := range 3 {
		if err := put(t.Context(), r, string(rune('a'+i)), "one"); err != nil {
			t.Fatal(err)
		}
		changed = i == 0
	}
	if got, _ := store.As[*storetest.Memory](r); got != second {
		t.Errorf("it was opened %d times, and what changed while it was opened is not used", opened)
	}
}

func TestAStoreGoesOnWithOldCredentialsWhileTheNewOnesDoNotWork(t *testing.T) {
	clock, memory := start(), storetest.NewMemory(storetest.S3Like())
	o := &opener{store: memory}
	r := renewingOf(t, o, clock)
	if err := r.ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	o.set(func(o *opener) { o.err, o.changed = store.ErrCredentials, true })
	for i := range 50 {
		if err := put(t.Context(), r, strings.Repeat("x", i+1), "body"); err != nil {
			t.Fatal(err)
		}
	}
	if got := o.count(); got != 2 {
		t.Errorf("it was tried to open it %d times within no time, want once besides the first", got-1)
	}
	clock.Advance(openDelay)
	o.set(func(o *opener) { o.err = nil })
	if err := r.ready(t.Context()); err != nil || o.count() != 3 {
		t.Errorf("after a while it was opened %d times, %v, want 3 times", o.count(), err)
	}
}

func TestAStoreThatCannotBeOpenedIsNotTriedInAHotLoop(t *testing.T) {
	clock := start()
	o := &opener{err: store.ErrUnreachable}
	r := renewingOf(t, o, clock)
	for range 100 {
		if err := r.List(t.Context(), "", nil); !errors.Is(err, store.ErrUnreachable) {
			t.Fatalf("the listing ends with %v, want that the store cannot be reached", err)
		}
	}
	if got := o.count(); got != 1 {
		t.Errorf("it was tried %d times within no time, want once", got)
	}
	clock.Advance(openDelay)
	o.set(func(o *opener) { o.err, o.store = nil, storetest.NewMemory(storetest.Bare()) })
	if err := r.List(t.Context(), "", func(store.Object) error { return nil }); err != nil {
		t.Errorf("once it can be reached: %v", err)
	}
}

func TestAStoreThatDoesNotAnswerHoldsUpNobodyLongerThanTheyWant(t *testing.T) {
	o := &opener{hang: true}
	r := renewingOf(t, o, start())
	first, giveUp := context.WithCancel(t.Context())
	var done atomic.Bool
	ended := make(chan error, 1)
	go func() { err := r.ready(first); done.Store(true); ended <- err }()
	for deadline := time.Now().Add(time.Minute); len(r.turn) == 0; {
		if time.Now().After(deadline) {
			t.Fatal("nobody opens the store")
		}
		time.Sleep(time.Millisecond) // between two looks
	}
	second, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.ready(second); !errors.Is(err, context.Canceled) || done.Load() {
		t.Errorf("the one that had no time got %v while the first still waits (%v)", err, !done.Load())
	}
	giveUp()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the one that opened and gave up got %v", err)
	}
}
