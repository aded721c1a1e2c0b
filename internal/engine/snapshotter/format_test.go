package snapshotter

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/engine/catalog"
	"druid.internal/druid/internal/etcd/codec"
	"druid.internal/druid/internal/store"
)

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
