package copier

import (
	"fmt"
	"slices"
	"strings"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/engine/catalog"
)

// guard refuses to mix histories. The destination may hold what an earlier copy of this source
// left there, complete or interrupted; whatever cannot come from it is foreign:
//
//   - an owner record that names neither the source's owner nor one of its lineages
//   - snapshots of a lineage that is neither the source's nor an ancestor of one, as either tells
//   - snapshots of the unnamed lineage where the source never had one, or that are newer than
//     its newest there, or than where the source's lineages left it
//
// A snapshot of the unnamed lineage that has the name of one at the source may be a copy whose
// manifest is still to come. Its bytes are compared before anything is done about it.
func guard(from, to *catalog.Catalog, where string) error {
	known := lineages(from.Timeline)
	descend(known, to.Timeline)
	if from.Owner != nil && from.Owner.Err == nil {
		known[snapshot.LineageID(from.Owner.ID)] = true
	}
	var foreign []string
	if o := to.Owner; o != nil {
		switch {
		case o.Err != nil:
			foreign = append(foreign, fmt.Sprintf("its owner is not known (%v)", o.Err))
		case !known[snapshot.LineageID(o.ID)]:
			foreign = append(foreign, fmt.Sprintf("it is owned by %q (%s)", o.ID, o.Note))
		}
	}
	copies := map[snapshot.Key]bool{}
	for _, l := range from.Timeline.Lineages {
		for _, s := range l.Snapshots {
			copies[copyKey(s, to.Prefix)] = true
		}
	}
	newest := newestUnnamed(from.Timeline)
	for _, l := range to.Timeline.Lineages {
		if known[l.ID] && l.ID != "" {
			continue
		}
		var strangers []timeline.Snapshot
		for _, s := range slices.Concat(l.Snapshots, l.Missing) {
			if !(l.ID == "" && copies[s.Key]) && (!known[l.ID] || s.Last > newest && !s.Excluded) {
				strangers = append(strangers, s)
			}
		}
		if n := len(strangers); n > 0 {
			foreign = append(foreign, fmt.Sprintf("it holds %d snapshots of %s that cannot come from the source, for example %s", n, timeline.Title(l.ID), strangers[n-1].Name()))
		}
	}
	if len(foreign) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s: %s; choose another prefix, or give --take-over if the histories are really to be mixed", ErrForeign, where, strings.Join(foreign, ", and "))
}

// lineages are those of a timeline and what they descend from.
func lineages(t timeline.Timeline) map[snapshot.LineageID]bool {
	known := map[snapshot.LineageID]bool{}
	for _, l := range t.Lineages {
		known[l.ID] = true
		// A lineage that left the unnamed one tells so by a fork without a parent.
		if l.Parent != "" || l.Fork > 0 {
			known[l.Parent] = true
		}
	}
	return known
}

// descend adds what known lineages descend from as the destination tells it: the source may have let go of several since it was copied
// last, and knows of the parents of those that it still has alone.
func descend(known map[snapshot.LineageID]bool, at timeline.Timeline) {
	for range at.Lineages {
		for _, l := range at.Lineages {
			if known[l.ID] && l.Parent != "" {
				known[l.Parent] = true
			}
		}
	}
}

// newestUnnamed is the last revision of the unnamed lineage of which a timeline knows.
func newestUnnamed(t timeline.Timeline) snapshot.Revision {
	var newest snapshot.Revision
	for _, l := range t.Lineages {
		if l.ID == "" {
			newest = max(newest, l.Newest)
		} else if l.Parent == "" {
			newest = max(newest, l.Fork)
		}
	}
	return newest
}
