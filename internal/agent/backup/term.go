package backup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"time"

	"druid.internal/druid/internal/agent/metrics"
	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/engine/catalog"
	"druid.internal/druid/internal/engine/snapshotter"
)

// term is one time of leadership.
type term struct {
	*Leader
	log  *slog.Logger
	ctx  context.Context
	stop func() // ends it and waits

	mu      sync.Mutex
	work    *snapshotter.Snapshotter
	ended   error                // why the one before work did
	found   *finding             // by the last survey; nil: none yet
	seen    snapshotter.Standing // in that survey
	exposed exposure
	newest  time.Time // when the newest snapshot was made that was seen
	told    agentapi.Snapshots
	toldAt  time.Time
	waiting string // for the store, as it is told
	failing failing
}

// errNotYet: the prefix is not known to be ours, or nothing is in it. It is no failure.
var errNotYet = errors.New("not yet")

// newTerm begins a term that ends with ctx or stop.
func newTerm(ctx context.Context, l *Leader) *term {
	ctx, cancel := context.WithCancel(ctx)
	t := &term{Leader: l, log: l.log, ctx: ctx}
	t.renew(nil)
	var all sync.WaitGroup
	all.Go(func() { t.backUp(ctx) })
	all.Go(func() { t.repeat(ctx, "survey", 0, l.cfg.SurveyEvery, t.survey) })
	if l.cfg.CollectEvery > time.Second && !l.cfg.Policy.IsZero() {
		all.Go(func() { t.repeat(ctx, "collection", l.cfg.CollectEvery, l.cfg.CollectEvery, t.collect) })
	}
	if l.second != nil {
		all.Go(func() { t.repeat(ctx, "copy to the second store", 0, l.cfg.Second.Every, t.sync) })
	}
	if l.cfg.VerifyEvery > 0 {
		all.Go(func() { t.prove(ctx) })
	}
	t.stop = func() {
		cancel()
		all.Wait()
		l.works.wait()
	}
	return t
}

// renew makes a new snapshotter, because one runs only once, and remembers why the last one ended.
func (t *term) renew(ended error) {
	s, err := snapshotter.New(t.snapshots())
	if err != nil {
		panic(err) // New tried it
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.work, t.ended = s, ended
}

func (t *term) snapshotter() *snapshotter.Snapshotter {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.work
}

// backUp keeps a snapshotter running. One ends by itself only if the prefix is another's.
func (t *term) backUp(ctx context.Context) {
	for failures := 1; ; failures++ {
		began := t.cfg.Now()
		err := t.snapshotter().Run(ctx)
		if ctx.Err() != nil {
			if err != nil {
				t.log.Warn("the snapshotter ended with the term", "error", err)
			}
			return
		}
		if t.cfg.Now().Sub(began) > time.Minute {
			failures = 1
		}
		t.mu.Lock()
		t.ended = err
		t.mu.Unlock()
		wait := t.cfg.Snapshots.Retry.Delay(failures)
		t.log.Error("nothing is backed up, trying again", "error", err, "failures", failures, "wait", wait)
		if t.cfg.Wait(ctx, wait) != nil {
			return
		}
		t.renew(err)
	}
}

// repeat works after first and then every period, after failures earlier, until ctx ends.
func (t *term) repeat(ctx context.Context, what string, first, period time.Duration, work func(context.Context) error) {
	failures := 0
	for wait := first; wait <= 0 || t.cfg.Wait(ctx, wait) == nil; {
		err := work(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			failures, wait = 0, period
		case errors.Is(err, errNotYet):
			wait = min(period, t.cfg.LookEvery)
		default:
			failures++
			wait = min(period, t.cfg.Snapshots.Retry.Delay(failures))
			t.log.Error("a periodic task failed, trying again", "task", what, "error", err, "failures", failures, "wait", wait)
		}
		wait = max(wait, time.Millisecond) // whatever is configured, never without a pause
	}
}

// soonProof is how long after the beginning of a term the newest chain is proven first, and after
// how long again if there was no answer. A proof reads and replays a whole chain, so neither a
// leadership that wanders nor a store that fails may have it done more often.
const soonProof = time.Hour

// prove proves the newest chain every period until ctx ends. Each proof logs, counts and tells what
// became of it. Where a chain is broken another one is begun, as etcd has the data, and is proven soon; if that is no better,
// asking again soon would not change it.
func (t *term) prove(ctx context.Context) {
	period, anew := t.cfg.VerifyEvery, false
	for wait := min(period, soonProof); t.cfg.Wait(ctx, max(wait, time.Millisecond)) == nil; {
		if s, err := t.ours(); err != nil || s.LastFull == nil {
			wait = min(period, t.cfg.LookEvery) // nothing to prove yet
			continue
		}
		wait = period
		if t.cfg.Room != nil {
			if err := t.cfg.Room(); err != nil { // etcd may lie on the same volume, and ends when it is full
				t.log.Warn("nothing is proven", "error", err)
				t.works.proved(agentapi.Proof{Result: agentapi.ProofUnknown, Message: err.Error()})
				wait = min(period, soonProof)
				continue
			}
		}
		switch err := t.works.both(ctx, t, kindVerify); {
		case err == nil:
			anew = false
		case !broken(err):
			wait = min(period, soonProof)
		case !anew:
			_, err := t.Full(ctx, false)
			if anew, wait = err == nil, min(period, soonProof); err != nil && ctx.Err() == nil {
				t.log.Error("no new chain was begun in place of one that cannot be restored", "error", err)
			}
		}
	}
}

// ours returns how far the snapshotter is once it found the prefix to be ours, else errNotYet.
func (t *term) ours() (snapshotter.Standing, error) {
	if s := t.snapshotter().Standing(); s.Active {
		return s, nil
	}
	return snapshotter.Standing{}, errNotYet
}

// usurped is how far the snapshotter was in the last survey, if it is refused since because the owner record is none. Who put
// that there shall not blind whoever looks after the bucket.
func (t *term) usurped() (snapshotter.Standing, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.seen, t.found != nil && errors.Is(t.ended, catalog.ErrBadOwner)
}

// forget is how long what is told about having nothing to upload may be old.
const forget = 30 * time.Second

// publish tells how well the data are protected; rev is etcd's revision, 0 if it was not told.
func (t *term) publish(rev snapshot.Revision) {
	standing, now := t.snapshotter().Standing(), t.cfg.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	end := standing.Uploaded()
	if standing.Active || rev > 0 {
		t.exposed.look(now, rev, end)
	}
	p := metrics.Protection{Seen: t.exposed.known > 0, Since: t.exposed.since()}
	if f := t.found; f != nil {
		p.Surveyed, p.Gaps, p.Contenders, p.RetainUntil = true, f.gaps, f.contenders, f.until
		p.Level, p.Tampering, p.Excluded = f.bucket.Level, f.bucket.TamperingCount, f.bucket.ExcludedCount
	}
	for _, s := range []*snapshotter.Taken{standing.LastFull, standing.LastDelta} {
		if s != nil && s.Key.Name.CreatedAt().After(t.newest) {
			t.newest = s.Key.Name.CreatedAt()
		}
	}
	p.Newest = t.newest
	t.cfg.Metrics.Protects(p)
	t.tellTrouble(t.trouble(standing, now))
	if t.failing.see(standing, t.ended, rev, now) {
		failure := t.failing.tell()
		t.cfg.Update(func(m *agentapi.Member) { m.BackupFailure = failure })
	}
	if !standing.Active {
		if t.found != nil && t.told.Bucket != nil && t.told.Bucket != &t.found.bucket {
			t.told.Bucket, t.toldAt = &t.found.bucket, now
			tell := t.told
			t.cfg.Update(func(m *agentapi.Member) { m.Snapshots = &tell })
		}
		return
	}
	tell := agentapi.Snapshots{LastFull: uploaded(standing.LastFull), LastDelta: uploaded(standing.LastDelta), AccumulatedDeltaSize: standing.DeltaBytes, Proof: t.works.proof.Load()}
	if t.found != nil {
		tell.Bucket = &t.found.bucket
	}
	if rev > 0 && rev <= end {
		at := now.UTC()
		tell.NothingNew = &at
	} else {
		tell.NothingNew = t.told.NothingNew
	}
	if same(tell, t.told) && now.Sub(t.toldAt) < forget {
		return
	}
	t.told, t.toldAt = tell, now
	t.cfg.Update(func(m *agentapi.Member) {
		m.BackupLeader = true
		m.Snapshots = &tell
	})
}

// trouble says that changes are not uploaded although they should have been for a while, and why;
// empty: they are.
func (t *term) trouble(s snapshotter.Standing, now time.Time) string {
	period := t.cfg.Snapshots.DeltaPeriod
	since := t.exposed.since()
	if period == 0 || since.IsZero() || now.Sub(since) < max(3*period, overdue) {
		if t.found != nil {
			return t.found.contest
		}
		return ""
	}
	why := "the store does not take them, or etcd does not give them"
	for _, err := range []error{t.ended, s.Err, s.Trouble} {
		if err != nil {
			why = err.Error()
		}
	}
	return fmt.Sprintf("changes since %s are not in the bucket; serving goes on: %s", since.UTC().Format(time.RFC3339), why)
}

// overdue is how long changes may wait for their upload, at least, until that is told.
const overdue = 10 * time.Second

// tellTrouble publishes it, or that it is over.
func (t *term) tellTrouble(what string) {
	if what == t.waiting {
		return
	}
	before := t.waiting
	t.waiting = what
	t.cfg.Update(func(m *agentapi.Member) {
		if m.Waiting == before || m.Waiting == "" { // nobody else waits for something
			m.Waiting = what
		}
	})
}

// same compares what is told but for the time at which nothing was new.
func same(a, b agentapi.Snapshots) bool {
	equal := func(x, y *agentapi.Uploaded) bool { return (x == nil) == (y == nil) && (x == nil || *x == *y) }
	return equal(a.LastFull, b.LastFull) && equal(a.LastDelta, b.LastDelta) && a.AccumulatedDeltaSize == b.AccumulatedDeltaSize &&
		a.Proof == b.Proof && reflect.DeepEqual(a.Bucket, b.Bucket) && (a.NothingNew == nil) == (b.NothingNew == nil)
}
