package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/test/history"
	"druid.internal/druid/test/ledger"
	"druid.internal/druid/test/linear"
	"druid.internal/druid/test/members"
	"druid.internal/druid/test/sites"
	"druid.internal/druid/test/stores"
)

// built are the programs of a member.
var built members.Built

// oldEtcd has a story begin with the data of an etcd 3.5.
const oldEtcd = "the data of etcd 3.5"

// crew is a cluster of members, who works on it, and what they were told.
type crew struct {
	place
	*members.Cluster
	client *clientv3.Client // of the first member and whoever is there at the beginning
	told   *ledger.Ledger
	shifts int
}

// enlist lays out a cluster whose backups lie in a bucket of the shared MinIO, reached at endpoint
// (empty: its own), unless the options say where they lie. Nothing runs yet.
func enlist(t *testing.T, o members.Options, endpoint string) *crew {
	t.Helper()
	var err error
	if o.Programs, err = built.Get(); err != nil {
		t.Fatal(err)
	}
	if o.Backup.Provider == "" {
		site := fleet.Get(t, "MinIO")
		bucket := fleet.Bucket(t, site, sites.Versioned)
		if endpoint == "" {
			endpoint, _ = site.Reach()
		}
		if o.Backup, err = site.Way(t.Context(), bucket, endpoint, sites.Owner); err != nil {
			t.Fatal(err)
		}
	}
	o.Prefix = prefix
	return &crew{place: told(t, o.Backup), Cluster: members.Lay(t, o), told: &ledger.Ledger{Prefix: loadPrefix}}
}

// start starts all members and waits until they are a cluster.
func (c *crew) start() {
	c.t.Helper()
	for _, m := range c.Members() {
		m.Start()
	}
	c.ready()
	c.connect()
}

// begin is start, after another etcd ran on the data if the story begins so.
func (c *crew) begin(with string) {
	c.t.Helper()
	if with == oldEtcd {
		binary, err := stores.Binary("etcd-3.5")
		if err != nil {
			c.t.Fatal(err)
		}
		if err := c.Plain(c.t.Context(), binary, func(_ context.Context, client *clientv3.Client) error {
			for i := range 200 {
				c.put(client, fmt.Sprintf("%sold/%03d", loadPrefix, i), fmt.Sprint(i))
			}
			return nil
		}); err != nil {
			c.t.Fatal(err)
		}
	}
	c.start()
}

func (c *crew) connect() {
	c.t.Helper()
	client, err := c.Client()
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { client.Close() })
	c.client = client
}

func (c *crew) ready() {
	c.t.Helper()
	c.await("the cluster is ready", c.Consistent)
}

// await waits for a fact, and tells how long if that is long.
func (c *crew) await(what string, is func(context.Context) error) {
	c.t.Helper()
	begun := time.Now()
	if err := c.Await(c.t.Context(), what, is); err != nil {
		c.t.Fatal(err)
	}
	if took := time.Since(begun); took > 10*time.Second {
		c.t.Logf("it took %s until %s", took.Round(time.Second), what)
	}
}

// must ends the test at an error.
func (c *crew) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// put writes a key as clients do that try again: on a busy machine a member loses its leader now and then, and
// answers nobody or does not say what became of the write.
func (c *crew) put(client *clientv3.Client, key, value string) (rev int64) {
	c.t.Helper()
	c.await(key+" is written", func(ctx context.Context) error {
		r, err := client.Put(ctx, key, value)
		if err != nil {
			c.told.Unsure(key, value)
			return err
		}
		rev = r.Header.Revision
		c.told.Put(key, value, rev)
		return nil
	})
	return rev
}

// leader waits until somebody leads.
func (c *crew) leader() *members.Member {
	c.t.Helper()
	var leader *members.Member
	c.await("somebody leads", func(ctx context.Context) (err error) {
		leader, err = c.Leader(ctx)
		return err
	})
	return leader
}

// state is what a member's sidecar tells, which takes a while on a busy machine.
func (c *crew) state(m *members.Member) agentapi.Member {
	c.t.Helper()
	var state agentapi.Member
	c.await(m.Name+" tells its state", func(ctx context.Context) (err error) {
		state, err = m.State(ctx)
		return err
	})
	return state
}

// follower is a wanted member that does not lead.
func (c *crew) follower() *members.Member {
	c.t.Helper()
	return c.Others(c.leader())[0]
}

const loadPrefix = "/load/"

// shift is clients at work.
type shift struct {
	c      *crew
	record *linear.Recorder
	cancel context.CancelFunc
	done   chan error
}

// atMost is longer than any machine needs for the operations of a shift.
const atMost = 20 * time.Minute

// pace is that of a client whose work has no end: the machine has other things to do, too.
const pace = 150 * time.Millisecond

// work lets 16 clients loose on some members until operations are answered, or at a pace until it is over.
func (c *crew) work(operations int, at ...*members.Member) *shift {
	c.t.Helper()
	if len(at) == 0 {
		at = c.Members()
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &shift{c: c, record: linear.NewRecorder(), cancel: cancel, done: make(chan error, 1)}
	var mu sync.Mutex
	var clients []*clientv3.Client
	load := linear.Load{Clients: 16, Keys: 24, Operations: operations, Prefix: loadPrefix + c.nextShift(), Size: 200, Seed: *seed,
		Connect: func(int) (clientv3.KV, error) {
			client, err := c.ClientOf(at...)
			if err != nil {
				return nil, err
			}
			mu.Lock()
			defer mu.Unlock()
			clients = append(clients, client)
			return client, nil
		}}
	if operations == 0 && !*soak {
		load.Pace = pace
	}
	go func() { s.done <- load.Run(ctx, s.record) }()
	c.t.Cleanup(func() {
		cancel()
		for _, client := range clients {
			client.Close()
		}
	})
	return s
}

// nextShift is a name for the keys of a shift: values of two shifts may be alike.
func (c *crew) nextShift() string {
	c.shifts++
	return fmt.Sprintf("%d/", c.shifts)
}

// answered counts the operations so far that were answered.
func (s *shift) answered() int { return linear.Acknowledged(s.record.Operations()) }

// end ends the work, checks that it was linearizable, and enters it in the ledger.
func (s *shift) end() []linear.Operation {
	s.c.t.Helper()
	s.cancel()
	if err := <-s.done; err != nil && s.record.Count() == 0 {
		s.c.t.Fatal(err)
	}
	return s.judge()
}

// wait waits until all operations are answered; then as end.
func (s *shift) wait() []linear.Operation {
	s.c.t.Helper()
	select {
	case err := <-s.done:
		if err != nil {
			s.c.t.Fatal(err)
		}
	case <-time.After(atMost):
		s.c.t.Fatalf("the clients were not done; %d operations were recorded", s.record.Count())
	}
	return s.judge()
}

func (s *shift) judge() []linear.Operation {
	s.c.t.Helper()
	ops := s.record.Operations()
	s.c.told.Add(ops)
	if err := linear.Check(ops, 5*time.Minute); err != nil {
		s.c.t.Error(err)
	}
	stall, from := linear.Stall(ops)
	s.c.t.Logf("%d operations were answered, %d were not; no write for %s from %s on", linear.Acknowledged(ops), len(ops)-linear.Acknowledged(ops), stall, from)
	return ops
}

// holds compares the live cluster with what clients were told, and the members with each other. It
// returns the events up to the revision; from is the first one that is not compacted.
func (c *crew) holds(from int64) (events []ledger.Event, rev int64) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), waitAtMost)
	defer cancel()
	kvs, rev, err := history.Read(ctx, c.client, 0)
	c.must(err)
	if wrong := c.told.AgainstKeys(kvs, 0); len(wrong) > 0 {
		c.t.Errorf("of %d acknowledged writes:\n  %s", c.told.Acknowledged(), strings.Join(wrong, "\n  "))
	}
	c.await("the history can be watched", func(ctx context.Context) (err error) { // a member may lose its leader once more
		events, err = ledger.Watched(ctx, c.client, from, rev)
		return err
	})
	if wrong := c.told.AgainstEvents(events, from, 0); len(wrong) > 0 {
		c.t.Errorf("of %d acknowledged writes:\n  %s", c.told.Acknowledged(), strings.Join(wrong, "\n  "))
	}
	hashes := map[uint32][]string{}
	for _, m := range c.Members() {
		c.await(m.Name+" has everything", func(ctx context.Context) error {
			s, err := m.Etcd(ctx)
			if err == nil && s.Header.Revision < rev {
				err = fmt.Errorf("it is at %d of %d", s.Header.Revision, rev)
			}
			return err
		})
		client, err := c.ClientOf(m)
		c.must(err)
		h, err := client.HashKV(ctx, m.ClientURL(), rev)
		client.Close()
		c.must(err)
		hashes[h.Hash] = append(hashes[h.Hash], m.Name)
	}
	if len(hashes) != 1 {
		c.t.Errorf("at revision %d the members do not agree: %v", rev, hashes)
	}
	return events, rev
}

// upload waits until everything up to a revision can be restored, and asks for it.
func (c *crew) upload(rev int64) {
	c.t.Helper()
	sidecar, err := c.Members()[0].Sidecar()
	c.must(err)
	defer sidecar.Close()
	c.await(fmt.Sprintf("revision %d is in the bucket", rev), func(ctx context.Context) error {
		if end := c.list().end(); end >= rev {
			return nil
		}
		_, err := sidecar.Delta(ctx)
		if err == nil {
			err = fmt.Errorf("the bucket ends at %d", c.list().end())
		}
		return err
	})
}

// comesBack restores the bucket with its whole history and compares it with the events.
func (c *crew) comesBack(events []ledger.Event, from, rev int64) {
	c.t.Helper()
	c.upload(rev)
	dir, err := c.restore("--keep-history", fmt.Sprintf("--to-revision=%d", rev))
	c.must(err)
	stored, err := ledger.Stored(dir)
	c.must(err)
	if diff := ledger.Differ(stored, events, from, rev); len(diff) > 0 {
		c.t.Errorf("the history restored from the bucket differs:\n  %s", strings.Join(diff, "\n  "))
	}
	for _, f := range c.list().Findings {
		if f.Severity == "error" {
			c.t.Errorf("finding about the bucket: %+v", f)
		}
	}
}

// proves is holds and comesBack of the whole history.
func (c *crew) proves() {
	c.t.Helper()
	events, rev := c.holds(2)
	c.comesBack(events, 2, rev)
}

// came reports whether a member was in a state for a reason.
func came(s agentapi.Member, reason agentapi.Reason) bool {
	return slices.ContainsFunc(s.Transitions, func(t agentapi.Transition) bool { return t.Reason == reason })
}

// reports waits until a member gives a reason.
func (c *crew) reports(m *members.Member, reason agentapi.Reason) agentapi.Member {
	c.t.Helper()
	var state agentapi.Member
	c.await(fmt.Sprintf("%s reports %s", m.Name, reason), func(ctx context.Context) (err error) {
		if state, err = m.State(ctx); err != nil {
			return err
		}
		if !came(state, reason) {
			return fmt.Errorf("its transitions are %+v, waiting: %q", state.Transitions, state.Waiting)
		}
		return nil
	})
	return state
}
