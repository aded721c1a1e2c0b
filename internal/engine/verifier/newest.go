package verifier

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"druid.internal/druid/internal/backup/restoreplan"
	"druid.internal/druid/internal/backup/retention"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/engine/replay"
	"druid.internal/druid/internal/etcd/datadir"
	"druid.internal/druid/internal/etcd/scratchdir"
)

// Newest proves the newest chain of q.From.Lineage that can be restored. Where an object turns out
// damaged it plans again without that, as a restore does: with the chain as far as the object, or with
// an older full. It returns what is damaged on the way. An error that is Broken means that no chain of
// the lineage can be restored; any other one means that nothing is known.
func Newest(ctx context.Context, q Request) (retention.Proof, []replay.Damage, error) {
	q.From.Target, q.From.AcceptLossTo = restoreplan.Latest(), 1
	plan, err := replay.Plan(q.From)
	if err != nil {
		return retention.Proof{}, nil, err
	}
	dir, remove, err := scratchdir.Make(q.ScratchDir, "verify")
	if err != nil {
		return retention.Proof{}, nil, fmt.Errorf("make a directory for the proof: %w", err)
	}
	defer func() { _ = remove() }()
	var end snapshot.Revision
	plan, damaged, err := replay.Run(ctx, q.From, plan, func(p restoreplan.Plan, src datadir.Source) error {
		r, err := q.rebuild(ctx, p, src, nil, filepath.Join(dir, "chain.db"))
		if err != nil {
			return err
		}
		end = r.Revision
		return nil
	})
	if err != nil {
		return retention.Proof{}, damaged, err
	}
	return proofOf(plan, end), damaged, nil
}

// Prove is Newest for a collector: that nothing can be restored is a note, and no proof.
func Prove(ctx context.Context, q Request) (retention.Proof, []string, error) {
	p, damaged, err := Newest(ctx, q)
	var notes []string
	for _, d := range damaged {
		notes = append(notes, fmt.Sprintf("%s is damaged: %s", d.Object, d.Reason))
	}
	if Broken(err) {
		return retention.Proof{}, append(notes, fmt.Sprintf("no chain of %s can be restored: %v", timeline.Title(*q.From.Lineage), err)), nil
	}
	return p, notes, err
}

// proofOf is the proof of a plan that was replayed to a revision just now.
func proofOf(p restoreplan.Plan, end snapshot.Revision) retention.Proof {
	var deltas []timeline.Snapshot
	for _, d := range p.Deltas {
		deltas = append(deltas, d.Snapshot)
	}
	return retention.NewProof(p.Base, deltas, end, time.Now().UTC())
}

// Broken reports whether err says that the backup cannot be restored, as opposed to the store, the
// disk or an interruption.
func Broken(err error) bool {
	var loss *restoreplan.LossError
	var noWay *restoreplan.NoWayError
	return errors.Is(err, ErrBroken) || errors.As(err, &loss) || errors.As(err, &noWay) || contradiction(err)
}
