package snapshotter

import (
	"cmp"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/engine/catalog"
	"druid.internal/druid/internal/etcd/codec"
	"druid.internal/druid/internal/store"
)

// TestTheOriginalCanTakeTurns has the original write after us and us after it. It cannot read
// deltas that overlap behind a full, so what we write after it begins with a full.
func TestTheOriginalCanTakeTurns(t *testing.T) {
	t.Parallel()
	e, s := newEtcd(t), memory()
	cfg := config(e, s)
	cfg.Format, cfg.Compression, cfg.DeltaCompression, cfg.Data = codec.V2JSON, snapshot.Gzip, snapshot.Gzip, &memoryIdentity{}
	var seconds atomic.Int64
	seconds.Store(1565021494)
	cfg.Now = func() time.Time { return time.Unix(seconds.Load(), 0) }
	turn := func(wantFulls int) *catalog.Catalog {
		t.Helper()
		seconds.Add(100)
		r := start(t, cfg)
		e.put(5)
		r.delta()
		c := until(t, s, "its fulls", func(c *catalog.Catalog) bool { return len(c.Listing.Manifests) > 0 && fulls(c) >= wantFulls })
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		if n := fulls(read(t, s)); n != wantFulls {
			t.Fatalf("%d fulls, want %d", n, wantFulls)
		}
		return c
	}
	turn(1)
	turn(1)
	seconds.Add(100)
	from := e.revision() + 1
	original(t, s, e, from, e.put(5), cfg.Now())
	c := turn(2)
	var chain []snapshot.Name // as the original finds it: from the end back to the first full
	for _, o := range sorted(c) {
		if o.Kind == snapshot.Full {
			chain = nil
		}
		chain = append(chain, o)
	}
	for i, d := range chain[1:] {
		if d.Start != chain[i].Last+1 {
			t.Errorf("%s does not continue %s", d, chain[i])
		}
	}
	wantRestorable(t, e, s, e.revision())
	turn(2)
}

// original writes a delta as the original does: without a manifest.
func original(t *testing.T, s store.Store, e *etcd, from, to snapshot.Revision, now time.Time) {
	t.Helper()
	d, err := codec.NewDelta(codec.DeltaOptions{Format: codec.V2JSON, Compression: snapshot.Gzip, First: from})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Discard()
	if err := d.Append(now, e.history(from, to)); err != nil {
		t.Fatal(err)
	}
	sealed, err := d.Seal(now, snapshot.Manifest{})
	if err != nil {
		t.Fatal(err)
	}
	defer sealed.Close()
	if _, err := s.Put(t.Context(), snapshot.SnapshotKey(prefix, sealed.Name).String(), sealed.Reader(), store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
}

// sorted are the names in the original's order.
func sorted(c *catalog.Catalog) []snapshot.Name {
	var all []snapshot.Name
	for _, o := range c.Listing.Objects {
		all = append(all, o.Key.Name)
	}
	slices.SortStableFunc(all, func(a, b snapshot.Name) int {
		return cmp.Or(cmp.Compare(a.Last, b.Last), cmp.Compare(a.Created, b.Created))
	})
	return all
}
