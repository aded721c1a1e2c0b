package main

import (
	"context"

	"github.com/spf13/cobra"

	"druid.internal/druid/internal/agent"
	"druid.internal/druid/internal/backup/restoreplan"
	"druid.internal/druid/internal/engine/catalog"
	"druid.internal/druid/internal/engine/collector"
	"druid.internal/druid/internal/engine/copier"
	"druid.internal/druid/internal/engine/downgrader"
	"druid.internal/druid/internal/engine/excluder"
	"druid.internal/druid/internal/engine/extender"
	"druid.internal/druid/internal/engine/prober"
	"druid.internal/druid/internal/engine/snapshotter"
	"druid.internal/druid/internal/engine/verifier"
	"druid.internal/druid/internal/etcd/datadir"
	"druid.internal/druid/internal/etcd/member"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/admin"
)

func (a *app) commands() []*cobra.Command {
	return []*cobra.Command{
		a.snapshotCommand(),
		a.restoreCommand(),
		a.listCommand(),
		a.verifyCommand(),
		a.compactCommand(),
		a.copyCommand(),
		a.collectCommand(),
		a.excludeCommand(),
		a.includeCommand(),
		a.extendCommand(),
		a.storeCommand(),
		a.bucketCommand(),
		a.serverCommand(),
		a.initializeCommand(),
		a.downgradeCommand(),
		a.ownCommand(),
		a.docsCommand(),
	}
}

// exitTable assigns exit codes, the most telling cause first.
var exitTable = []struct {
	is   func(error) bool
	code int
}{
	{as[*usageError], exitUsage},
	{as[*agent.ConfigError], exitUsage},
	{as[*interrupted], exitInterrupted},
	{is(context.Canceled), exitInterrupted},
	{is(extender.ErrFellBack, extender.ErrNotKept), exitFellBack}, // also when the store failed besides: it is what must not be overlooked
	{is(store.ErrBucketName, admin.ErrIncomplete), exitUsage},
	{is(store.ErrUnreachable, store.ErrForbidden, store.ErrCredentials, store.ErrNoBucket, store.ErrThrottled), exitUnreachable},
	{is(member.ErrUnreachable, member.ErrForbidden, member.ErrNoLeader), exitUnreachable},
	{is(prober.ErrTooWeak, extender.ErrNoLock, extender.ErrTooRare), exitTooWeak},
	{is(extender.ErrNoPeriod), exitUsage},
	{bucketRefused(true), exitUsage},
	{bucketRefused(false), exitRefused},
	{is(admin.ErrForeign, admin.ErrNotEmpty, admin.ErrWeaker), exitRefused},
	{is(verifier.ErrBroken), exitDamaged}, // also when its cause is a loss, which only restoring refuses
	{as[*restoreplan.LossError], exitRefused},
	{is(datadir.ErrExists, datadir.ErrForeign, datadir.ErrBusy, snapshotter.ErrOwned, snapshotter.ErrOtherData, catalog.ErrMistaken, copier.ErrForeign, copier.ErrConflict, collector.ErrNotOwner, excluder.ErrLeavesNothing, downgrader.ErrRefused), exitRefused},
	{is(excluder.ErrUnknown), exitUsage},
	{is(excluder.ErrLeftNothing), exitDamaged},
	{is(copier.ErrVanished, copier.ErrNothing), exitDamaged},
	{is(member.ErrDowngradeTarget, member.ErrDowngrading), exitRefused},
	{is(member.ErrConfig, datadir.ErrMembership, datadir.ErrPlace), exitUsage},
	{as[*restoreplan.NoWayError], exitDamaged},
	{is(datadir.ErrVerification, datadir.ErrHashKV), exitDamaged},
	{as[*datadir.GapError], exitDamaged},
	{as[*datadir.OverlapError], exitDamaged},
	{as[*datadir.ChainError], exitDamaged},
	{as[*datadir.OrderError], exitDamaged},
	{as[*datadir.TargetError], exitDamaged},
}
