package snapshotter

import (
	"bytes"
	"crypto/sha256"
	"io"
	"os"
	"path/filepath"
	"testing"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/etcd/codec"
	"druid.internal/druid/internal/store"
)

func content(t *testing.T, s store.Reader, v store.Version) []byte {
	t.Helper()
	body, err := s.Open(t.Context(), v, 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	b, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// wantRestorable checks that the newest chain of the bucket ends at revision end at least, and
// that it holds exactly what etcd tells: the full every record up to its last revision, the
// deltas every event after it.
func wantRestorable(t *testing.T, e *etcd, s store.Reader, end snapshot.Revision) timeline.Chain {
	t.Helper()
	c := read(t, s)
	_, chain, ok := newest(c)
	if !ok || chain.End < end || chain.Gap != nil {
		t.Fatalf("the newest chain reaches %d with gap %v, want %d\n%v\n%v", chain.End, chain.Gap, end, names(c), c.Timeline.Findings)
	}
	state := openFull(t, s, chain.Base)
	if state.last < chain.Base.Last || chain.Base.Certain && state.last != chain.Base.Last {
		t.Fatalf("%s says it ends at %d, but it ends at %d", chain.Base.Name(), chain.Base.Last, state.last)
	}
	reached := max(chain.End, state.last) // without a manifest only the content knows
	want := e.history(2, reached)
	got := state.events
	for _, d := range chain.Deltas {
		for _, ev := range deltaEvents(t, s, d.Snapshot) {
			if rev := snapshot.Revision(ev.Kv.ModRevision); rev >= d.From && rev <= d.To && rev > state.last {
				got = append(got, ev)
			}
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%d events come back, want %d\n%v", len(got), len(want), names(c))
	}
	for i := range got {
		if got[i].Type != want[i].Type || got[i].Kv.String() != want[i].Kv.String() {
			t.Fatalf("event %d is %v, want %v", i, got[i], want[i])
		}
	}
	return chain
}

type fullContent struct {
	events []*mvccpb.Event
	last   snapshot.Revision
}

// openFull reads every record of a full of an etcd that was never compacted.
func openFull(t *testing.T, s store.Reader, f timeline.Snapshot) fullContent {
	t.Helper()
	unpacked, err := codec.Decompress(bytes.NewReader(content(t, s, store.Version{Key: f.Key.String(), ID: f.Version})), f.Name().Compression)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(unpacked)
	if err != nil {
		t.Fatal(err)
	}
	db, trailer := b[:len(b)-sha256.Size], b[len(b)-sha256.Size:]
	if sum := sha256.Sum256(db); !bytes.Equal(sum[:], trailer) {
		t.Fatalf("%s has a wrong trailer", f.Name())
	}
	file := filepath.Join(t.TempDir(), "db")
	if err := os.WriteFile(file, db, 0o600); err != nil {
		t.Fatal(err)
	}
	bolt, err := bbolt.Open(file, 0o600, &bbolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer bolt.Close()
	state := fullContent{last: 1}
	err = bolt.View(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte("key")).ForEach(func(k, v []byte) error {
			ev := &mvccpb.Event{Kv: &mvccpb.KeyValue{}}
			if err := ev.Kv.Unmarshal(v); err != nil {
				return err
			}
			var main int64
			for _, b := range k[:8] {
				main = main<<8 | int64(b)
			}
			state.last = snapshot.Revision(main)
			if len(k) == 18 {
				ev.Type = mvccpb.DELETE
			}
			ev.Kv.ModRevision = main
			state.events = append(state.events, ev)
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return state
}

func deltaEvents(t *testing.T, s store.Reader, d timeline.Snapshot) []*mvccpb.Event {
	t.Helper()
	r, err := codec.NewDeltaReader(bytes.NewReader(content(t, s, store.Version{Key: d.Key.String(), ID: d.Version})), d.Name().Compression, codec.ReaderOptions{})
	if err != nil {
		t.Fatalf("%s: %v", d.Name(), err)
	}
	defer r.Close()
	var all []*mvccpb.Event
	for {
		batch, err := r.Next()
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatalf("%s: %v", d.Name(), err)
		}
		for _, rec := range batch.Records {
			ev := &mvccpb.Event{Kv: &mvccpb.KeyValue{}}
			if err := ev.Kv.Unmarshal(rec.Value); err != nil {
				t.Fatal(err)
			}
			if rec.Tombstone {
				ev.Type = mvccpb.DELETE
			}
			ev.Kv.ModRevision = int64(rec.Main)
			all = append(all, ev)
		}
	}
}

// deltaLeases are the records of leases of a delta.
func deltaLeases(t *testing.T, s store.Reader, d timeline.Snapshot) []snapshot.LeaseRecord {
	t.Helper()
	if d.Header == nil {
		return d.Manifest.Leases
	}
	r, err := codec.NewDeltaReader(bytes.NewReader(content(t, s, store.Version{Key: d.Key.String(), ID: d.Version})), d.Name().Compression, codec.ReaderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	return r.Header().Leases
}
