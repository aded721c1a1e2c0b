package snapshot_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"druid.internal/druid/internal/backup/snapshot"
)

var update = flag.Bool("update", false, "rewrite testdata with what the code gives")

func manifest() snapshot.Manifest {
	return snapshot.Manifest{
		Version: snapshot.ManifestVersion, Snapshot: full.String(),
		Lineage: snapshot.Lineage{ID: "b", Parent: "a", Fork: 9000},
		Digest:  sha256.Sum256([]byte("stored")), Size: 6, ContentSize: 60, LastRevision: 9010,
		HashKV:      &snapshot.HashKV{Revision: 9002, CompactRevision: -1, Hash: 4042},
		Latest:      time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC),
		EtcdVersion: "3.6.16", StorageVersion: "3.6.0", ClusterID: 1<<63 + 1, MemberID: 2, Writer: "test",
	}
}

func TestAManifestReadsAsItWasWritten(t *testing.T) {
	want := manifest()
	got, err := snapshot.ParseManifest(full, want.Encode())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want - got +\n%s", diff)
	}
}

// TestTheFormOfAManifestStays because manifests are write-once and live for years.
func TestTheFormOfAManifestStays(t *testing.T) {
	const file = "testdata/manifest.json"
	got := manifest().Encode()
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("want - got +\n%s", diff)
	}
}

func TestUnusableManifestsAreRefused(t *testing.T) {
	delta := snapshot.Name{Kind: snapshot.Delta, Start: 9003, Last: 9120, Created: 1}
	edit := func(n snapshot.Name, change func(*snapshot.Manifest)) []byte {
		m := manifest()
		m.Snapshot, m.LastRevision = n.String(), n.Last
		change(&m)
		return m.Encode()
	}
	for phrase, c := range map[string]struct {
		name    snapshot.Name
		content []byte
	}{
		"nothing":                          {full, nil},
		"no JSON":                          {full, []byte("x")},
		"cut short":                        {full, manifest().Encode()[:100]},
		"something behind it":              {full, append(manifest().Encode(), '{')},
		"another snapshot":                 {delta, manifest().Encode()},
		"no version":                       {full, edit(full, func(m *snapshot.Manifest) { m.Version = 0 })},
		"no digest":                        {full, edit(full, func(m *snapshot.Manifest) { m.Digest = snapshot.Digest{} })},
		"a digest of the wrong length":     {full, bytes.Replace(manifest().Encode(), []byte(`"digest":"`), []byte(`"digest":"00`), 1)},
		"a digest that is no number":       {full, bytes.Replace(manifest().Encode(), []byte(`"digest":"`), []byte(`"digest":"zz`), 1)},
		"a negative size":                  {full, edit(full, func(m *snapshot.Manifest) { m.Size = -1 })},
		"a negative content size":          {full, edit(full, func(m *snapshot.Manifest) { m.ContentSize = -1 })},
		"a full that ends before its name": {full, edit(full, func(m *snapshot.Manifest) { m.LastRevision = 9001 })},
		"a delta that ends after its name": {delta, edit(delta, func(m *snapshot.Manifest) { m.LastRevision = 9121 })},
		"more than anybody would write":    {full, append(bytes.Repeat([]byte(" "), snapshot.MaxManifestSize), manifest().Encode()...)},
	} {
		t.Run(phrase, func(t *testing.T) {
			_, err := snapshot.ParseManifest(c.name, c.content)
			if !errors.Is(err, snapshot.ErrManifest) {
				t.Fatalf("want ErrManifest, got %v", err)
			}
			if !strings.Contains(err.Error(), c.name.String()) {
				t.Errorf("the error does not name the snapshot: %v", err)
			}
		})
	}
}

func TestManifestsOfLaterVersionsAreRead(t *testing.T) {
	m := manifest()
	m.Version = 7
	content := bytes.Replace(m.Encode(), []byte("{"), []byte(`{"somethingNew":[1,2],`), 1)
	got, err := snapshot.ParseManifest(full, content)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(m, got); diff != "" {
		t.Errorf("want - got +\n%s", diff)
	}
}

func FuzzParseManifestReadsWhatItAcceptsTheSameTwice(f *testing.F) {
	f.Add(manifest().Encode())
	f.Add([]byte(`{"version":1,"snapshot":"` + full.String() + `","digest":"` + strings.Repeat("ab", 32) + `","lastRevision":9002}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		m, err := snapshot.ParseManifest(full, content)
		if err != nil {
			if !errors.Is(err, snapshot.ErrManifest) {
				t.Errorf("want ErrManifest, got %v", err)
			}
			return
		}
		if m.LastRevision < full.Last || m.Digest.IsZero() {
			t.Errorf("accepted %+v", m)
		}
		again, err := snapshot.ParseManifest(full, m.Encode())
		if err != nil || !bytes.Equal(again.Encode(), m.Encode()) {
			t.Errorf("want %s, got %s, %v", m.Encode(), again.Encode(), err)
		}
	})
}
