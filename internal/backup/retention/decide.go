package retention

import (
	"time"

	"druid.internal/druid/internal/backup/snapshot"
)

// Decide says what is to happen to every version in the bucket at now, which is
// immutability.Clock.ForDeletion: locks are judged by it and so are ages. Locks protect for
// margin longer than they last; immutability.DeleteMargin is the usual one.
//
// The only error is a policy that makes no sense.
func Decide(b Bucket, p Policy, now time.Time, margin time.Duration) (Plan, error) {
	plan := Plan{Policy: p, Now: now}
	if err := p.Validate(); err != nil {
		return plan, err
	}
	c := b.sort()
	if p.IsZero() {
		c.each(func(it *item) { it.keep(NoPolicy) })
	} else {
		c.applyKeepers(p, now)
		c.applyDeltaRetention(p, now)
		c.applyMaxAge(p, now)
		c.applyMaxSize(p)
		c.defaults()
		c.applyProperties(now)
		c.applyToTraces()
	}
	for _, h := range c.histories {
		if p := h.proven; p != nil {
			plan.Proven = append(plan.Proven, Proven{Lineage: h.ID, Base: p.base.name().String(), Deltas: len(p.parts) - 1, End: p.proof.End, ReadAt: p.proof.ReadAt})
		}
	}
	w := writer{bucket: b, policy: p, now: now, margin: margin}
	w.write(c)
	plan.Decisions = w.decisions
	return plan, nil
}

// each calls fn for every item.
func (c *contents) each(fn func(*item)) {
	for _, h := range c.histories {
		for _, s := range h.streams {
			for _, it := range s.all() {
				fn(it)
			}
		}
		for _, it := range h.missing {
			fn(it)
		}
	}
	for _, it := range c.loose {
		fn(it)
	}
}

// defaults gives a reason to every snapshot that no rule spoke about.
func (c *contents) defaults() {
	for _, h := range c.histories {
		for _, s := range h.streams {
			for _, it := range s.all() {
				if len(it.policy) == 0 {
					it.keep(WithinLimits)
				}
			}
		}
	}
}

// applyToTraces decides about what is left of snapshots that are not there any more: their
// manifests and markers. They go once everything that is kept is newer, so that a snapshot
// that vanished on its own does not vanish from sight with the next run.
func (c *contents) applyToTraces() {
	var oldest time.Time // of everything kept
	for _, h := range c.histories {
		var first *item
		for _, s := range h.streams {
			for _, it := range s.all() {
				if it.goes() {
					continue
				}
				if first == nil || snapshot.Compare(it.name(), first.name()) < 0 {
					first = it
				}
				if oldest.IsZero() || it.created().Before(oldest) {
					oldest = it.created()
				}
			}
		}
		for _, it := range h.missing {
			switch {
			case first == nil && !h.left:
				it.keep(NotYetOldest)
				it.protect(NoNewerLineage)
			case first != nil && snapshot.Compare(it.name(), first.name()) > 0:
				it.keep(NotYetOldest)
			default:
				it.drop(SnapshotGone)
			}
		}
	}
	for _, it := range c.loose {
		switch {
		case len(it.manifests) == 0 && len(it.others) == 0: // chunks alone: see writer.chunkAlone
		case it.hasContent():
			it.keep(NotYetOldest)
			it.protect(NotUnderstood)
		case oldest.IsZero() || !it.created().Before(oldest):
			it.keep(NotYetOldest)
		default:
			it.drop(SnapshotGone)
		}
	}
}

// hasContent reports whether any version of the item is more than a delete marker.
func (it *item) hasContent() bool {
	if it.snap != nil {
		return true
	}
	for _, o := range it.others {
		if !o.Marker {
			return true
		}
	}
	for _, m := range it.manifests {
		if !m.Marker {
			return true
		}
	}
	return false
}
