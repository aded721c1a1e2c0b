package timeline

import (
	"time"

	"druid.internal/druid/internal/backup/snapshot"
)

// Link is a delta in a chain.
type Link struct {
	Snapshot
	From, To snapshot.Revision // what it adds, inclusive; From is above its Start where deltas overlap
}

// Missing is a range of revisions that no usable object holds.
type Missing struct {
	From, To snapshot.Revision // inclusive
	After    string            // name of the object that ends just before, empty if there is none
	Before   string            // name of the object that begins just after, empty if there is none
}

// Chain is a full and the deltas that continue it without a gap.
type Chain struct {
	Base   Snapshot
	Deltas []Link
	End    snapshot.Revision // last revision it reaches, a lower bound if Base is not Certain and there are no deltas
	Gap    *Missing          // what keeps it from reaching the next known delta or full; nil: nothing newer is known
}

// Links finds the continuation of a position among the deltas of a lineage.
type Links struct{}

// Links indexes the deltas of l for which use says yes; nil stands for Snapshot.Usable.
func (l Lineage) Links(use func(Snapshot) bool) Links { return Links{} }

// Follow continues from a state at revision pos. Of several deltas that continue it, the one
// that reaches farthest is taken; equal ones by the larger start, then by the earlier creation.
func (x Links) Follow(pos snapshot.Revision) []Link { return nil }

// Chains are the chains of the usable fulls, newest first.
func (l Lineage) Chains() []Chain { return nil }

// Window is a range of revisions, without a gap, to each of which one can restore.
type Window struct {
	From, To         snapshot.Revision // From is a lower bound if the first full is not Certain
	FromTime, ToTime time.Time         // when they were received, by best knowledge
	Base             Snapshot          // the full it begins with
}

// Windows are the ranges one can restore to, oldest first.
func (l Lineage) Windows() []Window { return nil }
