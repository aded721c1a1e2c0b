package snapshotter

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/engine/catalog"
	"druid.internal/druid/internal/etcd/member"
)

func TestHistoryThatEtcdHasForgottenIsToldAndMadeWhole(t *testing.T) {
	t.Parallel()
	e, s := newEtcd(t), memory()
	cfg := config(e, s)
	r := start(t, cfg)
	r.full(false)
	kept := e.put(10)
	r.delta()
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	lost := e.put(20)
	e.compact(lost)
	again := start(t, cfg)
	until(t, s, "a full of what is left", func(c *catalog.Catalog) bool {
		_, chain, ok := newest(c)
		return ok && chain.Base.Certain && chain.Base.Last >= lost
	})
	if !again.events.has(HistoryLost) {
		t.Fatal("lost history is not told")
	}
	last := e.put(5)
	again.delta()
	if err := again.stop(); err != nil {
		t.Fatal(err)
	}
	c := read(t, s)
	l, chain, _ := newest(c)
	if chain.End != last || chain.Gap != nil || l.Newest != last {
		t.Fatalf("the newest chain reaches %d (%v), want %d\n%v", chain.End, chain.Gap, last, names(c))
	}
	if older := l.Chains()[1]; older.End != kept || older.Gap == nil || older.Gap.From != kept+1 {
		t.Fatalf("the older chain reaches %d with gap %v, want it to end at %d", older.End, older.Gap, kept)
	}
}

func TestAWatchThatEtcdCutsIsNeverASilentGap(t *testing.T) {
	t.Parallel()
	e, s := newEtcd(t), memory()
	cfg := config(e, s)
	broken := &watchBreaker{next: make(chan error, 8)}
	cfg.Connect = func(ctx context.Context) (Member, error) {
		m, err := e.connect(ctx)
		return breaking{m, broken}, err
	}
	e.put(5)
	r := start(t, cfg)
	r.full(false)
	broken.fail(fmt.Errorf("test: %w", member.ErrCancelled), fmt.Errorf("test: %w", member.ErrStalled), errors.New("connection reset"))
	last := e.put(10)
	r.delta()
	wantRestorable(t, e, s, last)
	if r.events.has(HistoryLost) {
		t.Fatal("a watch that only broke lost something")
	}
	before := fulls(read(t, s))
	broken.fail(&member.GapError{Want: last + 1, Got: last + 9})
	e.put(10)
	until(t, s, "a full after a gap", func(c *catalog.Catalog) bool { return fulls(c) > before && len(c.Timeline.Lineages) == 1 })
	if !r.events.has(HistoryLost) {
		t.Fatal("a gap is not told")
	}
	last = e.put(3)
	r.delta()
	r.stop()
	wantRestorable(t, e, s, last)
}

// watchBreaker holds the errors with which watches are to end.
type watchBreaker struct{ next chan error }

func (w *watchBreaker) fail(errs ...error) {
	for _, err := range errs {
		w.next <- err
	}
}

// breaking is a member whose watches break when the breaker says so.
type breaking struct {
	Member
	*watchBreaker
}

func (b breaking) WatchAll(ctx context.Context, from snapshot.Revision, pace member.WatchPace, fn func(member.Batch) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case err := <-b.next:
			cancel(err)
		case <-ctx.Done():
		}
	}()
	err := b.Member.WatchAll(ctx, from, pace, fn)
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}
