package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// expected is what the source of a fixture held.
type expected struct {
	CompactRevision int64 `json:"compactRevision"`
	HashKV          uint32
	Keys            int
	KVs             []keyState
	Revision        int64
}

type keyState struct {
	Key, ValueSHA256            string
	Create, Mod, Version, Lease int64
}

func readExpected(t *testing.T, dir string) expected {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "expected.json"))
	if err != nil {
		t.Fatal(err)
	}
	var e expected
	if err := json.Unmarshal(b, &e); err != nil {
		t.Fatal(err)
	}
	return e
}

// liveKeys reads the key space of a restored directory the way etcd's index is built: the
// newest record of each key, unless it is a tombstone.
func liveKeys(t *testing.T, dataDir string) []keyState {
	t.Helper()
	db, err := bolt.Open(filepath.Join(dataDir, "member", "snap", "db"), 0o400, &bolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	live := map[string]keyState{}
	var last uint64
	err = db.View(func(tx *bolt.Tx) error {
		return tx.Bucket([]byte("key")).ForEach(func(k, v []byte) error {
			last = binary.BigEndian.Uint64(k)
			var kv mvccpb.KeyValue
			if err := kv.Unmarshal(v); err != nil {
				return err
			}
			if len(k) == 18 {
				delete(live, string(kv.Key))
				return nil
			}
			sum := sha256.Sum256(kv.Value)
			live[string(kv.Key)] = keyState{string(kv.Key), hex.EncodeToString(sum[:]), kv.CreateRevision, kv.ModRevision, kv.Version, kv.Lease}
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	if last == 0 {
		t.Fatal("the restored database has no records")
	}
	out := []keyState{}
	for _, s := range live {
		out = append(out, s)
	}
	sortKeys(out)
	return out
}

func sortKeys(ks []keyState) {
	for i := range ks {
		for j := i; j > 0 && ks[j].Key < ks[j-1].Key; j-- {
			ks[j], ks[j-1] = ks[j-1], ks[j]
		}
	}
}

// etcdbrctl runs the program and returns what it printed.
func etcdbrctl(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errOut bytes.Buffer
	code = run(context.Background(), args, system{out: &out, err: &errOut, getenv: func(string) string { return "" }})
	return code, out.String(), errOut.String()
}

func restoreFixture(t *testing.T, fixture string, more ...string) (dataDir string, result restoreView) {
	t.Helper()
	container, err := filepath.Abs(filepath.Join("..", "..", "testdata", fixture))
	if err != nil {
		t.Fatal(err)
	}
	dataDir = filepath.Join(t.TempDir(), "data")
	args := append([]string{"restore", "--storage-provider=Local", "--store-container=" + container, "--store-prefix=ns--uid/etcd-main", "--data-dir=" + dataDir,
		"--name=default", "--initial-cluster=default=http://127.0.0.1:2380", "--initial-advertise-peer-urls=http://127.0.0.1:2380", "-o", "json"}, more...)
	code, stdout, stderr := etcdbrctl(t, args...)
	if code != exitOK {
		t.Fatalf("exit code %d:\n%s", code, stderr)
	}
	if err := json.Unmarshal([]byte(stdout), &result); err != nil {
		t.Fatalf("%v in\n%s", err, stdout)
	}
	return dataDir, result
}

func TestBucketsOfTheOriginalRestoreExactly(t *testing.T) {
	for _, fixture := range []string{"upstream-bucket-gzip", "upstream-bucket-none"} {
		t.Run(fixture, func(t *testing.T) {
			want := readExpected(t, filepath.Join("..", "..", "testdata", fixture))
			dir, result := restoreFixture(t, fixture)
			if int64(result.Revision) != want.Revision || result.Keys != int64(want.Keys) {
				t.Errorf("revision %d with %d keys, want %d with %d", result.Revision, result.Keys, want.Revision, want.Keys)
			}
			sortKeys(want.KVs)
			if diff := cmp.Diff(want.KVs, liveKeys(t, dir)); diff != "" {
				t.Errorf("key space (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheHistoryOfBucketsOfTheOriginalHasTheHashThatEtcdTold(t *testing.T) {
	for _, fixture := range []string{"upstream-bucket-gzip", "upstream-bucket-none"} {
		t.Run(fixture, func(t *testing.T) {
			want := readExpected(t, filepath.Join("..", "..", "testdata", fixture))
			dir, result := restoreFixture(t, fixture, "--keep-history")
			if result.HashKV.Hash != want.HashKV || int64(result.HashKV.CompactRevision) != want.CompactRevision {
				t.Errorf("HashKV %d compacted at %d, want %d at %d", result.HashKV.Hash, result.HashKV.CompactRevision, want.HashKV, want.CompactRevision)
			}
			sortKeys(want.KVs)
			if diff := cmp.Diff(want.KVs, liveKeys(t, dir)); diff != "" {
				t.Errorf("key space (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnExistingDataDirectoryIsNotTouched(t *testing.T) {
	container, _ := filepath.Abs("../../testdata/upstream-bucket-none")
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.MkdirAll(filepath.Join(dir, "member", "snap"), 0o700); err != nil {
		t.Fatal(err)
	}
	precious := filepath.Join(dir, "member", "snap", "0000000000000001-0000000000000007.snap")
	if err := os.WriteFile(precious, []byte("data"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"restore", "--storage-provider=Local", "--store-container=" + container, "--store-prefix=ns--uid/etcd-main", "--data-dir=" + dir}
	code, _, stderr := etcdbrctl(t, args...)
	if code != exitRefused {
		t.Errorf("exit code %d, want %d: %s", code, exitRefused, stderr)
	}
	if b, err := os.ReadFile(precious); err != nil || string(b) != "data" {
		t.Errorf("the directory was touched: %q, %v", b, err)
	}
	if code, _, stderr = etcdbrctl(t, append(args, "--overwrite")...); code != exitOK {
		t.Fatalf("--overwrite: exit code %d: %s", code, stderr)
	}
	if _, err := os.Stat(precious); !os.IsNotExist(err) {
		t.Errorf("the old data are still there after --overwrite: %v", err)
	}
}
