package snapshotter

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/storetest"
)

func TestTheWatchIsDrainedWhileAnUploadHangs(t *testing.T) {
	t.Parallel()
	e, s := newEtcd(t), memory()
	faulty := storetest.NewFaulty(s)
	blocked, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	faulty.Hook(func(op storetest.Op, key string, phase storetest.Phase) {
		if op == storetest.OpPut && phase == storetest.Before && strings.Contains(key, "/Incr-") {
			once.Do(func() { close(blocked); <-release })
		}
	})
	cfg := config(e, faulty)
	cfg.DeltaLimit = 8 << 10
	r := start(t, cfg)
	letGo := sync.OnceFunc(func() { close(release) })
	t.Cleanup(letGo)
	r.full(false)
	n := current(t, r)
	e.put(1)
	<-blocked
	last := e.put(2000)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := n.buffer.drained(ctx, last); err != nil {
		t.Fatalf("the watch stands still while an upload hangs: %v", err)
	}
	letGo()
	r.delta()
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	chain := wantRestorable(t, e, s, last)
	if len(chain.Deltas) < 5 {
		t.Fatalf("%d deltas, want many small ones", len(chain.Deltas))
	}
}

func TestWhatWaitsForItsUploadIsBounded(t *testing.T) {
	t.Parallel()
	e, s := newEtcd(t), memory()
	faulty := storetest.NewFaulty(s)
	faulty.Inject(storetest.Fail(store.ErrUnreachable).On(storetest.OpPut, "/Incr-").For(20))
	blocked, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	faulty.Hook(func(op storetest.Op, key string, phase storetest.Phase) {
		if op == storetest.OpPut && phase == storetest.Before && strings.Contains(key, "/Incr-") {
			once.Do(func() { close(blocked); <-release })
		}
	})
	cfg := config(e, faulty)
	cfg.DeltaLimit, cfg.SpillLimit = 4<<10, 16<<10
	r := start(t, cfg)
	letGo := sync.OnceFunc(func() { close(release) })
	t.Cleanup(letGo)
	r.full(false)
	n := current(t, r)
	e.put(1)
	<-blocked
	value := strings.Repeat("x", 20000)
	for i := range 300 {
		if _, err := e.client.Put(t.Context(), fmt.Sprintf("big/%d", i), value); err != nil {
			t.Fatal(err)
		}
	}
	last := e.revision()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := n.buffer.await(ctx, func() bool { return n.buffer.waiting }); err != nil {
		t.Fatalf("the watch was never made to wait: %v", err)
	}
	if next, _ := n.buffer.position(); next > last {
		t.Fatalf("everything up to %d is buffered, nothing was made to wait", next-1)
	}
	n.buffer.mu.Lock()
	held := n.buffer.held()
	n.buffer.mu.Unlock()
	if held > cfg.SpillLimit+1<<20 { // and what came with one message of etcd
		t.Fatalf("%d bytes are held, the limit is %d", held, cfg.SpillLimit)
	}
	letGo()
	r.delta()
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	wantRestorable(t, e, s, last)
}

// current is the session of a running snapshotter.
func current(t *testing.T, r *running) *session {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	n, err := r.session(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestARequestEndsWithItsContext(t *testing.T) {
	t.Parallel()
	e, s := newEtcd(t), memory()
	e.put(5)
	faulty := storetest.NewFaulty(s)
	r := start(t, config(e, faulty))
	r.full(false)
	before := names(read(t, s))
	reached := make(chan struct{}, 10)
	faulty.Hook(func(op storetest.Op, key string, phase storetest.Phase) {
		if op == storetest.OpPut && strings.Contains(key, "/Full-") && phase == storetest.Before {
			reached <- struct{}{}
		}
	})
	faulty.Inject(storetest.Hang().On(storetest.OpPut, "/Full-"))
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-reached; cancel() }()
	if _, err := r.TakeFull(ctx, false); !errors.Is(err, context.Canceled) {
		t.Fatalf("%v, want context.Canceled", err)
	}
	if after := names(read(t, s)); len(after) != len(before) {
		t.Fatalf("%v after a cancelled request, want %v", after, before)
	}
	r.full(false)
	r.stop()
	if _, err := r.TakeFull(t.Context(), false); !errors.Is(err, ErrStopped) {
		t.Fatalf("%v after the end, want ErrStopped", err)
	}
	if _, err := r.TakeDelta(t.Context()); !errors.Is(err, ErrStopped) {
		t.Fatalf("%v after the end, want ErrStopped", err)
	}
}

func TestStoppingUploadsWhatIsBuffered(t *testing.T) {
	t.Parallel()
	e, s := newEtcd(t), memory()
	cfg := config(e, s)
	cfg.DeltaPeriod = time.Hour
	r := start(t, cfg)
	r.full(false)
	last := e.put(10)
	n := current(t, r)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := n.buffer.drained(ctx, last); err != nil {
		t.Fatal(err)
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	wantRestorable(t, e, s, last)
}
