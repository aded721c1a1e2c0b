package backup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"druid.internal/druid/internal/agent/metrics"
	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/backup/restoreplan"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/engine/compactor"
	"druid.internal/druid/internal/engine/replay"
	"druid.internal/druid/internal/engine/verifier"
	"druid.internal/druid/internal/etcd/datadir"
)

// The kinds of long operations.
const (
	kindVerify  = "verify"
	kindCompact = "compact"
)

// works are the long operations: one at a time, because each wants memory and a database's room on
// disk; of each kind the one that goes on or the last.
type works struct {
	leader *Leader
	slot   chan struct{}
	group  sync.WaitGroup

	proof    atomic.Pointer[agentapi.Proof] // the last one; nil: none yet
	compared string                         // the last full that a proof compared with the deltas before it; guarded by mu
	wrong    map[string]string              // base of a chain -> how its deltas differ from the full after them; guarded by mu

	mu    sync.Mutex
	known map[string]*agentapi.Operation
}

func (w *works) init(l *Leader) {
	w.leader, w.slot, w.known, w.wrong = l, make(chan struct{}, 1), map[string]*agentapi.Operation{}, map[string]string{}
}

// Verify begins to prove that the newest chain can be restored, unless that goes on already, and
// returns how far it is. It ends with the term.
func (l *Leader) Verify(context.Context) (agentapi.Operation, error) {
	return l.works.start(kindVerify)
}

// Compact begins to replay the newest chain into one new full, as Verify does.
func (l *Leader) Compact(context.Context) (agentapi.Operation, error) {
	return l.works.start(kindCompact)
}

// Operations are the long operations that go on, and the last of each kind.
func (l *Leader) Operations() []agentapi.Operation {
	w := &l.works
	w.mu.Lock()
	defer w.mu.Unlock()
	all := []agentapi.Operation{}
	for _, o := range w.known {
		all = append(all, *o)
	}
	slices.SortFunc(all, func(a, b agentapi.Operation) int { return a.Start.Compare(b.Start) })
	return all
}

// start begins an operation of the present term.
func (w *works) start(kind string) (agentapi.Operation, error) {
	// The lock keeps the term from ending in between.
	w.leader.mu.Lock()
	defer w.leader.mu.Unlock()
	t := w.leader.current
	if t == nil {
		return agentapi.Operation{}, fmt.Errorf("%w: %s", agentapi.ErrNotLeader, w.leader.why)
	}
	o, begun := w.begin(kind)
	if begun {
		w.group.Go(func() { _ = w.do(t.ctx, t, kind) }) // its operation tells what became of it
	}
	return o, nil
}

// both begins an operation and does it.
func (w *works) both(ctx context.Context, t *term, kind string) error {
	if _, begun := w.begin(kind); !begun {
		return nil // somebody asked for it
	}
	return w.do(ctx, t, kind)
}

func (w *works) begin(kind string) (o agentapi.Operation, begun bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now := w.known[kind]; now != nil && now.Status == agentapi.InProgress {
		return *now, false
	}
	w.known[kind] = &agentapi.Operation{Kind: kind, Status: agentapi.InProgress, Start: w.leader.cfg.Now().UTC(), Phase: "waiting"}
	return *w.known[kind], true
}

// wait waits for the operations that were started.
func (w *works) wait() { w.group.Wait() }

// do carries out what was begun.
func (w *works) do(ctx context.Context, t *term, kind string) error {
	l := w.leader
	said, err := "", error(nil)
	var proved *agentapi.Proved
	select {
	case w.slot <- struct{}{}:
		l.log.Info("a long operation begins", "operation", kind)
		if kind == kindVerify {
			said, proved, err = w.verify(ctx, t)
		} else {
			said, err = w.compact(ctx, t)
		}
		<-w.slot
	case <-ctx.Done():
		err = ctx.Err()
	}
	if ctx.Err() != nil && err != nil {
		err = fmt.Errorf("%w any more, another one has to begin anew: %w", agentapi.ErrNotLeader, err)
	}
	w.mu.Lock()
	o, end := w.known[kind], l.cfg.Now().UTC()
	o.End, o.Status, o.Message, o.Phase, o.Proved = &end, agentapi.Success, said, "", proved
	if err != nil {
		o.Status, o.Message = agentapi.Failed, err.Error()
	}
	took := end.Sub(o.Start)
	w.mu.Unlock()
	if err != nil {
		l.log.Error("a long operation failed", "operation", kind, "error", err, "took", took)
		return err
	}
	l.log.Info("a long operation succeeded", "operation", kind, "result", said, "took", took)
	return nil
}

// from is what is replayed: the newest chain of what is written here or, before anything of it is in
// the bucket, of the newest history.
func (w *works) from(ctx context.Context, t *term, kind string) (replay.Options, error) {
	w.progress(kind)("reading the bucket", 0, 0)
	cat, err := w.leader.read(ctx, nil)
	if err != nil {
		return replay.Options{}, err
	}
	var lineage *snapshot.LineageID
	if own, _ := cat.Timeline.Lineage(t.snapshotter().Standing().Lineage); len(own.Bases()) > 0 {
		lineage = &own.ID
	}
	return replay.Options{Store: w.leader.store, Timeline: cat.Timeline, Target: restoreplan.Latest(), Lineage: lineage, ReadAhead: readAhead, Progress: w.progress(kind), Log: w.leader.log}, nil
}

// readAhead bounds, in bytes, what is fetched before it is replayed.
const readAhead = 32 << 20

// progress notes how far an operation is.
func (w *works) progress(kind string) func(phase string, done, total int64) {
	return func(phase string, done, total int64) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if o := w.known[kind]; o != nil && o.Status == agentapi.InProgress {
			o.Phase, o.Done, o.Total = phase, done, total
		}
	}
}

func (w *works) verify(ctx context.Context, t *term) (string, *agentapi.Proved, error) {
	c := w.leader.cfg
	from, err := w.from(ctx, t, kindVerify)
	base := t.base()
	var report *verifier.Report
	if err == nil {
		w.mu.Lock()
		compared := w.compared
		w.mu.Unlock()
		err = w.inRoom(ctx, func(ctx context.Context) (err error) {
			report, err = verifier.Verify(ctx, verifier.Request{
				From: from, ScratchDir: c.ScratchDir, KeepFree: c.KeepFree, MemoryLimit: c.ReplayMemory, Parallel: 1,
				Preceding: base == "" || base != compared,
			})
			return err
		})
	}
	switch {
	case report != nil && len(report.Chains) > 0 && report.Chains[0].OK: // whatever became of the chain before
		chain := report.Chains[0]
		w.compare(chain, report.Chains[1:], err)
		took := time.Duration(chain.Seconds * float64(time.Second))
		w.leader.store.proofs.add(chain.Proof)
		w.proved(agentapi.Proof{Result: agentapi.ProofProven, Base: chain.Base, EndRevision: int64(chain.End), Seconds: chain.Seconds})
		proved := &agentapi.Proved{Base: chain.Base, EndRevision: int64(chain.End)}
		return fmt.Sprintf("%s and %d deltas restore to revision %d with %d keys in %s", chain.Base, chain.Deltas, chain.End, chain.Keys, took.Round(time.Millisecond)), proved, nil
	case ctx.Err() != nil:
	case broken(err):
		if report != nil && len(report.Chains) > 0 {
			base = report.Chains[0].Base
			err = fmt.Errorf("%w: %s: %s", err, base, report.Chains[0].Reason)
		}
		w.proved(agentapi.Proof{Result: agentapi.ProofBroken, Base: base, Message: err.Error()})
	default:
		w.proved(agentapi.Proof{Result: agentapi.ProofUnknown, Base: base, Message: err.Error()})
	}
	return "", nil, err
}

// roomPause is how often the volume is looked at while temporary files are on it.
const roomPause = time.Second

// inRoom does work that has temporary files on etcd's volume, and ends it when others have used up
// half of what is to stay free: etcd ends when its log cannot grow, and the files are removed then.
func (w *works) inRoom(ctx context.Context, work func(context.Context) error) error {
	c := w.leader.cfg
	ctx, cancel := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer cancel(nil)
	if c.KeepFree > 0 && c.Free != nil {
		watch.Go(func() {
			for c.Wait(ctx, roomPause) == nil {
				if free, err := c.Free(); err == nil && free < c.KeepFree/2 {
					cancel(fmt.Errorf("%w: %d MB are free where etcd writes, too, and temporary files are removed; enlarge the volume", datadir.ErrNoRoom, free/1_000_000))
				}
			}
		})
	}
	err := work(ctx)
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, datadir.ErrNoRoom) {
		return cause
	}
	return err
}

// base is the name of the newest full of the term; empty: there is none yet.
func (t *term) base() string {
	if full := t.snapshotter().Standing().LastFull; full != nil {
		return uploaded(full).Name
	}
	return ""
}

// compare remembers what the chain that leads to the base of newest showed, if it was verified.
func (w *works) compare(newest verifier.Chain, before []verifier.Chain, err error) {
	if len(before) == 0 && err != nil {
		w.leader.log.Warn("the deltas before the newest full were not compared with it", "full", newest.Base, "error", err)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.compared = newest.Base
	if len(before) == 0 || before[0].OK { // without deltas that lead to it there is nothing to compare
		return
	}
	chain := before[0]
	w.leader.log.Error("an older chain failed its proof", "full", chain.Base, "error", chain.Reason)
	if chain.Code == verifier.HashMismatch {
		w.wrong[chain.Base] = chain.Reason
	}
}

// mismatches are the findings of proofs about chains of l that are still in the bucket.
func (w *works) mismatches(l timeline.Lineage) []timeline.Finding {
	w.mu.Lock()
	defer w.mu.Unlock()
	var found []timeline.Finding
	there := map[string]string{}
	for _, s := range l.Snapshots {
		name := s.Name().String()
		if why, is := w.wrong[name]; is {
			there[name] = why
			found = append(found, timeline.Finding{Code: verifier.HashMismatch, Severity: timeline.Danger, Lineage: l.ID, Key: s.Key.String(), Text: why})
		}
	}
	w.wrong = there
	return found
}

// proved remembers how a proof ended, and counts it. One that told nothing does not make a chain whole that was broken.
func (w *works) proved(p agentapi.Proof) {
	p.EndedAt = w.leader.cfg.Now().UTC()
	if last := w.proof.Load(); p.Result != agentapi.ProofUnknown || last == nil || last.Result != agentapi.ProofBroken {
		w.proof.Store(&p)
	}
	counted := map[agentapi.ProofResult]metrics.Proof{agentapi.ProofProven: metrics.Proven, agentapi.ProofBroken: metrics.Broken, agentapi.ProofUnknown: metrics.Untold}[p.Result]
	w.leader.cfg.Metrics.Verified(counted, p.EndedAt, time.Duration(p.Seconds*float64(time.Second)))
}

// broken reports whether a proof failed because of what is in the bucket.
func broken(err error) bool {
	var loss *restoreplan.LossError
	var noWay *restoreplan.NoWayError
	return errors.Is(err, verifier.ErrBroken) || errors.As(err, &loss) || errors.As(err, &noWay)
}

func (w *works) compact(ctx context.Context, t *term) (string, error) {
	c := w.leader.cfg
	from, err := w.from(ctx, t, kindCompact)
	if err != nil {
		return "", err
	}
	var r *compactor.Result
	err = w.inRoom(ctx, func(ctx context.Context) (err error) {
		r, err = compactor.Compact(ctx, compactor.Request{
			From: from, Into: w.leader.store, Prefix: c.Prefix, Keep: c.Compacted, Compression: c.Snapshots.Compression,
			ScratchDir: c.ScratchDir, KeepFree: c.KeepFree, MemoryLimit: c.ReplayMemory, Parallel: 1, Writer: c.Snapshots.Writer, Now: c.Now,
		})
		return err
	})
	switch {
	case err != nil:
		return "", err
	case r.Nothing():
		return fmt.Sprintf("nothing to do: no delta follows %s", r.Plan.Base.Name()), nil
	}
	return fmt.Sprintf("%s holds what %s and %d deltas did", r.Name, r.Plan.Base.Name(), len(r.Plan.Deltas)), nil
}
