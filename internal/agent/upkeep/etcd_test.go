package upkeep

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/etcd/member"
	"druid.internal/druid/internal/hosttest"
)

// cluster is a real etcd of some members, each with a sidecar's view of it.
type cluster struct {
	t       *testing.T
	configs []*embed.Config
	etcds   []*embed.Etcd
}

// newConfig is that of member m-i, which is not started yet.
func newConfig(t *testing.T, i int, change func(*embed.Config)) *embed.Config {
	cfg := embed.NewConfig()
	cfg.Name, cfg.Dir = fmt.Sprintf("m-%d", i), t.TempDir()
	quiet(cfg)
	host := hosttest.Own()
	at(cfg, url.URL{Scheme: "http", Host: host + ":2379"}, url.URL{Scheme: "http", Host: host + ":2380"})
	if change != nil {
		change(cfg)
	}
	return cfg
}

func quiet(cfg *embed.Config) {
	cfg.LogLevel, cfg.LogOutputs = "error", []string{"/dev/null"}
	cfg.UnsafeNoFsync = true
	cfg.TickMs, cfg.ElectionMs = 100, 1000
}

// calm members elect another leader only if theirs is silent for long, as on a busy machine.
func calm(cfg *embed.Config) { cfg.TickMs, cfg.ElectionMs = 100, 5000 }

func at(cfg *embed.Config, client, peer url.URL) {
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
}

// newCluster is n members that are to be bootstrapped.
func newCluster(t *testing.T, n int, change func(*embed.Config)) *cluster {
	t.Helper()
	c := &cluster{t: t}
	var initial []string
	for i := range n {
		cfg := newConfig(t, i, change)
		initial = append(initial, cfg.Name+"="+cfg.AdvertisePeerUrls[0].String())
		c.configs = append(c.configs, cfg)
	}
	for _, cfg := range c.configs {
		cfg.InitialCluster = strings.Join(initial, ",")
	}
	c.etcds = make([]*embed.Etcd, n)
	return c
}

// startCluster bootstraps n members in this process.
func startCluster(t *testing.T, n int, change func(*embed.Config)) *cluster {
	t.Helper()
	c := newCluster(t, n, change)
	var all []int
	for i := range n {
		all = append(all, i)
	}
	c.start(all...)
	return c
}

// start starts members, all at once, and waits until they are ready.
func (c *cluster) start(which ...int) {
	c.t.Helper()
	for _, i := range which {
		e, err := embed.StartEtcd(c.configs[i])
		if err != nil {
			c.t.Fatal(err)
		}
		c.etcds[i] = e
		c.t.Cleanup(func() { c.stop(i) })
	}
	for _, i := range which {
		select {
		case <-c.etcds[i].Server.ReadyNotify():
		case <-time.After(waitAtMost):
			c.t.Fatalf("%s is not ready after %s", c.configs[i].Name, waitAtMost)
		}
	}
}

func (c *cluster) stop(i int) {
	if e := c.etcds[i]; e != nil {
		e.Close()
		c.etcds[i] = nil
	}
}

func (c *cluster) url(i int) string { return c.configs[i].AdvertiseClientUrls[0].String() }

// endpoints are those of the running members.
func (c *cluster) endpoints() []string {
	var all []string
	for i, e := range c.etcds {
		if e != nil {
			all = append(all, c.url(i))
		}
	}
	return all
}

// sidecar is the cluster as the sidecar of m-i has it.
func (c *cluster) sidecar(i int) Etcd {
	c.t.Helper()
	var all []string
	for i := range c.configs {
		all = append(all, c.url(i))
	}
	m, err := member.New(member.Config{Endpoints: all, InsecureTransport: true, DialTimeout: 10 * time.Second})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { m.Close() })
	return Connect(m, c.url(i))
}

// client writes and reads at the running members.
func (c *cluster) client() *clientv3.Client {
	c.t.Helper()
	cl, err := clientv3.New(clientv3.Config{Endpoints: c.endpoints(), DialTimeout: 10 * time.Second, Logger: zap.NewNop()})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { cl.Close() })
	return cl
}

// leader is the index of the member that leads, once one does.
func (c *cluster) leader() int {
	c.t.Helper()
	leader := -1
	c.until("a member leads", func() bool {
		for i, e := range c.etcds {
			if e != nil && e.Server.Leader() == e.Server.MemberID() {
				leader = i
				return true
			}
		}
		return false
	})
	return leader
}

// waitAtMost is longer than anything takes that is waited for, on a busy machine too.
const waitAtMost = 3 * time.Minute

// until waits for a fact.
func (c *cluster) until(what string, is func() bool) {
	c.t.Helper()
	deadline := time.After(waitAtMost)
	for !is() {
		select {
		case <-deadline:
			c.t.Fatalf("still not after %s: %s", waitAtMost, what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// names are those of the members in the list, learners with a plus, "?" for who never started.
func (c *cluster) names() string {
	ctx, cancel := context.WithTimeout(c.t.Context(), 10*time.Second)
	defer cancel()
	list, err := c.client().MemberList(ctx)
	if err != nil {
		return err.Error()
	}
	var all []string
	for _, m := range list.Members {
		name := m.Name
		if name == "" {
			name = "?"
		}
		if m.IsLearner {
			name += "+"
		}
		all = append(all, name)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// keepRunning runs the runners of all sidecars until the test ends.
func keepRunning(t *testing.T, runners ...interface{ Run(context.Context) error }) {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for _, r := range runners {
		all.Go(func() {
			if err := r.Run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(func() { cancel(); all.Wait() })
}

var often = Common{Interval: 100 * time.Millisecond}

func impatient(r *Remover) *Remover {
	r.grace = 200 * time.Millisecond
	return r
}

func TestSuperfluousMembersOfARealClusterAreRemoved(t *testing.T) {
	c := startCluster(t, 4, nil)
	want := func(n int) WantedFunc {
		return func(context.Context) ([]Wanted, error) {
			var w []Wanted
			for i := range n {
				w = append(w, Wanted{Name: c.configs[i].Name, PeerURLs: []string{c.configs[i].AdvertisePeerUrls[0].String()}})
			}
			return w, nil
		}
	}
	c.until("another one leads than who is to be dead", func() bool {
		if c.leader() != 3 {
			return true
		}
		_ = c.etcds[3].Server.MoveLeader(t.Context(), uint64(c.etcds[3].Server.MemberID()), uint64(c.etcds[0].Server.MemberID())) // it may have lost it
		return false
	})
	cl := c.client()
	c.until("etcd takes itself for healthy and adds a learner", func() bool {
		_, err := cl.MemberAddAsLearner(t.Context(), []string{"http://127.0.0.1:1"})
		return err == nil || errors.Is(err, rpctypes.ErrPeerURLExist) // it was added, and nobody was told
	})
	c.stop(3)
	if got := c.names(); got != "?+ m-0 m-1 m-2 m-3" {
		t.Fatalf("the members are %s", got)
	}
	var all []interface{ Run(context.Context) error }
	for i := range 3 {
		all = append(all, impatient(NewRemover(c.sidecar(i), want(3), often)))
	}
	keepRunning(t, all...)
	c.until("the unstarted learner and the dead voter are removed", func() bool { return c.names() == "m-0 m-1 m-2" })
	left := c.client()
	c.until("those that are left take writes", func() bool {
		_, err := left.Put(t.Context(), "k", "v")
		return err == nil
	})
}

func TestARealClusterShrinksToOneUnderItsFeet(t *testing.T) {
	c := newCluster(t, 3, nil)
	for i := range 3 {
		c.spawn(i)
	}
	var sidecars []Etcd
	for i := range 3 {
		sidecars = append(sidecars, c.sidecar(i))
	}
	keep := -1
	c.until("a member follows", func() bool {
		for i := range 3 {
			if _, st, err := status(t.Context(), sidecars[i].Local); err == nil && st.Leader != 0 && st.Leader != st.MemberID {
				keep = i // so that the leader itself is superfluous
				return true
			}
		}
		return false
	})
	var all []interface{ Run(context.Context) error }
	for i := range 3 {
		all = append(all, impatient(NewRemover(sidecars[i], func(context.Context) ([]Wanted, error) {
			return []Wanted{{Name: c.configs[keep].Name}}, nil
		}, often)))
	}
	keepRunning(t, all...)
	cl, err := clientv3.New(clientv3.Config{Endpoints: []string{c.url(keep)}, DialTimeout: 10 * time.Second, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	c.until("one member is left", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		list, err := cl.MemberList(ctx)
		return err == nil && len(list.Members) == 1 && list.Members[0].Name == c.configs[keep].Name
	})
	c.until("it takes writes", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err := cl.Put(ctx, "k", "v")
		return err == nil
	})
}

func TestARealLearnerIsPromoted(t *testing.T) {
	c := startCluster(t, 1, nil)
	cl := c.client()
	for i := range 200 {
		if _, err := cl.Put(t.Context(), fmt.Sprint(i), "v"); err != nil {
			t.Fatal(err)
		}
	}
	cfg := newConfig(t, 1, nil)
	peer := cfg.AdvertisePeerUrls[0].String()
	if _, err := cl.MemberAddAsLearner(t.Context(), []string{peer}); err != nil {
		t.Fatal(err)
	}
	cfg.ClusterState = embed.ClusterStateFlagExisting
	cfg.InitialCluster = c.configs[0].InitialCluster + ",m-1=" + peer
	c.configs, c.etcds = append(c.configs, cfg), append(c.etcds, nil)
	c.start(1)
	keepRunning(t, NewPromoter(c.sidecar(1), wants(2), often))
	c.until("the learner votes", func() bool { return c.names() == "m-0 m-1" })
}

func TestNOSPACEOfARealClusterIsHealed(t *testing.T) {
	const quota = 4 << 20
	c := startCluster(t, 3, func(cfg *embed.Config) { calm(cfg); cfg.QuotaBackendBytes = quota })
	cl := c.client()
	value := strings.Repeat("x", 64<<10)
	var err error
	for i := 0; !errors.Is(err, rpctypes.ErrNoSpace); i++ { // the same key: it is history that fills the files
		if i > 200 {
			t.Fatalf("the quota is never reached: %v", err)
		}
		_, err = cl.Put(t.Context(), "k", value) // what a member that lost its leader does not answer is not counted
	}
	// The sidecars' time goes on much faster, so that the history becomes old.
	began := time.Now()
	now := func() time.Time { return began.Add(1000 * time.Since(began)) }
	var all []interface{ Run(context.Context) error }
	for i := range 3 {
		d, err := NewDefragmenter(c.sidecar(i), DefragOptions{NoSchedule: true, Common: Common{Interval: 100 * time.Millisecond, Now: now}, Settle: 30 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		h := NewHealer(c.sidecar(i), d, HealerOptions{Quota: func() int64 { return quota },
			Retention: func() Retention { return Retention{Period: time.Minute} }, Common: Common{Interval: 100 * time.Millisecond, Now: now}})
		all = append(all, d, h)
	}
	keepRunning(t, all...)
	accepted := 0 // as much again as the quota is: only compaction makes room for that
	c.until("as much again is written", func() bool {
		if _, err := cl.Put(t.Context(), "k", value); err == nil {
			accepted++
		}
		return accepted == quota/len(value)
	})
	c.until("no alarm is left", func() bool {
		r, err := cl.AlarmList(t.Context())
		return err == nil && len(r.Alarms) == 0
	})
	for i := range 3 {
		if st, err := cl.Status(t.Context(), c.url(i)); err != nil || st.DbSize >= quota {
			t.Errorf("m-%d has %d bytes: %v", i, st.DbSize, err)
		}
	}
}

func TestARealClusterIsDefragmentedUnderLoadTheLeaderLast(t *testing.T) {
	t.Run("and another member leads then", func(t *testing.T) { defragmentUnderLoad(t, time.Nanosecond, true) })
	t.Run("in place if that is quick", func(t *testing.T) { defragmentUnderLoad(t, time.Hour, false) })
}

func defragmentUnderLoad(t *testing.T, stall time.Duration, handsOn bool) {
	c := startCluster(t, 3, calm)
	cl := c.client()
	value := strings.Repeat("x", 32<<10)
	var last *clientv3.PutResponse
	for range 200 {
		c.until("a write is answered", func() bool {
			r, err := cl.Put(t.Context(), "k", value)
			last = r
			return err == nil
		})
	}
	c.until("history is compacted", func() bool {
		_, err := cl.Compact(t.Context(), last.Header.Revision, clientv3.WithCompactPhysical())
		return err == nil || errors.Is(err, rpctypes.ErrCompacted)
	})
	c.until("every member has freed its history", func() bool {
		cl.Put(t.Context(), "k", "v") // etcd counts what is free when it writes
		for i := range 3 {
			if st, err := cl.Status(t.Context(), c.url(i)); err != nil || st.DbSizeInUse*2 > st.DbSize {
				return false
			}
		}
		return true
	})
	leader := c.leader()

	loaded, stop := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	var written, failed, longest atomic.Int64
	for w := range 4 {
		writers.Go(func() {
			for i := 0; loaded.Err() == nil; i++ {
				ctx, cancel := context.WithTimeout(loaded, 10*time.Second)
				began := time.Now()
				_, err := cl.Put(ctx, fmt.Sprintf("load-%d", w), fmt.Sprint(i))
				cancel()
				for took := int64(time.Since(began)); ; {
					if before := longest.Load(); took <= before || longest.CompareAndSwap(before, took) {
						break
					}
				}
				switch {
				case err == nil:
					written.Add(1)
				case loaded.Err() == nil:
					failed.Add(1)
				}
			}
		})
	}
	var results sync.Map
	d, err := NewDefragmenter(c.sidecar(leader), DefragOptions{NoSchedule: true, Settle: time.Millisecond, Stall: stall, Retry: 100 * time.Millisecond, Common: often,
		Result: func(p member.Peer, r agentapi.Defragmentation) { results.Store(p.Name, r) }})
	if err != nil {
		t.Fatal(err)
	}
	c.until("there is load", func() bool { return written.Load() > 100 })
	d.Request()
	keepRunning(t, d)
	c.until("the operation ends", func() bool { return d.Operation().End != nil })
	stop()
	writers.Wait()

	op := d.Operation()
	if op.Status != "Success" || op.Done != 3 || op.Total != 3 {
		t.Fatalf("got %+v", op)
	}
	var order []string
	for line := range strings.SplitSeq(op.Message, "; ") {
		order = append(order, strings.SplitN(line, ":", 2)[0])
	}
	var want []string
	for i := range 3 {
		if i != leader {
			want = append(want, fmt.Sprintf("m-%d", i))
		}
	}
	want = append(want, fmt.Sprintf("m-%d", leader))
	if !slices.Equal(order, want) {
		t.Errorf("defragmented in the order %v, want %v", order, want)
	}
	of := func(name string) agentapi.Defragmentation {
		r, _ := results.Load(name)
		return r.(agentapi.Defragmentation)
	}
	for i, name := range order {
		r := of(name)
		if r.FinalDBSize == 0 || r.FinalDBSize*2 > r.InitialDBSize {
			t.Errorf("%s had %d bytes and has %d", name, r.InitialDBSize, r.FinalDBSize)
		}
		if i > 0 && r.Start.Before(*of(order[i-1]).End) {
			t.Errorf("%s began before %s had ended", name, order[i-1])
		}
	}
	if moved := c.leader() != leader; moved != handsOn {
		t.Errorf("m-%d led first; another one leads now: %v", leader, moved)
	}
	if failed.Load() > 0 && !handsOn { // etcd loses what is on its way to a former leader
		t.Errorf("%d writes failed, %d succeeded", failed.Load(), written.Load())
	}
	t.Logf("order %v, %d writes, %d failed, the longest took %v", order, written.Load(), failed.Load(), time.Duration(longest.Load()))
}
