// Package verifier proves that backups can be restored, without etcd: it reads whole chains,
// replays them as a restore would, and throws the result away.
//
// It changes nothing in the store and keeps no database.
package verifier

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"druid.internal/druid/internal/backup/restoreplan"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/engine/replay"
	"druid.internal/druid/internal/etcd/datadir"
)

// Request says what to verify.
type Request struct {
	// From says where the backup is. Its Target, or every chain if All is set.
	From replay.Options
	// All verifies the chain of every usable full of every lineage (of From.Lineage if set).
	All bool

	ScratchDir  string // an existing directory with room for one database; empty: the system's
	MemoryLimit int64  // bytes, 0: the replay's default
	Parallel    int    // deltas decoded at the same time, 0: one per processor

	// Verified, if set, is told of each chain as soon as it is judged.
	Verified func(Chain)
}

// Chain is the verdict over one chain.
type Chain struct {
	Lineage snapshot.LineageID `json:"lineage"`
	Base    string             `json:"base"`
	Deltas  int                `json:"deltas"`
	End     snapshot.Revision  `json:"end"` // last revision proven; of a failed chain the one it should reach

	OK     bool   `json:"ok"`
	Reason string `json:"reason,omitempty"` // why it cannot be restored

	Events        int64           `json:"events,omitempty"`
	Keys          int64           `json:"keys,omitempty"`
	HashKV        snapshot.HashKV `json:"hashKV,omitzero"`
	BaseHashKV    bool            `json:"baseHashKV"` // the full has the HashKV that etcd told when it was taken
	Bytes         int64           `json:"bytes"`      // stored bytes read
	DatabaseBytes int64           `json:"databaseBytes,omitempty"`
	Seconds       float64         `json:"seconds"`
}

// Report is the verdict over a request.
type Report struct {
	Chains []Chain `json:"chains"`
	OK     bool    `json:"ok"`
}

// ErrBroken is returned by Verify when a chain cannot be restored; the report tells which.
var ErrBroken = errors.New("a chain cannot be restored")

// Verify reads and replays what q asks for. A damaged object makes a chain fail; a store that
// does not answer is an error and proves nothing.
func Verify(ctx context.Context, q Request) (*Report, error) {
	plans, err := q.plans()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(q.ScratchDir, "etcdbrctl-verify-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for the proof: %w", err)
	}
	defer os.RemoveAll(dir)
	report := &Report{OK: true}
	for i, p := range plans {
		c, err := q.verify(ctx, p, filepath.Join(dir, fmt.Sprintf("%d.db", i)))
		if err != nil {
			return report, err
		}
		report.Chains = append(report.Chains, c)
		report.OK = report.OK && c.OK
		if q.Verified != nil {
			q.Verified(c)
		}
	}
	if !report.OK {
		return report, ErrBroken
	}
	return report, nil
}

// plans are the plans to prove, newest first.
func (q Request) plans() ([]restoreplan.Plan, error) {
	if !q.All {
		p, err := replay.Plan(q.From)
		if err != nil {
			return nil, err
		}
		return []restoreplan.Plan{p}, nil
	}
	var plans []restoreplan.Plan
	for _, l := range q.From.Timeline.Lineages {
		if q.From.Lineage != nil && *q.From.Lineage != l.ID {
			continue
		}
		for _, c := range l.Chains() {
			plans = append(plans, chainPlan(l, c))
		}
	}
	if len(plans) == 0 {
		return nil, &restoreplan.NoWayError{Lineage: q.From.Lineage, Why: "there is no full snapshot to verify"}
	}
	return plans, nil
}

// chainPlan is the plan that restores all of one chain, whatever else there is.
func chainPlan(l timeline.Lineage, c timeline.Chain) restoreplan.Plan {
	p := restoreplan.Plan{Lineage: l.Lineage, Base: c.Base, End: c.End, Newest: l.Newest}
	for _, d := range c.Deltas {
		p.Deltas = append(p.Deltas, restoreplan.Step{Link: d})
	}
	return p
}

func (q Request) verify(ctx context.Context, p restoreplan.Plan, out string) (Chain, error) {
	began := time.Now()
	c := Chain{Lineage: p.Lineage.ID, Base: p.Base.Name().String(), Deltas: len(p.Deltas), End: p.End, Bytes: replay.Bytes(p)}
	err := replay.Once(ctx, q.From, p, func(p restoreplan.Plan, src datadir.Source) error {
		r, err := datadir.Rebuild(ctx, src, datadir.Options{
			TargetRevision: p.StopRevision, TargetTime: p.StopTime,
			MemoryLimit: q.MemoryLimit, Parallel: q.Parallel, ScratchDir: filepath.Dir(out),
		}, out)
		if err != nil {
			return err
		}
		c.OK, c.End, c.Events, c.Keys, c.HashKV = true, r.Revision, r.Events, r.Keys, r.HashKV
		c.BaseHashKV, c.DatabaseBytes = r.BaseHashKVChecked, r.DatabaseBytes
		return os.Remove(out)
	})
	c.Seconds = time.Since(began).Seconds()
	if err != nil && !contradiction(err) {
		return c, err
	}
	if err != nil {
		c.Reason = err.Error()
	}
	return c, nil
}

// contradiction reports whether err is about the backup, as opposed to the store, the disk or an
// interruption.
func contradiction(err error) bool {
	var object *replay.ObjectError
	var gap *datadir.GapError
	var overlap *datadir.OverlapError
	var order *datadir.OrderError
	var chain *datadir.ChainError
	var target *datadir.TargetError
	var late *datadir.LateError
	return errors.As(err, &object) || errors.As(err, &gap) || errors.As(err, &overlap) || errors.As(err, &order) ||
		errors.As(err, &chain) || errors.As(err, &target) || errors.As(err, &late)
}
