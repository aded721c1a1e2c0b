package catalog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/storetest"
)

// flooded lists n more objects among those of the store, as someone who can write added them.
type flooded struct {
	store.Store
	n       int
	key     func(i int) string
	content string
}

func (f flooded) List(ctx context.Context, prefix string, fn func(store.Object) error) error {
	forged := func(i int) store.Object {
		return store.Object{Version: store.Version{Key: prefix + "/v2/" + f.key(i), ID: "v"}, Size: int64(len(f.content)), Modified: time.Unix(2000, 0), Latest: true}
	}
	next := 0
	err := f.Store.List(ctx, prefix, func(o store.Object) error {
		for ; next < f.n && forged(next).Key < o.Key; next++ {
			if err := fn(forged(next)); err != nil {
				return err
			}
		}
		return fn(o)
	})
	for ; next < f.n && err == nil; next++ {
		err = fn(forged(next))
	}
	return err
}

func (f flooded) Open(ctx context.Context, v store.Version, off, n int64) (io.ReadCloser, error) {
	if v.ID == "v" {
		return io.NopCloser(strings.NewReader(f.content)), nil
	}
	return f.Store.Open(ctx, v, off, n)
}

func (f flooded) Stat(ctx context.Context, v store.Version) (store.Object, error) {
	if v.ID == "v" {
		return store.Object{Version: v, Size: int64(len(f.content))}, nil
	}
	return f.Store.Stat(ctx, v)
}

// floods are the names of forged objects, in ascending order.
var floods = map[string]func(int) string{
	"junk":           func(i int) string { return fmt.Sprintf("Junk-%09d", i) },
	"deltas":         func(i int) string { return fmt.Sprintf("Incr-%08d-%08d-%d.zst", 1000+i, 1000+i, 1795165100+i) },
	"fulls":          func(i int) string { return fmt.Sprintf("Full-00000000-%08d-%d.gz", 900+i, 1795165100+i) },
	"manifests":      func(i int) string { return fmt.Sprintf("Manifest-Full-00000000-%08d-%d.gz", 900+i, 1795165100+i) },
	"delta records":  func(i int) string { return fmt.Sprintf("Manifest-Incr-%08d-%08d-%d.zst", 1000+i, 1000+i, 1795165100+i) },
	"owner rivals":   func(i int) string { return fmt.Sprintf("Owner-rival-%08d", i) },
	"folders":        func(i int) string { return fmt.Sprintf("a/b/c/%08d", i) },
	"foreign layout": func(i int) string { return fmt.Sprintf("Full-%09d", i) },
}

// backedUp is a store with a full and a delta of one lineage.
func backedUp(t *testing.T) store.Store {
	s := storetest.NewMemory(storetest.S3Like())
	described(t, s, "Full-00000000-00000010-1000.zst", "a", []byte("full"))
	key, body := native(t, "a", 11, 20)
	put(t, s, key, body)
	return s
}

// live is how many bytes of memory are in use after work that were not before.
func live(work func()) int64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	work()
	runtime.GC()
	runtime.ReadMemStats(&after)
	return int64(after.HeapAlloc) - int64(before.HeapAlloc)
}

func TestEmptyObjectsCostOnlyTheirListing(t *testing.T) {
	const n = 30_000
	for kind, key := range floods {
		t.Run(kind, func(t *testing.T) {
			clean := storetest.NewFaulty(backedUp(t))
			mustRead(t, clean, Options{Retention: true, Tags: TagsOfAll})
			s := storetest.NewFaulty(flooded{Store: backedUp(t), n: n, key: key})
			var c *Catalog
			if live := live(func() { c = mustRead(t, s, Options{Retention: true, Tags: TagsOfAll}) }); live > 1<<20 {
				t.Errorf("the catalog holds %d bytes, want at most 1 MiB", live)
			}
			if got, want := s.Count(storetest.OpOpen)+s.Count(storetest.OpStat), clean.Count(storetest.OpOpen)+clean.Count(storetest.OpStat); got > want+maxEmpty {
				t.Errorf("%d requests for objects, want at most %d, for %d without the flood", got, want+maxEmpty, want)
			}
			if l, _ := c.Timeline.Lineage("a"); l.Newest != 20 || len(l.Chains()) != 1 || l.Chains()[0].End != 20 {
				t.Errorf("lineage a reaches %d with %d chains, want one chain to 20", l.Newest, len(l.Chains()))
			}
			i := slices.IndexFunc(c.Timeline.Findings, func(f timeline.Finding) bool { return f.Code == timeline.Flood })
			if i < 0 || !strings.Contains(c.Timeline.Findings[i].Text, "299") {
				t.Errorf("no finding tells how many objects there are: %v", c.Timeline.Findings[:min(3, len(c.Timeline.Findings))])
			}
		})
	}
}

// What an empty delta was to hold may be lost: its revisions count as known, those of the newest at least.
func TestTheNewestEmptyObjectsAreKept(t *testing.T) {
	c := mustRead(t, flooded{Store: backedUp(t), n: 1000, key: floods["deltas"]}, Options{})
	l, _ := c.Timeline.Lineage("")
	if l.Newest != 1999 || len(l.Snapshots) != maxEmpty || l.Snapshots[0].Usable() {
		t.Errorf("%d snapshots up to revision %d, the first of them usable: %v; want %d up to 1999 that are not", len(l.Snapshots), l.Newest, l.Snapshots[0].Usable(), maxEmpty)
	}
}

func TestAnEmptyVersionBesideAnotherShowsAnOverwrite(t *testing.T) {
	s := storetest.NewMemory(storetest.CephLike())
	described(t, s, "Full-00000000-00000010-1000.zst", "a", []byte("full"))
	put(t, s, prefix+"/v2/Full-00000000-00000010-1000.zst", nil)
	c := mustRead(t, flooded{Store: s, n: 1000, key: floods["fulls"]}, Options{})
	l, _ := c.Timeline.Lineage("a")
	if len(l.Snapshots) != 1 || !l.Snapshots[0].Usable() || len(l.Snapshots[0].Others) != 1 || l.Snapshots[0].Hidden {
		t.Errorf("snapshots of the lineage: %+v; want the full with one other version", l.Snapshots)
	}
}

func TestMoreObjectsThanTheBoundAreRefused(t *testing.T) {
	for _, content := range []string{"x", "a longer content"} {
		for _, kind := range []string{"deltas", "fulls", "manifests", "delta records"} {
			_, err := Read(t.Context(), flooded{Store: backedUp(t), n: 1000, key: floods[kind], content: content}, prefix, Options{maxObjects: 500})
			if !errors.Is(err, ErrFlooded) || !strings.Contains(err.Error(), prefix) || !strings.Contains(err.Error(), "500") {
				t.Errorf("%s: got %v, want ErrFlooded with the prefix and the number", kind, err)
			}
		}
	}
}

// A version of a key that has a manifest is streamed to measure it, if it has the right size.
func TestOnlySomeForgedVersionsAreMeasured(t *testing.T) {
	s := storetest.NewMemory(storetest.CephLike())
	full := "Full-00000000-00000010-1000.zst"
	described(t, s, full, "a", []byte("truth"))
	for range 50 {
		put(t, s, snapshot.SnapshotKey(prefix, name(t, full)).String(), []byte("trial"))
	}
	var measured int64
	c := mustRead(t, s, Options{Progress: func(p Progress) { measured = p.Bytes }})
	if l, _ := c.Timeline.Lineage("a"); measured != maxMeasured*5 || len(l.Snapshots) != 1 || !l.Snapshots[0].Usable() || l.Snapshots[0].Digest.IsZero() {
		t.Errorf("%d bytes were measured, want %d, and the oldest version to count: %+v", measured, maxMeasured*5, l.Snapshots)
	}
}

func TestOwnerRecordsThatNobodyWroteAreBounded(t *testing.T) {
	rivals := func(i int) string { return fmt.Sprintf("Owner-%08d", 2+i) }
	genuine := func() store.Store {
		s := storetest.NewMemory(storetest.S3Like())
		if _, err := Claim(t.Context(), s, prefix, 0, snapshot.Owner{ID: "ours"}); err != nil {
			t.Fatal(err)
		}
		return s
	}
	for content, want := range map[string]struct {
		requests int
		err      error
	}{"": {1, nil}, "x": {maxOwners, ErrFlooded}} {
		s := storetest.NewFaulty(flooded{Store: genuine(), n: 5000, key: rivals, content: content})
		var last *OwnerRecord
		var failed error
		for rec, err := range Owners(t.Context(), s, prefix) {
			last, failed = rec, err
		}
		if !errors.Is(failed, want.err) || s.Count(storetest.OpOpen) != want.requests {
			t.Errorf("content %q: %d records were read, and %v; want %d and %v", content, s.Count(storetest.OpOpen), failed, want.requests, want.err)
		}
		if want.err == nil && (last == nil || last.ID != "ours") {
			t.Errorf("content %q: the oldest record is %+v, want ours", content, last)
		}
	}
}
