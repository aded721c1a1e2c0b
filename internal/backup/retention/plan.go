package retention

import (
	"cmp"
	"slices"
	"time"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
)

// Action is what is to happen to one version.
type Action string

// The actions.
const (
	Keep    Action = "keep"
	Delete  Action = "delete"
	Blocked Action = "blocked" // ought to go, but something protects it still
)

// Kind is what a decision is about.
type Kind string

// The kinds.
const (
	Full     Kind = "full"
	Delta    Kind = "delta"
	Surplus  Kind = "version" // a version of a snapshot's key that does not count
	Marker   Kind = "marker"
	Manifest Kind = "manifest"
	Chunk    Kind = "chunk"
)

// Decision is about one version of one object.
type Decision struct {
	Ref      timeline.Ref       `json:"-"`
	Key      string             `json:"key"`
	Version  string             `json:"version,omitempty"`
	Kind     Kind               `json:"kind"`
	Snapshot string             `json:"snapshot"` // key of the snapshot it is or belongs to
	Lineage  snapshot.LineageID `json:"lineage,omitempty"`
	Created  time.Time          `json:"created"`        // by the snapshot's name
	Size     int64              `json:"size,omitempty"` // stored bytes; 0 for manifests and markers

	Action Action `json:"action"`
	// Reasons: what the policy says first, then what forbids it, if anything does.
	Reasons []Reason `json:"reasons"`
	// Until is the first moment at which a blocked version may be deleted, as far as its
	// locks are known; zero if it is unknown, as under a hold or without a proof.
	Until time.Time `json:"until,omitzero"`

	turn, part int                // place in the order of deletion: of the snapshot, and within it
	ask        snapshot.LineageID // whose newest chain to read if a proof is what it waits for
}

// Has reports whether r is among the reasons.
func (d Decision) Has(r Reason) bool { return slices.Contains(d.Reasons, r) }

// Plan is what is to happen to every version below a prefix.
type Plan struct {
	Policy Policy    `json:"policy"`
	Now    time.Time `json:"now"`
	// Proven are the newest proven chains, one of a lineage, the newest lineage first.
	Proven []Proven `json:"proven,omitempty"`
	// Decisions in reading order: lineages from the oldest to the newest, snapshots in the
	// order of snapshot.Compare, and with each what belongs to it.
	Decisions []Decision `json:"decisions"`
}

// Deletions are the versions to delete, in the order in which to do it: whatever is
// interrupted, what is left is as restorable as before, and no version that does not count
// is ever left to pass for one that did.
//
//   - the oldest stream first; of a stream the newest delta first, its full last
//   - of a key first the versions that do not count, then the markers (so that removing a
//     marker reveals none of them), then the one that counts, then its manifest
//
// Where one deletion fails, those with the same Snapshot that follow must be left out.
func (p Plan) Deletions() []Decision {
	var steps []Decision
	for _, d := range p.Decisions {
		if d.Action == Delete {
			steps = append(steps, d)
		}
	}
	slices.SortStableFunc(steps, func(a, b Decision) int {
		return cmp.Or(cmp.Compare(a.turn, b.turn), cmp.Compare(a.part, b.part))
	})
	return steps
}

// Narrow is the plan for only some snapshots: what belongs to another, by its key, is kept. Nothing
// goes that did not before, so what no policy may delete stays, and what belongs to one snapshot goes or
// stays together. What goes may have continued something that stays.
func (p Plan) Narrow(meant func(snapshot string) bool) Plan {
	p.Decisions = slices.Clone(p.Decisions)
	for i, d := range p.Decisions {
		if d.Action != Keep && !meant(d.Snapshot) {
			p.Decisions[i].Action, p.Decisions[i].Reasons, p.Decisions[i].Until = Keep, []Reason{NotMeant}, time.Time{}
		}
	}
	return p
}

// Unknown are the blocked versions whose lock nobody told. A collector on a store that does
// not list locks decides once, asks about these, and decides again with the answers: what a
// policy wants does not depend on locks, so no others are needed.
func (p Plan) Unknown() []timeline.Ref {
	var refs []timeline.Ref
	for _, d := range p.Decisions {
		if d.Action == Blocked && d.Has(LockUnknown) {
			refs = append(refs, d.Ref)
		}
	}
	return refs
}

// Total is a number of versions and their bytes.
type Total struct {
	Objects int   `json:"objects"`
	Bytes   int64 `json:"bytes"`
}

// Total sums up what gets one action.
func (p Plan) Total(a Action) Total {
	var t Total
	for _, d := range p.Decisions {
		if d.Action == a {
			t.Objects++
			t.Bytes += d.Size
		}
	}
	return t
}
