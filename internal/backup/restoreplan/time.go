package restoreplan

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
)

// toTime plans the state after the last revision received at or before the target's time.
//
// It must be certain that nothing received by then is left out. A chain that ends before the time
// reaches the target only if the next delta begins later. The end of the backup is no such proof:
// what was received after it is not in the backup.
//
//	base ──delta──┬──delta──┬ · · · hole · · · ┬─full─
//	          T1 ok     T2 ok     T3: no way     T4 ok   T5: no way
func (v *view) toTime(target Target, opts Options) (Plan, error) {
	var best draft
	for _, d := range v.basesAt(target.Time) {
		doubt := d.doubt
		d = v.until(d.base, target.Time)
		d.doubt = doubt
		if d.reached || d.end > best.end {
			best = d
		}
		if d.reached {
			break
		}
	}
	lossy := opts.AcceptLossTo > 0 && best.end >= opts.AcceptLossTo
	if !best.reached && !lossy {
		return Plan{}, v.late(target, best)
	}
	p := v.plan(target, best, v.newestAt(target.Time))
	p.StopTime = target.Time
	for _, s := range best.steps {
		if s.Stops {
			p.EndCertain = false
		}
	}
	if best.base.Latest().IsZero() {
		p.note("the time of %s is known from its name only", object(best.base.Ref))
	}
	if !best.reached {
		p.note("it ends at revision %d; whether later ones were received by then is not known", best.end)
		if best.end == v.newest {
			p.note("the backup ends at %s, before the target", instant(v.covered()))
		}
	}
	p.overlaps()
	return p, nil
}

// newestAt is the highest revision of a full that may belong into the state at a time.
func (v *view) newestAt(t time.Time) snapshot.Revision {
	var r snapshot.Revision
	for _, s := range v.known() {
		if s.Full() && !s.Name().CreatedAt().After(t) {
			r = max(r, s.Last)
		}
	}
	return r
}

// until follows the deltas from a base up to the one in which t lies.
func (v *view) until(base timeline.Snapshot, t time.Time) draft {
	d := draft{base: base, end: base.Last}
	for _, l := range v.links.FollowInTime(base.Last) {
		if !l.Earliest().IsZero() && l.Earliest().After(t) {
			d.reached = true
			return d
		}
		s := Step{Link: l, Stops: l.NotAfter().After(t)}
		d.steps, d.end = append(d.steps, s), s.To
		// What follows a delta was received after the delta was cut, and it was not cut before
		// the second in its name began.
		if l.Latest().After(t) || l.Latest().IsZero() && l.Name().CreatedAt().After(t) {
			d.reached = true
			return d
		}
	}
	d.reached = d.end >= v.newest && !t.After(v.covered())
	for _, r := range v.refused { // their content is useless, but their time is known
		if !r.Full() && r.Name().Start <= d.end+1 && r.Last > d.end && r.Earliest().After(t) {
			d.reached = true
		}
	}
	return d
}

// covered is until when the backup is known to hold everything that was received: the time of the
// latest snapshot that ends at the newest known revision. A full of an idle etcd counts like a delta.
func (v *view) covered() time.Time {
	var until time.Time
	for _, s := range slices.Concat(v.known(), v.fulls) { // v.fulls has what was measured
		if by := s.CoveredUntil(); s.Last >= v.newest && by.After(until) {
			until = by
		}
	}
	return until
}

// late is the error of a time that no draft reaches.
func (v *view) late(target Target, best draft) error {
	first := v.fulls[len(v.fulls)-1]
	e := &NoWayError{Target: target, Lineage: &v.ID, Highest: best.end, Lowest: first.Last}
	if best.end == 0 {
		e.After = first.Name()
		e.Why = fmt.Sprintf("no usable full is known to have been complete by then, the first is %s of %s", object(first.Ref), instant(first.NotAfter()))
		return e
	}
	e.Accept = best.end
	if best.end == v.newest {
		e.Why = fmt.Sprintf("the backup ends at %s with revision %d", instant(v.covered()), best.end)
		return e
	}
	e.Missing = v.links.Beyond(best.end, best.last())
	e.Why = fmt.Sprintf("nothing tells which revisions after %d had been received by then", best.end)
	if refused := v.refusedIn(e.Missing); refused != "" {
		e.Why += "; " + refused
	}
	return e
}

// basesAt orders the fulls for a restore to a time. A full is proven to end by then if its
// manifest says so, or if its last revision is known and a delta shows it received by then (as
// for a full that was compacted later from other snapshots). Without a manifest the time in its
// name is the best there is.
func (v *view) basesAt(t time.Time) []draft {
	received := v.receivedBy()
	proven := func(s timeline.Snapshot) bool {
		if !s.Latest().IsZero() && !s.Latest().After(t) {
			return true
		}
		by, known := received(s.Last)
		return s.Certain && known && !by.After(t)
	}
	named := func(s timeline.Snapshot) bool { return !s.Name().CreatedAt().After(t) }
	fulls := slices.DeleteFunc(slices.Clone(v.fulls), func(s timeline.Snapshot) bool {
		return !proven(s) && (!s.Latest().IsZero() || !named(s))
	})
	return v.trusted(fulls, proven, named, "revisions received later")
}

// receivedBy returns a function that bounds from above when a revision was received, by the
// deltas that reach it.
func (v *view) receivedBy() func(snapshot.Revision) (time.Time, bool) {
	deltas := slices.Clone(v.deltas)
	slices.SortFunc(deltas, func(a, b timeline.Snapshot) int { return cmp.Compare(a.Last, b.Last) })
	by := make([]time.Time, len(deltas)) // the earliest bound of deltas[i:]
	for i := len(deltas) - 1; i >= 0; i-- {
		by[i] = deltas[i].NotAfter()
		if i+1 < len(deltas) && by[i+1].Before(by[i]) {
			by[i] = by[i+1]
		}
	}
	return func(r snapshot.Revision) (time.Time, bool) {
		i, _ := slices.BinarySearchFunc(deltas, r, func(s timeline.Snapshot, r snapshot.Revision) int { return cmp.Compare(s.Last, r) })
		if i == len(deltas) {
			return time.Time{}, false
		}
		return by[i], true
	}
}
