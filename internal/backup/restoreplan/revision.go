package restoreplan

import (
	"cmp"
	"fmt"
	"slices"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
)

// toRevision plans the state at revision r.
func (v *view) toRevision(target Target, r snapshot.Revision, opts Options) (Plan, error) {
	var best draft
	for _, d := range v.basesFor(r) {
		doubt := d.doubt
		d = v.reach(d.base, r)
		d.doubt = doubt
		if d.reached || d.end > best.end {
			best = d
		}
		if d.reached {
			break
		}
	}
	if !best.reached {
		if f, compacted, is := v.later(r, opts); is {
			return v.cut(target, r, f, compacted), nil
		}
	}
	lossy := opts.AcceptLossTo > 0 && best.end >= opts.AcceptLossTo
	if !best.reached && !lossy {
		return Plan{}, v.short(target, r, best)
	}
	p := v.plan(target, best, r)
	p.StopRevision = r
	p.EndCertain = best.reached || best.base.Certain
	if !best.reached {
		p.note("it ends at revision %d, before the target", best.end)
	}
	p.overlaps()
	return p, nil
}

// later finds the nearest full beyond revision r whose history is recorded to reach back to r: etcd
// keeps everything since its last compaction, and the manifest tells where that was.
func (v *view) later(r snapshot.Revision, opts Options) (f timeline.Snapshot, compacted snapshot.Revision, is bool) {
	for _, f := range slices.Backward(v.fulls) {
		if f.Last <= r || f.Manifest == nil || f.Manifest.HashKV == nil {
			continue
		}
		compacted := max(f.Manifest.HashKV.CompactRevision, 1)
		if earliest, opened := opts.Measured[f.Ref]; compacted <= r && (!opened || earliest <= r) {
			return f, compacted, true
		}
	}
	return timeline.Snapshot{}, 0, false
}

// cut plans the state at revision r from the history of the later full f.
func (v *view) cut(target Target, r snapshot.Revision, f timeline.Snapshot, compacted snapshot.Revision) Plan {
	p := v.plan(target, draft{base: f, end: r, reached: true}, r)
	p.StopRevision, p.EndCertain = r, true
	p.note("%s holds the history from revision %d on, and is cut at %d; users, roles and leases are as they were at revision %d", object(f.Ref), compacted, r, f.Last)
	return p
}

// short is the error of a revision that no draft reaches.
func (v *view) short(target Target, r snapshot.Revision, best draft) error {
	e := &NoWayError{Target: target, Lineage: &v.ID, Highest: best.end, Accept: best.end, Lowest: v.fulls[len(v.fulls)-1].Last}
	switch {
	case best.end == 0:
		first := v.fulls[len(v.fulls)-1]
		e.After = first.Name()
		e.Why = fmt.Sprintf("there is no usable full at or before it, the first is %s of %s", object(first.Ref), atLeast(e.Lowest, first.Certain))
		if m := first.Manifest; m != nil && m.HashKV != nil {
			e.Why += fmt.Sprintf(", whose history begins at revision %d", max(m.HashKV.CompactRevision, 1))
		}
		for _, refused := range v.refused {
			if refused.Full() && refused.Last <= r {
				e.Why += "; " + refused.String()
				break
			}
		}
	case r > v.newest && best.end == v.newest:
		e.Why = fmt.Sprintf("the newest known revision is %d", v.newest)
		if refused := v.refusedIn(&timeline.Missing{From: v.newest + 1, To: r}); refused != "" {
			e.Why += "; " + refused
		}
	default:
		e.Missing = v.links.Beyond(best.end, best.last())
		e.Why = fmt.Sprintf("the highest revision that can be reached is %d", best.end)
		if refused := v.refusedIn(e.Missing); refused != "" {
			e.Why += "; " + refused
		}
	}
	for _, f := range v.fulls {
		if f.Name().Last <= r && f.Last > r {
			e.Why += fmt.Sprintf("; %s is no base for it, because it reaches revision %d", object(f.Ref), f.Last)
			break
		}
	}
	return e
}

// basesFor orders the fulls for a restore that must not go beyond r. A full without a manifest
// holds its name's revision and possibly some more, written while its stream ran. Its end is
// bounded by a full of a later creation whose name says at most r, because the writer had
// finished the first before it named the second. Fulls that are known to end in time come first,
// newest first, then the doubtful ones.
func (v *view) basesFor(r snapshot.Revision) []draft {
	fulls := slices.DeleteFunc(slices.Clone(v.fulls), func(s timeline.Snapshot) bool { return s.Last > r })
	return v.trusted(fulls, func(s timeline.Snapshot) bool { return s.Certain },
		func(s timeline.Snapshot) bool { return s.Name().Last <= r },
		fmt.Sprintf("a revision beyond %d", r))
}

// trusted orders fulls, newest first: those that are proven or bounded before those that are
// not, which get a doubt. A full is bounded by a later one of the lineage for which limit holds.
func (v *view) trusted(fulls []timeline.Snapshot, proven, limit func(timeline.Snapshot) bool, what string) []draft {
	bounds := slices.DeleteFunc(v.known(), func(s timeline.Snapshot) bool { return !s.Full() || !limit(s) })
	slices.SortFunc(bounds, func(a, b timeline.Snapshot) int {
		return cmp.Or(cmp.Compare(b.Name().Last, a.Name().Last), cmp.Compare(b.Name().Created, a.Name().Created))
	})
	slices.SortFunc(fulls, func(a, b timeline.Snapshot) int {
		return cmp.Or(cmp.Compare(b.Name().Last, a.Name().Last), timeline.CompareBases(b, a))
	})
	var sure, doubtful []draft
	var latest int64 = -1 // creation among the bounds that reach as far or farther
	for _, f := range fulls {
		for ; len(bounds) > 0 && bounds[0].Name().Last >= f.Name().Last; bounds = bounds[1:] {
			latest = max(latest, bounds[0].Name().Created)
		}
		d := draft{base: f}
		if proven(f) || latest > f.Name().Created {
			sure = append(sure, d)
			continue
		}
		d.doubt = fmt.Sprintf("nothing tells whether %s holds %s; the restorer finds out by its content and then plans again", object(f.Ref), what)
		doubtful = append(doubtful, d)
	}
	slices.SortFunc(sure, func(a, b draft) int { return timeline.CompareBases(b.base, a.base) })
	for i := range sure {
		for _, d := range doubtful {
			if timeline.CompareBases(d.base, sure[i].base) > 0 {
				sure[i].doubt = fmt.Sprintf("%s is nearer but not used: nothing tells whether it holds %s", object(d.base.Ref), what)
				break
			}
		}
	}
	return append(sure, doubtful...)
}

// toSnapshot plans the state at the end of a named snapshot.
func (v *view) toSnapshot(target Target, opts Options) (Plan, error) {
	named := v.Find(target.Snapshot)
	if len(named) == 0 {
		return Plan{}, &NoWayError{Target: target, Lineage: &v.ID, Why: "there is no snapshot of this name"}
	}
	for _, f := range v.fulls {
		if f.Name() == target.Snapshot {
			p := v.plan(target, draft{base: f, end: f.Last}, f.Last)
			if !f.Certain {
				p.note("nothing tells how far beyond revision %d %s reaches", f.Last, object(f.Ref))
			}
			return p, nil
		}
	}
	s := named[0]
	if s.Excluded {
		return Plan{}, &NoWayError{Target: target, Lineage: &v.ID, Why: "it is excluded by its tag x-etcd-snapshot-exclude"}
	}
	p, err := v.toRevision(target, s.Last, opts)
	if err != nil {
		return Plan{}, err
	}
	if s.Full() && !s.Certain {
		p.note("%s may have held more than revision %d, where this plan ends", object(s.Ref), s.Last)
	}
	return p, nil
}
