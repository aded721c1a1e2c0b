package main

import (
	"errors"
	"fmt"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/backup/restoreplan"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/engine/excluder"
	"druid.internal/druid/internal/engine/extender"
	"druid.internal/druid/internal/etcd/datadir"
)

// withRemedy names the flags that allow what was refused: the packages below know none.
func withRemedy(err error) error {
	var loss *restoreplan.LossError
	var noWay *restoreplan.NoWayError
	var bucket *immutability.BucketRefusal
	switch {
	case errors.As(err, &bucket) && bucket.Spends:
		return fmt.Errorf("%w: --spend-extension does it all the same", err)
	case errors.As(err, &loss) && loss.Other != nil:
		name := string(*loss.Other)
		if name == "" {
			name = unnamedLineage
		}
		return fmt.Errorf("%w: --lineage=%s for %s, or --accept-loss-to=%d to go without it", err, name, timeline.Title(*loss.Other), loss.End)
	case errors.As(err, &loss):
		return fmt.Errorf("%w: --accept-loss-to=%d", err, loss.End)
	case errors.As(err, &noWay) && noWay.After.Kind != "":
		return fmt.Errorf("%w; --snapshot=%s restores the first state there is", err, noWay.After)
	case errors.As(err, &noWay) && noWay.Accept > 0 && noWay.Remedy == "":
		return fmt.Errorf("%w; --accept-loss-to=%d restores revision %d, before the target", err, noWay.Accept, noWay.Accept)
	case errors.Is(err, excluder.ErrLeavesNothing):
		return fmt.Errorf("%w: --yes-leave-nothing excludes it all the same", err)
	case errors.Is(err, extender.ErrNoLock):
		return fmt.Errorf("%w: `etcdbrctl bucket ensure` gives a bucket a lock where its provider has one; Swift has none, and of files in directories only those that were written with --object-lock-period have one; nothing was made", err)
	case errors.Is(err, extender.ErrNoPeriod):
		return fmt.Errorf("%w: --retention-period tells one, and --default-retention-period where buckets may", err)
	case errors.Is(err, datadir.ErrExists):
		return fmt.Errorf("%w: --data-dir names another one, --overwrite replaces it", err)
	case errors.Is(err, datadir.ErrForeign):
		return fmt.Errorf("%w, or name another directory with --data-dir", err)
	case errors.Is(err, datadir.ErrNoRoom):
		return fmt.Errorf("%w: make room for the database twice, or name a directory on a larger disk with --restoration-temp-snapshots-dir", err)
	}
	return err
}
