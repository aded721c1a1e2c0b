package datadir

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/etcd/codec"

	"github.com/google/go-cmp/cmp"
)

// bucket opens the snapshots of a bucket that the original wrote: one full and the deltas after
// it.
func bucket(t testing.TB, dir string) Source {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []snapshot.Name
	for _, e := range entries {
		n, err := snapshot.ParseName(e.Name())
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, n)
	}
	slices.SortFunc(names, snapshot.Compare)
	var src Source
	for _, n := range names {
		path := filepath.Join(dir, n.String())
		if n.Kind == snapshot.Delta {
			src.Deltas = append(src.Deltas, Delta{Name: n.String(), Last: n.Last, Open: func(o codec.ReaderOptions) (Records, error) {
				b, err := os.ReadFile(path)
				if err != nil {
					return nil, err
				}
				return codec.NewDeltaReader(bytes.NewReader(b), n.Compression, codec.ReaderOptions{BatchBytes: 8 << 10})
			}})
			continue
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		r, err := codec.Decompress(bytes.NewReader(b), n.Compression)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		whole, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		src.Base, src.BaseName = bytes.NewReader(whole), n.String()
	}
	return src
}

// fixtureKey is a key as expected.json tells it.
type fixtureKey struct {
	Key, ValueSHA256            string
	Create, Mod, Version, Lease int64
}

func TestBucketsOfTheOriginalRestoreExactly(t *testing.T) {
	for _, name := range []string{"upstream-bucket-gzip", "upstream-bucket-none"} {
		var want struct {
			CompactRevision, HashKV, Revision int64
			KVs                               []fixtureKey
		}
		b, err := os.ReadFile(filepath.Join("testdata", name, "expected.json"))
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(b, &want); err != nil {
			t.Fatal(err)
		}
		for _, keep := range []bool{false, true} {
			t.Run(name+map[bool]string{true: " with history"}[keep], func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "restored")
				src := bucket(t, filepath.Join("testdata", name, "ns--uid", "etcd-main", "v2"))
				r := mustRestore(t, src, Options{KeepHistory: keep}, dir)
				if int64(r.Revision) != want.Revision || int(r.Keys) != len(want.KVs) {
					t.Errorf("revision %d with %d keys, want %d with %d", r.Revision, r.Keys, want.Revision, len(want.KVs))
				}
				if keep {
					wantHash := snapshot.HashKV{Revision: snapshot.Revision(want.Revision), CompactRevision: snapshot.Revision(want.CompactRevision), Hash: uint32(want.HashKV)}
					if r.HashKV != wantHash {
						t.Errorf("HashKV %+v, want %+v", r.HashKV, wantHash)
					}
				}
				db, err := OpenDir(dir)
				if err != nil {
					t.Fatal(err)
				}
				defer db.Close()
				live := map[string]fixtureKey{}
				if err := eachEntry(db.keys, 0, func(e *entry, _, v []byte) error {
					if e.tombstone {
						delete(live, string(e.key))
						return nil
					}
					sum := sha256.Sum256(valueOf(v))
					live[string(e.key)] = fixtureKey{string(e.key), hex.EncodeToString(sum[:]), e.create, int64(e.main), e.version, e.lease}
					return nil
				}); err != nil {
					t.Fatal(err)
				}
				var got []fixtureKey
				for _, k := range live {
					got = append(got, k)
				}
				slices.SortFunc(got, func(a, b fixtureKey) int { return strings.Compare(a.Key, b.Key) })
				if diff := cmp.Diff(want.KVs, got); diff != "" {
					t.Errorf("keys (-expected.json +restored):\n%s", diff)
				}
				leases, err := db.Leases()
				if err != nil {
					t.Fatal(err)
				}
				known := map[int64]bool{}
				for _, l := range leases {
					known[l.ID] = true
				}
				for _, k := range got {
					if k.Lease != 0 && !known[k.Lease] {
						t.Errorf("key %s refers to lease %x, which does not exist", k.Key, k.Lease)
					}
				}
			})
		}
	}
}
