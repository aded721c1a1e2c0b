package collector

import (
	"context"
	"errors"
	"fmt"

	"druid.internal/druid/internal/backup/retention"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/store"
)

// needsRight is the remedy for a missing permission.
const needsRight = "the collector needs the right to delete versions (S3: s3:DeleteObjectVersion, MinIO also s3:DeleteObject); see docs/operations/permissions.md"

// Execute deletes what plan lets go and a fresh look lets go as well. The order is that of
// retention.Plan.Deletions, and what cannot be deleted keeps what would be useless or
// misleading without it:
//
//	stream    newest delta first, the full last    what stays behind is always a chain
//	snapshot  surplus versions, markers, the genuine version, its manifest
//
// so a crash between any two deletions leaves a bucket in which everything that was not to go
// is restorable, nothing dangles, and no forged version counts.
//
// The report is complete also when there is an error. Versions that are blocked, spared or
// gone are no error; whatever the store failed to do is one.
func (c *Collector) Execute(ctx context.Context, plan Plan) (Report, error) {
	report := Report{Location: plan.Location, Prefix: plan.Prefix, Proven: plan.Proven, Waiting: plan.Waiting, Notes: plan.Notes}
	switch {
	case plan.seen == nil:
		return report, errors.New("collect: the plan was not made by a collector")
	case plan.Prefix != c.opts.Prefix || plan.Location != c.store.Capabilities().Location:
		return report, fmt.Errorf("collect: the plan is for %s, not for %s", where(plan.Location, plan.Prefix), where(c.store.Capabilities().Location, c.opts.Prefix))
	case len(plan.Deletions()) == 0:
		return report, nil
	case c.deleter == nil:
		return report, fmt.Errorf("collect %s: %w: this identity only reads; %s", where(plan.Location, plan.Prefix), store.ErrForbidden, needsRight)
	}
	x := execution{c: c, plan: plan, allowed: map[timeline.Ref]retention.Decision{}, outcomes: map[timeline.Ref]Outcome{},
		stuck: map[string]string{}, streams: map[snapshot.LineageID]snapshot.Name{}}
	for _, d := range plan.Deletions() {
		x.allowed[d.Ref] = d
	}
	err := x.run(ctx)
	for _, d := range plan.Deletions() {
		o, done := x.outcomes[d.Ref]
		if !done {
			o = outcome(d, Untried, "stopped before")
		}
		report.Outcomes = append(report.Outcomes, o)
	}
	if x.deleted > 0 && ctx.Err() == nil {
		var listErr error
		if report.Remaining, listErr = x.remaining(ctx); listErr != nil {
			err = errors.Join(err, fmt.Errorf("list what remained: %w", listErr))
		}
	}
	if err != nil {
		return report, fmt.Errorf("collect %s: %w", where(plan.Location, plan.Prefix), err)
	}
	return report, nil
}

// execution is one run of Execute.
type execution struct {
	c        *Collector
	plan     Plan
	allowed  map[timeline.Ref]retention.Decision // by the plan
	outcomes map[timeline.Ref]Outcome
	deleted  int
	failures []error

	// stuck are snapshots of which something could not be deleted, and why: what follows is left out.
	stuck map[string]string
	// streams tell per lineage the snapshot that got stuck last: everything before it is needed by it.
	streams map[snapshot.LineageID]snapshot.Name
}

// run deletes until nothing is left to do, with a fresh look at the beginning and whenever the
// last one has become old.
func (x *execution) run(ctx context.Context) error {
	for {
		seen, err := x.c.look(ctx, x.plan.locks, x.plan.proofs, nil)
		if err != nil {
			return err
		}
		fresh, looked := index(seen, x.plan), x.c.opts.Now()
		stale, tried := false, 0
		for _, d := range fresh.steps(x.allowed) {
			if _, done := x.outcomes[d.Ref]; done {
				continue
			}
			if stale = tried > 0 && x.c.opts.Now().Sub(looked).Abs() > freshness; stale {
				break
			}
			tried++
			if err := x.step(ctx, d, fresh); err != nil {
				return err
			}
		}
		if stale {
			continue
		}
		for ref, d := range x.allowed { // what the fresh decision does not delete
			if _, done := x.outcomes[ref]; !done {
				result, why := x.plan.compare(d, fresh)
				o := outcome(d, result, why)
				o.Until = fresh.byRef[ref].Until
				x.outcomes[ref] = o
			}
		}
		if len(x.failures) > 0 {
			return fmt.Errorf("%d of %d versions could not be deleted; the first: %w", len(x.failures), len(x.allowed), x.failures[0])
		}
		return nil
	}
}

// step deals with one version. An error ends the run.
func (x *execution) step(ctx context.Context, d retention.Decision, fresh freshPlan) error {
	o := x.try(ctx, d, fresh)
	var failure error
	if o.Result == Failed {
		failure = o.err
	}
	x.outcomes[d.Ref] = o.Outcome
	x.c.opts.Progress("collect", int64(len(x.outcomes)), int64(len(x.allowed)))
	x.c.opts.Log.Debug("collect", "object", d.Ref.String(), "kind", string(d.Kind), "result", string(o.Result), "why", o.Why)
	switch o.Result {
	case Deleted:
		x.deleted++
		return nil
	case Gone:
		return nil
	}
	if _, already := x.stuck[d.Snapshot]; !already {
		x.stuck[d.Snapshot] = fmt.Sprintf("%s is still there", d.Ref)
		if d.Kind != retention.Chunk && d.Kind != retention.Manifest {
			x.streams[d.Lineage] = d.Ref.Key.Name
		}
	}
	if failure == nil {
		return nil
	}
	x.failures = append(x.failures, failure)
	switch {
	case errors.Is(failure, store.ErrForbidden):
		return fmt.Errorf("after %d deletions: %w; %s", x.deleted, failure, needsRight)
	case ctx.Err() != nil, errors.Is(failure, store.ErrCredentials), errors.Is(failure, store.ErrNoBucket):
		return fmt.Errorf("after %d deletions: %w", x.deleted, failure)
	case len(x.failures) >= x.c.opts.MaxFailures:
		return fmt.Errorf("gave up after %d failures and %d deletions; the first: %w", len(x.failures), x.deleted, x.failures[0])
	}
	return nil
}

// tried is an outcome with the error behind it.
type tried struct {
	Outcome
	err error
}

func outcome(d retention.Decision, result Result, why string) Outcome {
	return Outcome{Key: d.Key, Version: d.Version, Kind: d.Kind, Snapshot: d.Snapshot, Size: d.Size, Result: result, Why: why}
}

func (x *execution) try(ctx context.Context, d retention.Decision, fresh freshPlan) tried {
	end := func(result Result, why string) tried { return tried{Outcome: outcome(d, result, why)} }
	fail := func(err error) tried {
		return tried{Outcome: outcome(d, Failed, err.Error()), err: err}
	}
	if result, why := x.plan.compare(d, fresh); result != "" {
		return end(result, why)
	}
	if why, is := x.stuck[d.Snapshot]; is {
		return end(Spared, why)
	}
	if later, is := x.streams[d.Lineage]; is && snapshot.Compare(d.Ref.Key.Name, later) < 0 {
		return end(Spared, fmt.Sprintf("%s, which continues it, is still there", later))
	}
	result, why, until, err := x.c.recheck(ctx, d, x.plan.seen[d.Ref])
	switch {
	case err != nil:
		return fail(err)
	case result != "":
		t := end(result, why)
		t.Until = until
		return t
	}
	err = x.c.deleter.Delete(ctx, address(d.Ref))
	if errors.Is(err, store.ErrUnknownOutcome) {
		err = x.c.deleter.Delete(ctx, address(d.Ref)) // what is already gone is deleted with success
	}
	var refused *store.ImmutableError
	switch {
	case err == nil:
		return end(Deleted, "")
	case errors.As(err, &refused):
		t := end(Blocked, "the store refused: "+refused.Error())
		t.Until = refused.Until
		return t
	case errors.Is(err, store.ErrNotFound):
		return end(Gone, "not there any more")
	}
	return fail(fmt.Errorf("delete %s: %w", d.Ref, err))
}

// remaining lists the prefix once more and names what should not be there.
func (x *execution) remaining(ctx context.Context) ([]Remainder, error) {
	touched := map[string]bool{}
	gone := map[store.Version]bool{}
	planned := map[store.Version]bool{}
	for ref, o := range x.outcomes {
		planned[address(ref)] = true
		if o.Result == Deleted {
			touched[o.Key] = true
			gone[address(ref)] = true
		}
	}
	var rest []Remainder
	err := x.c.store.List(ctx, string(x.plan.Prefix), func(o store.Object) error {
		r := Remainder{Key: o.Key, Version: o.ID, Marker: o.Marker}
		switch {
		case !touched[o.Key]:
			return nil
		case gone[o.Version]:
			r.Why = "still listed, although the store confirmed its deletion"
		case !planned[o.Version]:
			r.Why = "it appeared meanwhile and was not touched"
		default:
			return nil // its outcome tells why
		}
		rest = append(rest, r)
		return nil
	})
	return rest, err
}
