// Package verifier proves that backups can be restored, without etcd: it reads whole chains,
// replays them as a restore would, and throws the result away.
//
// It changes nothing in the store and keeps no database.
package verifier

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"druid.internal/druid/internal/backup/restoreplan"
	"druid.internal/druid/internal/backup/retention"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/engine/replay"
	"druid.internal/druid/internal/etcd/datadir"
)

// Request says what to verify.
type Request struct {
	// From says where the backup is. Its Target, or every chain if All is set.
	From replay.Options
	// All verifies every usable full of every lineage (of From.Lineage if set), each with the
	// deltas up to the next one that is good: so every delta is read once, and everything one can
	// restore to is proven from one full at least.
	All bool

	ScratchDir  string // an existing directory with room for two databases; empty: the system's
	MemoryLimit int64  // bytes, 0: the replay's default
	Parallel    int    // deltas decoded at the same time, 0: one per processor
	KeepFree    int64  // bytes that stay free on the volume of ScratchDir

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

	// Proof lets package retention delete what precedes the chain. Only if OK.
	Proof retention.Proof `json:"-"`
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
	for ok := true; ; {
		p, more := plans(ok)
		if !more {
			break
		}
		c, err := q.verify(ctx, p, filepath.Join(dir, fmt.Sprintf("%d.db", len(report.Chains))))
		if err != nil {
			return report, err
		}
		ok = c.OK
		report.Chains = append(report.Chains, c)
		report.OK = report.OK && c.OK
		if q.Verified != nil {
			q.Verified(c)
		}
	}
	switch {
	case len(report.Chains) == 0:
		return nil, &restoreplan.NoWayError{Lineage: q.From.Lineage, Why: "there is no full snapshot to verify"}
	case !report.OK:
		return report, ErrBroken
	}
	return report, nil
}

// plans returns what gives the next plan to prove, newest first, and is told whether the one
// before it was good. There are as many as fulls, and never more than one at a time.
func (q Request) plans() (next func(good bool) (restoreplan.Plan, bool), err error) {
	if !q.All {
		p, err := replay.Plan(q.From)
		more := true
		return func(bool) (restoreplan.Plan, bool) {
			defer func() { more = false }()
			return p, more
		}, err
	}
	lineages := slices.DeleteFunc(slices.Clone(q.From.Timeline.Lineages), func(l timeline.Lineage) bool {
		return q.From.Lineage != nil && *q.From.Lineage != l.ID
	})
	var w walk
	return func(good bool) (restoreplan.Plan, bool) {
		for {
			if p, more := w.next(good); more {
				return p, true
			}
			if len(lineages) == 0 {
				return restoreplan.Plan{}, false
			}
			w, lineages = newWalk(lineages[0]), lineages[1:]
		}
	}, nil
}

// walk goes through the fulls of one lineage, newest first.
type walk struct {
	lineage timeline.Lineage
	links   timeline.Links
	bases   []timeline.Snapshot // not proven yet
	last    timeline.Snapshot   // the full of the plan before
	until   snapshot.Revision   // where what is proven already begins
}

func newWalk(l timeline.Lineage) walk {
	return walk{lineage: l, links: l.Links(), bases: l.Bases(), until: math.MaxInt64}
}

func (w *walk) next(good bool) (restoreplan.Plan, bool) {
	if good && w.last.Last > 0 {
		w.until = min(w.until, w.last.Last)
	}
	if len(w.bases) == 0 {
		return restoreplan.Plan{}, false
	}
	w.last, w.bases = w.bases[0], w.bases[1:]
	p := restoreplan.Plan{Lineage: w.lineage.Lineage, Base: w.last, End: w.last.Last, Newest: w.lineage.Newest}
	for _, d := range w.links.FollowTo(w.last.Last, w.until) {
		p.Deltas = append(p.Deltas, restoreplan.Step{Link: d})
		p.End = d.Last
	}
	return p, true
}

func (q Request) verify(ctx context.Context, p restoreplan.Plan, out string) (Chain, error) {
	began := time.Now()
	c := Chain{Lineage: p.Lineage.ID, Base: p.Base.Name().String(), Deltas: len(p.Deltas), End: p.End, Bytes: replay.Bytes(p)}
	err := replay.Once(ctx, q.From, p, func(p restoreplan.Plan, src datadir.Source) error {
		r, err := q.rebuild(ctx, p, src, out)
		if err != nil {
			return err
		}
		c.OK, c.End, c.Events, c.Keys, c.HashKV = true, r.Revision, r.Events, r.Keys, r.HashKV
		c.BaseHashKV, c.DatabaseBytes = r.BaseHashKVChecked, r.DatabaseBytes
		c.Proof = proofOf(p, r.Revision)
		return nil
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

// rebuild replays the plan into a database and removes it.
func (q Request) rebuild(ctx context.Context, p restoreplan.Plan, src datadir.Source, out string) (*datadir.Report, error) {
	r, err := datadir.Rebuild(ctx, src, datadir.Options{
		TargetRevision: p.StopRevision, TargetTime: p.StopTime,
		MemoryLimit: q.MemoryLimit, Parallel: q.Parallel, ScratchDir: filepath.Dir(out), KeepFree: q.KeepFree,
	}, out)
	if err != nil {
		return nil, err
	}
	return r, os.Remove(out)
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
