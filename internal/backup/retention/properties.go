package retention

import (
	"math"
	"slices"
	"time"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
)

// applyProperties forbids what no policy may do.
func (c *contents) applyProperties(now time.Time) {
	for i, h := range c.histories {
		if !h.left {
			h.protectNewest(i == 0)
		}
		for _, s := range h.streams {
			for _, it := range s.all() {
				switch {
				case it.manifestUnread():
					it.protect(UnreadManifest)
				case h.left && h.ID == "" && it.youngerThan(ManifestGrace, now):
					it.protect(ManifestMayCome)
				}
			}
		}
	}
	// Only now is it settled which deltas are kept.
	for _, h := range c.histories {
		h.protectNeeded()
	}
}

// protectNewest keeps the newest restorable chain of a lineage and its newest stream, which
// may be longer: its full may be excluded, its deltas may not fit together yet, and more may
// be on the way.
func (h *history) protectNewest(current bool) {
	if h.base != nil {
		h.base.protect(NewestChain)
		for _, it := range h.links {
			it.protect(NewestChain)
		}
	}
	if s := h.newest(); s != nil {
		why := NoNewerLineage
		if current {
			why = CurrentStream
		}
		for _, it := range s.all() {
			it.protect(why)
		}
	}
}

// ManifestGrace is how long a snapshot without a manifest, where newer lineages have some, is
// taken for one whose manifest is still to be written. Until it is, the timeline counts the
// newest snapshot there is to the oldest lineage of all.
const ManifestGrace = 24 * time.Hour

// youngerThan judges by the name and by the store's clock: either will do.
func (it *item) youngerThan(d time.Duration, now time.Time) bool {
	limit := now.Add(-d)
	return !it.created().Before(limit) || !it.snap.Modified.Before(limit)
}

// manifestUnread reports that there is a manifest but none that can be used. Without it the
// timeline cannot know to which lineage the snapshot belongs.
func (it *item) manifestUnread() bool {
	there := false
	for _, m := range it.manifests {
		if m.Marker {
			continue
		}
		there = true
		if m.Err == nil && m.Manifest != nil && m.Manifest.Snapshot == it.name().String() {
			return false
		}
	}
	return there
}

// protectNeeded keeps for every delta that is kept the newest full before it and the deltas
// between the two: without them none of its revisions can be restored.
//
//	full ── delta ── delta ── delta
//	needed  needed   needed   kept
//
// A delta that nothing continues up to needs nothing, because nothing helps it.
func (h *history) protectNeeded() {
	bases := h.fulls
	if len(bases) == 0 {
		return
	}
	// reach[i] is how far the chain of bases[i] is needed. No further than to the next full:
	// what begins behind that one needs that one. So all chains together are as long as one.
	reach := make([]snapshot.Revision, len(bases))
	chains := make([][]timeline.Link, len(bases))
	chain := func(i int) []timeline.Link {
		if chains[i] == nil {
			limit := snapshot.Revision(math.MaxInt64)
			if i+1 < len(bases) {
				limit = bases[i+1].Last
			}
			chains[i] = h.index.FollowTo(bases[i].Last, limit)
		}
		return chains[i]
	}
	end := func(i int) snapshot.Revision { // exact where it does not reach the next full
		if links := chain(i); len(links) > 0 {
			return links[len(links)-1].To
		}
		return bases[i].Last
	}
	for _, s := range h.streams {
		for _, it := range s.all() {
			if it.isFull() || it.goes() || !it.usable {
				continue
			}
			before := it.name().Start - 1
			if i := newestUpTo(bases, before); i >= 0 && before <= end(i) {
				reach[i] = max(reach[i], before)
				h.items[bases[i].Key].protect(NeededByDelta)
				continue
			}
			// No chain leads to its first revision; a full in the midst of it leads to its last.
			if i := newestUpTo(bases, it.name().Last-1); i >= 0 && bases[i].Last >= it.name().Start {
				h.items[bases[i].Key].protect(NeededByDelta)
			}
		}
	}
	for i, upTo := range reach {
		if upTo == 0 {
			continue
		}
		for _, link := range chain(i) {
			if link.From > upTo {
				break
			}
			h.items[link.Key].protect(NeededByDelta)
		}
	}
}

// newestUpTo is the index of the last full that ends at or before r; -1: there is none.
func newestUpTo(bases []*timeline.Snapshot, r snapshot.Revision) int {
	n, _ := slices.BinarySearchFunc(bases, r, func(s *timeline.Snapshot, r snapshot.Revision) int {
		if s.Last <= r {
			return -1
		}
		return 1
	})
	return n - 1
}
