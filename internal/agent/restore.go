package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"druid.internal/druid/internal/agent/config"
	"druid.internal/druid/internal/agent/initialize"
	"druid.internal/druid/internal/agent/metrics"
	"druid.internal/druid/internal/backup/restoreplan"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/engine/catalog"
	"druid.internal/druid/internal/engine/replay"
	"druid.internal/druid/internal/engine/restorer"
	"druid.internal/druid/internal/etcd/datadir"
	"druid.internal/druid/internal/store"
)

// restoration makes a data directory of the newest state in the bucket.
type restoration struct {
	Store   func(context.Context) (store.Store, error)
	Config  config.Config
	Known   func() snapshot.Revision // that clients may have seen, whatever the bucket tells
	Metrics *metrics.Catalogue
	Log     *slog.Logger
}

// run is what initialize.Options.Restore wants.
func (r restoration) run(ctx context.Context, o initialize.RestoreOrder) (err error) {
	began := time.Now()
	defer func() { r.Metrics.Restored(metrics.SingleMember, time.Since(began), err == nil) }()
	if err = r.restore(ctx, o); err == nil {
		return nil
	}
	for _, passing := range []error{store.ErrUnreachable, store.ErrThrottled, store.ErrForbidden, store.ErrCredentials} {
		if errors.Is(err, passing) {
			return fmt.Errorf("%w: %w", initialize.ErrUnavailable, err)
		}
	}
	switch {
	case errors.Is(err, restorer.ErrShort):
		return fmt.Errorf("%w: %w", initialize.ErrChanged, err)
	case ofBackup(err):
		return fmt.Errorf("%w: %w", initialize.ErrBackup, err)
	}
	return err
}

// ofBackup: it is what the bucket holds that makes a restore fail, each time and everywhere.
func ofBackup(err error) bool {
	return is[*replay.ObjectError](err) || is[*restoreplan.NoWayError](err) || is[*restoreplan.LossError](err) ||
		is[*datadir.GapError](err) || is[*datadir.OverlapError](err) || is[*datadir.OrderError](err) || is[*datadir.ChainError](err) ||
		is[*datadir.LateError](err) || is[*datadir.TargetError](err) || errors.Is(err, datadir.ErrNotAsNamed)
}

func is[E error](err error) bool {
	_, is := errors.AsType[E](err)
	return is
}

func (r restoration) restore(ctx context.Context, o initialize.RestoreOrder) error {
	c := r.Config
	s, err := r.Store(ctx)
	if err != nil {
		return err
	}
	found, err := catalog.Read(ctx, s, c.Store.Prefix, catalog.Options{Tags: catalog.TagsOfAll})
	if err != nil {
		return fmt.Errorf("read the bucket: %w", err)
	}
	memory := int64(c.Restoration.MemoryLimit)
	q := restorer.Request{
		From: replay.Options{Store: s, Timeline: found.Timeline, Target: restoreplan.Latest(), Ranges: c.Store.MaxParallelChunkUploads, ReadAhead: memory / 2,
			Progress: o.Progress, Log: r.Log},
		Bump: restorer.Bump{Auto: true}, LastKnown: r.Known(), Dir: o.DataDir, Overwrite: o.Replace, AtLeast: o.AtLeast, NewLineage: datadir.NewLineageID(), QuotaBytes: cmp.Or(o.QuotaBytes, int64(c.Restoration.EmbeddedEtcdQuotaBytes)),
		MemoryLimit: memory, ScratchDir: c.Restoration.TempSnapshotsDir, Parallel: c.Restoration.MaxFetchers, Member: o.Member,
		Replanned: func(reason string, next restorer.Plan) {
			r.Log.Warn("planned again", "reason", reason, "end", int64(next.End))
		},
	}
	plan, err := restorer.Decide(q)
	if err != nil {
		return err
	}
	r.Log.Info("restoring", "lineage", string(plan.Lineage.ID), "base", plan.Base.Name().String(), "deltas", len(plan.Deltas), "end", int64(plan.End), "bytes", plan.Bytes, "bump", plan.BumpBy)
	res, err := restorer.Run(ctx, q, plan)
	if err != nil {
		return err
	}
	r.Log.Info("restored", "revision", int64(res.Restored.Revision), "keys", res.Restored.Keys, "events", res.Restored.Events, "lineage", string(res.Lineage.ID), "took", res.Took.Round(time.Millisecond).String())
	if note := res.Restored.LeaseNote(); note != "" {
		r.Log.Warn("the time to live of some leases is assumed", "leases", note)
	}
	for _, d := range res.Damaged {
		r.Log.Warn("damaged", "object", d.Object, "reason", d.Reason)
	}
	return nil
}
