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
		k.Whole, k.Unproven = x.report.Verified == wholly, x.unproven(c.plan.Base)
	case err == nil, errors.As(err, &none): // it was found damaged
		first = x.keep(ctx)
	}
	k.Newer = cmp.Or(newer, x.tripsOver(), x.report.PassedOver, x.impostor())
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
	case loss != nil && loss.Other != nil:
		return beside(loss), false
	case loss != nil:
		return loss.Known + ": " + unreached(loss), false
	case err != nil:
		return err.Error(), false
	case x.keeps(p.Base):
		return "", len(all) == 1 && len(p.Deltas) == 0 && x.comparable(p.Base)
	case len(all) > 0 && !slices.ContainsFunc(all, func(s timeline.Snapshot) bool { return s.Lineage == p.Base.Lineage }):
		// of another history, whose revisions say nothing of which is newer
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

// keep keeps what was asked for, and whatever has its bytes and is of another history: which of them is the one that was meant
// cannot be told once it is gone itself, so none of them is let go, and somebody is told.
func (x *run) keep(ctx context.Context) error {
	defer func() { x.like = nil }()
	err := x.keepOne(ctx, x.report.Kept)
	for _, other := range x.histories() {
		x.like = &other
		if err := x.keepOne(ctx, &Kept{Asked: x.report.Kept.Asked}); err != nil {
			x.warn("what has the bytes of %s and is of another history could not be kept locked: %v", x.q.Keep, err)
		}
	}
	return err
}

// keepOne keeps it, or the copy of it that is locked for the longest time and good.
func (x *run) keepOne(ctx context.Context, k *Kept) error {
	for {
		s, proven, err := x.best(ctx)
		if err != nil {
			return err
		}
		switch {
		case s == nil && x.like != nil:
			return nil
		case s == nil:
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
		whole = whole || !proven && x.q.Verify != VerifyNever
		verified, good, err := x.good(ctx, c.plan, whole, why)
		switch {
		case err != nil:
			return err
		case !good:
			continue
		case x.other(*s):
			x.ruleOut(s.Ref, fmt.Sprintf("its bytes are others than those of %s", x.q.Keep))
			continue
		}
		k.Name, k.End, k.Whole, k.Unproven = s.Name().String(), s.Last, verified == wholly, x.unproven(*s)
		k.Protection, err = x.secure(ctx, c)
		return err
	}
}

// other: it was read, and has not the digest that was told. What has a manifest was compared with that.
func (x *run) other(s timeline.Snapshot) bool {
	m, read := x.measured[s.Ref]
	return read && !x.q.Digest.IsZero() && m.digest != x.q.Digest
}

// comparable: reading it compares it with what was told.
func (x *run) comparable(s timeline.Snapshot) bool { return s.Manifest != nil || x.q.Digest.IsZero() }

// histories are what is described in another way than what was asked for and has the digest that was told, one of each.
func (x *run) histories() (all []timeline.Snapshot) {
	if x.q.Digest.IsZero() {
		return nil
	}
	known := []*timeline.Snapshot{x.origin()}
	for _, l := range x.catalog.Timeline.Lineages {
		for _, s := range l.Snapshots {
			like := func(k *timeline.Snapshot) bool { return x.described(s, k) }
			if x.claims(s) && s.Usable() && s.Manifest != nil && s.Manifest.Digest == x.q.Digest && !slices.ContainsFunc(known, like) {
				known, all = append(known, &s), append(all, s)
			}
		}
	}
	return all
}

// named are the full that was asked for and what may be a copy of it, itself first: with its bytes and of its history, as their
// manifests tell, and for the rest of its name.
func (x *run) named() (all []timeline.Snapshot) {
	origin := x.origin()
	for _, l := range x.catalog.Timeline.Lineages {
		for _, s := range l.Snapshots {
			if !x.claims(s) || !s.Usable() || !x.described(s, origin) {
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
	slices.SortStableFunc(all, func(a, b timeline.Snapshot) int {
		switch {
		case a.Name() == x.q.Keep:
			return -1
		case b.Name() == x.q.Keep:
			return 1
		}
		return 0
	})
	return all
}

// claims to be it, or a copy of it. Whoever may write can claim that.
func (x *run) claims(s timeline.Snapshot) bool {
	return s.Full() && (s.Name() == x.q.Keep || x.copied(s) && renamed(s.Name(), x.q.Keep))
}

// copied: its manifest says that it is a copy of what was asked for.
func (x *run) copied(s timeline.Snapshot) bool {
	return s.Manifest != nil && s.Manifest.CopiedFrom == x.q.Keep.String()
}

// renamed: a copy has the name of its source but for the time, which is a later one.
func renamed(n, of snapshot.Name) bool {
	later := n.Created > of.Created
	n.Created = of.Created
	return later && n == of
}

// keeps says whether a snapshot is one of those.
func (x *run) keeps(s timeline.Snapshot) bool {
	return slices.ContainsFunc(x.named(), func(n timeline.Snapshot) bool { return n.Key == s.Key })
}

// origin is what tells how the full that was asked for is to be described: it, or if that is gone its manifest alone, or if
// that is gone the oldest copy of the digest that was told; nil: nothing does.
func (x *run) origin() *timeline.Snapshot {
	if x.like != nil {
		return x.like
	}
	var oldest *timeline.Snapshot
	for _, l := range x.catalog.Timeline.Lineages {
		for _, list := range [][]timeline.Snapshot{l.Snapshots, l.Missing} {
			for _, s := range list {
				switch {
				case !x.claims(s) || s.Manifest != nil && !x.q.Digest.IsZero() && s.Manifest.Digest != x.q.Digest:
				case s.Name() == x.q.Keep && (s.Manifest != nil || s.Usable()):
					return &s
				case s.Manifest != nil && !s.Modified.IsZero() && (oldest == nil || s.Modified.Before(oldest.Modified)):
					oldest = &s
				}
			}
		}
	}
	return oldest
}

// described says whether a snapshot is described as the full that was asked for is: a copy of another history is of no use to
// whoever restores that one, whatever its bytes are.
func (x *run) described(s timeline.Snapshot, origin *timeline.Snapshot) bool {
	m := s.Manifest
	switch {
	case m != nil && !x.q.Digest.IsZero() && m.Digest != x.q.Digest:
		return false
	case origin == nil || m == nil:
		return true // of the first there is nothing to compare with, and the second is it itself, without a manifest
	case origin.Manifest == nil:
		return s.Lineage == origin.Lineage
	}
	of := origin.Manifest
	return m.Digest == of.Digest && m.Size == of.Size && m.Lineage == of.Lineage && m.LastRevision == of.LastRevision
}

// impostor is what says that it is a copy of what was asked for and is none by its name or by what its manifest tells;
// empty: nothing. Runs make none such, so somebody else did.
func (x *run) impostor() string {
	origin := x.origin()
	for _, l := range x.catalog.Timeline.Lineages {
		for _, list := range [][]timeline.Snapshot{l.Snapshots, l.Missing} {
			for _, s := range list {
				if x.copied(s) && !s.Excluded && (!x.claims(s) || !x.described(s, origin)) {
					return fmt.Sprintf("%s, which passes for a copy of %s and is none", s.Name(), x.q.Keep)
				}
			}
		}
	}
	return ""
}

// mistrusts: a base passes for a copy of what was asked for, and is not what is kept. A restore of the newest state would
// trip over it if it is none.
func (x *run) mistrusts(base timeline.Snapshot) bool {
	k := x.report.Kept
	return k != nil && x.q.Verify != VerifyNever && base.Name() != x.q.Keep && base.Name().String() != k.Name && x.keeps(base)
}

// best is the one to keep, nil if there is none, and whether that is relied on without reading it. Where locks get later ends in
// place that is the full itself, and so it is while its own lock lasts. Where copies are made it is what is locked for the longest time.
//
// A copy is what anybody can write who may write. It is read while another one is locked that is due: before what it replaces
// is let go, so that this is not let go for nothing. After that, when it is the only one, it is believed, and read once in a while.
//
//	source   ────locked──────────────|
//	copy              ────────locked─┼─────────────|
//	            itself |  read, due  |  believed   | read before it is copied
func (x *run) best(ctx context.Context) (s *timeline.Snapshot, proven bool, err error) {
	policy := x.policy
	policy.Copies = true
	var watched int64 // what ends until then is due
	all := x.named()
	locks := make([]*immutability.Retention, len(all))
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
		watched = x.now.Add(policy.Due()).Unix()
		if itself := all[i].Name() == x.q.Keep; itself && (len(all) == 1 || x.q.Store.Capabilities().ObjectLock || x.means.Hold || end(i) >= watched) {
			return &all[i], x.comparable(all[i]), nil
		}
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
	key := all[at].Ref
	proven = !immutability.Sampled(key.Key.String(), key.Version, x.now.Truncate(immutability.MinRest))
	for i := range all {
		if i != at && end(i) > x.now.Unix() && end(i) <= watched {
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
