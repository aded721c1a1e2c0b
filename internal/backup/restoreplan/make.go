package restoreplan

import (
	"errors"
	"fmt"
	"math"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
)

// Make plans a restore. Its errors are *NoWayError and *LossError.
//
// The same arguments give the same plan. The newest suitable full is the base, because every
// older one reaches at most as far, with more deltas to apply.
func Make(t timeline.Timeline, target Target, opts Options) (Plan, error) {
	if err := target.check(); err != nil {
		return Plan{}, err
	}
	v, err := pick(t, target, opts)
	if err != nil {
		return Plan{}, err
	}
	if len(v.fulls) == 0 {
		return Plan{}, v.noBase(target)
	}
	var p Plan
	switch target.Kind {
	case ToSnapshot:
		p, err = v.toSnapshot(target, opts)
	case ToRevision:
		p, err = v.toRevision(target, target.Revision, opts)
	case ToTime:
		p, err = v.toTime(target, opts)
	default:
		p, err = v.toLatest(t, target, opts)
	}
	var no *NoWayError
	if errors.As(err, &no) && opts.Lineage == nil && no.Remedy == "" {
		no.Remedy = elsewhere(t, target, v.ID)
	}
	if err != nil {
		return Plan{}, err
	}
	p.EndTime = p.endTime()
	return p, nil
}

// pick chooses the lineage.
func pick(t timeline.Timeline, target Target, opts Options) (view, error) {
	if opts.Lineage != nil {
		l, is := t.Lineage(*opts.Lineage)
		if !is {
			return view{}, &NoWayError{Target: target, Lineage: opts.Lineage, Why: "there is no snapshot of it"}
		}
		return look(l, opts), nil
	}
	if len(t.Lineages) == 0 {
		return view{}, &NoWayError{Target: target, Why: "there are no snapshots"}
	}
	if target.Kind == ToSnapshot {
		for _, l := range t.Lineages {
			if len(l.Find(target.Snapshot)) > 0 {
				return look(l, opts), nil
			}
		}
		return view{}, &NoWayError{Target: target, Why: "there is no snapshot of this name"}
	}
	newest := look(t.Lineages[0], opts)
	if why := t.Contest(newest.ID); why != "" {
		return view{}, &NoWayError{Target: target, Why: why, Remedy: "choose a lineage"}
	}
	if len(newest.fulls) > 0 {
		return newest, nil
	}
	for _, l := range t.Lineages[1:] {
		if v := look(l, opts); len(v.fulls) > 0 {
			return v, nil
		}
	}
	return newest, nil
}

// noBase is the error of a lineage without a usable full.
func (v *view) noBase(target Target) error {
	e := &NoWayError{Target: target, Lineage: &v.ID, Why: fmt.Sprintf("it has no usable full for %d usable deltas", len(v.deltas))}
	for _, r := range v.refused {
		if r.Full() {
			e.Why += "; " + r.String()
			break
		}
	}
	return e
}

// elsewhere names another lineage that can be restored to the target.
func elsewhere(t timeline.Timeline, target Target, not snapshot.LineageID) string {
	if target.IsLatest() || target.Kind == ToSnapshot {
		return ""
	}
	for _, l := range t.Lineages {
		if l.ID == not {
			continue
		}
		for _, w := range l.Windows() {
			if target.Kind == ToRevision && w.From <= target.Revision && target.Revision <= w.To ||
				target.Kind == ToTime && !target.Time.Before(w.FromTime) && !target.Time.After(w.ToTime) {
				return timeline.Title(l.ID) + " reaches it and can be chosen"
			}
		}
	}
	return ""
}

// toLatest goes as far as possible from the newest full.
func (v *view) toLatest(t timeline.Timeline, target Target, opts Options) (Plan, error) {
	d := v.reach(v.fulls[0], math.MaxInt64)
	p := v.plan(target, d, math.MaxInt64)
	accepted := opts.AcceptLossTo > 0 && d.end >= opts.AcceptLossTo
	if d.end < v.newest {
		missing := v.links.Beyond(d.end, d.last())
		loss := &LossError{Lineage: v.ID, End: d.end, Newest: v.newest, Why: v.refusedIn(missing), Missing: missing}
		if s, is := v.NewestKnown(); is {
			loss.Known = s.Name().String()
		}
		if !accepted {
			return Plan{}, loss
		}
		p.note("it ends at revision %d, although %d is known: missing %s", d.end, v.newest, missing)
	}
	if opts.Lineage == nil {
		if loss := v.passedOver(t, d.end); loss != nil {
			if !accepted {
				return Plan{}, loss
			}
			p.note("revision %d of %s is known from %s and not restored", loss.Newest, timeline.Title(*loss.Other), loss.Known)
		}
	}
	p.overlaps()
	return p, nil
}

// passedOver looks for data that was written later than everything in the chosen lineage,
// but not into it: in a newer lineage without a usable full, in one that neither descends from
// the chosen one nor the other way round (two members that do not know of each other), or
// without any lineage by a program that knows none (or that died before it wrote the manifest)
// and beyond what is restored. To go on in silence would lose it.
func (v *view) passedOver(t timeline.Timeline, end snapshot.Revision) *LossError {
	var latest int64 = -1
	for _, s := range v.known() {
		latest = max(latest, s.Taken())
	}
	older, ancestors := false, v.ancestors(t)
	for _, l := range t.Lineages {
		if l.ID == v.ID {
			older = true
			continue
		}
		if older && l.ID != "" && ancestors[l.ID] {
			continue // an abandoned history
		}
		other := view{Lineage: l}
		var loss *LossError
		for _, s := range other.known() {
			created := s.Taken() // in whole seconds: within one, the revision tells
			if created < latest || created == latest && s.Last <= end || older && l.ID == "" && s.Last <= end || loss != nil && s.Last <= loss.Newest {
				continue
			}
			loss = &LossError{Lineage: v.ID, End: end, Newest: s.Last, Known: s.Name().String(), Other: &l.ID,
				Why: "which was written later and has no usable full"}
			switch {
			case older && l.ID == "":
				loss.Why = "which was written later without a manifest"
			case older:
				loss.Why = "which was written later and is another history"
			}
		}
		if loss != nil {
			return loss
		}
	}
	return nil
}

// ancestors are the lineages from which the lineage descends.
func (v *view) ancestors(t timeline.Timeline) map[snapshot.LineageID]bool {
	parents := make(map[snapshot.LineageID]snapshot.LineageID, len(t.Lineages))
	for _, l := range t.Lineages {
		parents[l.ID] = l.Parent
	}
	all := map[snapshot.LineageID]bool{}
	for at := v.Parent; at != "" && !all[at]; at = parents[at] {
		all[at] = true
	}
	return all
}

// known is every snapshot of the lineage that counts.
func (v *view) known() []timeline.Snapshot {
	var known []timeline.Snapshot
	for _, list := range [][]timeline.Snapshot{v.Snapshots, v.Missing} {
		for _, s := range list {
			if !s.Excluded {
				known = append(known, s)
			}
		}
	}
	return known
}

// reach follows the deltas from a base, at most to revision limit.
func (v *view) reach(base timeline.Snapshot, limit snapshot.Revision) draft {
	d := draft{base: base, end: base.Last}
	for _, l := range v.links.Follow(base.Last) {
		if d.end >= limit {
			break
		}
		s := Step{Link: l}
		if s.To > limit {
			s.To, s.Stops = limit, true
		}
		d.steps, d.end = append(d.steps, s), s.To
	}
	d.reached = d.end >= limit
	return d
}

// overlaps says how revisions that several deltas hold are settled.
func (p *Plan) overlaps() {
	for _, s := range p.Deltas {
		if s.Name().Start < s.From {
			p.note("where a delta overlaps what is before it, the revisions in both are taken from the first and skipped in the second")
			return
		}
	}
}
