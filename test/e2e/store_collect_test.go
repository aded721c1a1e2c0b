package e2e

import (
	"slices"
	"strings"
	"testing"
	"time"

	"druid.internal/druid/test/sites"
	"druid.internal/druid/test/stores"
)

// TestWhatIsLockedIsListedKeptAndLaterDeletedWithAllItsVersions is about two failures of
// others: what the store would not delete made collecting fail for ever, and what somebody had
// overwritten or hidden left versions and markers behind, of which one then counted.
func TestWhatIsLockedIsListedKeptAndLaterDeletedWithAllItsVersions(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 141, 60)
	w.useLocal(t.TempDir())
	last := w.backup(60)
	w.succeeds("compact")
	origin := w.place
	for _, name := range sites.Names() {
		s := fleet.Get(t, name)
		for _, kind := range s.Kinds() {
			if !kind.Locks || kind.Whole && !kind.Loose {
				continue // as the loose one, but for how it ends
			}
			t.Run(name+", "+kind.Name, func(t *testing.T) {
				t.Parallel()
				on := *w
				on.t = t
				bucket := on.useBucket(s, kind, sites.Owner)
				on.copyFrom(origin).succeeds("copy")
				on.collectedWhenItMay(s, bucket, kind, last)
			})
		}
	}
}

func (w *world) collectedWhenItMay(s sites.Site, bucket string, kind sites.Kind, last int64) {
	t := w.t
	fulls := w.list().all("Full")
	if len(fulls) != 2 {
		t.Fatalf("%d fulls", len(fulls))
	}
	old := func(key string) bool {
		return !strings.Contains(key, fulls[1].Name) && !strings.Contains(key, "/Owner-")
	}
	h := handsOn(t, s, bucket, sites.Owner)
	genuine := h.versions("")
	for _, key := range h.keys() {
		if !old(key) {
			continue
		}
		// What the store refuses is refused; what it does not is what this is about.
		_ = h.raw.Hide(t.Context(), key)
		_ = h.raw.Overwrite(t.Context(), key, []byte("pay"))
		_ = h.raw.Hide(t.Context(), key)
	}
	attacked := h.versions("")

	type plan struct {
		Decisions []struct {
			Key, Version, Action string
			Until                time.Time
		}
	}
	collector := inSite(t, s, "", bucket, sites.Collector)
	policy := []string{"--garbage-collection-policy=LimitBased", "--max-backups=1", "-o=json"}
	eventually(t, "no delta is of this very second any more", nil, func() string { return bucket }, func() bool {
		return !strings.Contains(collector.succeeds("collect", policy...), "young-delta")
	})
	blocked := map[string]bool{}
	for _, d := range decode[plan](t, collector.succeeds("collect", policy...)).Decisions {
		if d.Action == "blocked" {
			blocked[d.Key] = true
		}
	}
	collector.succeeds("collect", append(policy, "--yes")...)
	for _, v := range genuine {
		if old(v.Key) && !blocked[v.Key] {
			t.Errorf("%s is locked and not told to be", v.Key)
		}
		if !slices.ContainsFunc(h.versions(v.Key), func(x stores.RawVersion) bool { return x.ID == v.ID && !x.Marker }) {
			t.Errorf("%+v is gone although it is locked", v)
		}
	}
	if got := w.list().end(); got != last {
		t.Errorf("restorable up to %d, want %d", got, last)
	}

	if !kind.Loose {
		return // nobody can wait for a day
	}
	if err := s.(sites.Lifter).Lift(t.Context(), bucket); err != nil {
		t.Fatal(err)
	}
	collector.succeeds("collect", append(policy, "--yes")...)
	for _, v := range attacked {
		if left := h.versions(v.Key); old(v.Key) && len(left) > 0 {
			t.Errorf("of %s there is left %+v", v.Key, left)
		}
	}
	for _, f := range w.list().Findings {
		if f.Severity != "info" {
			t.Errorf("after collecting there is a finding: %+v", f)
		}
	}
	dir, err := w.restore()
	if err != nil {
		t.Fatal(err)
	}
	w.check(dir, last)
	w.verifies()
}
