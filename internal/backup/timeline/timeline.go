package timeline

import (
	"slices"

	"druid.internal/druid/internal/backup/snapshot"
)

// Timeline is what a listing amounts to.
type Timeline struct {
	// Lineages, newest first. A lineage is newer than its ancestors; lineages of which none
	// descends from the other compare by the creation time of their first snapshot, because
	// the later one began by a later decision. The unnamed lineage is an ancestor of all
	// others and comes last.
	Lineages []Lineage
	// Findings, the gravest first, then by key.
	Findings []Finding
}

// Lineage is one history: every snapshot that says it belongs to it. Nothing of another
// lineage ever continues it, not even of its parent.
type Lineage struct {
	snapshot.Lineage
	// Snapshots in the order of snapshot.Compare, excluded and damaged ones included.
	Snapshots []Snapshot
	// Missing snapshots are known by their manifest or their delete marker only. They count
	// as known revisions, and nothing else can be done with them.
	Missing []Snapshot
	// Newest is the highest revision known to have been uploaded, 0 if there is none.
	// Excluded snapshots do not count, damaged and missing ones do.
	Newest snapshot.Revision
}

// Lineage finds a lineage by its id.
func (t Timeline) Lineage(id snapshot.LineageID) (Lineage, bool) {
	for _, l := range t.Lineages {
		if l.ID == id {
			return l, true
		}
	}
	return Lineage{}, false
}

// Find returns the snapshots of the lineage with this name. There can be several, in
// different layouts or directories.
func (l Lineage) Find(n snapshot.Name) []Snapshot {
	var found []Snapshot
	for _, s := range l.Snapshots {
		if s.Name() == n {
			found = append(found, s)
		}
	}
	return found
}

// Excluded: there is something of the lineage, and all of it is excluded, as of one that was forged.
func (l Lineage) Excluded() bool {
	all := slices.Concat(l.Snapshots, l.Missing)
	return len(all) > 0 && !slices.ContainsFunc(all, func(s Snapshot) bool { return !s.Excluded })
}

// NewestKnown is a snapshot that tells of Newest; false if no snapshot counts.
func (l Lineage) NewestKnown() (Snapshot, bool) {
	for _, list := range [][]Snapshot{l.Snapshots, l.Missing} {
		for _, s := range list {
			if !s.Excluded && s.Last == l.Newest {
				return s, true
			}
		}
	}
	return Snapshot{}, false
}

// Title is how the lineage is called in messages.
func Title(id snapshot.LineageID) string {
	if id == "" {
		return "the unnamed lineage"
	}
	return "lineage " + string(id)
}
