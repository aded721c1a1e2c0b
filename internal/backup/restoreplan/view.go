package restoreplan

import (
	"fmt"
	"slices"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
)

// view is a lineage as a restorer may use it: of each snapshot the version to read, fulls with
// what was measured, and what is refused and why.
type view struct {
	timeline.Lineage
	newest  snapshot.Revision
	fulls   []timeline.Snapshot // usable, newest first
	deltas  []timeline.Snapshot // usable
	links   timeline.Links
	refused []refusal // newest first
	swapped map[timeline.Ref]string
}

// refusal is a snapshot that is known and not used.
type refusal struct {
	timeline.Snapshot
	why string
}

func (r refusal) String() string { return fmt.Sprintf("%s is not used: %s", object(r.Ref), r.why) }

func look(l timeline.Lineage, opts Options) view {
	v := view{Lineage: l, newest: l.Newest, swapped: make(map[timeline.Ref]string)}
	for _, s := range l.Snapshots {
		s, why := v.admit(s, opts)
		switch {
		case why != "":
			v.refused = append(v.refused, refusal{s, why})
		case s.Full():
			v.fulls = append(v.fulls, s)
			v.newest = max(v.newest, s.Last)
		default:
			v.deltas = append(v.deltas, s)
		}
	}
	for _, s := range l.Missing {
		if s.Excluded {
			s.Problem = "it is excluded"
		}
		v.refused = append(v.refused, refusal{s, s.Problem})
	}
	newestFirst := func(a, b timeline.Snapshot) int { return timeline.CompareBases(b, a) }
	slices.SortFunc(v.fulls, newestFirst)
	slices.SortStableFunc(v.refused, func(a, b refusal) int { return newestFirst(a.Snapshot, b.Snapshot) })
	v.links = timeline.NewLinks(slices.Concat(v.fulls, v.deltas), v.newest)
	return v
}

// admit finds the version of s to read, or why there is none.
func (v *view) admit(s timeline.Snapshot, opts Options) (timeline.Snapshot, string) {
	switch {
	case s.Excluded:
		return s, "it is excluded"
	case s.Problem != "":
		return s, s.Problem
	}
	first, why := s.Ref, "no version of it can be read"
	for i, c := range s.Candidates() {
		if bad, is := opts.Unusable[c.Ref]; is {
			if i == 0 {
				why = bad
			}
			continue
		}
		if c.Excluded {
			continue
		}
		s.Object = c
		if c.Ref != first {
			v.swapped[c.Ref] = fmt.Sprintf("%s is read instead of version %q: %s", object(c.Ref), first.Version, why)
		}
		if last, is := opts.Measured[c.Ref]; is && s.Full() {
			s.Last, s.Certain = last, true
		}
		return s, ""
	}
	return s, why
}

// refusedIn is a refused delta or full that would hold some of the missing revisions.
func (v *view) refusedIn(m *timeline.Missing) string {
	for _, r := range v.refused {
		from := r.Name().Start
		if r.Full() {
			from = r.Last
		}
		if m != nil && from <= m.To && r.Last >= m.From {
			return r.String()
		}
	}
	return ""
}

// draft is a way under consideration.
type draft struct {
	base    timeline.Snapshot
	steps   []Step
	end     snapshot.Revision
	doubt   string // why the base may turn out to be unsuitable
	reached bool   // the target
}

// last is the name of the object that a draft ends with.
func (d draft) last() string {
	if n := len(d.steps); n > 0 {
		return d.steps[n-1].Name().String()
	}
	return d.base.Name().String()
}

// plan makes a plan of a draft, with the notes that every plan has. Refused fulls that would
// have been a nearer base, and refused deltas after the base, are named up to revision limit.
func (v *view) plan(t Target, d draft, limit snapshot.Revision) Plan {
	p := Plan{
		Target: t, Lineage: v.Lineage.Lineage, Base: d.base, Deltas: d.steps,
		End: d.end, EndCertain: d.base.Certain, Newest: v.newest,
	}
	const most = 3
	named, more := 0, 0
	for _, r := range v.refused {
		if r.Full() && (r.Last > limit || timeline.CompareBases(r.Snapshot, d.base) <= 0) ||
			!r.Full() && (r.Name().Start > limit || r.Last <= d.base.Last) {
			continue
		}
		if named < most {
			p.note("%s", r)
			named++
		} else {
			more++
		}
	}
	if more > 0 {
		p.note("%d more snapshots after the base are not used", more)
	}
	if d.doubt != "" {
		p.note("%s", d.doubt)
	}
	for _, ref := range append([]timeline.Ref{d.base.Ref}, refs(d.steps)...) {
		if text, is := v.swapped[ref]; is {
			p.note("%s", text)
		}
	}
	return p
}

func refs(steps []Step) []timeline.Ref {
	var refs []timeline.Ref
	for _, s := range steps {
		refs = append(refs, s.Ref)
	}
	return refs
}

func (p *Plan) note(format string, args ...any) {
	p.Notes = append(p.Notes, fmt.Sprintf(format, args...))
}
