package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/test/faults"
	"druid.internal/druid/test/history"
	"druid.internal/druid/test/members"
	"druid.internal/druid/test/sites"
)

// TestAllDataAreLostAndComeBackFromTheBucketWithLaterRevisions empties all volumes. Whoever watched is
// told to list again, nobody hangs, and no revision is used twice.
func TestAllDataAreLostAndComeBackFromTheBucketWithLaterRevisions(t *testing.T) {
	t.Parallel()
	for _, with := range everyOther(t, beginnings) {
		for _, size := range []int{1, 3} {
			t.Run(fmt.Sprintf("%d members from %s", size, with), func(t *testing.T) {
				t.Parallel()
				c := enlist(t, members.Options{Members: size}, "")
				c.begin(with)
				c.work(5000).wait()
				_, rev := c.holds(2)
				c.upload(rev)
				watchers := c.watch(8)
				for _, m := range c.Members() {
					c.must(m.LoseVolume())
				}
				for _, m := range c.Members() {
					m.Start()
				}
				c.ready()
				kvs, now, err := history.Read(t.Context(), c.client, 0)
				c.must(err)
				if wrong := c.told.AgainstKeys(kvs, 0); len(wrong) > 0 {
					t.Errorf("after the restore: %q", wrong)
				}
				if now < rev+1_000_000_000 {
					t.Errorf("the restored cluster is at revision %d, the lost one was at %d", now, rev)
				}
				watchers.see(c.put(c.client, loadPrefix+"end", "of the story"))
				c.work(2000).wait()
				events, rev := c.holds(now + 1)
				c.comesBack(events, now+1, rev)
			})
		}
	}
}

// watchers are clients as Kubernetes' caches: each lists, watches from there, and lists again when
// it is told that its revision is gone.
type watchers struct {
	c      *crew
	mu     sync.Mutex
	lists  []int
	newest []int64
	errs   []error
	gone   []bool // it was told to list again
}

// watch starts n of them and waits until all have listed.
func (c *crew) watch(n int) *watchers {
	c.t.Helper()
	w := &watchers{c: c, lists: make([]int, n), newest: make([]int64, n), errs: make([]error, n), gone: make([]bool, n)}
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for i := range n {
		client, err := c.ClientOf(c.Members()[i%len(c.Members())])
		c.must(err)
		all.Go(func() {
			defer client.Close()
			w.run(ctx, i, client)
		})
	}
	c.t.Cleanup(func() {
		cancel()
		all.Wait()
	})
	c.await("all have listed", func(context.Context) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		for i, lists := range w.lists {
			if lists == 0 {
				return fmt.Errorf("watcher %d has not: %w", i, w.errs[i])
			}
		}
		return nil
	})
	return w
}

func (w *watchers) run(ctx context.Context, i int, client *clientv3.Client) {
	note := func(f func()) {
		w.mu.Lock()
		defer w.mu.Unlock()
		f()
	}
	failed := func(err error) { // and once more, perhaps, for another reason: until it lists again nobody may answer
		w.errs[i] = err
		// A member that is still a learner says so, and ends watches, too.
		w.gone[i] = w.gone[i] || errors.Is(err, rpctypes.ErrCompacted) || errors.Is(err, rpctypes.Error(rpctypes.ErrGRPCNotSupportedForLearner))
	}
	for ctx.Err() == nil {
		_, rev, err := history.Read(ctx, client, 0)
		if err != nil {
			note(func() { failed(err) })
			continue
		}
		note(func() { w.lists[i]++; w.newest[i] = rev })
		for r := range client.Watch(ctx, loadPrefix, clientv3.WithPrefix(), clientv3.WithRev(rev+1)) {
			if err := r.Err(); err != nil {
				note(func() { failed(err) })
				break
			}
			for _, e := range r.Events {
				note(func() { w.newest[i] = e.Kv.ModRevision })
			}
		}
	}
}

// see waits until all know a revision, and holds them to have listed again.
func (w *watchers) see(rev int64) {
	w.c.t.Helper()
	w.c.await("all watchers see what is written", func(context.Context) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		for i, newest := range w.newest {
			if newest < rev {
				return fmt.Errorf("watcher %d is at %d of %d, it listed %d times: %w", i, newest, rev, w.lists[i], w.errs[i])
			}
		}
		return nil
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.lists {
		if w.lists[i] < 2 || !w.gone[i] {
			w.c.t.Errorf("watcher %d listed %d times, last because of %v, want again because of %v", i, w.lists[i], w.errs[i], rpctypes.ErrCompacted)
		}
	}
}

// TestABucketThatDoesNotAnswerIsNotAnEmptyOne loses all data while the store is away, in one way or another.
// Nobody begins a new cluster; when the store is back, so are the data.
func TestABucketThatDoesNotAnswerIsNotAnEmptyOne(t *testing.T) {
	t.Parallel()
	for _, away := range everyOther(t, []struct {
		what  string
		fault faults.Fault
	}{
		{"the store answers 503", faults.Fault{Status: http.StatusServiceUnavailable, Code: "ServiceUnavailable"}},
		{"listing breaks off", faults.Fault{Match: faults.Request(http.MethodGet, "versions"), Truncate: 100}},
		{"the store denies", faults.Fault{Status: http.StatusForbidden, Code: "AccessDenied"}},
		{"the answer to a list is cut", faults.Fault{Match: faults.Request(http.MethodGet, "versions"), Lose: true}},
	}) {
		t.Run(away.what, func(t *testing.T) {
			t.Parallel()
			gate := gateTo(t, fleet.Get(t, "MinIO"))
			c := enlist(t, members.Options{Members: 3, Sidecar: func(_ string, config map[string]any) {
				config["exponentialBackoffConfig"].(map[string]any)["attemptLimit"] = 2 // else a minute goes by before an outage is told
			}}, gate.Endpoint)
			c.start()
			c.work(1000).wait()
			_, rev := c.holds(2)
			c.upload(rev)
			for _, m := range c.Members() {
				c.must(m.LoseVolume())
			}
			gate.Inject(away.fault)
			for _, m := range c.Members() {
				m.Start()
			}
			first := c.Members()[0]
			state := c.reports(first, agentapi.WaitingForStore)
			if state.Waiting == "" {
				t.Error("it does not say what it waits for")
			}
			for _, m := range c.Members() {
				if s, err := m.Etcd(t.Context()); err == nil {
					t.Errorf("%s serves at revision %d while nobody knows the bucket", m.Name, s.Header.Revision)
				}
			}
			if len(gate.Happened()) == 0 {
				t.Error("the fault did not happen")
			}
			gate.Heal()
			c.ready()
			kvs, _, err := history.Read(t.Context(), c.client, 0)
			c.must(err)
			if wrong := c.told.AgainstKeys(kvs, 0); len(wrong) > 0 {
				t.Errorf("after the restore: %q", wrong)
			}
		})
	}
}

// TestAMajorityWithoutDataIsNotRestoredWhileAnyoneHasSome reports and waits for a person.
func TestAMajorityWithoutDataIsNotRestoredWhileAnyoneHasSome(t *testing.T) {
	t.Parallel()
	c := enlist(t, members.Options{Members: 3}, "")
	c.start()
	c.work(1000).wait()
	_, rev := c.holds(2)
	c.upload(rev)
	all := c.Members()
	for _, m := range all {
		m.Crash()
	}
	c.must(all[0].LoseVolume())
	c.must(all[1].LoseVolume())
	for _, m := range all {
		m.Start()
	}
	for _, m := range all[:2] {
		if s := c.reports(m, agentapi.QuorumLost); s.Waiting == "" {
			t.Errorf("%s does not say why", m.Name)
		}
	}
	if _, err := c.Leader(t.Context()); err == nil {
		t.Error("somebody leads a cluster whose majority lost its data")
	}
	if l := c.list(); l.end() != rev || len(l.Lineages) != 1 {
		t.Errorf("the bucket has %d lineages up to %d, want one up to %d", len(l.Lineages), l.end(), rev)
	}
}

// TestDataAheadOfTheBucketAreUsed lets a sole member have what was never uploaded, as when a bucket
// was replaced by an older copy.
func TestDataAheadOfTheBucketAreUsed(t *testing.T) {
	t.Parallel()
	gate := gateTo(t, fleet.Get(t, "MinIO"))
	c := enlist(t, members.Options{Members: 1}, gate.Endpoint)
	c.start()
	c.work(1000).wait()
	_, rev := c.holds(2)
	c.upload(rev)
	gate.Inject(faults.Fault{Match: faults.Request(http.MethodPut), Status: http.StatusServiceUnavailable, Code: "ServiceUnavailable"})
	c.work(1000).wait()
	_, ahead := c.holds(2)
	m := c.Members()[0]
	m.Crash()
	gate.Heal()
	m.Start()
	c.ready()
	if _, now := c.holds(2); now < ahead {
		t.Errorf("it is at revision %d, it was at %d", now, ahead)
	}
	c.proves()
}

// TestASoleMemberThatLostItsDataRestoresItself, and one whose data are behind the bucket does, too.
func TestASoleMemberRestoresItselfWhenItsDataAreGoneOrBehind(t *testing.T) {
	t.Parallel()
	for what, damage := range map[string]func(*members.Member) error{
		"gone":     (*members.Member).LoseData,
		"flipped":  (*members.Member).FlipDB,
		"cut back": (*members.Member).TruncateWAL,
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			c := enlist(t, members.Options{Members: 1}, "")
			c.start()
			c.work(2000).wait()
			_, rev := c.holds(2)
			c.upload(rev)
			m := c.Members()[0]
			c.must(damage(m))
			m.Start()
			c.ready()
			kvs, _, err := history.Read(t.Context(), c.client, 0)
			c.must(err)
			if wrong := c.told.AgainstKeys(kvs, 0); len(wrong) > 0 {
				t.Errorf("after the restore: %q", wrong)
			}
		})
	}
}

// TestAClusterWakesUpAfterItsFinalSnapshot is hibernated with its volumes deleted, and goes on.
func TestAClusterWakesUpAfterItsFinalSnapshot(t *testing.T) {
	t.Parallel()
	c := enlist(t, members.Options{Members: 3}, "")
	c.start()
	c.work(1000).wait()
	c.writer()
	sidecar, err := c.follower().Sidecar() // passes it on to the backup leader
	c.must(err)
	defer sidecar.Close()
	var final agentapi.Snapshot
	c.await("a final full is taken", func(ctx context.Context) (err error) { // another one may begin to write the backups just now
		final, err = sidecar.Full(ctx, true)
		return err
	})
	if !final.IsFinal || final.LastRevision < c.told.Newest() {
		t.Errorf("the final snapshot is %+v, want final up to %d", final, c.told.Newest())
	}
	for _, m := range c.Members() {
		c.must(m.Stop())
		c.must(m.LoseVolume())
	}
	for _, m := range c.Members() {
		m.Start()
	}
	c.ready()
	kvs, now, err := history.Read(t.Context(), c.client, 0)
	c.must(err)
	if wrong := c.told.AgainstKeys(kvs, 0); len(wrong) > 0 {
		t.Errorf("after waking up: %q", wrong)
	}
	c.work(1000).wait()
	events, rev := c.holds(now + 1)
	c.comesBack(events, now+1, rev)
}

// TestWithoutAPeriodForDeltasThereAreFullsOnly leaves the key out, and gives none.
func TestWithoutAPeriodForDeltasThereAreFullsOnly(t *testing.T) {
	t.Parallel()
	c := enlist(t, members.Options{Members: 1, Sidecar: func(_ string, config map[string]any) {
		config["snapshotterConfig"].(map[string]any)["deltaSnapshotPeriod"] = "0s"
	}}, "")
	c.start()
	c.work(1000).wait()
	sidecar, err := c.Members()[0].Sidecar()
	c.must(err)
	defer sidecar.Close()
	var full agentapi.Snapshot
	c.await("a full is taken", func(ctx context.Context) (err error) {
		full, err = sidecar.Full(ctx, false)
		return err
	})
	if full.LastRevision < c.told.Newest() {
		t.Errorf("the full ends at %d, want at least %d", full.LastRevision, c.told.Newest())
	}
	if l := c.list(); len(l.all("Incr")) != 0 {
		t.Errorf("%d deltas", len(l.all("Incr")))
	}
}

// TestABucketOfAnotherHistoryIsRefused gives members a bucket in which another cluster's backups lie.
func TestABucketOfAnotherHistoryIsRefused(t *testing.T) {
	t.Parallel()
	first := enlist(t, members.Options{Members: 1}, "")
	first.start()
	first.work(1000).wait()
	_, rev := first.holds(2)
	first.upload(rev)
	first.Close()

	site := fleet.Get(t, "MinIO")
	endpoint, _ := site.Reach()
	elsewhere, err := site.Way(t.Context(), fleet.Bucket(t, site, sites.Versioned), endpoint, sites.Owner)
	first.must(err)
	second := enlist(t, members.Options{Members: 1, Backup: elsewhere}, "")
	second.start()
	second.work(1000).wait()
	_, rev = second.holds(2)
	second.upload(rev)
	m := second.Members()[0]
	second.must(m.Stop())
	// What stands in the template of the second is exchanged for the bucket of the first.
	second.must(second.Reconfigure(func(_ string, config map[string]any) {
		config["snapstoreConfig"].(map[string]any)["container"] = containerOf(first.place)
	}))
	m.Start()
	state := second.reports(m, agentapi.OtherLineage)
	if state.Waiting == "" {
		t.Error("it does not say what to do")
	}
	if _, err := m.Etcd(t.Context()); err == nil {
		t.Error("it serves")
	}
}

// TestThePrefixOfAnotherClusterIsNotRestoredUntilItIsTakenOver gives members without data the prefix under which another cluster
// runs, and then tells them that it is gone for good.
func TestThePrefixOfAnotherClusterIsNotRestoredUntilItIsTakenOver(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 3} {
		t.Run(fmt.Sprintf("%d members", size), func(t *testing.T) {
			t.Parallel()
			backup := sites.Way{Provider: "Local", Container: t.TempDir()}
			first := enlist(t, members.Options{Members: 1, Backup: backup, Owner: "k8s/shop/first/uid-1"}, "")
			first.start()
			first.work(500).wait()
			_, rev := first.holds(2)
			first.upload(rev)

			second := enlist(t, members.Options{Members: size, Backup: backup, Owner: "k8s/shop/second/uid-2"}, "")
			for _, m := range second.Members() {
				m.Start()
			}
			for _, m := range second.Members() {
				second.await("it says whose the prefix is, and what to do", func(ctx context.Context) error {
					s, err := m.State(ctx)
					f := s.BackupFailure
					if err == nil && (f == nil || f.Reason != agentapi.StoreOwnedByAnother || !strings.Contains(s.Waiting, "k8s/shop/first/uid-1") || !strings.Contains(s.Waiting, "take-over-backups")) {
						err = fmt.Errorf("it fails with %+v and waits for %q", f, s.Waiting)
					}
					return err
				})
				if _, err := m.Etcd(t.Context()); err == nil {
					t.Error("it serves")
				}
				if s := second.state(m); s.LastRestoration != nil {
					t.Errorf("it restored what is another's: %+v", s.LastRestoration)
				}
			}
			first.work(100).wait()
			_, rev = first.holds(2)
			first.upload(rev) // it goes on
			for _, m := range first.Members() {
				first.must(m.Stop())
			}

			second.must(second.Reconfigure(func(_ string, config map[string]any) {
				config["snapshotterConfig"].(map[string]any)["takeOver"] = true
			}))
			for _, m := range second.Members() {
				second.must(m.StopSidecar())
				m.StartSidecar()
			}
			second.ready()
			second.connect()
			second.told, second.shifts = first.told, first.shifts // it has what the first one had
			kvs, now, err := history.Read(t.Context(), second.client, 0)
			second.must(err)
			if wrong := second.told.AgainstKeys(kvs, 0); len(wrong) > 0 {
				t.Errorf("after it took the prefix over: %q", wrong)
			}
			second.work(100).wait()
			events, rev := second.holds(now + 1)
			second.comesBack(events, now+1, rev)
		})
	}
}

// containerOf is the bucket of a place.
func containerOf(p place) string {
	for _, flag := range p.store {
		var container string
		if n, _ := fmt.Sscanf(flag, "--store-container=%s", &container); n == 1 {
			return container
		}
	}
	return ""
}
