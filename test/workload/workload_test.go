package workload_test

import (
	"bytes"
	"compress/flate"
	"context"
	"encoding/json"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/etcd/codec"
	"druid.internal/druid/internal/etcd/datadir"
	"druid.internal/druid/test/workload"
)

var generators = map[string]func() workload.Generator{
	"random":     func() workload.Generator { return workload.NewRandom(1, 100, 1000) },
	"kubernetes": func() workload.Generator { return workload.NewKubernetes(workload.KubernetesOptions{Seed: 1}) },
	"populated kubernetes": func() workload.Generator {
		return workload.NewKubernetes(workload.KubernetesOptions{Seed: 1, Populate: true})
	},
}

func TestTheSameSeedGivesTheSameHistory(t *testing.T) {
	for name, make := range generators {
		t.Run(name, func(t *testing.T) {
			a, b := make(), make()
			for i := range 8000 {
				x, y := a.Next(), b.Next()
				if got, want := x.String(), y.String(); got != want {
					t.Fatalf("event %d: %s, want %s", i, got, want)
				}
			}
		})
	}
}

func TestAHistoryIsOneThatEtcdCouldHave(t *testing.T) {
	for name, make := range generators {
		t.Run(name, func(t *testing.T) {
			g := make()
			live := map[string]*mvccpb.KeyValue{}
			deletions := 0
			for rev := int64(2); rev < 40_000; rev++ {
				e := g.Next()
				if e.Kv.ModRevision != rev {
					t.Fatalf("revision %d follows %d", e.Kv.ModRevision, rev-1)
				}
				before := live[string(e.Kv.Key)]
				if e.Type == mvccpb.DELETE {
					if before == nil {
						t.Fatalf("revision %d deletes %q, which does not exist", rev, e.Kv.Key)
					}
					delete(live, string(e.Kv.Key))
					deletions++
					continue
				}
				want := mvccpb.KeyValue{CreateRevision: rev, Version: 1}
				if before != nil {
					want = mvccpb.KeyValue{CreateRevision: before.CreateRevision, Version: before.Version + 1}
				}
				if e.Kv.CreateRevision != want.CreateRevision || e.Kv.Version != want.Version {
					t.Fatalf("revision %d of %q: created %d, version %d; want %d, %d", rev, e.Kv.Key, e.Kv.CreateRevision, e.Kv.Version, want.CreateRevision, want.Version)
				}
				live[string(e.Kv.Key)] = e.Kv
			}
			if strings.Contains(name, "kubernetes") && deletions == 0 {
				t.Error("nothing was ever deleted")
			}
		})
	}
}

// The shape of the workload is what makes figures mean something: mostly small updates of large
// objects, a few of them attached to leases.
func TestAChangeOfAKubernetesObjectTouchesAFewFields(t *testing.T) {
	g := workload.NewKubernetes(workload.KubernetesOptions{Seed: 1})
	last := map[string][]byte{}
	kinds := map[string]int{}
	var size, changed, events, leased int
	for range 20_000 {
		e := g.Next()
		events++
		key := string(e.Kv.Key)
		kinds[strings.Split(key, "/")[2]]++
		if e.Kv.Lease != 0 {
			leased++
		}
		if before := last[key]; before != nil && e.Type == mvccpb.PUT && events%20 == 0 { // a sample
			size += len(e.Kv.Value)
			changed += news(t, before, e.Kv.Value)
		}
		last[key] = e.Kv.Value
	}
	if share := float64(changed) / float64(size); share > 0.1 {
		t.Errorf("%.0f %% of an update is new, want at most 10 %%", 100*share)
	}
	if leased == 0 || len(g.Leases()) == 0 {
		t.Errorf("%d events are attached to %d leases", leased, len(g.Leases()))
	}
	for kind, percent := range map[string][2]int{"leases": {52, 62}, "pods": {14, 22}, "events": {9, 16}, "minions": {3, 6}, "endpointslices": {3, 6}, "extensions.example.org": {4, 8}} {
		if got := 100 * kinds[kind] / events; got < percent[0] || got > percent[1] {
			t.Errorf("%s are %d %% of the events, want %d to %d", kind, got, percent[0], percent[1])
		}
	}
}

// news is how many bytes it takes to tell a value to somebody who knows the one before.
func news(t *testing.T, before, value []byte) int {
	t.Helper()
	var b bytes.Buffer
	w, err := flate.NewWriterDict(&b, flate.DefaultCompression, before)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(value); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Len()
}

func TestADatabaseHoldsWhatWasPut(t *testing.T) {
	dir, err := workload.NewDataDir(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	path := workload.DatabaseFile(dir)
	live, deletions, leases := fill(t, path, 20_000)
	db, err := datadir.OpenDB(path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.Check(context.Background()); err != nil {
		t.Error(err)
	}
	if got, want := db.Revision(), snapshot.Revision(20_001); got != want {
		t.Errorf("the last revision is %d, want %d", got, want)
	}
	_, keys, err := db.HashKV(context.Background(), 0, 0, "")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := keys, int64(live); got != want {
		t.Errorf("%d keys live, want %d", got, want)
	}
	if got := tombstones(t, path); got != deletions {
		t.Errorf("%d tombstones, want %d", got, deletions)
	}
	stored, err := db.Leases()
	if err != nil {
		t.Fatal(err)
	}
	got := map[int64]int64{}
	for _, l := range stored {
		got[l.ID] = l.TTL
	}
	if diff := cmp.Diff(leases, got); diff != "" {
		t.Errorf("the leases differ (-want +got):\n%s", diff)
	}
}

// tombstones counts the records that etcd takes for deletions: by the mark behind their key.
func tombstones(t *testing.T, path string) (n int) {
	t.Helper()
	db, err := bolt.Open(path, 0o400, &bolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.View(func(tx *bolt.Tx) error {
		return tx.Bucket([]byte("key")).ForEach(func(k, _ []byte) error {
			if len(k) == 18 && k[17] == 't' {
				n++
			}
			return nil
		})
	}); err != nil {
		t.Fatal(err)
	}
	return n
}

// fill puts n events into a database and returns how many keys live then, how many were deleted,
// and the leases.
func fill(t *testing.T, path string, n int) (live, deletions int, leases map[int64]int64) {
	t.Helper()
	w, err := workload.OpenDatabase(path)
	if err != nil {
		t.Fatal(err)
	}
	g := workload.NewKubernetes(workload.KubernetesOptions{Seed: 1})
	keys := map[string]bool{}
	for range n {
		e := g.Next()
		if e.Type == mvccpb.DELETE {
			deletions++
		}
		keys[string(e.Kv.Key)] = e.Type == mvccpb.PUT
		if err := w.Put(e); err != nil {
			t.Fatal(err)
		}
	}
	if deletions == 0 {
		t.Fatal("nothing was deleted: this proves too little")
	}
	leases = maps.Clone(g.Leases())
	if err := w.Close(leases); err != nil {
		t.Fatal(err)
	}
	for _, alive := range keys {
		if alive {
			live++
		}
	}
	return live, deletions, leases
}

func TestABucketHoldsTheEventsInOrder(t *testing.T) {
	dir, err := workload.NewDataDir(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, format := range []codec.Format{codec.Native, codec.V2JSON} {
		t.Run(string(format), func(t *testing.T) {
			b, err := workload.NewBucket(t.TempDir(), "p", format)
			if err != nil {
				t.Fatal(err)
			}
			if err := b.Full(t.Context(), workload.DatabaseFile(dir), 1); err != nil {
				t.Fatal(err)
			}
			if err := b.Deltas(workload.NewRandom(3, 50, 100), 1000, 300); err != nil {
				t.Fatal(err)
			}
			if err := b.Close(); err != nil {
				t.Fatal(err)
			}
			files, err := filepath.Glob(filepath.Join(b.Dir, "p", "v2", "*"))
			if err != nil {
				t.Fatal(err)
			}
			g := workload.NewRandom(3, 50, 100)
			manifests, events := 0, 0
			for _, file := range files { // in the order of revisions: they have 8 digits
				name, err := snapshot.ParseName(filepath.Base(file))
				if err != nil {
					manifests++
					if m, err := os.ReadFile(file); err != nil || !json.Valid(m) {
						t.Errorf("%s: %v", file, err)
					}
					continue
				}
				if name.Kind == snapshot.Delta {
					events += compare(t, file, name, g)
				}
			}
			if events != 1000 {
				t.Errorf("the bucket holds %d events, want 1000", events)
			}
			if want := map[codec.Format]int{codec.Native: 1}[format]; manifests != want {
				t.Errorf("the bucket holds %d manifests, want %d", manifests, want)
			}
		})
	}
}

// compare reads a delta and holds it against the next events of g.
func compare(t *testing.T, file string, name snapshot.Name, g workload.Generator) (events int) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d, err := codec.NewDeltaReader(f, name.Compression, codec.ReaderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for {
		batch, err := d.Next()
		if err == io.EOF {
			return events
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, r := range batch.Records {
			want, err := g.Next().Kv.Marshal()
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(r.Value, want) {
				t.Fatalf("%s: revision %d differs", file, r.Main)
			}
			events++
		}
		batch.Release()
	}
}
