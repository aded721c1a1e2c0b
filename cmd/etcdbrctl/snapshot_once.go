package main

import (
	"context"
	"fmt"

	"druid.internal/druid/internal/backup/restoreplan"
	"druid.internal/druid/internal/engine/catalog"
	"druid.internal/druid/internal/engine/replay"
	"druid.internal/druid/internal/engine/snapshotter"
	"druid.internal/druid/internal/engine/verifier"
)

// snapshotOnce takes one full snapshot, proves by reading it back that it can be restored, and prints its name.
func (a *app) snapshotOnce(ctx context.Context, config snapshotter.Config) error {
	config.Schedule, config.DeltaPeriod = nil, 0
	s, err := snapshotter.New(config)
	if err != nil {
		return &usageError{err}
	}
	full, err := s.Once(ctx)
	if err != nil {
		return err
	}
	read, err := catalog.Read(ctx, config.Store, config.Prefix, catalog.Options{})
	if err != nil {
		return fmt.Errorf("verify %s: %w", full.Key, err)
	}
	_, err = verifier.Verify(ctx, verifier.Request{
		From: replay.Options{
			Store: config.Store, Timeline: read.Timeline, Target: restoreplan.Snapshot(full.Key.Name),
			Lineage: &full.Manifest.Lineage.ID, Log: a.log,
		},
		ScratchDir: config.SpillDir, KeepFree: keepFree,
	})
	if err != nil {
		return fmt.Errorf("verify %s: %w", full.Key, err)
	}
	a.log.Info("the full snapshot is verified", "name", full.Key.Name.String(), "revision", int64(full.Manifest.LastRevision))
	_, err = fmt.Fprintln(a.sys.out, full.Key.Name)
	return err
}
