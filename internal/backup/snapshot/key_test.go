package snapshot_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"druid.internal/druid/internal/backup/snapshot"
)

var full = snapshot.Name{Kind: snapshot.Full, Last: 9002, Created: 1565021494, Compression: snapshot.Gzip}

func TestKeysReadAsTheyAreWritten(t *testing.T) {
	const p = "shoot--foo--bar--uid/etcd-main"
	for key, want := range map[string]snapshot.Key{
		p + "/v2/Full-00000000-00009002-1565021494.gz":                    {Layout: snapshot.V2, Object: snapshot.SnapshotObject, Name: full},
		p + "/v1/Backup-1565021494/Full-00000000-00009002-1565021494.gz":  {Layout: snapshot.V1, Dir: "Backup-1565021494", Object: snapshot.SnapshotObject, Name: full},
		p + "/v2/Full-00000000-00009002-1565021494.gz/0000000001":         {Layout: snapshot.V2, Object: snapshot.ChunkObject, Name: full, Chunk: "0000000001"},
		p + "/v1/Backup-1/Full-00000000-00009002-1565021494.gz/000000001": {Layout: snapshot.V1, Dir: "Backup-1", Object: snapshot.ChunkObject, Name: full, Chunk: "000000001"},
		p + "/v2/Manifest-Full-00000000-00009002-1565021494.gz":           {Layout: snapshot.V2, Object: snapshot.ManifestObject, Name: full},
		p + "/v2/Owner-00000007":                                          {Layout: snapshot.V2, Object: snapshot.OwnerObject, Number: 7},
		p + "/v2/Owner-123456789":                                         {Layout: snapshot.V2, Object: snapshot.OwnerObject, Number: 123456789},
	} {
		want.Prefix = p
		got, err := snapshot.ParseKey(p, key)
		if err != nil {
			t.Error(err)
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: want - got +\n%s", key, diff)
		}
		if got.String() != key {
			t.Errorf("want %s, got %s", key, got)
		}
	}
}

func TestUnknownKeysAreIgnored(t *testing.T) {
	for phrase, key := range map[string]string{
		"no layout":                            "p/Full-00000000-00009002-1565021494.gz",
		"a layout of the future":               "p/v3/Full-00000000-00009002-1565021494.gz",
		"a layout that only begins like ours":  "p/v22/Full-00000000-00009002-1565021494.gz",
		"a folder":                             "p/v2/",
		"a folder of chunks":                   "p/v2/Full-00000000-00009002-1565021494.gz/",
		"chunks of chunks":                     "p/v2/Full-00000000-00009002-1565021494.gz/1/2",
		"the first layout without a directory": "p/v1/Full-00000000-00009002-1565021494.gz",
		"the first layout in another one":      "p/v1/Other-1/Full-00000000-00009002-1565021494.gz",
		"a manifest of nothing":                "p/v2/Manifest-README",
		"a manifest of a manifest":             "p/v2/Manifest-Manifest-Full-00000000-00009002-1565021494.gz",
		"a chunk of a manifest":                "p/v2/Manifest-Full-00000000-00009002-1565021494.gz/1",
		"an owner without a number":            "p/v2/Owner-",
		"an owner numbered 0":                  "p/v2/Owner-00000000",
		"an owner without padding":             "p/v2/Owner-7",
		"an owner in the first layout":         "p/v1/Backup-1/Owner-00000007",
		"doubled slashes":                      "p/v2//Full-00000000-00009002-1565021494.gz",
		"dots":                                 "p/v2/../v2/Full-00000000-00009002-1565021494.gz",
		"the prefix alone":                     "p",
		"a slash before the prefix":            "/p/v2/Full-00000000-00009002-1565021494.gz",
		"another file":                         "p/v2/README.md",
	} {
		t.Run(phrase, func(t *testing.T) {
			if k, err := snapshot.ParseKey("p", key); !errors.Is(err, snapshot.ErrNotSnapshot) {
				t.Errorf("%s: want ErrNotSnapshot, got %+v, %v", key, k, err)
			}
		})
	}
}

// Appendix C 13 of the failures known from the original: it listed, and collected, the objects
// of a cluster whose prefix begins with its own.
func TestAPrefixDoesNotReachIntoOneThatBeginsWithIt(t *testing.T) {
	mine, other := snapshot.Prefix("a/etcd-main"), snapshot.Prefix("a/etcd-main-2")
	if k, err := snapshot.ParseKey(mine, snapshot.SnapshotKey(other, full).String()); !errors.Is(err, snapshot.ErrNotSnapshot) {
		t.Errorf("the other cluster's snapshot is taken for %+v, %v", k, err)
	}
	for _, nested := range []snapshot.Prefix{"a/etcd-main/v2", "a/etcd-main/x"} {
		if k, err := snapshot.ParseKey(mine, snapshot.SnapshotKey(nested, full).String()); !errors.Is(err, snapshot.ErrNotSnapshot) {
			t.Errorf("the snapshot below %s is taken for %+v, %v", nested, k, err)
		}
	}
	if _, err := snapshot.ParseKey(mine, snapshot.SnapshotKey(mine, full).String()); err != nil {
		t.Error(err)
	}
	// The original finds its layout by looking for "v1/" anywhere.
	if _, err := snapshot.ParseKey("dev1/main", snapshot.SnapshotKey("dev1/main", full).String()); err != nil {
		t.Error(err)
	}
}

func TestManifestsAndChunksKnowTheirSnapshot(t *testing.T) {
	k := snapshot.SnapshotKey("p", full)
	chunk := k
	chunk.Object, chunk.Chunk = snapshot.ChunkObject, "0000000001"
	if k.Manifest().Snapshot() != k || chunk.Snapshot() != k || chunk.Manifest() != k.Manifest() {
		t.Errorf("%s, %s and %s do not belong together", k, k.Manifest(), chunk)
	}
}

func TestAnyKeyReadsAsItWasWritten(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 20000 {
		want := snapshot.SnapshotKey([]snapshot.Prefix{"", "p", "a/b", "/r"}[r.IntN(4)], randomName(r))
		if r.IntN(3) == 0 {
			want.Layout, want.Dir = snapshot.V1, fmt.Sprintf("Backup-%d", r.IntN(1e9))
		}
		switch r.IntN(5) {
		case 3:
			want = want.Exclusion(1 + r.Int64N(1e10))
		case 0:
			want = want.Manifest()
		case 1:
			want.Object, want.Chunk = snapshot.ChunkObject, fmt.Sprintf("%010d", r.IntN(1000))
		case 2:
			want = snapshot.OwnerKey(want.Prefix, 1+r.Int64N(1e10))
		}
		got, err := snapshot.ParseKey(want.Prefix, want.String())
		if err != nil || got != want {
			t.Fatalf("want %+v, got %+v, %v", want, got, err)
		}
	}
}

func FuzzParseKeyAcceptsOnlyWhatStringWrites(f *testing.F) {
	f.Add("p", "p/v2/Full-00000000-00009002-1565021494.gz")
	f.Add("", "v1/Backup-1/Incr-00000001-00000002-3/0000000001")
	f.Add("/a//b/", "/a/b/v2/Manifest-Full-00000000-00000001-1.final")
	f.Add("p", "p/v2/Owner-00000001")
	f.Add("p", "p/v2/Exclusion-00000001-Full-00000000-00009002-1565021494.gz")
	f.Fuzz(func(t *testing.T, text, key string) {
		prefix, err := snapshot.NewPrefix(text)
		if err != nil {
			return
		}
		k, err := snapshot.ParseKey(prefix, key)
		if err != nil {
			if !errors.Is(err, snapshot.ErrNotSnapshot) {
				t.Errorf("want ErrNotSnapshot, got %v", err)
			}
			return
		}
		if k.String() != key {
			t.Errorf("%q is read as %+v and written as %q", key, k, k)
		}
		if again, err := snapshot.ParseKey(k.Prefix, k.String()); err != nil || again != k {
			t.Errorf("%q is read as %+v and then as %+v, %v", key, k, again, err)
		}
	})
}
