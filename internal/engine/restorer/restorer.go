// Package restorer turns a backup into an etcd data directory that is proven to be what the
// plan said.
//
// It runs no etcd, deletes nothing in the store and never touches an existing data directory
// before the new one is complete.
package restorer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"druid.internal/druid/internal/backup/restoreplan"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/engine/replay"
	"druid.internal/druid/internal/etcd/datadir"
)

// Request says what to restore, and into what.
type Request struct {
	// From says what to restore; its Replanned is set by this package.
	From replay.Options

	KeepHistory bool
	Bump        Bump
	LastKnown   snapshot.Revision // highest revision known from elsewhere, 0: none

	Dir       string
	Overwrite bool
	// AtLeast is the revision to which the backup must reach, or nothing is made; 0: wherever it ends.
	AtLeast snapshot.Revision
	Member  datadir.Membership
	// NewLineage is the id of the history that begins with this restore.
	NewLineage snapshot.LineageID

	QuotaBytes  int64  // of the etcd that will run on it, 0: etcd's default
	MemoryLimit int64  // bytes the replay may keep in memory, 0: its default
	ScratchDir  string // for spilled data, empty: beside Dir
	Parallel    int    // objects fetched and decoded at the same time, 0: one per processor

	// Replanned, if set, is told why a plan was given up and what replaces it.
	Replanned func(reason string, next Plan)
}

// ErrShort: the backup does not reach the revision that is asked for.
var ErrShort = errors.New("the backup does not reach as far as it was to")

// Result is what a restore did.
type Result struct {
	Dir      string
	Plan     Plan
	Restored datadir.Restored
	Lineage  snapshot.Lineage
	Damaged  []replay.Damage // what was found unusable and worked around
	Took     time.Duration
}

// Decide plans q without reading anything.
func Decide(q Request) (Plan, error) {
	p, err := replay.Plan(q.From)
	if err != nil {
		return Plan{}, err
	}
	return q.complete(p), nil
}

// Run restores q as first planned by plan.
func Run(ctx context.Context, q Request, plan Plan) (*Result, error) {
	began := time.Now()
	res := &Result{Dir: q.Dir, Plan: plan}
	from := q.From
	from.Replanned = func(reason string, next restoreplan.Plan) {
		res.Plan = q.complete(next)
		if q.Replanned != nil {
			q.Replanned(reason, res.Plan)
		}
	}
	_, damaged, err := replay.Run(ctx, from, plan.Plan, func(p restoreplan.Plan, src datadir.Source) error {
		if p.End < q.AtLeast {
			return fmt.Errorf("%w: it ends at revision %d, and revision %d is wanted", ErrShort, p.End, q.AtLeast)
		}
		res.Lineage = snapshot.Lineage{ID: q.NewLineage, Parent: p.Lineage.ID}
		restored, err := datadir.Restore(ctx, src, q.options(p), datadir.Target{
			Dir: q.Dir, Overwrite: q.Overwrite, Member: q.Member,
			Identity: &datadir.Identity{Lineage: res.Lineage},
		})
		if err != nil {
			return err
		}
		res.Restored = *restored
		return nil
	})
	if err != nil {
		return nil, err
	}
	res.Damaged, res.Took = damaged, time.Since(began)
	res.Lineage.Fork = res.Restored.Reached
	return res, nil
}

func (q Request) options(p restoreplan.Plan) datadir.Options {
	return datadir.Options{
		TargetRevision: p.StopRevision, TargetTime: p.StopTime,
		KeepHistory: q.KeepHistory, BumpRevision: q.complete(p).BumpBy,
		QuotaBytes: q.QuotaBytes, MemoryLimit: q.MemoryLimit, Parallel: q.Parallel, ScratchDir: q.ScratchDir,
		Progress: func(d datadir.Progress) {
			if q.From.Progress != nil && (d.Phase == datadir.Writing || d.Phase == datadir.Verifying) {
				q.From.Progress(string(d.Phase), d.Bytes, d.Total)
			}
		},
	}
}
