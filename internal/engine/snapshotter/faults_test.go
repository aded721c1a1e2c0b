package snapshotter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/engine/catalog"
	"druid.internal/druid/internal/etcd/dbstream"
	"druid.internal/druid/internal/etcd/member"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/storetest"
)

func TestTroubleWithTheStoreCostsNoEvent(t *testing.T) {
	t.Parallel()
	for name, faults := range map[string][]storetest.Fault{
		"deltas refused":        {storetest.Fail(store.ErrUnreachable).On(storetest.OpPut, "Incr-").For(5)},
		"deltas torn":           {storetest.Tear(10).On(storetest.OpPut, "Incr-").For(3)},
		"fulls refused":         {storetest.Fail(store.ErrThrottled).On(storetest.OpPut, "/Full-").For(3)},
		"fulls torn":            {storetest.Tear(3000).On(storetest.OpPut, "/Full-").For(3)},
		"manifests refused":     {storetest.Fail(store.ErrNoSpace).On(storetest.OpPut, "Manifest-").For(8)},
		"every response lost":   {storetest.LoseResponse().On(storetest.OpPut, "").Always()},
		"half the puts lost":    {storetest.LoseResponse().On(storetest.OpPut, "").After(1), storetest.LoseResponse().On(storetest.OpPut, "").After(3)},
		"lost and then no stat": {storetest.LoseResponse().On(storetest.OpPut, "Incr-").For(2), storetest.Fail(store.ErrUnreachable).On(storetest.OpStat, "Incr-").For(2)},
		"lists fail":            {storetest.Fail(store.ErrUnreachable).On(storetest.OpList, "").For(3), storetest.BreakList(0, store.ErrUnreachable).On(storetest.OpList, "").After(3).For(2)},
		"asking fails":          {storetest.Fail(store.ErrForbidden).On(storetest.OpStat, "").Always()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, s := newEtcd(t), memory()
			faulty := storetest.NewFaulty(s)
			faulty.Inject(faults...)
			if name == "asking fails" {
				faulty.Inject(storetest.Fail(store.ErrUnreachable).On(storetest.OpPut, "").After(2).For(2))
			}
			e.put(10)
			r := start(t, config(e, faulty))
			var last snapshot.Revision
			for range 4 {
				last = e.put(15)
				r.delta()
			}
			r.full(false)
			last = max(last, e.put(5))
			r.delta()
			if err := r.stop(); err != nil {
				t.Fatal(err)
			}
			wantRestorable(t, e, s, last)
			for _, f := range read(t, s).Timeline.Findings {
				if f.Severity > 1 {
					t.Errorf("finding: %s", f)
				}
			}
		})
	}
}

func TestAnOutageIsNotAnEmptyBucket(t *testing.T) {
	t.Parallel()
	e, s := newEtcd(t), memory()
	last := e.put(10)
	r := start(t, config(e, s))
	r.delta()
	until(t, s, "a chain", func(c *catalog.Catalog) bool { _, chain, ok := newest(c); return ok && chain.End >= last })
	r.stop()
	before := names(read(t, s))
	faulty := storetest.NewFaulty(s)
	faulty.Inject(storetest.Fail(store.ErrUnreachable).On(storetest.OpList, "").Always())
	cfg := config(e, faulty)
	cfg.Retry.Attempts = 4
	out := start(t, cfg)
	<-out.done
	if !errors.Is(out.err, store.ErrUnreachable) {
		t.Fatalf("%v, want the store's error after 4 attempts", out.err)
	}
	if n := faulty.Count(storetest.OpPut); n != 0 {
		t.Fatalf("%d uploads into a bucket that could not be listed", n)
	}
	if after := names(read(t, s)); strings.Join(after, " ") != strings.Join(before, " ") {
		t.Fatalf("the bucket changed from %v to %v", before, after)
	}
}

func TestADeathAtAnyStoreOperationLeavesAGaplessBackup(t *testing.T) {
	t.Parallel()
	for name, withData := range map[string]bool{"with a data directory": true, "without a data directory": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEtcd(t)
			e.put(3)
			// story is one life; it ends early if the process dies.
			story := func(r *running, faulty *storetest.Faulty, dead <-chan struct{}) {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				go func() {
					select {
					case <-dead:
						cancel()
					case <-ctx.Done():
					}
				}()
				e.put(4)
				r.TakeDelta(ctx)
				e.put(2)
				r.TakeFull(ctx, false)
				for range 3 { // the first of all may be contained in a full and not be uploaded
					e.put(3)
					r.TakeDelta(ctx)
				}
			}
			for step := 1; ; step++ {
				s, data := memory(), &memoryIdentity{}
				faulty := storetest.NewFaulty(s)
				faulty.DieAt(step)
				cfg := config(e, faulty)
				if withData {
					cfg.Data = data
				}
				cfg.DeltaPeriod, cfg.Grace = time.Hour, time.Millisecond // deltas come when asked for
				dead := make(chan struct{})
				var once sync.Once
				probe := &tripwire{Store: faulty, dead: func() { once.Do(func() { close(dead) }) }}
				cfg.Store = probe
				first := start(t, cfg)
				story(first, faulty, dead)
				first.stop()
				survived := faulty.Steps() < step
				if c := read(t, s); fulls(c) > 0 {
					wantRestorable(t, e, s, 0)
				}
				last := e.put(2)
				cfg.Store = s
				second := start(t, cfg)
				second.delta()
				until(t, s, "a full with its manifest", func(c *catalog.Catalog) bool {
					l, chain, ok := newest(c)
					return ok && l.ID != "" && chain.End >= last
				})
				if err := second.stop(); err != nil {
					t.Fatalf("after a death at step %d: %v", step, err)
				}
				wantRestorable(t, e, s, last)
				if survived {
					if step < 20 {
						t.Fatalf("only %d steps were tried", step)
					}
					return
				}
			}
		})
	}
}

// tripwire notices when the process behind it is dead.
type tripwire struct {
	store.Store
	dead func()
}

func (w *tripwire) see(err error) error {
	if errors.Is(err, storetest.ErrDead) {
		w.dead()
	}
	return err
}

func (w *tripwire) List(ctx context.Context, prefix string, fn func(store.Object) error) error {
	return w.see(w.Store.List(ctx, prefix, fn))
}

func (w *tripwire) Put(ctx context.Context, key string, body io.Reader, o store.PutOptions) (store.Object, error) {
	obj, err := w.Store.Put(ctx, key, body, o)
	return obj, w.see(err)
}

func (w *tripwire) Stat(ctx context.Context, v store.Version) (store.Object, error) {
	obj, err := w.Store.Stat(ctx, v)
	return obj, w.see(err)
}

func (w *tripwire) Open(ctx context.Context, v store.Version, off, n int64) (io.ReadCloser, error) {
	b, err := w.Store.Open(ctx, v, off, n)
	return b, w.see(err)
}

// shortened is a member whose snapshot stream ends early a few times.
type shortened struct {
	Member
	left *atomic.Int32
	keep int64
	err  error // nil: ends as if it were whole
}

func (m shortened) Snapshot(ctx context.Context) (io.ReadCloser, string, error) {
	body, version, err := m.Member.Snapshot(ctx)
	if err != nil || m.left.Add(-1) < 0 {
		return body, version, err
	}
	r := io.LimitReader(body, m.keep)
	if m.err != nil {
		r = io.MultiReader(r, failing{m.err})
	}
	return struct {
		io.Reader
		io.Closer
	}{r, body}, version, nil
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestATruncatedSourceLeavesNoObject(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		compression snapshot.Compression
		keep        int64
		err         error
	}{
		"cut in the middle":           {snapshot.Zstd, 9000, nil},
		"cut before the trailer":      {snapshot.Zstd, 20480, nil},
		"of a size that might be":     {snapshot.Zstd, 16384 + 32, nil},
		"empty":                       {snapshot.Gzip, 0, nil},
		"a broken connection":         {snapshot.Gzip, 9000, io.ErrUnexpectedEOF},
		"unpacked":                    {snapshot.None, 9000, nil},
		"a broken one, unpacked":      {snapshot.None, 9000, errors.New("connection reset")},
		"a broken one, at the end":    {snapshot.Zstd, 1 << 40, errors.New("connection reset")},
		"the old compression by zlib": {snapshot.Zlib, 12288, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, s := newEtcd(t), memory()
			last := e.put(50)
			left := &atomic.Int32{}
			left.Store(3)
			cfg := config(e, s)
			cfg.Compression, cfg.DeltaPeriod = c.compression, 0
			cfg.Connect = func(ctx context.Context) (Member, error) {
				m, err := e.connect(ctx)
				if left.Load() > 0 { // nothing may be there as long as every stream was cut
					if n := len(read(t, s).Listing.Objects); n != 0 {
						t.Errorf("%d objects of a truncated stream", n)
					}
				}
				return shortened{m, left, c.keep, c.err}, err
			}
			r := start(t, cfg)
			cat := until(t, s, "a full", func(c *catalog.Catalog) bool { return len(c.Listing.Manifests) > 0 })
			if err := r.stop(); err != nil {
				t.Fatal(err)
			}
			if left.Load() >= 0 || fulls(cat) != 1 {
				t.Fatalf("%d streams were to be cut still, %d fulls", left.Load(), fulls(cat))
			}
			wantRestorable(t, e, s, last)
		})
	}
	if _, err := io.Copy(io.Discard, dbstream.NewReader(bytes.NewReader(nil), 0)); !errors.Is(err, dbstream.ErrTrailer) {
		t.Fatal(err)
	}
}

// stoppingStore is a store that calls a function when a full is in it.
type stoppingStore struct {
	store.Store
	call func()
}

func (s stoppingStore) Put(ctx context.Context, key string, body io.Reader, o store.PutOptions) (store.Object, error) {
	object, err := s.Store.Put(ctx, key, body, o)
	if err == nil && strings.Contains(key, "/Full-") {
		s.call()
	}
	return object, err
}

func TestStopAfterFullWritesItsManifest(t *testing.T) {
	t.Parallel()
	e, s := newEtcd(t), memory()
	e.put(10)
	cfg := config(e, s)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cfg.Store = stoppingStore{s, cancel}
	w, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if err := w.BackedUp(); err != nil {
		t.Error(err)
	}
	fulls := 0
	for _, l := range read(t, s).Timeline.Lineages {
		for _, f := range l.Snapshots {
			if fulls++; f.Manifest == nil || l.ID == "" {
				t.Errorf("%s has no manifest", f.Name())
			}
		}
	}
	if fulls != 1 {
		t.Errorf("%d fulls, want 1", fulls)
	}
}

func TestRunDoesNotRepeatWhatCannotPass(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want int // attempts
	}{
		"a certificate that is none": {fmt.Errorf("connect: %w: no PEM", member.ErrConfig), 1},
		"a learner":                  {fmt.Errorf("revision: %w", member.ErrLearner), 1},
		"an etcd that is down":       {fmt.Errorf("status: %w", member.ErrUnreachable), 3},
	} {
		t.Run(name, func(t *testing.T) {
			attempts := 0
			cfg := config(newEtcd(t), memory())
			cfg.Retry.Attempts = 3
			cfg.Connect = func(context.Context) (Member, error) { attempts++; return nil, c.err }
			s, err := New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Run(t.Context()); !errors.Is(err, c.err) || attempts != c.want {
				t.Errorf("%v after %d attempts, want %v after %d", err, attempts, c.err, c.want)
			}
		})
	}
}

func TestOnceTakesExactlyOneFull(t *testing.T) {
	t.Parallel()
	e, s := newEtcd(t), memory()
	for want := 1; want <= 2; want++ {
		last := e.put(3)
		one, err := New(config(e, s))
		if err != nil {
			t.Fatal(err)
		}
		full, err := one.Once(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		c := read(t, s)
		if got := len(c.Listing.Objects); fulls(c) != want || got != want || full.Manifest.LastRevision < last {
			t.Errorf("run %d: %d fulls of %d snapshots up to revision %d, want %d up to %d", want, fulls(c), got, full.Manifest.LastRevision, want, last)
		}
	}
}

func TestOnceWithoutFullFails(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kind  error
		stops bool
		want  error
	}{
		"the store refuses":      {store.ErrForbidden, false, store.ErrForbidden},
		"the program is stopped": {store.ErrUnreachable, true, ErrNoBackup},
		"the store is not there": {store.ErrUnreachable, false, store.ErrUnreachable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			faulty := storetest.NewFaulty(memory())
			faulty.Inject(storetest.Fail(c.kind).On(storetest.OpPut, "Full-").Always())
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			cfg := config(newEtcd(t), faulty)
			cfg.Retry.Attempts = 3
			if c.stops {
				cfg.Retry.Attempts = 0
				cfg.Progress = func(Progress) { cancel() }
			}
			one, err := New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			if full, err := one.Once(ctx); !errors.Is(err, c.want) {
				t.Errorf("%v and %v, want %v", full.Key, err, c.want)
			}
		})
	}
}
