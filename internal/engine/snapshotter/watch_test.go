package snapshotter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

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

// TestWatchWithoutDeletionsIsReplacedByFull emulates an etcd before 3.5.16: its watch from the
// compacted revision lacks the deletions of that revision.
func TestWatchWithoutDeletionsIsReplacedByFull(t *testing.T) {
	t.Parallel()
	for name, stopped := range map[string]bool{"restarted": true, "reconnected": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, s := newEtcd(t), memory()
			cfg := config(e, s)
			var compacted atomic.Int64
			disconnected, offline := make(chan struct{}), make(chan struct{})
			disconnect := sync.OnceFunc(func() { close(disconnected) })
			broken := &watchBreaker{next: make(chan error, 1)}
			cfg.Connect = func(ctx context.Context) (Member, error) {
				if compacted.Load() < 0 {
					disconnect()
					select {
					case <-offline:
					case <-ctx.Done():
						return nil, ctx.Err()
					}
				}
				m, err := e.connect(ctx)
				return lossy{breaking{m, broken}, &compacted}, err
			}
			if _, err := e.client.Put(t.Context(), "b", "1"); err != nil {
				t.Fatal(err)
			}
			r := start(t, cfg)
			r.full(false)
			e.put(3)
			r.delta()
			compacted.Store(-1)
			if stopped {
				r.stop()
			} else {
				broken.fail(errors.New("connection lost"))
				<-disconnected
			}
			done, err := e.client.Txn(t.Context()).Then(clientv3.OpPut("a", "1"), clientv3.OpDelete("b")).Commit()
			if err != nil {
				t.Fatal(err)
			}
			e.compact(snapshot.Revision(done.Header.Revision))
			compacted.Store(done.Header.Revision)
			close(offline)
			if stopped {
				r = start(t, cfg)
			}
			last := e.put(3)
			until(t, s, "the newest chain reaches the end", func(c *catalog.Catalog) bool {
				_, chain, _ := newest(c)
				return chain.End >= last
			})
			if !r.events.has(HistoryLost) {
				t.Error("no event reports the lost revisions")
			}
			r.stop()
			c := read(t, s)
			for _, l := range c.Timeline.Lineages {
				for _, chain := range l.Chains() {
					for _, d := range chain.Deltas {
						if d.From <= snapshot.Revision(done.Header.Revision) && d.To >= snapshot.Revision(done.Header.Revision) {
							t.Errorf("%s holds revision %d, of which a deletion is missing", d.Name(), done.Header.Revision)
						}
					}
				}
			}
		})
	}
}

// lossy is a member whose watch lacks the deletions of the compacted revision where it begins.
type lossy struct {
	Member
	compacted *atomic.Int64
}

func (l lossy) WatchAll(ctx context.Context, from snapshot.Revision, pace member.WatchPace, fn func(member.Batch) error) error {
	return l.Member.WatchAll(ctx, from, pace, func(b member.Batch) error {
		if int64(from) == l.compacted.Load() {
			b.Events = slices.DeleteFunc(slices.Clone(b.Events), func(ev *mvccpb.Event) bool {
				return ev.Type == mvccpb.DELETE && ev.Kv.ModRevision == int64(from)
			})
		}
		return fn(b)
	})
}

// TestDeltaNamesVersionOfItsEtcd moves the watch to a member of another version, as an update of
// the members does.
func TestDeltaNamesVersionOfItsEtcd(t *testing.T) {
	t.Parallel()
	e, s := newEtcd(t), memory()
	cfg := config(e, s)
	cfg.DeltaPeriod = time.Hour
	broken := &watchBreaker{next: make(chan error, 1)}
	var version atomic.Value
	version.Store("3.5.12")
	cfg.Connect = func(ctx context.Context) (Member, error) {
		m, err := e.connect(ctx)
		return versioned{breaking{m, broken}, version.Load().(string)}, err
	}
	r := start(t, cfg)
	base := r.full(false).Manifest.LastRevision
	middle := e.put(3)
	buffered, err := r.session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := buffered.buffer.drained(t.Context(), middle); err != nil {
		t.Fatal(err)
	}
	version.Store("3.6.16")
	broken.fail(errors.New("connection lost"))
	// The delta is cut when the watch is opened again.
	until(t, s, "a delta of the first version", func(c *catalog.Catalog) bool { _, chain, _ := newest(c); return chain.End == middle })
	last := e.put(3)
	r.delta()
	r.stop()
	chain := wantRestorable(t, e, s, last)
	type delta struct {
		version  string
		from, to snapshot.Revision
	}
	var got []delta
	for _, d := range chain.Deltas {
		got = append(got, delta{d.Manifest.EtcdVersion, d.From, d.To})
	}
	if want := []delta{{"3.5.12", base + 1, middle}, {"3.6.16", middle + 1, last}}; !slices.Equal(got, want) {
		t.Errorf("deltas %v, want %v", got, want)
	}
}

// versioned is a member of another version.
type versioned struct {
	Member
	version string
}

func (v versioned) Status(ctx context.Context) (member.Status, error) {
	st, err := v.Member.Status(ctx)
	st.Version = v.version
	return st, err
}
