// Package enginetest has buckets with one known History, in the forms in which it can be stored,
// for the tests of the engine. It imports testing and is no part of the product.
package enginetest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/etcd/codec"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/storetest"
)

// Prefix is the store Prefix of every bucket here.
const Prefix = "ns--uid/etcd-main"

// fixturePath is where the bucket of the original lies, from any package of the module.
func fixturePath(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	for ; err == nil && dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		path := filepath.Join(dir, "testdata", "upstream-bucket-gzip")
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	t.Fatal("the fixtures are in no directory above this one", err)
	return ""
}

// The snapshots of a native bucket, and their lineage.
var (
	Full204  = MustName("Full-00000000-00000204-1795164950.zst")
	Delta856 = MustName("Incr-00000205-00000856-1795164959.zst")
	Delta871 = MustName("Incr-00000857-00000871-1795164965.zst")
	History  = snapshot.Lineage{ID: "0123456789abcdef0123456789abcdef"}
)

// MustName parses a snapshot's name.
func MustName(s string) snapshot.Name {
	n, err := snapshot.ParseName(s)
	if err != nil {
		panic(err)
	}
	return n
}

// Key is where a snapshot lies.
func Key(n snapshot.Name) string { return snapshot.SnapshotKey(Prefix, n).String() }

// WantHash is the HashKV of the whole History, as etcd told it.
func WantHash(t *testing.T) uint32 {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(fixturePath(t), "expected.json"))
	if err != nil {
		t.Fatal(err)
	}
	var e struct{ HashKV uint32 }
	if err := json.Unmarshal(b, &e); err != nil || e.HashKV == 0 {
		t.Fatal("no hash in expected.json", err)
	}
	return e.HashKV
}

// Original is a bucket as the original left it.
func Original(t *testing.T) *storetest.Memory {
	t.Helper()
	m := storetest.NewMemory(storetest.S3Like())
	dir := filepath.Join(fixturePath(t), "ns--uid/etcd-main/v2")
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		Put(t, m, Prefix+"/v2/"+e.Name(), b)
	}
	return m
}

// Native is the same data as this project writes it: a full with a manifest and two deltas.
func Native(t *testing.T) *storetest.Memory {
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
	Put(t, m, Key(Full204), stored)
	manifest := snapshot.Manifest{Version: 1, Snapshot: Full204.String(), Lineage: History, Digest: sha256.Sum256(stored),
		Size: int64(len(stored)), ContentSize: int64(len(content)), LastRevision: 204, Latest: Full204.CreatedAt()}
	Put(t, m, snapshot.SnapshotKey(Prefix, Full204).Manifest().String(), manifest.Encode())
	previous := manifest.Digest
	previous = putDelta(t, m, "Incr-00000205-00000856-1795164959.gz", Delta856, previous)
	putDelta(t, m, "Incr-00000857-00000871-1795164965.gz", Delta871, previous)
	return m
}

func readFixture(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(fixturePath(t), Prefix, "v2", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Put stores content under key.
func Put(t *testing.T, s store.Store, key string, content []byte) {
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
	sealed, err := d.Seal(name.CreatedAt(), snapshot.Manifest{Lineage: History, Previous: previous})
	if err != nil {
		t.Fatal(err)
	}
	defer sealed.Close()
	if sealed.Name != name {
		t.Fatalf("sealed as %s, want %s", sealed.Name, name)
	}
	if _, err := s.Put(context.Background(), Key(name), sealed.Reader(), store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	return sealed.Manifest.Digest
}
