package snapshotter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/engine/catalog"
	"druid.internal/druid/internal/etcd/codec"
	"druid.internal/druid/internal/etcd/member"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/storetest"
)

func TestASecondWriterIsRefusedUntilItTakesOver(t *testing.T) {
	t.Parallel()
	for name, profile := range map[string]storetest.Profile{
		"a store that refuses to overwrite": storetest.S3Like(),
		"a store that only keeps versions":  storetest.CephLike(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, s := newEtcd(t), storetest.NewMemory(profile)
			e.put(5)
			first := start(t, config(e, s))
			first.delta()
			first.full(false)

			cfg := config(e, s)
			cfg.Owner, cfg.OwnerNote = "another", "on another host"
			second := start(t, cfg)
			<-second.done
			if !errors.Is(second.err, ErrOwned) || !strings.Contains(second.err.Error(), "--take-over") {
				t.Fatalf("%v, want ErrOwned with the remedy --take-over", second.err)
			}

			cfg.TakeOver = true
			third := start(t, cfg)
			e.put(5)
			third.delta()
			if !third.events.has(OwnerReplaced) {
				t.Fatal("a take-over is not told")
			}
			e.put(5)
			select { // the first learns of it with its next upload
			case <-first.done:
			case <-time.After(patience):
				t.Fatal("two write for good")
			}
			if !errors.Is(first.err, ErrOwned) {
				t.Fatalf("%v, want ErrOwned", first.err)
			}
			last := e.put(5)
			third.delta()
			if err := third.stop(); err != nil {
				t.Fatal(err)
			}
			wantRestorable(t, e, s, last)
			if c := read(t, s); c.Owner == nil || c.Owner.ID != "another" || c.Owner.Number != 2 || c.Owner.Note != "on another host" {
				t.Fatalf("owner %+v", c.Owner)
			}
		})
	}
}

func TestOverlappingDeltasOfTwoLeadersStayRestorable(t *testing.T) {
	t.Parallel()
	e, s := newEtcd(t), memory()
	e.put(5)
	a := start(t, config(e, s))
	a.delta()
	a.full(false)
	b := start(t, config(e, s)) // the same cluster from another member: no other owner
	for range 10 {
		e.put(7)
		a.delta()
		e.put(3)
		b.delta()
	}
	b.full(false)
	last := e.put(4)
	a.delta()
	b.delta()
	if err := errors.Join(a.stop(), b.stop()); err != nil {
		t.Fatal(err)
	}
	wantRestorable(t, e, s, last)
	if c := read(t, s); len(c.Timeline.Lineages) != 1 {
		t.Fatalf("%d lineages of one history", len(c.Timeline.Lineages))
	}
}

// racing is a member of a cluster that goes on, and is backed up by somebody else, while the
// bucket is being read.
type racing struct {
	store.Store
	during func()
}

func (r racing) List(ctx context.Context, prefix string, fn func(store.Object) error) error {
	r.during()
	return r.Store.List(ctx, prefix, fn)
}

func TestUploadsDuringTheStartAreNoWayBack(t *testing.T) {
	t.Parallel()
	e, s := newEtcd(t), memory()
	a := start(t, config(e, s))
	a.full(false)
	cfg := config(e, racing{s, func() {
		e.put(3)
		a.delta()
	}})
	b := start(t, cfg)
	b.delta()
	b.stop()
	if b.events.has(RolledBack) || !b.events.has(LineageAdopted) {
		t.Fatalf("events %v, want the lineage adopted", b.events.all)
	}
}

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
	broken.fail(&member.GapError{Want: last + 1, Got: last + 9})
	before := fulls(read(t, s))
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

func TestAnEtcdThatWentBackBeginsANewLineage(t *testing.T) {
	t.Parallel()
	before, s := newEtcd(t), memory()
	data := &memoryIdentity{}
	cfg := config(before, s)
	cfg.Data = data
	before.put(40)
	r := start(t, cfg)
	r.delta()
	r.full(false)
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	old := data.id
	if old.Lineage.ID == "" || old.Owner == "" {
		t.Fatalf("identity %+v beside the data", old)
	}

	after := newEtcd(t) // the same data directory, as if it had been put back to an earlier state
	after.put(5)
	cfg.Connect = after.connect
	back := start(t, cfg)
	last := after.put(5)
	back.delta()
	until(t, s, "a full of the new lineage", func(c *catalog.Catalog) bool {
		l, chain, ok := newest(c)
		return ok && l.ID != old.Lineage.ID && l.ID != "" && chain.End >= last
	})
	if err := back.stop(); err != nil {
		t.Fatal(err)
	}
	if !back.events.has(RolledBack) {
		t.Fatal("the way back is not told")
	}
	if data.id.Lineage.ID == old.Lineage.ID || data.id.Lineage.Parent != old.Lineage.ID || data.id.Owner != old.Owner {
		t.Fatalf("identity %+v after %+v", data.id, old)
	}
	wantRestorable(t, after, s, last)
	c := read(t, s)
	if l, ok := c.Timeline.Lineage(old.Lineage.ID); !ok || len(l.Chains()) == 0 {
		t.Fatal("the old lineage cannot be restored any more")
	}
}

func TestAnEtcdThatGoesBackWhileBackedUpIsNotContinued(t *testing.T) {
	t.Parallel()
	before, after, s := newEtcd(t), newEtcd(t), memory()
	cfg := config(before, s)
	before.put(40)
	broken := &watchBreaker{next: make(chan error, 1)}
	switched := make(chan struct{})
	cfg.Connect = func(ctx context.Context) (Member, error) {
		at := before
		select {
		case <-switched:
			at = after
		default:
		}
		m, err := at.connect(ctx)
		return breaking{m, broken}, err
	}
	r := start(t, cfg)
	r.full(false)
	after.put(10)
	close(switched)
	broken.fail(errors.New("connection lost"))
	until(t, s, "a second lineage", func(c *catalog.Catalog) bool { return len(c.Timeline.Lineages) == 2 })
	if !r.events.has(RolledBack) {
		t.Fatal("the way back is not told")
	}
	last := after.put(3)
	r.delta()
	until(t, s, "its full", func(c *catalog.Catalog) bool { _, chain, _ := newest(c); return chain.End == last })
	r.stop()
	wantRestorable(t, after, s, last)
}

func TestAnotherClusterIsRefused(t *testing.T) {
	t.Parallel()
	e, s := newEtcd(t), memory()
	e.put(5)
	r := start(t, config(e, s))
	r.full(false)
	r.stop()
	cfg := embed.NewConfig()
	cfg.Dir, cfg.InitialClusterToken = filepath.Join(t.TempDir(), "data"), "another"
	other := runEtcd(t, cfg)
	other.put(50)
	for name, data := range map[string]IdentityFile{"without a data directory": nil, "with one": &memoryIdentity{}} {
		wrong := config(other, s)
		wrong.Data = data
		out := start(t, wrong)
		<-out.done
		if !errors.Is(out.err, ErrOwned) {
			t.Fatalf("%s: %v, want ErrOwned", name, out.err)
		}
		if m, ok := data.(*memoryIdentity); ok && m.found {
			t.Fatal("a refused start wrote into the data directory")
		}
	}
}

func TestABucketOfTheOriginalIsContinuedByALineageOfItsOwn(t *testing.T) {
	t.Parallel()
	e, s := newEtcd(t), memory()
	for _, key := range []string{"Full-00000000-00000002-1500000000.gz", "Incr-00000003-00000004-1500000020.gz"} {
		if _, err := s.Put(t.Context(), prefix+"/v2/"+key, strings.NewReader("old"), store.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	e.put(30)
	data := &memoryIdentity{}
	cfg := config(e, s)
	cfg.Data = data
	r := start(t, cfg)
	c := until(t, s, "our first full", func(c *catalog.Catalog) bool { return len(c.Listing.Manifests) == 1 })
	r.stop()
	l, _, _ := newest(c)
	if l.ID == "" || l.Parent != "" || len(c.Timeline.Lineages) != 2 || data.id.Lineage != l.Lineage || data.id.Owner != string(l.ID) {
		t.Fatalf("lineage %+v of %d, identity %+v", l.Lineage, len(c.Timeline.Lineages), data.id)
	}
}

func TestNamesAndContentOfTheOriginalsFormat(t *testing.T) {
	t.Parallel()
	for _, packing := range []snapshot.Compression{snapshot.None, snapshot.Gzip, snapshot.Zlib, snapshot.LZW} {
		t.Run("packing"+string(packing), func(t *testing.T) {
			t.Parallel()
			e, s := newEtcd(t), memory()
			cfg := config(e, s)
			cfg.Format, cfg.Compression, cfg.DeltaCompression = codec.V2JSON, packing, packing
			cfg.Now = func() time.Time { return time.Unix(1565021494, 0) }
			cfg.DeltaPeriod = time.Hour
			r := start(t, cfg)
			until(t, s, "a full", func(c *catalog.Catalog) bool { return len(c.Listing.Manifests) == 1 })
			e.put(3)
			r.delta()
			e.put(2)
			last := r.delta().Key.Name.Last
			final := r.full(true).Key.Name
			if err := r.stop(); err != nil {
				t.Fatal(err)
			}
			suffix := regexp.QuoteMeta(string(packing))
			wants := []string{
				`^Full-00000000-00000001-1565021494` + suffix + `$`,
				`^Full-00000000-00000006-15650214\d\d` + suffix + `\.final$`,
			}
			c := read(t, s)
			next := snapshot.Revision(2)
			for _, o := range c.Listing.Objects {
				n := o.Key.Name
				if n.Kind == snapshot.Delta {
					if want := fmt.Sprintf("Incr-%08d-%08d-1565021494%s", next, n.Last, packing); n.String() != want {
						t.Errorf("delta %s, want %s", n, want)
					}
					next = n.Last + 1
					continue
				}
				if len(wants) == 0 || !regexp.MustCompile(wants[0]).MatchString(n.String()) {
					t.Errorf("full %s, want %v", n, wants)
				}
				wants = wants[1:]
			}
			if last != 6 || next != 7 || final.Last != 6 || len(wants) != 0 {
				t.Errorf("%v", names(c))
			}
			wantRestorable(t, e, s, 6)
			l, _, _ := newest(c)
			for _, snap := range l.Snapshots {
				if snap.Manifest == nil {
					t.Errorf("%s has no manifest", snap.Name())
				}
			}
			if len(c.Timeline.Lineages) != 1 {
				t.Errorf("%d lineages", len(c.Timeline.Lineages))
			}
			if packing == snapshot.None {
				for _, snap := range l.Snapshots {
					if snap.Full() {
						continue
					}
					b := content(t, s, store.Version{Key: snap.Key.String(), ID: snap.Version})
					var elements []struct {
						EtcdEvent json.RawMessage `json:"etcdEvent"`
						Time      time.Time       `json:"time"`
					}
					if err := json.Unmarshal(b[:len(b)-32], &elements); err != nil || len(elements) == 0 || elements[0].Time.IsZero() {
						t.Errorf("%s is not what the original reads: %v", snap.Name(), err)
					}
				}
			}
		})
	}
}

// TestAFullSortsBehindTheDeltaItFollows: the original sorts by last revision, then by the seconds
// in the name, and among equals as it likes. It replays what it finds behind a full, and fails if
// the full contains all of that already.
func TestAFullSortsBehindTheDeltaItFollows(t *testing.T) {
	t.Parallel()
	e, s := newEtcd(t), memory()
	cfg := config(e, s)
	cfg.Format, cfg.Compression, cfg.DeltaCompression = codec.V2JSON, snapshot.Gzip, snapshot.Gzip
	cfg.DeltaPeriod = time.Hour
	var seconds atomic.Int64
	seconds.Store(1565021494)
	cfg.Now = func() time.Time { return time.Unix(seconds.Load(), 0) }
	r := start(t, cfg)
	r.full(false)
	for restarted := range 2 {
		e.put(5)
		if seconds.Add(100); restarted > 0 {
			r.delta()
			if err := r.stop(); err != nil {
				t.Fatal(err)
			}
			r = start(t, cfg)
		}
		full, deltas := r.full(false).Key.Name, 0
		for _, o := range read(t, s).Listing.Objects {
			if d := o.Key.Name; d.Kind == snapshot.Delta && d.Last == full.Last {
				if deltas++; d.Created >= full.Created {
					t.Errorf("%s is not later than %s", full, d)
				}
			}
		}
		if deltas != 1 {
			t.Errorf("%d deltas end where %s does, want 1", deltas, full)
		}
	}
}

func TestARestartContinuesWhereTheBucketEnds(t *testing.T) {
	t.Parallel()
	e, s := newEtcd(t), memory()
	cfg := config(e, s)
	cfg.DeltaPeriod = time.Hour
	r := start(t, cfg)
	r.full(false)
	e.put(10)
	r.delta()
	r.stop()
	before := fulls(read(t, s))
	last := e.put(10) // while nobody watches
	r = start(t, cfg)
	d := r.delta()
	if d == nil || d.Key.Name.Last != last {
		t.Fatalf("delta %+v, want one up to %d", d, last)
	}
	r.stop()
	if after := fulls(read(t, s)); after != before {
		t.Fatalf("%d fulls, want %d: deltas could simply go on", after, before)
	}
	wantRestorable(t, e, s, last)
}

func TestLeaseTimesTravelWithNativeDeltas(t *testing.T) {
	t.Parallel()
	e, s := newEtcd(t), memory()
	r := start(t, config(e, s))
	r.full(false)
	lease, err := e.client.Grant(t.Context(), 3600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.client.Put(t.Context(), "leased", "x", withLease(lease.ID)); err != nil {
		t.Fatal(err)
	}
	r.delta()
	r.stop()
	l, _, _ := newest(read(t, s))
	var got []codec.Lease
	for _, snap := range l.Snapshots {
		if !snap.Full() {
			got = append(got, deltaLeases(t, s, snap)...)
		}
	}
	if len(got) != 1 || got[0].ID != int64(lease.ID) || got[0].TTL != 3600 {
		t.Fatalf("leases %v, want %d with 3600 s", got, lease.ID)
	}
}
