package timeline

import (
	"cmp"
	"slices"

	"druid.internal/druid/internal/backup/snapshot"
)

// relate finds parents and forks, orders each lineage's snapshots and the lineages themselves.
func (b *builder) relate() {
	for _, l := range b.lineages {
		slices.SortFunc(l.Snapshots, compareSnapshots)
		slices.SortFunc(l.Missing, compareSnapshots)
		for _, s := range slices.Concat(l.Snapshots, l.Missing) {
			if !s.Excluded {
				l.Newest = max(l.Newest, s.Last)
			}
		}
		b.descent(l)
		b.ordered = append(b.ordered, l)
	}
	slices.SortFunc(b.ordered, func(x, y *Lineage) int { return cmp.Compare(x.ID, y.ID) })
	b.breakCycles()
	b.order()
}

// descent settles the parent and fork of l: what its earliest snapshot tells counts.
func (b *builder) descent(l *Lineage) {
	if l.ID == "" {
		return
	}
	all := slices.DeleteFunc(slices.Concat(l.Snapshots, l.Missing), func(s Snapshot) bool { return s.Manifest == nil })
	if len(all) == 0 {
		return
	}
	slices.SortFunc(all, func(x, y Snapshot) int {
		return cmp.Or(cmp.Compare(x.Name().Created, y.Name().Created), compareSnapshots(x, y))
	})
	told := all[0].Manifest.Lineage
	conflicting := false
	for _, s := range all[1:] {
		other := s.Manifest.Lineage
		switch {
		case other.Parent != told.Parent:
		case told.Fork == 0:
			told.Fork = other.Fork
			continue
		case other.Fork == told.Fork || other.Fork == 0:
			continue
		}
		if !conflicting {
			b.find(LineageConflict, Warning, l.ID, s.Ref, "%s says that %s left %s at revision %d, and %s that it left %s at revision %d; the latter counts",
				s.Name(), Title(l.ID), Title(other.Parent), other.Fork, all[0].Name(), Title(told.Parent), told.Fork)
			conflicting = true
		}
	}
	l.Lineage = told
}

// breakCycles makes a lineage that is its own ancestor a root.
func (b *builder) breakCycles() {
	for _, l := range b.ordered {
		seen := map[snapshot.LineageID]bool{}
		for at := l; at != nil && at.ID != ""; at = b.lineages[at.Parent] {
			if !seen[at.ID] {
				seen[at.ID] = true
				continue
			}
			if at != l {
				break // a cycle among its ancestors, which is theirs to break
			}
			b.find(LineageConflict, Warning, l.ID, Ref{}, "%s would descend from itself through %s; its parent is taken as unknown", Title(l.ID), Title(l.Parent))
			l.Parent, l.Fork = "", 0
			break
		}
	}
}

// order sorts the lineages, newest first. Where a clock or a collected object makes a parent
// look younger than its child, the child is as young as the parent.
func (b *builder) order() {
	type age struct{ born, own, depth int64 }
	ages := make(map[snapshot.LineageID]age)
	for _, l := range b.ordered {
		a := age{own: l.born()}
		a.born = a.own
		for at := b.lineages[l.Parent]; at != nil && at.ID != "" && l.ID != ""; at = b.lineages[at.Parent] {
			a.born = max(a.born, at.born())
			a.depth++
		}
		ages[l.ID] = a
	}
	slices.SortFunc(b.ordered, func(x, y *Lineage) int {
		if (x.ID == "") != (y.ID == "") {
			if x.ID == "" {
				return 1
			}
			return -1
		}
		ax, ay := ages[x.ID], ages[y.ID]
		return -cmp.Or(cmp.Compare(ax.born, ay.born), cmp.Compare(ax.depth, ay.depth), cmp.Compare(ax.own, ay.own), cmp.Compare(x.ID, y.ID))
	})
}

// born is when the first snapshot was taken, in Unix seconds.
func (l *Lineage) born() int64 {
	var first int64 = -1
	for _, list := range [][]Snapshot{l.Snapshots, l.Missing} {
		for _, s := range list {
			if first < 0 || s.Taken() < first {
				first = s.Taken()
			}
		}
	}
	return first
}
