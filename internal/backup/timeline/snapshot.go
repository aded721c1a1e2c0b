package timeline

import (
	"cmp"
	"slices"
	"time"

	"druid.internal/druid/internal/backup/snapshot"
)

// Snapshot is a full or a delta: the version that counts, with all that is known of it.
type Snapshot struct {
	Object                      // of several versions the one with the manifest's digest, else the oldest
	Manifest *snapshot.Manifest // what its manifest says, or else its header; nil: nothing is known beyond the name
	Lineage  snapshot.LineageID // "" for the unnamed lineage
	Last     snapshot.Revision  // true last revision if Certain, else that of the name: a lower bound
	Certain  bool               // Last is exact: any delta, and a full with a manifest
	Problem  string             // why it cannot be used although it is known, for people; empty: usable
	Others   []Object           // the other versions and the markers of the key, oldest first

	candidates []Object
}

// Name is the snapshot's name.
func (s Snapshot) Name() snapshot.Name { return s.Key.Name }

// Usable reports whether a restore may use the snapshot: it is neither excluded nor known to
// be damaged, gone or of a kind that cannot be unpacked.
func (s Snapshot) Usable() bool { return s.Problem == "" && !s.Excluded }

// Taken is when the content was written for the first time, in Unix seconds by the writer's clock: the
// time in the name, and of a copy that was made only to be locked anew the time in the name of its origin.
// A copy is nobody's sign of life.
func (s Snapshot) Taken() int64 {
	if s.Manifest != nil && s.Manifest.CopiedFrom != "" {
		if origin, err := snapshot.ParseName(s.Manifest.CopiedFrom); err == nil {
			return min(origin.Created, s.Key.Name.Created)
		}
	}
	return s.Key.Name.Created
}

// Full reports whether the snapshot holds a whole database.
func (s Snapshot) Full() bool { return s.Key.Name.Kind == snapshot.Full }

// Candidates are the versions of the key that may be the snapshot, in the order in which to
// try them: first the one that counts. Versions after the first appear only where a manifest
// tells the digest by which a reader can recognise the right one. A snapshot with a Problem
// has none.
func (s Snapshot) Candidates() []Object {
	if s.Problem == "" && s.candidates == nil {
		return []Object{s.Object}
	}
	return slices.Clone(s.candidates)
}

// Earliest is the receive time of the first revision of a delta, zero if unknown.
func (s Snapshot) Earliest() time.Time {
	if s.Manifest == nil || s.Full() {
		return time.Time{}
	}
	return s.Manifest.Earliest
}

// Latest is the receive time of the last revision of a delta, or when the stream of a full
// ended; zero if unknown.
func (s Snapshot) Latest() time.Time {
	if s.Manifest == nil {
		return time.Time{}
	}
	return s.Manifest.Latest
}

// NotAfter is the best knowledge of when the last revision had been received: Latest, or the
// last nanosecond of the second in the name. For a delta that is an upper bound, because it is
// named after its last event. For a full without a manifest it is none: it is named before
// its stream begins.
func (s Snapshot) NotAfter() time.Time {
	if t := s.Latest(); !t.IsZero() {
		return t
	}
	return s.Key.Name.CreatedAt().Add(time.Second - 1)
}

// CoveredUntil is until when nothing after Last is known to have been received: NotAfter, but of a
// full that was made from other snapshots (a compaction, a copy) the time of its content. It is
// zero where that is unknown.
func (s Snapshot) CoveredUntil() time.Time {
	switch {
	case s.Manifest == nil || !s.Latest().IsZero():
		return s.NotAfter()
	case s.Manifest.CompactedFrom != "":
		return time.Time{}
	}
	return time.Unix(s.Taken(), 0).UTC().Add(time.Second - 1)
}

// start is where a snapshot takes its place among the others: a full where it ends.
func (s Snapshot) start() snapshot.Revision {
	if s.Full() {
		return s.Last
	}
	return s.Key.Name.Start
}

// compareSnapshots orders by snapshot.Compare, then by key.
func compareSnapshots(a, b Snapshot) int {
	if a.Key == b.Key {
		return 0
	}
	if c := snapshot.Compare(a.Name(), b.Name()); c != 0 && a.Name() != b.Name() {
		return c
	}
	return cmp.Compare(a.Key.String(), b.Key.String())
}

// CompareBases orders fulls by how far they reach: true last revision, then snapshot.Compare.
func CompareBases(a, b Snapshot) int {
	if c := cmp.Compare(a.Last, b.Last); c != 0 {
		return c
	}
	return compareSnapshots(a, b)
}
