package extender

import (
	"context"
	"fmt"
	"slices"

	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/store"
)

// HoldTag with the value "true" marks what a run held. Only that is ever released: whatever else is held, a person
// or the bucket holds.
const HoldTag = "x-etcd-snapshot-held"

// mark notes that a hold is ours. It comes after the hold: of a run that dies in between a hold is left that nobody
// releases, and never one of somebody else that counts as ours.
func (x *run) mark(ctx context.Context, v store.Version) error {
	t, can := store.As[store.Tagger](x.q.Store)
	if !can {
		return store.ErrUnsupported
	}
	x.changes.Add(1)
	return t.SetTag(ctx, v, HoldTag, "true")
}

// marked are the versions that runs held. Only stores that list both holds and tags have holds set here.
func (x *run) marked() (all []timeline.Ref) {
	for ref, o := range x.catalog.Objects.All() {
		if !o.Marker && o.Tags[HoldTag] == "true" {
			all = append(all, ref)
		}
	}
	return all
}

// held says whether a version is under a hold, whoever set it.
func (x *run) held(ref timeline.Ref) bool {
	o, _ := x.catalog.Objects.Find(ref)
	return o.Retention != nil && o.Retention.Hold
}

// release lifts the holds of earlier runs when there is a newer backup that was just read whole:
//
//	held by runs ─> newest chain, read whole ─> none of it is held by runs ─> release, read back ─> unmark
//
// Where the bucket has a policy, whatever is released is locked for one more period.
func (x *run) release(ctx context.Context) error {
	marked := x.marked()
	x.releasing = slices.ContainsFunc(marked, x.held)
	c, err := x.choose(ctx)
	if err != nil {
		return err
	}
	x.report.Lineage, x.report.Base = c.plan.Lineage.ID, c.plan.Base.Name().String()
	x.report.Deltas, x.report.End = len(c.plan.Deltas), c.plan.End
	x.report.Protection = x.tell(slices.DeleteFunc(slices.Clone(c.steps), func(s step) bool { return !s.kind.restored() }))
	for i := range x.report.Objects {
		x.report.Objects[i].Reason = "what a restore needs now; nothing is prolonged"
	}
	switch {
	case x.fellBack:
		return ErrFellBack
	case slices.ContainsFunc(marked, func(ref timeline.Ref) bool {
		return x.held(ref) && slices.ContainsFunc(c.snaps, func(s timeline.Snapshot) bool { return s.Key == ref.Key.Snapshot() })
	}):
		x.warn("nothing is released: %s is held itself, as there is no newer full snapshot", x.report.Base)
		return nil
	}
	var failures []error
	for _, ref := range marked {
		o := Object{Key: ref.Key.String(), Version: ref.Version, Kind: Held, Held: true, Result: ToRelease, Reason: "a newer backup was read whole"}
		if !x.q.DryRun {
			after, err := x.lift(ctx, ref)
			o.Result, o.Held = Released, false
			if after.Retention != nil {
				o.After = after.Retention.Until
			}
			if err != nil {
				o.Result, o.Held, o.Reason = Failed, true, err.Error()
				failures = append(failures, err)
			}
		}
		x.report.Objects = append(x.report.Objects, o)
	}
	if len(failures) > 0 {
		return fmt.Errorf("%d of %d holds could not be released; the first: %w", len(failures), len(marked), failures[0])
	}
	x.report.Released = !x.q.DryRun
	return nil
}

// lift releases one hold, if a run before has not yet, reads it back, and takes the mark off.
func (x *run) lift(ctx context.Context, ref timeline.Ref) (store.Object, error) {
	v := store.Version{Key: ref.Key.String(), ID: ref.Version}
	h, can := store.As[store.Holder](x.q.Store)
	t, tags := store.As[store.Tagger](x.q.Store)
	if !can || !tags {
		return store.Object{}, fmt.Errorf("release %s: %w", v, store.ErrUnsupported)
	}
	if x.held(ref) {
		x.changes.Add(1)
		if err := h.SetHold(ctx, v, false); err != nil {
			return store.Object{}, x.forbidden(err, toLock)
		}
	}
	o, err := x.q.Store.Stat(ctx, v)
	switch {
	case err != nil:
		return o, fmt.Errorf("read the release of %s back: %w", v, err)
	case o.Retention != nil && o.Retention.Hold:
		return o, fmt.Errorf("%s: the store accepted the release, and still tells a hold", v)
	}
	x.changes.Add(1)
	if err := t.SetTag(ctx, v, HoldTag, "false"); err != nil {
		return o, fmt.Errorf("%s was released, and is still marked as held: %w", v, err)
	}
	return o, nil
}
