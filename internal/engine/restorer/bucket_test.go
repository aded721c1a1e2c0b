package restorer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/engine/catalog"
	"druid.internal/druid/internal/engine/replay"
	"druid.internal/druid/internal/etcd/codec"
	"druid.internal/druid/internal/etcd/datadir"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/storetest"
)

const (
	prefix      = "ns--uid/etcd-main"
	fixturePath = "../../../testdata/upstream-bucket-gzip"
)

var (
	full204  = mustName("Full-00000000-00000204-1795164950.zst")
	delta856 = mustName("Incr-00000205-00000856-1795164959.zst")
	delta871 = mustName("Incr-00000857-00000871-1795164965.zst")
	history  = snapshot.Lineage{ID: "0123456789abcdef0123456789abcdef"}
)

func mustName(s string) snapshot.Name {
	n, err := snapshot.ParseName(s)
	if err != nil {
		panic(err)
	}
	return n
}

func key(n snapshot.Name) string { return snapshot.SnapshotKey(prefix, n).String() }

// wantHash is the HashKV of the whole history, as etcd told it.
func wantHash(t *testing.T) uint32 {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(fixturePath, "expected.json"))
	if err != nil {
		t.Fatal(err)
	}
	var e struct{ HashKV uint32 }
	if err := json.Unmarshal(b, &e); err != nil || e.HashKV == 0 {
		t.Fatal("no hash in expected.json", err)
	}
	return e.HashKV
}

// original is a bucket as the original left it.
func original(t *testing.T) *storetest.Memory {
	t.Helper()
	m := storetest.NewMemory(storetest.S3Like())
	dir := filepath.Join(fixturePath, "ns--uid/etcd-main/v2")
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		put(t, m, prefix+"/v2/"+e.Name(), b)
	}
	return m
}

// native is the same data as this project writes it: a full with a manifest and two deltas.
func native(t *testing.T) *storetest.Memory {
	t.Helper()
	m := storetest.NewMemory(storetest.S3Like())
	base := readFixture(t, "Full-00000000-00000204-1795164950.gz")
	unpacked, err := codec.Decompress(bytes.NewReader(base), snapshot.Gzip)
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(unpacked)
	if err != nil {
		t.Fatal(err)
	}
	packed, err := codec.Compress(bytes.NewReader(content), snapshot.Zstd)
	if err != nil {
		t.Fatal(err)
	}
	stored, err := io.ReadAll(packed)
	if err != nil {
		t.Fatal(err)
	}
	put(t, m, key(full204), stored)
	manifest := snapshot.Manifest{Version: 1, Snapshot: full204.String(), Lineage: history, Digest: sha256.Sum256(stored),
		Size: int64(len(stored)), ContentSize: int64(len(content)), LastRevision: 204, Latest: full204.CreatedAt()}
	put(t, m, snapshot.SnapshotKey(prefix, full204).Manifest().String(), manifest.Encode())
	previous := manifest.Digest
	previous = putDelta(t, m, "Incr-00000205-00000856-1795164959.gz", delta856, previous)
	putDelta(t, m, "Incr-00000857-00000871-1795164965.gz", delta871, previous)
	return m
}

func readFixture(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(fixturePath, prefix, "v2", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func put(t *testing.T, s store.Store, key string, content []byte) {
	t.Helper()
	if _, err := s.Put(context.Background(), key, bytes.NewReader(content), store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
}

// putDelta writes a delta of the original anew in the native form.
func putDelta(t *testing.T, s store.Store, file string, name snapshot.Name, previous snapshot.Digest) snapshot.Digest {
	t.Helper()
	r, err := codec.NewDeltaReader(bytes.NewReader(readFixture(t, file)), snapshot.Gzip, codec.ReaderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var events []*mvccpb.Event
	var received time.Time
	for {
		b, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, rec := range b.Records {
			e := &mvccpb.Event{Kv: &mvccpb.KeyValue{}}
			if err := e.Kv.Unmarshal(rec.Value); err != nil {
				t.Fatal(err)
			}
			e.Kv.ModRevision = int64(rec.Main)
			if rec.Tombstone {
				e.Type = mvccpb.DELETE
			}
			events = append(events, e)
			received = time.Unix(0, rec.Received)
		}
	}
	d, err := codec.NewDelta(codec.DeltaOptions{First: name.Start, SpillDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Append(received, events); err != nil {
		t.Fatal(err)
	}
	sealed, err := d.Seal(name.CreatedAt(), snapshot.Manifest{Lineage: history, Previous: previous})
	if err != nil {
		t.Fatal(err)
	}
	defer sealed.Close()
	if sealed.Name != name {
		t.Fatalf("sealed as %s, want %s", sealed.Name, name)
	}
	if _, err := s.Put(context.Background(), key(name), sealed.Reader(), store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	return sealed.Manifest.Digest
}

// request restores what s holds, with its history, into a directory of the test.
func request(t *testing.T, s store.Store) (Request, error) {
	t.Helper()
	c, err := catalog.Read(context.Background(), s, prefix, catalog.Options{})
	if err != nil {
		return Request{}, err
	}
	return Request{
		From:        replay.Options{Store: s, Timeline: c.Timeline, Log: slog.New(slog.DiscardHandler)},
		KeepHistory: true,
		Dir:         filepath.Join(t.TempDir(), "data"),
		Member:      datadir.Membership{Name: "default", InitialCluster: "default=http://127.0.0.1:2380", Token: "t"},
		NewLineage:  "ffffffffffffffffffffffffffffffff",
		MemoryLimit: datadir.MinMemoryLimit,
	}, nil
}

func restore(t *testing.T, s store.Store, change func(*Request)) (*Result, error) {
	t.Helper()
	q, err := request(t, s)
	if err != nil {
		return nil, err
	}
	if change != nil {
		change(&q)
	}
	plan, err := Decide(q)
	if err != nil {
		return nil, err
	}
	return Run(context.Background(), q, plan)
}
