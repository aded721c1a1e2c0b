package extender

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/backup/restoreplan"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
)

// both keeps the full that was asked for by its name, if one was, and the newest chain.
//
//	only the named one is there, and newest ──> newest, as if nothing had been asked for
//	anything besides                        ──> the named one or a copy of it ──> newest
//
// The named one comes first then, because what is newer may be of anybody who may write: of any size, of a history of its
// own, or such that the store does not tell of it. None of that may keep this one from being locked.
func (x *run) both(ctx context.Context) error {
	if x.q.Keep.Kind == "" {
		_, err := x.newest(ctx)
		return err
	}
	k := &Kept{Asked: x.q.Keep.String()}
	x.report.Kept = k
	newer, alone := x.newer()
	var first error
	if !alone {
		first = x.keep(ctx)
	}
	x.before = len(x.report.Objects)
	c, err := x.newest(ctx)
	var none *restoreplan.NoWayError
	switch {
	case !alone:
	case c.plan.Base.Key.Name.Kind != "" && x.keeps(c.plan.Base):
		k.Name, k.End, k.Protection = c.plan.Base.Name().String(), c.plan.End, x.report.Protection
	case err == nil, errors.As(err, &none): // it was found damaged
		first = x.keep(ctx)
	}
	k.Newer = cmp.Or(newer, x.tripsOver())
	err = errors.Join(first, err)
	if k.Problem != "" {
		err = errors.Join(err, ErrNotKept)
	}
	return err
}

// newer is what a restore of the newest state would use that is not what was asked for; alone: that is all it would use, and
// there is nothing that could be a copy of it.
func (x *run) newer() (what string, alone bool) {
	all := x.named()
	p, err := restoreplan.Make(x.catalog.Timeline, restoreplan.Latest(), restoreplan.Options{Lineage: x.q.Lineage})
	var loss *restoreplan.LossError
	switch {
	case errors.As(err, &loss) && loss.Other == nil && loss.Newest <= x.q.Keep.Last, err != nil && len(all) == 0:
		return "", false
	case err != nil:
		return err.Error(), false
	case x.keeps(p.Base):
		return "", len(all) == 1 && len(p.Deltas) == 0
	case cmp.Or(cmp.Compare(p.Base.Last, x.q.Keep.Last), cmp.Compare(p.Base.Name().Created, x.q.Keep.Created)) < 0:
		return "", false // an older one
	}
	return fmt.Sprintf("%s, which goes to revision %d", p.Base.Name(), p.End), false
}

// tripsOver is what was found damaged besides the full that was asked for.
func (x *run) tripsOver() string {
	for _, d := range x.report.Damaged {
		if !strings.Contains(d.Object, x.report.Kept.Asked) {
			return d.Object + ": " + d.Reason
		}
	}
	return ""
}

// keep keeps what was asked for: it, or the copy of it that is locked for the longest time and good.
func (x *run) keep(ctx context.Context) error {
	k := x.report.Kept
	for {
		s, proven, err := x.best(ctx)
		if err != nil {
			return err
		}
		if s == nil {
			x.miss()
			return nil
		}
		c, err := x.look(ctx, restoreplan.Plan{Target: restoreplan.Snapshot(s.Name()), Lineage: snapshot.Lineage{ID: s.Lineage},
			Base: *s, End: s.Last, EndCertain: s.Certain})
		if err != nil {
			return err
		}
		c.steps = decide(subjectsOf(c.steps), x.policy, x.means, x.now)
		whole, why := mustRead(c.steps, x.q.Verify)
		copied := s.Name() != x.q.Keep
		due := slices.ContainsFunc(c.steps, func(s step) bool { return s.kind.restored() && s.due() })
		if copied && x.q.Verify != VerifyNever && (due || !proven) {
			whole = true
		}
		_, good, err := x.good(ctx, c.plan, whole, why)
		switch {
		case err != nil:
			return err
		case !good:
			continue
		}
		k.Name, k.End = s.Name().String(), s.Last
		k.Protection, err = x.secure(ctx, c)
		return err
	}
}

// named are the full that was asked for and what may be a copy of it: with its bytes, as their manifests tell.
func (x *run) named() (all []timeline.Snapshot) {
	want := x.digest()
	for _, l := range x.catalog.Timeline.Lineages {
		for _, s := range l.Snapshots {
			if !x.claims(s) || !s.Usable() || s.Manifest != nil && !want.IsZero() && s.Manifest.Digest != want {
				continue
			}
			for _, o := range s.Candidates() {
				if x.unusable[o.Ref] == "" && !o.Excluded {
					s.Object = o
					all = append(all, s)
					break
				}
			}
		}
	}
	return all
}

// claims to be it, or a copy of it. Whoever may write can claim that.
func (x *run) claims(s timeline.Snapshot) bool {
	return s.Full() && (s.Name() == x.q.Keep || s.Manifest != nil && s.Manifest.CopiedFrom == x.q.Keep.String())
}

// keeps says whether a snapshot is one of those.
func (x *run) keeps(s timeline.Snapshot) bool {
	return slices.ContainsFunc(x.named(), func(n timeline.Snapshot) bool { return n.Key == s.Key })
}

// digest is that of the full that was asked for: as it was told, or as its manifest tells, or, if that is gone, as the
// oldest copy does. Zero: nobody knows.
func (x *run) digest() snapshot.Digest {
	if !x.q.Digest.IsZero() {
		return x.q.Digest
	}
	var oldest *timeline.Snapshot
	for _, l := range x.catalog.Timeline.Lineages {
		for _, list := range [][]timeline.Snapshot{l.Snapshots, l.Missing} {
			for _, s := range list {
				switch {
				case !x.claims(s) || s.Manifest == nil:
				case s.Name() == x.q.Keep:
					return s.Manifest.Digest
				case !s.Modified.IsZero() && (oldest == nil || s.Modified.Before(oldest.Modified)):
					oldest = &s
				}
			}
		}
	}
	if oldest == nil {
		return snapshot.Digest{}
	}
	return oldest.Manifest.Digest
}

// best is the one to keep, nil if there is none. Where locks get later ends in place that is the full itself. Where copies are
// made it is what is locked for the longest time.
//
// A copy is what anybody can write who may write. It is not proven while another one is still locked, and not for long: it is
// read then, so that what it replaces is not let go for nothing.
//
//	source   ────locked────────|
//	copy         ────────locked┼───────────────|
//	                      |read|  believed     | read before it is copied
func (x *run) best(ctx context.Context) (s *timeline.Snapshot, proven bool, err error) {
	const watch = 2 * immutability.MinRest
	all := x.named()
	locks := make([]*immutability.Retention, len(all))
	for i := range all {
		one := []step{{subject: subject{kind: Full, ref: all[i].Ref}}}
		if err := x.ask(ctx, one); err != nil {
			if len(all) == 1 || ctx.Err() != nil {
				return nil, false, err
			}
			x.warn("%s is passed over: %v", all[i].Ref, err)
			continue
		}
		locks[i] = one[0].retention
		itself := all[i].Name() == x.q.Keep
		if itself && (len(all) == 1 || x.q.Store.Capabilities().ObjectLock || x.means.Hold) {
			return &all[i], true, nil
		}
	}
	end := func(i int) int64 {
		switch r := locks[i]; {
		case r == nil:
			return 0
		case r.Hold:
			return 1 << 62
		case r.Mode.Locks():
			return r.Until.Unix()
		}
		return 0
	}
	at := -1
	for i := range all {
		if at < 0 || end(i) > end(at) || end(i) == end(at) && all[i].Modified.Before(all[at].Modified) {
			at = i
		}
	}
	if at < 0 {
		return nil, false, nil
	}
	proven = true
	for i := range all {
		if i != at && end(i) > x.now.Unix() && end(i) <= x.now.Add(watch).Unix() {
			proven = false
		}
	}
	return &all[at], proven, nil
}

// miss records that nothing of it is left that could be kept.
func (x *run) miss() {
	k := x.report.Kept
	object, why := k.Asked, "it is gone, and no copy of it is there"
	for _, l := range x.catalog.Timeline.Lineages {
		for _, s := range l.Snapshots {
			if s.Name() != x.q.Keep {
				continue
			}
			object = s.Ref.String()
			switch bad := x.unusable[s.Ref]; {
			case bad != "":
				why = bad
			case s.Excluded:
				why = "it is excluded"
			case s.Problem != "":
				why = s.Problem
			default:
				why = "its bytes are not those that were recorded"
			}
		}
	}
	k.Problem = k.Asked + ": " + why
	x.damaged(object, why)
}
