package retention

import (
	"slices"
	"time"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
)

// Proof records that one chain was read whole and restored as a trial. It names the versions that
// were read, so it holds for as long as the bucket lists the same ones, whoever read them.
type Proof struct {
	ReadAt time.Time
	Base   timeline.Object
	Deltas []timeline.Object // in the order of application
	End    snapshot.Revision // last revision that was restored
}

// NewProof is the proof of a full and the deltas that continue it, as they were listed before they
// were read.
func NewProof(base timeline.Snapshot, deltas []timeline.Snapshot, end snapshot.Revision, readAt time.Time) Proof {
	p := Proof{ReadAt: readAt, Base: base.Object, End: end}
	for _, d := range deltas {
		p.Deltas = append(p.Deltas, d.Object)
	}
	return p
}

// Proven is the newest chain of a lineage that is proven and still as it was read.
type Proven struct {
	Lineage snapshot.LineageID `json:"lineage"`
	Base    string             `json:"base"`
	Deltas  int                `json:"deltas"`
	End     snapshot.Revision  `json:"end"`
	ReadAt  time.Time          `json:"readAt"`
}

// proven is a proof as far as it holds for a bucket.
type proven struct {
	base  *item
	parts map[*item]bool // the base, and the leading deltas that are as they were read
	proof Proof
}

// prove finds the newest chain of the lineage that one of the proofs is about.
func (h *history) prove(proofs []Proof, lineage int) {
	for _, p := range proofs {
		base := h.items[p.Base.Key]
		if !base.is(p.Base, lineage) || !base.isFull() || h.proven != nil && timeline.CompareBases(*base.snap, *h.proven.base.snap) < 0 {
			continue
		}
		h.proven = &proven{base: base, parts: map[*item]bool{base: true}, proof: p}
		for _, d := range p.Deltas {
			it := h.items[d.Key]
			if !it.is(d, lineage) {
				break
			}
			h.proven.parts[it] = true
		}
	}
}

// succeed finds out which lineages a newer one has taken the place of. The newest chain of ask is the
// one to read where the proof of a successor is missing.
func (c *contents) succeed() {
	for i, h := range c.histories {
		h.ask = h.ID
		found := false
		for _, newer := range c.histories[:i] {
			if !h.left || h.last.After(newer.last) {
				continue
			}
			h.succeeded = h.succeeded || newer.proven != nil
			if newer.base != nil && !found {
				h.ask, found = newer.ID, true
			}
		}
	}
}

// is reports whether o, which was read, is what a restore would use for the item today.
func (it *item) is(o timeline.Object, lineage int) bool {
	if it == nil || it.snap == nil || !it.usable || it.lineage != lineage {
		return false
	}
	now := it.snap.Object
	return now.Ref == o.Ref && now.Size == o.Size && now.Modified.Equal(o.Modified) &&
		(now.Digest.IsZero() || o.Digest.IsZero() || now.Digest == o.Digest)
}

// precedes reports whether the item ends before the full and is no part of what continues it.
func (it *item) precedes(full *item) bool {
	return snapshot.Compare(it.name(), full.name()) < 0 && (it.snap == nil || it.snap.Last <= full.snap.Last)
}

// awaits reports why an item of the lineage must not be deleted as long as nothing more is proven;
// empty: it precedes a chain that is, or a proven lineage has taken the place of this one.
//
//	full ── delta ── full ── delta ── full ── delta
//	may go  may go   proven  proven   newer   newer
func (h *history) awaits(it *item) Reason {
	switch p := h.proven; {
	case h.succeeded:
		return ""
	case p == nil:
		return Unproven
	case p.parts[it]:
		return ProvenChain
	case !it.precedes(p.base):
		return AfterProven
	}
	return ""
}

// looseAwaits is awaits of what belongs to no lineage: any proven chain that is newer will do. ask is
// the lineage whose newest chain is to be read.
func (c *contents) looseAwaits(it *item) (why Reason, ask snapshot.LineageID) {
	found := false
	for _, h := range c.histories {
		if h.proven != nil && h.proven.base.created().After(it.created()) {
			return "", ""
		}
		if h.base != nil && !found {
			ask, found = h.ID, true
		}
	}
	return Unproven, ask
}

// Unproven are the lineages whose newest chain is to be read so that the plan can delete more. What
// a lock protects anyway does not count.
func (p Plan) Unproven() []snapshot.LineageID {
	var all []snapshot.LineageID
	for _, d := range p.Decisions {
		if d.Waits() && !slices.Contains(all, d.ask) {
			all = append(all, d.ask)
		}
	}
	return all
}

// Waiting sums up what only the lack of a proof keeps.
func (p Plan) Waiting() Total {
	var t Total
	for _, d := range p.Decisions {
		if d.Waits() {
			t.Objects++
			t.Bytes += d.Size
		}
	}
	return t
}

// Waits reports whether only the lack of a proof keeps the version.
func (d Decision) Waits() bool {
	return d.Action == Blocked && slices.ContainsFunc(d.Reasons, Reason.unproven) && !slices.ContainsFunc(d.Reasons, Reason.locks)
}

// unproven reports whether the reason is the lack of a proof.
func (r Reason) unproven() bool { return r == Unproven || r == ProvenChain || r == AfterProven }

// locks reports whether the reason is a lock.
func (r Reason) locks() bool {
	return r == Locked || r == JustUnlocked || r == Held || r == LockUnknown || r == WaitsForKey
}
