package backup

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/storetest"
)

// all runs a sidecar beside each member.
func (e *etcds) all(change func(i int, c *Config), from Source) []*sidecar {
	e.t.Helper()
	var all []*sidecar
	for i := range e.servers {
		cfg := e.config(i, from)
		if change != nil {
			change(i, &cfg)
		}
		all = append(all, run(e.t, cfg))
	}
	return all
}

// load writes until it is stopped, and then returns the last revision that was acknowledged.
func (e *etcds) load() (stop func() snapshot.Revision) {
	ctx, cancel := context.WithCancel(e.t.Context())
	var last snapshot.Revision
	var group sync.WaitGroup
	group.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			once, done := context.WithTimeout(ctx, 5*time.Second)
			r, err := e.client.Put(once, "load", time.Now().String())
			done()
			if err == nil {
				last = snapshot.Revision(r.Header.Revision)
			}
		}
	})
	stop = func() snapshot.Revision {
		cancel()
		group.Wait()
		return last
	}
	e.t.Cleanup(func() { stop() })
	return stop
}

func TestLeadershipMovesWithoutAGap(t *testing.T) {
	t.Parallel()
	e, bucket := newEtcds(t, 3), memory()
	sidecars := e.all(nil, to(bucket))
	first := e.leader()
	until(t, "the leader's sidecar writes", func() bool { return sidecars[first].Leads() })
	asked(t, func(ctx context.Context) (agentapi.Snapshot, error) { return sidecars[first].Full(ctx, false) })
	stop := e.load()
	for round := range 4 {
		next := (first + 1 + round) % 3
		reaches(t, bucket, e.put(10))
		e.hand(next)
		until(t, "the next one writes, and nobody else", func() bool {
			return sidecars[next].Leads() && !slices.ContainsFunc(sidecars, func(s *sidecar) bool { return s != sidecars[next] && s.Leads() })
		})
		asked(t, func(ctx context.Context) (agentapi.Timeline, error) { return sidecars[next].Timeline(ctx) })
	}
	last := max(stop(), e.put(1))
	reaches(t, bucket, last)
	whole(t, bucket, last)
	if fulls := countFulls(t, bucket, prefix); fulls > 2 {
		t.Errorf("%d fulls were taken, want those of the start and of the request: taking over needs none", fulls)
	}
}

func TestFlappingLeadershipLeavesOneHistory(t *testing.T) {
	t.Parallel()
	e, bucket := newEtcds(t, 3), memory()
	sidecars := e.all(nil, to(bucket))
	reaches(t, bucket, 1) // members that begin at once, without anything in the bucket, may begin two
	stop := e.load()
	for round := range 25 {
		e.hand(round % 3) // whether the sidecars have noticed or not
		e.put(2)
	}
	last := max(stop(), e.put(1))
	reaches(t, bucket, last)
	whole(t, bucket, last)
	until(t, "exactly one writes", func() bool {
		writers := 0
		for _, s := range sidecars {
			if s.Leads() {
				writers++
			}
		}
		return writers == 1
	})
}

func TestAStoreThatIsDownWhileLeadershipMovesCostsNothing(t *testing.T) {
	t.Parallel()
	e, bucket := newEtcds(t, 3), memory()
	broken := storetest.NewFaulty(bucket)
	broken.Inject(storetest.Fail(store.ErrUnreachable).Always())
	sources := make([]*opener, 3)
	var sidecars []*sidecar
	for i := range e.servers {
		sources[i] = &opener{store: bucket}
		cfg := e.config(i, sources[i].source())
		cfg.Snapshots.Grace = 50 * time.Millisecond // what is buffered cannot be uploaded anyway
		sidecars = append(sidecars, run(t, cfg))
	}
	all := func(s store.Store) {
		for _, o := range sources {
			o.set(func(o *opener) { o.store, o.changed = s, true })
		}
	}
	first := e.leader()
	asked(t, func(ctx context.Context) (agentapi.Snapshot, error) { return sidecars[first].Full(ctx, false) })
	stop := e.load()
	reaches(t, bucket, e.put(10))
	all(broken)
	e.put(50)
	for hop := range 3 {
		next := (first + 1 + hop) % 3
		e.hand(next)
		until(t, "the next one takes up its work", func() bool { return sidecars[next].Leads() })
		e.put(20)
	}
	all(bucket)
	last := max(stop(), e.put(1))
	reaches(t, bucket, last)
	whole(t, bucket, last)
}

func TestAFullThatIsTakenWhileLeadershipMovesSaysSo(t *testing.T) {
	t.Parallel()
	e, bucket := newEtcds(t, 3), memory()
	slow := storetest.NewFaulty(bucket)
	slow.Inject(storetest.Hang().On(storetest.OpPut, "Full-").Always())
	source := &opener{store: bucket}
	sidecars := e.all(nil, source.source())
	first := e.leader()
	asked(t, func(ctx context.Context) (agentapi.Snapshot, error) { return sidecars[first].Full(ctx, false) })
	source.set(func(o *opener) { o.store, o.changed = slow, true })
	failed := make(chan error, 1)
	go func() { _, err := sidecars[first].Full(t.Context(), true); failed <- err }()
	until(t, "the full is under way", func() bool {
		return slices.ContainsFunc(slow.Calls(), func(c storetest.Call) bool { return c.Op == storetest.OpPut })
	})
	e.hand((first + 1) % 3)
	select {
	case err := <-failed:
		if !errors.Is(err, agentapi.ErrNotLeader) {
			t.Errorf("the full ended with %v, want agentapi.ErrNotLeader", err)
		}
	case <-time.After(patience):
		t.Error("the full goes on")
	}
}
