package catalog

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/etcd/codec"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/storetest"
)

const prefix = "ns--uid/etcd-main"

func put(t *testing.T, s store.Store, key string, body []byte) store.Object {
	t.Helper()
	o, err := s.Put(t.Context(), key, bytes.NewReader(body), store.PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func name(t *testing.T, s string) snapshot.Name {
	t.Helper()
	n, err := snapshot.ParseName(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// described puts a full with its manifest.
func described(t *testing.T, s store.Store, full string, l snapshot.LineageID, body []byte) {
	t.Helper()
	n := name(t, full)
	key := snapshot.SnapshotKey(prefix, n)
	put(t, s, key.String(), body)
	m := snapshot.Manifest{
		Version: snapshot.ManifestVersion, Snapshot: n.String(), Lineage: snapshot.Lineage{ID: l},
		Digest: sha256.Sum256(body), Size: int64(len(body)), LastRevision: n.Last,
	}
	put(t, s, key.Manifest().String(), m.Encode())
}

// native makes a native delta of one event per revision.
func native(t *testing.T, l snapshot.LineageID, from, to int64) (key string, body []byte) {
	t.Helper()
	d, err := codec.NewDelta(codec.DeltaOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Discard()
	for rev := from; rev <= to; rev++ {
		ev := &mvccpb.Event{Kv: &mvccpb.KeyValue{Key: []byte("k"), Value: []byte("v"), CreateRevision: 2, ModRevision: rev, Version: rev}}
		if err := d.Append(time.Unix(1000, 0), []*mvccpb.Event{ev}); err != nil {
			t.Fatal(err)
		}
	}
	sealed, err := d.Seal(time.Unix(2000, 0), snapshot.Manifest{Lineage: snapshot.Lineage{ID: l}})
	if err != nil {
		t.Fatal(err)
	}
	defer sealed.Close()
	body, err = io.ReadAll(sealed.Reader())
	if err != nil {
		t.Fatal(err)
	}
	return snapshot.SnapshotKey(prefix, sealed.Name).String(), body
}

func mustRead(t *testing.T, s store.Reader, o Options) *Catalog {
	t.Helper()
	c, err := Read(t.Context(), s, prefix, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestACatalogHoldsEverythingBelowThePrefixAndNothingElse(t *testing.T) {
	s := storetest.NewMemory(storetest.S3Like())
	described(t, s, "Full-00000000-00000010-1000.zst", "a", []byte("full"))
	key, body := native(t, "a", 11, 20)
	put(t, s, key, body)
	put(t, s, prefix+"/v1/Backup-900/Full-00000000-00000005-900", []byte("old"))
	put(t, s, prefix+"/v2/Full-00000000-00000010-1000.gz/0000000001", []byte("chunk"))
	put(t, s, prefix+"/v2/notes.txt", []byte("?"))
	put(t, s, prefix+"-2/v2/Full-00000000-00000099-1000.zst", []byte("a neighbour's"))
	put(t, s, prefix+"/v2/Incr-00000021-00000030-2100.zst", []byte("no header"))

	c := mustRead(t, s, Options{})
	if len(c.Listing.Objects) != 5 || len(c.Listing.Manifests) != 1 || len(c.Listing.Foreign) != 1 || c.Objects.Len() != 6 {
		t.Fatalf("%d objects, %d manifests, %d foreign, %d in all", len(c.Listing.Objects), len(c.Listing.Manifests), len(c.Listing.Foreign), c.Objects.Len())
	}
	l, ok := c.Timeline.Lineage("a")
	if !ok || len(l.Snapshots) != 2 || l.Newest != 20 {
		t.Fatalf("lineage %+v", l)
	}
	if chains := l.Chains(); len(chains) != 1 || chains[0].End != 20 {
		t.Fatalf("chains %+v", chains)
	}
	if c.Owner != nil {
		t.Fatalf("owner %+v of an unclaimed prefix", c.Owner)
	}
}

func TestOnlyTheHeadersAskedForAreRead(t *testing.T) {
	s := storetest.NewMemory(storetest.S3Like())
	for from := int64(2); from < 42; from += 10 {
		key, body := native(t, "a", from, from+9)
		put(t, s, key, body)
	}
	faulty := storetest.NewFaulty(s)
	mustRead(t, faulty, Options{Headers: func(n snapshot.Name) bool { return n.Start > 20 }})
	if n := faulty.Count(storetest.OpOpen); n != 2 {
		t.Fatalf("%d objects opened, want 2", n)
	}
	if faulty = storetest.NewFaulty(s); true {
		c := mustRead(t, faulty, Options{Parallel: 1})
		if n := faulty.Count(storetest.OpOpen); n != 4 || c.Listing.Objects[0].Header == nil {
			t.Fatalf("%d objects opened, want all 4", n)
		}
	}
}

func TestOfSeveralVersionsTheManifestsDigestDecides(t *testing.T) {
	s := storetest.NewMemory(storetest.CephLike()) // overwriting makes a version
	full := "Full-00000000-00000010-1000.zst"
	key := snapshot.SnapshotKey(prefix, name(t, full)).String()
	put(t, s, key, []byte("forged before"))
	described(t, s, full, "a", []byte("the truth"))
	put(t, s, key, []byte("forged after"))
	c := mustRead(t, s, Options{})
	l, _ := c.Timeline.Lineage("a")
	if len(l.Snapshots) != 1 {
		t.Fatalf("%d snapshots", len(l.Snapshots))
	}
	got := l.Snapshots[0]
	if want := snapshot.Digest(sha256.Sum256([]byte("the truth"))); got.Digest != want || got.Size != 9 || !got.Usable() {
		t.Fatalf("%+v counts", got)
	}
	// Only what may be the truth is read: a forged version can be as large as its author likes.
	var measured int64
	mustRead(t, s, Options{Progress: func(p Progress) { measured = p.Bytes }})
	if measured != got.Size {
		t.Errorf("%d bytes were measured, want %d", measured, got.Size)
	}
	for _, o := range mustRead(t, s, Options{SkipDigests: true}).Listing.Objects {
		if !o.Digest.IsZero() {
			t.Fatal("a digest was measured although nobody asked for it")
		}
	}
}

// refusing lets nobody read some versions, as objects that other accounts wrote into a bucket.
type refusing struct {
	*storetest.Memory
	refuses func(store.Version) bool
}

func (r refusing) Open(ctx context.Context, v store.Version, off, n int64) (io.ReadCloser, error) {
	if r.refuses(v) {
		return nil, fmt.Errorf("open %s: %w", v, store.ErrForbidden)
	}
	return r.Memory.Open(ctx, v, off, n)
}

func TestVersionsThatNobodyMayReadKeepNobodyFromReadingTheOthers(t *testing.T) {
	s := storetest.NewMemory(storetest.CephLike())
	full := "Full-00000000-00000010-1000.zst"
	key := snapshot.SnapshotKey(prefix, name(t, full))
	described(t, s, full, "a", []byte("the truth"))
	genuine := map[store.Version]bool{}
	for _, o := range mustRead(t, s, Options{}).Listing.Objects {
		genuine[store.Version{Key: o.Key.String(), ID: o.Version}] = true
	}
	for _, m := range mustRead(t, s, Options{}).Listing.Manifests {
		genuine[store.Version{Key: m.Key.String(), ID: m.Version}] = true
	}
	put(t, s, key.String(), []byte("the trial"))
	put(t, s, key.Manifest().String(), []byte("{}"))
	r := refusing{s, func(v store.Version) bool { return !genuine[v] }}
	c := mustRead(t, r, Options{})
	l, _ := c.Timeline.Lineage("a")
	if len(l.Snapshots) != 1 || !l.Snapshots[0].Usable() || l.Snapshots[0].Size != 9 || l.Snapshots[0].Digest != sha256.Sum256([]byte("the truth")) {
		t.Errorf("lineage %+v", l)
	}
	if len(c.Notes) != 2 || !strings.Contains(c.Notes[0], "may not be read") {
		t.Errorf("notes %q", c.Notes)
	}
	if !slices.ContainsFunc(c.Timeline.Findings, func(f timeline.Finding) bool { return f.Code == timeline.BadManifest }) {
		t.Errorf("findings %v", c.Timeline.Findings)
	}
	// Where none of a key can be read, it is the permission that is missing.
	r.refuses = func(v store.Version) bool { return v.Key == key.Manifest().String() }
	if _, err := Read(t.Context(), r, prefix, Options{}); !errors.Is(err, store.ErrForbidden) {
		t.Errorf("Read = %v, want %v", err, store.ErrForbidden)
	}
}

func TestWhatWasDeletedByItsNameIsToldAndCounts(t *testing.T) {
	unmarked := storetest.AzureLike()
	unmarked.NoMarkers = true
	s := storetest.NewMemory(unmarked)
	described(t, s, "Full-00000000-00000010-1000.zst", "a", []byte("1"))
	described(t, s, "Full-00000000-00000020-2000.zst", "a", []byte("2"))
	if hidden := mustRead(t, s, Options{}).Timeline.Findings; len(hidden) > 0 {
		t.Fatalf("findings %v", hidden)
	}
	if _, err := s.Hide(prefix + "/v2/Full-00000000-00000020-2000.zst"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Hide(prefix + "/v2/Manifest-Full-00000000-00000010-1000.zst"); err != nil {
		t.Fatal(err)
	}
	c := mustRead(t, s, Options{})
	var got []string
	for _, f := range c.Timeline.Findings {
		got = append(got, string(f.Code)+" "+path.Base(f.Key))
	}
	if want := []string{"hidden Full-00000000-00000020-2000.zst", "hidden Manifest-Full-00000000-00000010-1000.zst"}; !slices.Equal(slices.Sorted(slices.Values(got)), want) {
		t.Errorf("findings %q, want %q", got, want)
	}
	if l, _ := c.Timeline.Lineage("a"); len(l.Snapshots) != 2 || !l.Snapshots[1].Usable() {
		t.Errorf("%d snapshots count", len(l.Snapshots))
	}
}

func TestABrokenManifestIsToldAndNotTrusted(t *testing.T) {
	s := storetest.NewMemory(storetest.S3Like())
	n := name(t, "Full-00000000-00000010-1000.zst")
	put(t, s, snapshot.SnapshotKey(prefix, n).String(), []byte("x"))
	put(t, s, snapshot.SnapshotKey(prefix, n).Manifest().String(), []byte("{}"))
	big := name(t, "Full-00000000-00000011-1100.zst")
	put(t, s, snapshot.SnapshotKey(prefix, big).Manifest().String(), make([]byte, snapshot.MaxManifestSize+1))
	c := mustRead(t, s, Options{})
	for _, m := range c.Listing.Manifests {
		if m.Manifest != nil || !errors.Is(m.Err, snapshot.ErrManifest) {
			t.Errorf("manifest %+v", m)
		}
	}
	if !slices.ContainsFunc(c.Timeline.Findings, func(f timeline.Finding) bool { return f.Code == timeline.BadManifest }) {
		t.Fatalf("findings %v", c.Timeline.Findings)
	}
}

func TestRetentionIsAskedForOnlyWhenWanted(t *testing.T) {
	p := storetest.S3Like()
	p.Default, p.Period = immutability.ModeCompliance, time.Hour
	s := storetest.NewMemory(p)
	described(t, s, "Full-00000000-00000010-1000.zst", "a", []byte("1"))
	faulty := storetest.NewFaulty(s)
	for ref, o := range mustRead(t, faulty, Options{Tags: NoTags}).Objects.All() {
		if o.Retention != nil || faulty.Count(storetest.OpStat) != 0 {
			t.Fatalf("%s was asked about", ref)
		}
	}
	for ref, o := range mustRead(t, faulty, Options{Retention: true}).Objects.All() {
		if o.Retention == nil || o.Retention.Mode != immutability.ModeCompliance || o.ServerTime.IsZero() {
			t.Fatalf("%s has retention %+v", ref, o.Retention)
		}
	}
}

func TestAStoreThatDoesNotAnswerIsNeverAnEmptyCatalog(t *testing.T) {
	s := storetest.NewMemory(storetest.S3Like())
	described(t, s, "Full-00000000-00000010-1000.zst", "a", []byte("1"))
	key, body := native(t, "a", 11, 20)
	put(t, s, key, body)
	if _, err := Claim(t.Context(), s, prefix, 0, snapshot.Owner{ID: "me"}); err != nil {
		t.Fatal(err)
	}
	for label, fault := range map[string]storetest.Fault{
		"no listing":           storetest.Fail(store.ErrUnreachable).On(storetest.OpList, "").Always(),
		"a listing that ends":  storetest.BreakList(1, store.ErrUnreachable).On(storetest.OpList, "").Always(),
		"no manifest":          storetest.Fail(store.ErrUnreachable).On(storetest.OpOpen, "Manifest-").Always(),
		"half a manifest":      storetest.Cut(10).On(storetest.OpOpen, "Manifest-").Always(),
		"no header":            storetest.Fail(store.ErrThrottled).On(storetest.OpOpen, "Incr-").Always(),
		"half a header":        storetest.Cut(5).On(storetest.OpOpen, "Incr-").Always(),
		"no owner record":      storetest.Fail(store.ErrForbidden).On(storetest.OpOpen, "Owner-").Always(),
		"objects that go away": storetest.Fail(store.ErrNotFound).On(storetest.OpOpen, "Manifest-").Always(),
	} {
		t.Run(label, func(t *testing.T) {
			faulty := storetest.NewFaulty(s)
			faulty.Inject(fault)
			if c, err := Read(t.Context(), faulty, prefix, Options{}); err == nil {
				t.Fatalf("%d objects and no error", len(c.Listing.Objects))
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Read(ctx, s, prefix, Options{}); !errors.Is(err, context.Canceled) {
		t.Fatalf("%v, want context.Canceled", err)
	}
}

func TestAnObjectCollectedMeanwhileMakesTheCatalogBeginAnew(t *testing.T) {
	s := storetest.NewMemory(storetest.S3Like())
	described(t, s, "Full-00000000-00000010-1000.zst", "a", []byte("1"))
	faulty := storetest.NewFaulty(s)
	faulty.Inject(storetest.Fail(store.ErrNotFound).On(storetest.OpOpen, "Manifest-").For(2))
	if c := mustRead(t, faulty, Options{}); len(c.Timeline.Lineages) != 1 || faulty.Count(storetest.OpList) != 3 {
		t.Fatalf("%d lineages after %d listings", len(c.Timeline.Lineages), faulty.Count(storetest.OpList))
	}
}

func TestProgressCountsUpToItsEnd(t *testing.T) {
	s := storetest.NewMemory(storetest.S3Like())
	for i := range 20 {
		described(t, s, fmt.Sprintf("Full-00000000-%08d-1000.zst", i+2), "a", []byte("1"))
	}
	var last Progress
	var calls atomic.Int32
	mustRead(t, s, Options{Progress: func(p Progress) {
		if p.Listed < last.Listed || p.Read < last.Read || p.ToRead < last.ToRead {
			t.Errorf("%+v after %+v", p, last)
		}
		last = p
		calls.Add(1)
	}})
	if want := (Progress{Listed: 40, Read: 40, ToRead: 40}); last != want || calls.Load() == 0 {
		t.Fatalf("%+v, want %+v", last, want)
	}
}

// unlistable is a store whose listing has entries that are no objects.
type unlistable struct {
	store.Reader
	entries map[string]error
}

func (u unlistable) List(ctx context.Context, prefix string, fn func(store.Object) error) error {
	for _, key := range slices.Sorted(maps.Keys(u.entries)) {
		if err := fn(store.Object{Version: store.Version{Key: key}, Unreadable: u.entries[key]}); err != nil {
			return err
		}
	}
	return u.Reader.List(ctx, prefix, fn)
}

func TestCatalogNamesWhatIsNoObject(t *testing.T) {
	link := errors.New("it is a symbolic link")
	for name, c := range map[string]struct {
		key, code string
		fails     bool
	}{
		"a stray link":                  {prefix + "/current", "foreign", false},
		"a stray link beside snapshots": {prefix + "/v2/latest", "foreign", false},
		"a link in place of a snapshot": {prefix + "/v2/Full-00000000-00000300-3000", "unreadable", false},
		"a link in place of v2":         {prefix + "/v2", "", true},
		"a link in place of a backup":   {prefix + "/v1/Backup-1000", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			m := storetest.NewMemory(storetest.S3Like())
			described(t, m, "Full-00000000-00000100-1000", "l", []byte("one"))
			cat, err := Read(t.Context(), unlistable{m, map[string]error{c.key: link}}, prefix, Options{Retention: true, Tags: TagsOfAll})
			if c.fails {
				if !errors.Is(err, link) || !strings.Contains(err.Error(), c.key) {
					t.Errorf("got %v, want an error that names %s", err, c.key)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(cat.Timeline.Findings, func(f timeline.Finding) bool {
				return string(f.Code) == c.code && strings.Contains(f.Text, link.Error())
			}) {
				t.Errorf("got %v, want a finding %s that names the link", cat.Timeline.Findings, c.code)
			}
		})
	}
}
