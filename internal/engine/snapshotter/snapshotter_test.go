package snapshotter

import (
	"testing"
	"time"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/engine/catalog"
)

func TestEveryEventIsInTheBucketExactlyOnce(t *testing.T) {
	t.Parallel()
	e, s := newEtcd(t), memory()
	e.put(20)
	cfg := config(e, s)
	cfg.DeltaPeriod = time.Hour // only those asked for
	r := start(t, cfg)
	for range 5 {
		e.put(30)
		r.delta()
	}
	first := r.full(false)
	last := e.put(25)
	if d := r.delta(); d == nil || d.Key.Name.Last < last {
		t.Fatalf("delta %+v, want one that ends at %d", d, last)
	}
	if r.delta() != nil {
		t.Fatal("a delta without anything new")
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	chain := wantRestorable(t, e, s, last)
	if chain.Base.Name() != first.Key.Name {
		t.Fatalf("the newest chain begins with %s, want %s", chain.Base.Name(), first.Key.Name)
	}
	for _, f := range read(t, s).Timeline.Findings {
		if f.Severity > 0 || f.Code == "overlap" {
			t.Errorf("finding in a bucket of one writer: %s", f)
		}
	}
	c := read(t, s)
	l, _, _ := newest(c)
	if len(c.Timeline.Lineages) != 1 || l.ID == "" || c.Owner == nil || c.Owner.Number != 1 {
		t.Fatalf("%d lineages, newest %q, owner %+v", len(c.Timeline.Lineages), l.ID, c.Owner)
	}
	var prev snapshot.Name
	for i, snap := range l.Snapshots {
		m := snap.Manifest
		if m == nil || m.Lineage.ID != l.ID || m.ClusterID == 0 || m.Writer != "test" {
			t.Fatalf("%s has manifest %+v", snap.Name(), m)
		}
		if snap.Full() && (m.HashKV == nil || m.HashKV.Revision != m.LastRevision || m.EtcdVersion == "" || m.MemberID == 0) {
			t.Fatalf("%s has manifest %+v", snap.Name(), m)
		}
		if i > 0 && !snap.Full() && snap.Name().Start != prev.Last+1 {
			t.Fatalf("%s does not continue %s by name", snap.Name(), prev)
		}
		if i > 1 && !snap.Full() && m.Previous.IsZero() {
			t.Fatalf("%s names no predecessor", snap.Name())
		}
		prev = snap.Name()
	}
}

func TestAnEmptyEtcdHasAFullAndNoDelta(t *testing.T) {
	t.Parallel()
	e, s := newEtcd(t), memory()
	cfg := config(e, s)
	cfg.DeltaPeriod = time.Hour
	r := start(t, cfg)
	c := until(t, s, "a full with its manifest", func(c *catalog.Catalog) bool { return len(c.Listing.Manifests) > 0 })
	if d := r.delta(); d != nil {
		t.Fatalf("delta %s of nothing", d.Key.Name)
	}
	if l, chain, ok := newest(c); !ok || chain.Base.Name().Last != 1 || !chain.Base.Certain || len(l.Snapshots) != 1 {
		t.Fatalf("%v, want one full at revision 1", names(c))
	}
	last := e.put(1)
	if d := r.delta(); d == nil || d.Key.Name.Start != 2 || d.Key.Name.Last != last {
		t.Fatalf("delta %+v, want one from 2 to %d", d, last)
	}
	wantRestorable(t, e, s, last)
}

func TestAFinalFullIsGivenAgainForTheSamePurposeAlone(t *testing.T) {
	t.Parallel()
	e, s := newEtcd(t), memory()
	e.put(3)
	r := start(t, config(e, s))
	r.full(false) // it runs
	final := func(purpose string) Taken {
		t.Helper()
		got, err := r.TakeFinal(t.Context(), purpose)
		if err != nil {
			t.Fatal(err)
		}
		if !got.Key.Name.Final || got.Manifest.For != purpose {
			t.Errorf("%s is for %q, want a final full for %q", got.Key.Name, got.Manifest.For, purpose)
		}
		return got
	}
	first := final("uid/5")
	if again := final("uid/5"); !again.Reused || again.Key != first.Key {
		t.Errorf("%+v, want %s again", again, first.Key)
	}
	if other := final("uid/7"); other.Reused || other.Key == first.Key {
		t.Errorf("%+v for another hibernation, want another full than %s", other, first.Key)
	}
	e.put(1)
	if changed := final("uid/7"); changed.Reused {
		t.Errorf("%+v after a change, want another full", changed)
	}
}

func TestAFinalFullIsTakenOnceUntilSomethingChanges(t *testing.T) {
	t.Parallel()
	e, s := newEtcd(t), memory()
	e.put(3)
	cfg := config(e, s)
	r := start(t, cfg)
	first := r.full(true)
	if !first.Key.Name.Final || first.Reused {
		t.Fatalf("%+v, want a new final full", first)
	}
	if again := r.full(true); !again.Reused || again.Key != first.Key {
		t.Fatalf("%+v, want %s again", again, first.Key)
	}
	if plain := r.full(false); plain.Key == first.Key || plain.Key.Name.Final || plain.Key.Name.Created <= first.Key.Name.Created {
		t.Fatalf("%+v, want another full that is not final", plain)
	}
	second := r.full(true)
	e.put(1)
	if third := r.full(true); second.Reused || third.Reused || third.Key.Name.Last != second.Key.Name.Last+1 {
		t.Fatalf("%s after %s, want one at the next revision", third.Key.Name, second.Key.Name)
	}
	before := fulls(read(t, s))
	r.stop()
	start(t, cfg) // etcd lives on after all
	until(t, s, "a full because the newest is final", func(c *catalog.Catalog) bool { return fulls(c) == before+1 })
}
