// Package replay carries out restore plans: it opens the objects of a plan for package datadir,
// tells damaged objects from failing stores, and plans again without what turned out damaged.
//
// What is made of the records (a data directory, a new full, only a proof) is its callers'
// business.
package replay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"druid.internal/druid/internal/backup/restoreplan"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/etcd/datadir"
	"druid.internal/druid/internal/store"
)

// Options say what to replay and from where.
type Options struct {
	Store        store.Reader
	Timeline     timeline.Timeline
	Target       restoreplan.Target
	Lineage      *snapshot.LineageID // nil: the newest with a restorable full
	AcceptLossTo snapshot.Revision

	Ranges int // ranged requests per large object, below 2: one stream
	// ReadAhead bounds, in bytes, what the ranged requests of all objects hold together; 0 means
	// DefaultReadAhead. Objects for which too little is left are read in one stream.
	ReadAhead int64

	// Progress, if set, is told how many of the stored bytes (0: unknown) are read.
	Progress func(stage string, done, total int64)
	// Replanned, if set, is told why a plan was given up and what replaces it.
	Replanned func(reason string, next restoreplan.Plan)
	Log       *slog.Logger
}

// Damage is an object that turned out unusable while it was read.
type Damage struct {
	Object string `json:"object"`
	Reason string `json:"reason"`
}

// maxPlans bounds how often a replay plans again. Each new plan gives up one object for good, so
// this is only against a store that answers differently every time.
const maxPlans = 100

// Plan plans without reading anything.
func Plan(o Options) (restoreplan.Plan, error) { return o.plan(nil, nil) }

func (o Options) plan(unusable map[timeline.Ref]string, measured map[timeline.Ref]snapshot.Revision) (restoreplan.Plan, error) {
	return restoreplan.Make(o.Timeline, o.Target, restoreplan.Options{
		Lineage: o.Lineage, AcceptLossTo: o.AcceptLossTo, Unusable: unusable, Measured: measured})
}

// Run hands the sources of plan to use. When use fails because an object is damaged, or because
// the full already contains more than the target revision or time, it plans again without that object and
// repeats; use must therefore leave nothing behind when it fails. It returns the plan that
// succeeded and what was found damaged on the way.
func Run(ctx context.Context, o Options, plan restoreplan.Plan, use func(restoreplan.Plan, datadir.Source) error) (restoreplan.Plan, []Damage, error) {
	var damaged []Damage
	unusable := map[timeline.Ref]string{}
	measured := map[timeline.Ref]snapshot.Revision{}
	for range maxPlans {
		err := Once(ctx, o, plan, use)
		if err == nil {
			return plan, damaged, nil
		}
		var reason string
		var bad *ObjectError
		var ahead *datadir.TargetError
		var late *datadir.LateError
		switch {
		case errors.As(err, &ahead) && ahead.Want < ahead.Earliest && measured[plan.Base.Ref] == 0:
			measured[plan.Base.Ref] = ahead.Earliest
			reason = fmt.Sprintf("%s already contains revision %d", plan.Base.Name(), ahead.Earliest)
		case errors.As(err, &late) && unusable[plan.Base.Ref] == "":
			reason = late.Error()
			unusable[plan.Base.Ref] = reason
		case errors.As(err, &bad) && unusable[bad.Ref] == "":
			unusable[bad.Ref] = bad.Err.Error()
			damaged = append(damaged, Damage{Object: bad.Ref.String(), Reason: bad.Err.Error()})
			reason = fmt.Sprintf("%s is unusable: %v", bad.Ref, bad.Err)
		default:
			return plan, damaged, err
		}
		next, planErr := o.plan(unusable, measured)
		if planErr != nil {
			if bad != nil && strings.Contains(planErr.Error(), bad.Err.Error()) { // it tells already
				return plan, damaged, planErr
			}
			return plan, damaged, fmt.Errorf("%w (%s)", planErr, reason)
		}
		if o.Replanned != nil {
			o.Replanned(reason, next)
		} else {
			o.Log.Warn("planning again", "reason", reason, "base", next.Base.Name().String(), "end", int64(next.End))
		}
		plan = next
	}
	return plan, damaged, fmt.Errorf("gave up after %d plans: the store answers differently every time", maxPlans)
}

// Once hands the sources of plan to use, and attributes the error to an object (*ObjectError) if
// it condemns one.
func Once(ctx context.Context, o Options, plan restoreplan.Plan, use func(restoreplan.Plan, datadir.Source) error) error {
	src, closer, err := newObjects(ctx, o, Bytes(plan)).source(plan)
	if err != nil {
		return err
	}
	defer closer.Close()
	return blame(plan.Base.Ref, use(plan, src))
}

// Bytes is how many stored bytes a plan reads.
func Bytes(p restoreplan.Plan) int64 {
	n := p.Base.Size
	for _, d := range p.Deltas {
		n += d.Size
	}
	return n
}
