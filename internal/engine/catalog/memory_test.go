package catalog

import (
	"fmt"
	"testing"
	"time"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/storetest"
)

// longChain is a store with a full and n deltas after it, locked for an hour.
func longChain(t *testing.T, n int64, o storetest.Profile) *storetest.Memory {
	t.Helper()
	s := storetest.NewMemory(o)
	described(t, s, "Full-00000000-00000010-1000.zst", "a", []byte("full"))
	for i := range n {
		key, body := native(t, "a", 11+i, 11+i)
		put(t, s, key, body)
	}
	return s
}

func requests(f *storetest.Faulty) int { return f.Count(storetest.OpOpen) + f.Count(storetest.OpStat) }

func TestASecondReadingRequestsAConstantNumber(t *testing.T) {
	for name, o := range map[string]storetest.Profile{"S3": storetest.S3Like(), "Ceph": storetest.CephLike(), "bare": storetest.Bare()} {
		t.Run(name, func(t *testing.T) {
			s := storetest.NewFaulty(longChain(t, 300, o))
			var m Memory
			opts := Options{Memory: &m, NewestLocks: true}
			first := mustRead(t, s, opts)
			if n := requests(s); n < 300 {
				t.Fatalf("the first reading made %d requests for 300 deltas", n)
			}
			for look := range 3 {
				before := requests(s)
				c := mustRead(t, s, opts)
				if n := requests(s) - before; n > refreshed+5 {
					t.Errorf("reading %d of an unchanged bucket made %d requests, want at most %d", look+2, n, refreshed+5)
				}
				l, _ := c.Timeline.Lineage("a")
				if want, _ := first.Timeline.Lineage("a"); l.Newest != want.Newest || len(l.Chains()) != 1 || len(l.Chains()[0].Deltas) != 300 {
					t.Errorf("lineage a reaches %d, want %d in one chain of 300 deltas", l.Newest, want.Newest)
				}
			}
			key, body := native(t, "a", 311, 320)
			put(t, s, key, body)
			before := requests(s)
			if l, _ := mustRead(t, s, opts).Timeline.Lineage("a"); l.Newest != 320 {
				t.Errorf("lineage a reaches %d after a new delta, want 320", l.Newest)
			}
			if n := requests(s) - before; n > refreshed+8 {
				t.Errorf("a new delta took %d requests, want at most %d", n, refreshed+8)
			}
		})
	}
}

func TestAnOverwriteIsNotRemembered(t *testing.T) {
	s := storetest.NewMemory(storetest.Bare())
	full := snapshot.SnapshotKey(prefix, name(t, "Full-00000000-00000010-1000.zst"))
	described(t, s, "Full-00000000-00000010-1000.zst", "a", []byte("full"))
	var m Memory
	mustRead(t, s, Options{Memory: &m})
	if err := s.Delete(t.Context(), store.Version{Key: full.Manifest().String()}); err != nil {
		t.Fatal(err)
	}
	replaced := snapshot.Manifest{Version: snapshot.ManifestVersion, Snapshot: full.Name.String(), Lineage: snapshot.Lineage{ID: "b"}, Digest: snapshot.Digest{1}, Size: 4, LastRevision: 10}
	put(t, s, full.Manifest().String(), replaced.Encode())
	if _, ok := mustRead(t, s, Options{Memory: &m}).Timeline.Lineage("b"); !ok {
		t.Error("the manifest from before it was replaced was used")
	}
}

func TestAnExclusionIsSeenAtOnceWithItsMarker(t *testing.T) {
	s := longChain(t, 200, storetest.S3Like())
	var m Memory
	opts := Options{Memory: &m, NewestLocks: true}
	mustRead(t, s, opts)
	key, _ := native(t, "a", 150, 150)
	o, err := s.Stat(t.Context(), store.Version{Key: key})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SetTag(t.Context(), o.Version, ExcludeTag, "true"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Hide(key); err != nil {
		t.Fatal(err)
	}
	c := mustRead(t, s, opts)
	for _, o := range c.Listing.Objects {
		if o.Key.String() == key && !o.Marker && !o.Excluded {
			t.Error("the delta counts, although it was excluded since the last reading")
		}
	}
}

func TestAllLocksAreReadAfterOneMoved(t *testing.T) {
	p := storetest.S3Like()
	p.Default, p.Period = immutability.ModeCompliance, time.Hour
	s := longChain(t, 200, p)
	var m Memory
	opts := Options{Memory: &m, NewestLocks: true}
	mustRead(t, s, opts)
	until := time.Now().Add(1000 * time.Hour).UTC().Truncate(time.Second)
	err := s.List(t.Context(), prefix, func(o store.Object) error {
		if _, err := s.Extend(t.Context(), o.Version, until); err != nil {
			return fmt.Errorf("extend %s: %w", o.Version, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	mustRead(t, s, opts)
	c := mustRead(t, s, opts)
	for ref, o := range c.Objects.All() {
		if ref.Key.Object == snapshot.SnapshotObject && (o.Retention == nil || o.Retention.Mode == immutability.ModeNone || !o.Retention.Until.Equal(until)) {
			t.Fatalf("%s: the lock is %v two readings after all were extended until %s", ref, o.Retention, until)
		}
	}
}
