package timeline

import (
	"time"

	"druid.internal/druid/internal/backup/snapshot"
)

// Timeline is what a listing amounts to.
type Timeline struct {
	// Lineages, newest first. A lineage is newer than its ancestors; lineages of which none
	// descends from the other compare by the creation time of their first snapshot. The
	// unnamed lineage is an ancestor of all others and comes last.
	Lineages []Lineage
	// Findings, the gravest first, then by key.
	Findings []Finding
}

// Lineage is one history: every snapshot that says it belongs to it.
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

// Snapshot is a full or a delta: the version that counts, with all that is known of it.
type Snapshot struct {
	Object                      // of several versions the one with the manifest's digest, else the oldest
	Manifest *snapshot.Manifest // what its manifest says, or else its header; nil: nothing is known beyond the name
	Lineage  snapshot.LineageID // "" for the unnamed lineage
	Last     snapshot.Revision  // true last revision if Certain, else that of the name: a lower bound
	Certain  bool               // Last is exact: any delta, and a full with a manifest
	Problem  string             // why it cannot be used although it is there, for people; empty: usable
	Others   []Object           // the other versions and the markers of the key, oldest first
	proof    map[Ref]proof      // of versions against the manifest
}

// Name is the snapshot's name.
func (s Snapshot) Name() snapshot.Name { return s.Key.Name }

// Usable reports whether a restore may use the snapshot: it is neither excluded nor known to
// be damaged, gone or of a kind that cannot be unpacked.
func (s Snapshot) Usable() bool { return s.Problem == "" && !s.Excluded }

// Candidates are the versions of the key that may be the snapshot, in the order in which to
// try them: first the one that counts. Versions after the first appear only where a manifest
// tells the digest by which a reader can recognise the right one.
func (s Snapshot) Candidates() []Object { return nil }

// Earliest is the receive time of the first revision of a delta, zero if unknown.
func (s Snapshot) Earliest() time.Time { return time.Time{} }

// Latest is the receive time of the last revision of a delta, or when the stream of a full
// ended; zero if unknown.
func (s Snapshot) Latest() time.Time { return time.Time{} }

// NotAfter bounds from above when the last revision of a delta was received: Latest, or the
// last nanosecond of the second in the name.
func (s Snapshot) NotAfter() time.Time { return time.Time{} }

// Build makes sense of a listing. It never fails: whatever it cannot use becomes a finding.
func Build(Listing) Timeline { return Timeline{} }

// Lineage finds a lineage by its id.
func (t Timeline) Lineage(id snapshot.LineageID) (Lineage, bool) { return Lineage{}, false }

type proof int
