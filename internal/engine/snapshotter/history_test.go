package snapshotter

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/engine/catalog"
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
			if got := second.Standing().Err; !errors.Is(got, second.err) {
				t.Errorf("when it has stopped it says %v, want the reason %v", got, second.err)
			}
			if _, err := second.TakeFull(t.Context(), false); !errors.Is(err, ErrStopped) || !errors.Is(err, ErrOwned) {
				t.Errorf("a full when it has stopped ends with %v, want ErrStopped and ErrOwned", err)
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

// Who may write, as whoever stole the writer's key, can put anything in the place of the owner record.
func TestAnOwnerRecordThatIsNoneIsNamedWithTheWayOut(t *testing.T) {
	t.Parallel()
	e, s := newEtcd(t), storetest.NewMemory(storetest.S3Like())
	first := start(t, config(e, s))
	first.delta()
	if err := first.stop(); err != nil {
		t.Fatal(err)
	}
	key := snapshot.OwnerKey(config(e, s).Prefix, 2).String()
	o, err := s.Put(t.Context(), key, strings.NewReader("\x8f\x00\x1b[2J\n12"), store.PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	second := start(t, config(e, s))
	<-second.done
	if !errors.Is(second.err, ErrOwned) || !errors.Is(second.err, catalog.ErrBadOwner) {
		t.Fatalf("%v, want ErrOwned and ErrBadOwner", second.err)
	}
	for _, want := range []string{o.Version.String() + " is no owner record", "--take-over", "delete that version"} {
		if !strings.Contains(second.err.Error(), want) {
			t.Errorf("%v, want %q", second.err, want)
		}
	}
	cfg := config(e, s)
	cfg.TakeOver = true
	third := start(t, cfg)
	e.put(5)
	third.delta()
	if err := third.stop(); err != nil {
		t.Fatal(err)
	}
}

func TestAnEtcdMadeAnewTakesOverAndItsFormerSelfDoesNot(t *testing.T) {
	t.Parallel()
	e, s := newEtcd(t), memory()
	as := func(owner string) *running {
		cfg := config(e, s)
		cfg.Owner = owner
		return start(t, cfg)
	}
	e.put(5)
	former := as("k8s/shop/main/uid-1")
	former.full(false)
	anew := as("k8s/shop/main/uid-2")
	e.put(5)
	anew.full(false)
	if !anew.events.has(OwnerReplaced) {
		t.Error("the take-over is not told")
	}
	e.put(5)
	<-former.done // with its next upload
	for phrase, owner := range map[string]string{
		"its former self":                    "k8s/shop/main/uid-1",
		"another of the namespace":           "k8s/shop/other/uid-2",
		"one of that name in another one":    "k8s/market/main/uid-3",
		"one of that name in another place":  "other/shop/main/uid-3",
		"one without a uid":                  "k8s/shop/main/",
		"one that is no more than its parts": "uid-2",
	} {
		r := as(owner)
		<-r.done
		if !errors.Is(r.err, ErrOwned) {
			t.Errorf("%s: %v, want ErrOwned", phrase, r.err)
		}
	}
	if err := anew.stop(); err != nil {
		t.Fatal(err)
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

// The operator knows by it that a full is of a later life, whoever's clock is late.
func TestAFullIsNamedAfterTheOneBeforeWhateverTheClockSays(t *testing.T) {
	t.Parallel()
	e, s := newEtcd(t), storetest.NewMemory(storetest.S3Like())
	e.put(5)
	first := start(t, config(e, s))
	final := first.full(true)
	if err := first.stop(); err != nil {
		t.Fatal(err)
	}
	cfg := config(e, s)
	cfg.Now = func() time.Time { return time.Now().Add(-30 * time.Minute) }
	second := start(t, cfg)
	next := second.full(false)
	if err := second.stop(); err != nil {
		t.Fatal(err)
	}
	if next.Key.Name.Final || next.Key.Name.Created <= final.Key.Name.Created {
		t.Errorf("%s comes after %s", next.Key.Name, final.Key.Name)
	}
}

// stopping has fulls due every second and a planned stop near as long as near says so. asked tells that somebody wants to know, due
// that a full is about to be taken.
func stopping(t *testing.T, e *etcd, s store.Store, near *atomic.Bool) (cfg Config, asked, due <-chan struct{}) {
	t.Helper()
	schedule, err := ParseSchedule("@every 1s")
	if err != nil {
		t.Fatal(err)
	}
	asks, dues := make(chan struct{}, 100), make(chan struct{}, 100)
	tell := func(to chan struct{}) {
		select {
		case to <- struct{}{}:
		default:
		}
	}
	cfg = config(e, s)
	cfg.Schedule = schedule
	cfg.Ending = func(context.Context) bool {
		tell(asks)
		return near.Load()
	}
	cfg.Log = slog.New(hearing(func(message string) {
		if message == "taking a full snapshot" {
			tell(dues)
		}
	}))
	return cfg, asks, dues
}

// hearing is told every message of a log.
type hearing func(message string)

func (h hearing) Enabled(context.Context, slog.Level) bool      { return true }
func (h hearing) Handle(_ context.Context, r slog.Record) error { h(r.Message); return nil }
func (h hearing) WithAttrs([]slog.Attr) slog.Handler            { return h }
func (h hearing) WithGroup(string) slog.Handler                 { return h }

// told waits until something was told so often.
func told(t *testing.T, what <-chan struct{}, times int) {
	t.Helper()
	for range times {
		select {
		case <-what:
		case <-time.After(patience):
			t.Error("it is not told")
			return
		}
	}
}

// rests: none follows the final full until the planned stop is not near any more.
func (r *running) rests(asked <-chan struct{}, final Taken, near *atomic.Bool) {
	r.t.Helper()
	told(r.t, asked, 3)
	if newest := r.Standing().LastFull; newest == nil || newest.Key != final.Key {
		r.t.Errorf("the newest full is %+v, and the final one %s", newest, final.Key.Name)
	}
	near.Store(false)
	r.delivered(func(full *Taken) bool { return full != nil && !full.Key.Name.Final })
	r.stop()
}

// Between the final full and the end of the members one that is due by the schedule would pass for somebody else's.
func TestNoScheduledFullFollowsTheFinalOneBeforeAPlannedStop(t *testing.T) {
	t.Parallel()
	e, s := newEtcd(t), memory()
	e.put(3)
	var near atomic.Bool
	near.Store(true)
	cfg, asked, _ := stopping(t, e, s, &near)
	r := start(t, cfg)
	final := r.full(true)
	r.rests(asked, final, &near)
}

// A stop was given up, and clients write on. Who copies the backups at the end of the next one would take the former final full for its.
func TestAFullFollowsTheFinalOneWhenClientsWriteOn(t *testing.T) {
	t.Parallel()
	e, s := newEtcd(t), memory()
	e.put(3)
	var near atomic.Bool
	near.Store(true)
	cfg, asked, _ := stopping(t, e, s, &near)
	cfg.Schedule = nil
	r := start(t, cfg)
	final := r.full(true)
	e.put(1)
	r.delta()
	r.rests(asked, final, &near)
}

// Something was written after a final full, and another one has that: its delta is uploaded while it is taken.
func TestNoFullFollowsAFinalOneThatHasEverything(t *testing.T) {
	t.Parallel()
	e, s := newEtcd(t), memory()
	e.put(3)
	cfg := config(e, s)
	cfg.DeltaPeriod = time.Hour // nothing but the full has deltas uploaded
	r := start(t, cfg)
	r.full(true)
	e.put(1)
	second := r.full(true)
	r.nothingOwed(second)
}

// A lease that ends while the final full is read makes a revision that the full has, and its name does not tell of.
func TestNoFullFollowsAFinalOneThatHasMoreThanItsNameTells(t *testing.T) {
	t.Parallel()
	e, s := newEtcd(t), memory()
	e.put(3)
	r := start(t, config(e, s))
	final := r.full(true)
	n := r.current
	n.mu.Lock()
	n.lastFull.Manifest.LastRevision++
	n.mu.Unlock()
	e.put(1)
	r.delta()
	r.nothingOwed(final)
}

// nothingOwed: no full follows that one. Whoever takes one that is owed has had its turn before the one who asks here.
func (r *running) nothingOwed(last Taken) {
	r.t.Helper()
	if _, err := r.current.takeFull(r.t.Context(), asked{demanded: true}); err != nil {
		r.t.Fatal(err)
	}
	for _, l := range read(r.t, r.current.cfg.Store).Timeline.Lineages {
		for _, f := range l.Snapshots {
			if f.Full() && f.Name().Created > last.Key.Name.Created {
				r.t.Errorf("%s follows %s", f.Name(), last.Key.Name)
			}
		}
	}
}

// Deltas may wait for the full that is owed, so it stays owed when the one that is being taken has what clients wrote on.
func TestAFullThatIsOwedIsNotForgottenWhenClientsWriteOn(t *testing.T) {
	t.Parallel()
	e, s := newEtcd(t), memory()
	e.put(3)
	r := start(t, config(e, s))
	r.full(false)
	n := r.current
	n.slot <- struct{}{} // a full is being taken
	const lost = "etcd no longer tells every revision"
	for _, why := range []string{lost, writtenOn} {
		n.wantFull(why)
	}
	n.mu.Lock()
	due := n.due
	n.mu.Unlock()
	if due != lost {
		t.Errorf("a full is due as %q, want %q", due, lost)
	}
	<-n.slot
}

// The same of the full with which another one would begin, as when the leadership moves in between.
func TestNobodyBeginsWithAFullAfterTheFinalOneBeforeAPlannedStop(t *testing.T) {
	t.Parallel()
	e, s := newEtcd(t), memory()
	e.put(3)
	var near atomic.Bool
	near.Store(true)
	cfg, _, _ := stopping(t, e, s, &near)
	cfg.Schedule = nil
	r := start(t, cfg)
	final := r.full(true)
	r.stop()
	cfg, asked, _ := stopping(t, e, s, &near)
	cfg.Schedule = nil
	r = start(t, cfg)
	r.rests(asked, final, &near)
}

// The same if it becomes due while the final one is being taken.
func TestAScheduledFullThatWaitsForTheFinalOneIsNotTakenAfterIt(t *testing.T) {
	t.Parallel()
	e, s := newEtcd(t), memory()
	e.put(3)
	var near, long atomic.Bool
	near.Store(true)
	cfg, asked, due := stopping(t, e, s, &near)
	cfg.Compare = func(context.Context, Member, snapshot.Revision) (Comparison, error) {
		if long.CompareAndSwap(true, false) { // the final one takes until another one waits for it
			for len(due) > 0 {
				<-due
			}
			told(t, due, 1)
		}
		return Comparison{}, nil
	}
	r := start(t, cfg)
	first := r.delivered(func(full *Taken) bool { return full != nil })
	r.delivered(func(full *Taken) bool { return full.Key != first.Key }) // a scheduled one, so that the next is due in a second
	long.Store(true)
	final := r.full(true)
	told(t, asked, 2)
	if newest := r.Standing().LastFull; newest.Key != final.Key {
		t.Errorf("the newest full is %s, and the final one %s", newest.Key.Name, final.Key.Name)
	}
	r.stop()
}

// While the cluster slept somebody put a full into the bucket that passes for one of its own and is newer than the final one.
func TestWhoWakesUpTakesAFullOfHisOwn(t *testing.T) {
	t.Parallel()
	e, s := newEtcd(t), memory()
	e.put(3)
	wakes := true
	cfg := config(e, s)
	cfg.FullFirst = func() bool { return wakes }
	former := start(t, config(e, s))
	former.full(true)
	forged := former.full(false) // with the writer's credentials anybody could
	former.stop()
	before := fulls(read(t, s))

	r := start(t, cfg)
	own := r.delivered(func(full *Taken) bool { return full != nil && full.Own })
	if own.Key == forged.Key {
		t.Errorf("%s passes for a full of the new life", own.Key.Name)
	}
	e.put(1)
	r.delta()
	if d := r.Standing().LastDelta; d == nil || !d.Own {
		t.Errorf("of the delta that was just taken is told %+v", d)
	}
	r.stop()

	again := start(t, cfg) // it does not know what was taken before it was started
	again.delivered(func(full *Taken) bool { return full != nil && full.Own && full.Key != own.Key })
	again.stop()
	wakes = false // the operator knows of a new full
	last := start(t, cfg)
	if found := last.delivered(func(full *Taken) bool { return full != nil }); found.Own || fulls(read(t, s)) != before+2 {
		t.Errorf("%s is told as taken (%t), and there are %d fulls, want %d", found.Key.Name, found.Own, fulls(read(t, s)), before+2)
	}
}
