package enginetest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/engine/catalog"
	"druid.internal/druid/internal/store/storetest"
)

// Start is when the clocks of buckets begin.
var Start = time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)

// Bucket is a bucket in memory whose clock the local one agrees with.
type Bucket struct {
	*storetest.Memory
	T     *testing.T
	Clock *storetest.Clock
}

// NewBucket makes an empty one.
func NewBucket(t *testing.T, p storetest.Profile) Bucket {
	clock := storetest.NewClock(Start)
	p.Now = clock.Now
	return Bucket{storetest.NewMemory(p), t, clock}
}

// FullName and DeltaName name a snapshot taken so many minutes after Start.
func FullName(last, minute int) string { return minuteName(snapshot.Full, 0, last, minute) }

// DeltaName names a delta; see FullName.
func DeltaName(first, last, minute int) string {
	return minuteName(snapshot.Delta, first, last, minute)
}

func minuteName(kind snapshot.Kind, first, last, minute int) string {
	return snapshot.Name{Kind: kind, Start: snapshot.Revision(first), Last: snapshot.Revision(last),
		Created: Start.Add(time.Duration(minute) * time.Minute).Unix(), Compression: snapshot.Gzip}.String()
}

// Streams are three fulls with their deltas, a day apart.
var Streams = []string{
	FullName(10, 0), DeltaName(11, 20, 10), DeltaName(21, 30, 20),
	FullName(30, 1440), DeltaName(31, 40, 1450),
	FullName(40, 2880), DeltaName(41, 50, 2890), DeltaName(51, 60, 2900),
}

// WithManifests are the names with those of their manifests, as a listing sorts them.
func WithManifests(names ...string) []string {
	var all []string
	for _, n := range names {
		all = append(all, n, "Manifest-"+n)
	}
	slices.Sort(all)
	return all
}

// Catalog is what is below prefix.
func (b Bucket) Catalog(prefix snapshot.Prefix) *catalog.Catalog {
	b.T.Helper()
	c, err := catalog.Read(b.T.Context(), b.Memory, prefix, catalog.Options{})
	if err != nil {
		b.T.Fatal(err)
	}
	return c
}

// Windows are the revisions that can be restored, for each lineage.
func Windows(t timeline.Timeline) []string {
	var all []string
	for _, l := range t.Lineages {
		for _, w := range l.Windows() {
			all = append(all, fmt.Sprintf("%s %d-%d", timeline.Title(l.ID), w.From, w.To))
		}
	}
	return all
}

// Golden compares got with testdata/FILE, which update rewrites.
func Golden(t *testing.T, file string, got []byte, update bool) {
	t.Helper()
	path := filepath.Join("testdata", file)
	if update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s changed (-want +got), go test -update accepts it:\n%s", path, diff)
	}
}
