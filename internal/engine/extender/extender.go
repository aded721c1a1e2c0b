package extender

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/backup/retention"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/engine/collector"
	"druid.internal/druid/internal/engine/replay"
	"druid.internal/druid/internal/store"
)

// Verify says when a chain is read whole before its locks are prolonged.
type Verify string

// The choices.
const (
	// VerifyFirst reads what was never prolonged, as no copy was, and of the rest one in immutability.SampleOneIn.
	VerifyFirst  Verify = "first"
	VerifyAlways Verify = "always" // also if nothing is to be prolonged
	VerifyNever  Verify = "never"
)

// ParseVerify is the inverse of string(v).
func ParseVerify(s string) (Verify, error) {
	switch v := Verify(s); v {
	case VerifyFirst, VerifyAlways, VerifyNever:
		return v, nil
	}
	return "", fmt.Errorf("%q is none of %s, %s and %s", s, VerifyFirst, VerifyAlways, VerifyNever)
}

// Request says what to keep locked, and for how long.
type Request struct {
	Store   store.Store
	Prefix  snapshot.Prefix
	Lineage *snapshot.LineageID // nil: the newest that can be restored

	// Keep names a full that is kept whatever is newer, besides the newest; zero: none. Digest, unless zero, is that of its
	// bytes, by which it and copies of it are told from what only has their names.
	Keep   snapshot.Name
	Digest snapshot.Digest

	Period time.Duration // counted from each run; 0: what the bucket gives to what is written into it
	// DefaultPeriod is the Period where neither that nor the bucket tells one, as Azure's does only to who manages it; 0: none.
	DefaultPeriod time.Duration
	MaxPeriod     time.Duration // never further ahead; 0: immutability.MaxPeriod
	// Every is the longest time between the starts of two runs; 0: nobody tells, so it is taken for a day.
	Every  time.Duration
	Verify Verify // "": VerifyFirst
	// Release is of a cluster that is awake: nothing is prolonged, and what earlier runs held is released as soon as there
	// is a newer backup, which is read whole before.
	Release bool
	DryRun  bool // only say what would be done; nothing is read whole either

	// Since is from when on copies are ours to remove; zero: none is removed. Collect makes a collector
	// of the snapshots for which only says true, by the policy that keeps nothing but the newest; nil: none.
	// prove is its Options.Prove: it reads the newest chain unless this run has done so already.
	Since   time.Time
	Collect func(only func(timeline.Snapshot) bool, prove Prove) *collector.Collector

	Parallel int // locks prolonged at a time, 0: 8
	Ranges   int // ranged requests per large object that is read, below 2: one stream

	Now      func() time.Time // the local clock, nil: time.Now
	Progress func(stage string, done, total int64)
	Log      *slog.Logger // nil: no log
}

const defaultParallel = 8

// The errors a caller branches on.
var (
	// ErrFellBack: something newer is damaged or missing, so an older state was prolonged instead.
	ErrFellBack = errors.New("the newest backup cannot be restored whole; what is good of it, or the newest good one before it, was kept locked instead")
	// ErrNotKept: neither the full that was to be kept is there and good, nor a copy of it.
	ErrNotKept = errors.New("the full that was to be kept is gone, excluded or damaged, and no good copy of it is there; the newest that is good, if there is one, was kept locked instead")
	// ErrTooRare: runs come so rarely that locks end between them, although each of them prolongs what it can.
	ErrTooRare = errors.New("runs are too rare to keep it locked; more often, or a longer period, would do")
	// ErrNoLock: there is nothing that could be prolonged.
	ErrNoLock = errors.New("nothing here is locked")
	// ErrNoPeriod: neither the request nor the bucket tells for how long.
	ErrNoPeriod = errors.New("for how long is not known")
)

// Prove is the type of collector.Options.Prove.
type Prove = func(context.Context, timeline.Timeline, snapshot.LineageID) (retention.Proof, []string, error)

// Result is what became of one object.
type Result string

// The results.
const (
	Extended Result = "extended"
	Left     Result = "left alone" // it is protected long enough, or needs not be
	Planned  Result = "to extend"  // by a dry run
	Failed   Result = "failed"

	ToRelease Result = "to release" // by a dry run
	Released  Result = "released"
)

// Object is one object that a restore needs.
type Object struct {
	Key     string `json:"key"`
	Version string `json:"version,omitempty"`
	Kind    Kind   `json:"kind"`

	Result Result           `json:"result"`
	Way    immutability.Way `json:"way,omitempty"`
	Before time.Time        `json:"before,omitzero"` // when its lock ended so far, as the store told
	After  time.Time        `json:"after,omitzero"`  // read back; of a dry run what is planned
	Held   bool             `json:"held,omitempty"`  // until somebody releases it, whatever After says
	Copy   string           `json:"copy,omitempty"`  // key of the copy that is protected in its place
	Reason string           `json:"reason"`
}

// Report is what was done.
type Report struct {
	Location string             `json:"location"`
	Prefix   snapshot.Prefix    `json:"prefix"`
	Lineage  snapshot.LineageID `json:"lineage,omitempty"`
	Base     string             `json:"base"`
	Deltas   int                `json:"deltas"`
	End      snapshot.Revision  `json:"end"`
	DryRun   bool               `json:"dryRun,omitempty"`

	Period  immutability.Period `json:"period"`
	Objects []Object            `json:"objects"`
	// Protection is that of the chain as it was read back: as strong as the weakest object, and until
	// the first end.
	Protection immutability.Summary `json:"protection"`

	Kept *Kept `json:"kept,omitempty"` // what was asked for by its name; nil: nothing was

	Verified string          `json:"verified"`          // "whole", or why not
	Damaged  []replay.Damage `json:"damaged,omitempty"` // or missing
	// PassedOver is what is newer and of another history or of none, by its name: it was not read; empty: nothing is.
	PassedOver string   `json:"passedOver,omitempty"`
	Warnings   []string `json:"warnings,omitempty"`
	Excluded   []string `json:"excluded,omitempty"` // names of snapshots that restores leave out

	Changes    int64 `json:"changes"`    // requests that changed something in the store
	BytesRead  int64 `json:"bytesRead"`  // of contents, to verify or to copy them
	BytesMoved int64 `json:"bytesMoved"` // of contents that were written by us

	Released  bool              `json:"released,omitempty"`  // no hold of earlier runs is left, as there is a newer backup
	Collected *collector.Report `json:"collected,omitempty"` // own copies that were not needed any more
}

// Kept is what became of the full that was asked for by its name.
type Kept struct {
	Asked string            `json:"asked"`
	Name  string            `json:"name,omitempty"` // of it, or of the copy that is kept in its place; empty: neither is, as Problem says
	End   snapshot.Revision `json:"end,omitempty"`  // its last
	// Protection is that of the full and its manifest, as it was read back.
	Protection immutability.Summary `json:"protection"`
	Problem    string               `json:"problem,omitempty"`
	Whole      bool                 `json:"whole,omitempty"` // this run has read it: its digests are right, and it is a database that has its last revision
	// Unproven is why it is not whole although it was read and its digests are right: its database is of no kind that was seen before.
	Unproven string `json:"unproven,omitempty"`
	// Newer is what a restore of the newest state would use, or trip over, that is neither it nor a copy of it; empty: nothing.
	Newer string `json:"newer,omitempty"`
}

// Run prolongs what ends soon. The report is as complete as it got also when there is an error.
// ErrFellBack comes although everything else went well. Running it again goes on where it stopped,
// and changes nothing where there is nothing to do.
func Run(ctx context.Context, q Request) (Report, error) {
	if q.Now == nil {
		q.Now = time.Now
	}
	if q.Parallel <= 0 {
		q.Parallel = defaultParallel
	}
	if q.Verify == "" {
		q.Verify = VerifyFirst
	}
	if q.Log == nil {
		q.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	if q.Progress == nil {
		q.Progress = func(string, int64, int64) {}
	}
	x := &run{q: q, report: Report{Location: q.Store.Capabilities().Location, Prefix: q.Prefix, DryRun: q.DryRun, Objects: []Object{}},
		measured: map[timeline.Ref]measure{}, told: map[timeline.Ref]subject{}, copies: map[timeline.Ref]made{}, written: map[timeline.Ref]snapshot.Name{}}
	err := x.run(ctx)
	x.report.Changes, x.report.BytesRead, x.report.BytesMoved = x.changes.Load(), x.bytesRead.Load(), x.bytesMoved.Load()
	if err != nil {
		place := x.report.Location
		if q.Prefix != "" {
			place += " below " + string(q.Prefix)
		}
		return x.report, fmt.Errorf("extend the immutability of %s: %w", place, err)
	}
	return x.report, nil
}
