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
	"druid.internal/druid/internal/etcd/scratchdir"
)

// Request says what to verify.
type Request struct {
	// From says where the backup is. Its Target, or every chain if All is set.
	From replay.Options
	// All verifies every usable full of every lineage (of From.Lineage if set), each with the
	// deltas up to the next one that is good: so every delta is read once, and everything one can
	// restore to is proven from one full at least.
	All bool
	// Preceding verifies also the chain that leads to the base of the newest one, once, and compares
	// its content with that base. All does so for every full.
	Preceding bool

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
	Reason string `json:"reason,omitempty"` // why it is not OK
	// Code is HashMismatch if the chain can be restored, but its deltas lead to another
	// content than that of Next.
	Code timeline.Code `json:"code,omitempty"`
	// Next is the full that the deltas lead to, if their content at its revision was compared with it.
	Next string `json:"next,omitempty"`

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
	dir, remove, err := scratchdir.Make(q.ScratchDir, "verify")
	if err != nil {
		return nil, fmt.Errorf("make a directory for the proof: %w", err)
	}
	defer func() { _ = remove() }()
	report := &Report{OK: true}
	var next *content // of the full that the chain leads to; nil: it is not known
	for reached := snapshot.Revision(0); ; {
		p, more := plans(reached)
		if !more {
			break
		}
		if next != nil && next.lineage != p.Lineage.ID {
			next = nil
		}
		c, base, err := q.verify(ctx, p, next, filepath.Join(dir, fmt.Sprintf("%d.db", len(report.Chains))))
		if err != nil {
			return report, err
		}
		reached = 0
		if c.OK || c.Code != "" {
			reached, next = max(base.hash.Revision, p.Base.Last), base
		}
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

// plans returns a function that returns the next plan to prove, newest first. Its argument is the
// last revision of the full of the plan before, 0 if that was broken. There are as many plans as
// fulls, and never more than one at a time.
func (q Request) plans() (next func(reached snapshot.Revision) (restoreplan.Plan, bool), err error) {
	if !q.All {
		p, err := replay.Plan(q.From)
		asked := 0
		return func(reached snapshot.Revision) (restoreplan.Plan, bool) {
			if asked++; asked == 1 {
				return p, true
			}
			if asked > 2 || !q.Preceding || reached == 0 {
				return restoreplan.Plan{}, false
			}
			return q.preceding(p, reached)
		}, err
	}
	lineages := slices.DeleteFunc(slices.Clone(q.From.Timeline.Lineages), func(l timeline.Lineage) bool {
		return q.From.Lineage != nil && *q.From.Lineage != l.ID
	})
	var w walk
	return func(reached snapshot.Revision) (restoreplan.Plan, bool) {
		for {
			if p, more := w.next(reached); more {
				return p, true
			}
			if len(lineages) == 0 {
				return restoreplan.Plan{}, false
			}
			w, lineages = newWalk(lineages[0]), lineages[1:]
		}
	}, nil
}

// preceding is the chain that leads to the base of p, whose last revision is reached, if there is one without a gap.
func (q Request) preceding(p restoreplan.Plan, reached snapshot.Revision) (restoreplan.Plan, bool) {
	l, _ := q.From.Timeline.Lineage(p.Lineage.ID)
	w := newWalk(l)
	at := slices.IndexFunc(w.bases, func(s timeline.Snapshot) bool { return s.Ref == p.Base.Ref })
	if at < 0 {
		return restoreplan.Plan{}, false
	}
	w.last, w.bases = p.Base, w.bases[at+1:]
	before, more := w.next(reached)
	return before, more && before.End >= reached
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

func (w *walk) next(reached snapshot.Revision) (restoreplan.Plan, bool) {
	if reached > 0 && w.last.Last > 0 {
		w.until = min(w.until, reached)
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

func (q Request) verify(ctx context.Context, p restoreplan.Plan, next *content, out string) (Chain, *content, error) {
	began := time.Now()
	c := Chain{Lineage: p.Lineage.ID, Base: p.Base.Name().String(), Deltas: len(p.Deltas), End: p.End, Bytes: replay.Bytes(p)}
	base := &content{lineage: p.Lineage.ID, name: c.Base, suspect: p.Base.Manifest != nil && p.Base.Manifest.Suspect != ""}
	if next != nil && !next.comparable(p) {
		next = nil
	}
	err := replay.Once(ctx, q.From, p, func(p restoreplan.Plan, src datadir.Source) error {
		r, err := q.rebuild(ctx, p, src, next, out)
		if err != nil {
			return err
		}
		c.OK, c.End, c.Events, c.Keys, c.HashKV = true, r.Revision, r.Events, r.Keys, r.HashKV
		c.BaseHashKV, c.DatabaseBytes = r.BaseHashKVChecked, r.DatabaseBytes
		base.hash, base.keys = r.BaseHashKV, r.BaseKeys
		if next != nil {
			if err := q.compare(ctx, &c, p, *next, out); err != nil {
				return err
			}
		}
		if c.OK {
			c.Proof = proofOf(p, r.Revision)
		}
		return os.Remove(out)
	})
	c.Seconds = time.Since(began).Seconds()
	if err != nil && !contradiction(err) {
		return c, base, err
	}
	if err != nil {
		c.OK, c.Reason = false, err.Error()
	}
	return c, base, nil
}

// rebuild replays the plan into a database at out, with the history that a comparison with next needs.
func (q Request) rebuild(ctx context.Context, p restoreplan.Plan, src datadir.Source, next *content, out string) (*datadir.Report, error) {
	o := datadir.Options{
		TargetRevision: p.StopRevision, TargetTime: p.StopTime, HashBase: q.All || q.Preceding,
		MemoryLimit: q.MemoryLimit, Parallel: q.Parallel, ScratchDir: filepath.Dir(out), KeepFree: q.KeepFree,
	}
	if next != nil {
		o.CompactAt, o.KeepHistory = max(next.hash.CompactRevision, 0), next.hash.CompactRevision < 0
	}
	return datadir.Rebuild(ctx, src, o, out)
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
