package extender

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"golang.org/x/sync/errgroup"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/backup/restoreplan"
	"druid.internal/druid/internal/backup/retention"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/engine/collector"
	"druid.internal/druid/internal/engine/replay"
	"druid.internal/druid/internal/store"
)

// outcome is what became of a step.
type outcome struct {
	object    Object
	retention *immutability.Retention // what protects now, as it was read back
	err       error
}

// extend carries the steps out. What fails keeps nothing else from being tried.
//
// A snapshot and its manifest go together where they are copied, because the copy needs a manifest of
// its own; in place each is prolonged by itself.
func (x *run) extend(ctx context.Context, c choice) (immutability.Summary, error) {
	done := make([]outcome, len(c.steps))
	g := errgroup.Group{}
	g.SetLimit(x.q.Parallel)
	for i, s := range c.steps {
		g.Go(func() error {
			done[i] = x.stay(ctx, s)
			return nil
		})
	}
	_ = g.Wait() // outcomes have the errors
	for i, snap := range c.snaps {
		if ctx.Err() == nil {
			x.move(ctx, c, i, snap, done)
		}
	}
	return x.sum(c.steps, done)
}

// stay tries the ways in place. Without an error and without a result other ways remain.
func (x *run) stay(ctx context.Context, s step) outcome {
	o := outcome{object: s.object(), retention: s.retention}
	if !s.due() {
		if s.broken() && s.kind.restored() {
			o.err = fmt.Errorf("%s: %s", s.ref, s.Reason)
			if s.Reason == immutability.ExtensionUnknown {
				o.err = fmt.Errorf("%s: %s: %w; %s", s.ref, s.Reason, store.ErrForbidden, x.needs(toRead))
			}
			o.object.Result = Failed
		}
		return o
	}
	for _, w := range s.ways {
		var got immutability.Retention
		err := store.ErrUnsupported
		switch w {
		case immutability.WayRetention:
			got, err = x.lengthen(ctx, s)
		case immutability.WayHold:
			got, err = x.hold(ctx, s)
		}
		if errors.Is(err, store.ErrUnsupported) {
			continue
		}
		o.object.Way = w
		if err != nil {
			return o.failed(x.forbidden(err, toLock))
		}
		o.retention = &got
		s.retention = &got
		x.remember(s.subject)
		o.object.Result, o.object.After, o.object.Held = Extended, got.Until, got.Hold
		return o
	}
	return o
}

// forbidden adds the remedy to what is refused.
func (x *run) forbidden(err error, r right) error {
	if errors.Is(err, store.ErrForbidden) {
		return fmt.Errorf("%w; %s", err, x.needs(r))
	}
	return err
}

func (o outcome) failed(err error) outcome {
	o.err, o.object.Result, o.object.Reason = err, Failed, err.Error()
	return o
}

// lengthen prolongs the lock of a version.
func (x *run) lengthen(ctx context.Context, s step) (immutability.Retention, error) {
	e, can := store.As[store.Extender](x.q.Store)
	if !can {
		return immutability.Retention{}, store.ErrUnsupported
	}
	got, err := e.Extend(ctx, s.address(), s.Until)
	if errors.Is(err, store.ErrUnsupported) {
		return got, err
	}
	x.changes.Add(1)
	if err == nil && (!got.Mode.Locks() || got.Until.Before(s.Until)) {
		err = fmt.Errorf("%s: the store accepted the new end, and its lock reads %s until %s", s.ref, got.Mode, moment(got.Until))
	}
	return got, err
}

// hold holds a version and reads the hold back.
func (x *run) hold(ctx context.Context, s step) (immutability.Retention, error) {
	h, can := store.As[store.Holder](x.q.Store)
	if !can {
		return immutability.Retention{}, store.ErrUnsupported
	}
	err := h.SetHold(ctx, s.address(), true)
	if errors.Is(err, store.ErrUnsupported) {
		return immutability.Retention{}, err
	}
	x.changes.Add(1)
	if err != nil {
		return immutability.Retention{}, err
	}
	o, err := x.q.Store.Stat(ctx, s.address())
	switch {
	case err != nil:
		return immutability.Retention{}, fmt.Errorf("read the hold of %s back: %w", s.ref, err)
	case o.Retention == nil || !o.Retention.Hold:
		return immutability.Retention{}, fmt.Errorf("%s: the store accepted a hold, and does not tell one", s.ref)
	}
	if err := x.mark(ctx, s.address()); err != nil {
		x.q.Log.Warn("a hold could not be marked as this program's, so that a person has to release it", "object", s.ref.String(), "error", err)
	}
	return *o.Retention, nil
}

// move copies a snapshot of which something is due that nothing in place could prolong.
func (x *run) move(ctx context.Context, c choice, at int, snap timeline.Snapshot, done []outcome) {
	var mine []int
	wanted := false
	for i, of := range c.of {
		if of == at {
			mine = append(mine, i)
			wanted = wanted || c.steps[i].due() && done[i].object.Result == Left
		}
	}
	if !wanted {
		return
	}
	made, err := x.copy(ctx, snap)
	for _, i := range mine {
		o := &done[i]
		if err != nil {
			if c.steps[i].due() {
				o.object.Way = made.way
				*o = o.failed(x.forbidden(err, toCopy))
			}
			continue
		}
		key, lock := made.snapshot, made.lock
		if c.steps[i].kind == Manifest {
			key, lock = made.manifest, made.manifestLock
		}
		o.retention = &lock
		o.object.Result, o.object.Way, o.object.Copy, o.object.After, o.object.Held = Extended, made.way, key, lock.Until, lock.Hold
		if !c.steps[i].due() {
			o.object.Reason = "it goes with the other"
		}
	}
	if err == nil && len(mine) == 1 { // it had no manifest, and its copy has
		done[mine[0]].retention = weaker(made.lock, made.manifestLock)
	}
}

func weaker(a, b immutability.Retention) *immutability.Retention {
	if b.Until.Before(a.Until) {
		return &b
	}
	return &a
}

// sum reports all outcomes.
func (x *run) sum(steps []step, done []outcome) (immutability.Summary, error) {
	var locks []*immutability.Retention
	var failures []error
	for i, o := range done {
		if steps[i].due() && o.object.Result == Left && steps[i].kind.restored() && o.err == nil {
			o = o.failed(fmt.Errorf("%s: no way of this store could prolong it: %w", steps[i].ref, store.ErrUnsupported))
		}
		if o.err != nil {
			failures = append(failures, o.err)
		}
		x.add(o.object)
		if steps[i].kind.restored() {
			locks = append(locks, o.retention)
		}
		if o.object.Result == Extended {
			x.q.Log.Info("kept locked", "object", o.object.Key, "way", string(o.object.Way), "until", moment(o.object.After), "copy", o.object.Copy)
		}
		if steps[i].Capped {
			x.warn("%s is locked until %s only, because of a limit", steps[i].ref, moment(steps[i].Until))
		}
	}
	protection := immutability.Summarize(locks, x.now)
	if len(failures) == 0 {
		return protection, nil
	}
	return protection, fmt.Errorf("%d of %d objects could not be kept locked; the first: %w", len(failures), len(done), failures[0])
}

// collect has copies removed that are not needed any more. What cannot be removed costs storage and
// nothing else, so it is a warning.
func (x *run) collect(ctx context.Context) {
	if x.q.Collect == nil || x.q.Since.IsZero() {
		return
	}
	keep := map[string]bool{}
	for _, o := range x.report.Objects {
		if o.Copy == "" {
			keep[o.Key] = true
		}
	}
	copied := CopiedSince(x.q.Since)
	only := func(s timeline.Snapshot) bool {
		return copied(s) && !keep[s.Key.String()] && !x.made[s.Key]
	}
	any := false
	for _, l := range x.catalog.Timeline.Lineages {
		for _, list := range [][]timeline.Snapshot{l.Snapshots, l.Missing} {
			for _, s := range list {
				any = any || only(s)
			}
		}
	}
	if !any {
		return
	}
	if err := x.remove(ctx, x.q.Collect(only, x.prove)); err != nil {
		x.warn("copies that are not needed any more were not removed: %v", err)
	}
}

// CopiedSince says of what a collector finds whether an extension made it, as a copy, at a time or later.
func CopiedSince(since time.Time) func(timeline.Snapshot) bool {
	return func(s timeline.Snapshot) bool {
		return s.Manifest != nil && s.Manifest.CopiedFrom != "" && !s.Name().CreatedAt().Before(since)
	}
}

// Copies is the policy by which they go: all but the newest backup.
var Copies = retention.Policy{Keep: retention.Counts{Last: 1}}

// prove reads the newest chain of a lineage, as far as this run has not read it. A full that may be no
// database proves nothing.
func (x *run) prove(ctx context.Context, t timeline.Timeline, id snapshot.LineageID) (retention.Proof, []string, error) {
	unusable := maps.Clone(x.unusable)
	if unusable == nil {
		unusable = map[timeline.Ref]string{}
	}
	var notes []string
	for {
		p, err := restoreplan.Make(t, restoreplan.Latest(), restoreplan.Options{Lineage: &id, AcceptLossTo: 1, Unusable: unusable})
		if err != nil { // *restoreplan.NoWayError: nothing of the lineage can be restored
			return retention.Proof{}, append(notes, err.Error()), nil
		}
		err = x.verify(ctx, p)
		var bad *replay.ObjectError
		switch {
		case errors.As(err, &bad) && unusable[bad.Ref] == "":
			unusable[bad.Ref] = bad.Err.Error()
			notes = append(notes, fmt.Sprintf("%s is damaged: %v", bad.Ref, bad.Err))
			continue
		case err != nil:
			return retention.Proof{}, notes, err
		}
		if why := x.unproven(p.Base); why != "" {
			unusable[p.Base.Ref] = why
			notes = append(notes, fmt.Sprintf("%s proves nothing: %s", p.Base.Ref, why))
			continue
		}
		var deltas []timeline.Snapshot
		for _, d := range p.Deltas {
			deltas = append(deltas, d.Snapshot)
		}
		return retention.NewProof(p.Base, deltas, p.End, x.q.Now().UTC()), notes, nil
	}
}

func (x *run) remove(ctx context.Context, c *collector.Collector) error {
	p, err := c.Plan(ctx)
	if err != nil || len(p.Deletions()) == 0 {
		return err
	}
	for _, note := range p.Notes {
		x.warn("while removing copies: %s", note)
	}
	r, err := c.Execute(ctx, p)
	x.report.Collected = &r
	x.changes.Add(int64(r.Total(collector.Deleted).Objects))
	return err
}

func moment(t time.Time) string {
	if t.IsZero() {
		return "an unknown end"
	}
	return t.UTC().Format(time.RFC3339)
}

// keyOf is where a snapshot of ours is written.
func (x *run) keyOf(n snapshot.Name) snapshot.Key { return snapshot.SnapshotKey(x.q.Prefix, n) }
