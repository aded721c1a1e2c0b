package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/test/linear"
	"druid.internal/druid/test/members"
	"druid.internal/druid/test/sites"
	"druid.internal/druid/test/stores"
)

// outsiders are plain etcds that nobody here looks after.
type outsiders struct {
	*stores.Etcd
	c      *crew
	client *clientv3.Client
}

// moving lays out members that are to join plain etcds of a version, with data in them. The members
// are not started yet.
func moving(t *testing.T, n int, server string, o members.Options) (*crew, *outsiders) {
	t.Helper()
	e := stores.RunEtcd(t, stores.EtcdOptions{Server: server, Members: n, Name: "old", SnapshotCount: 500, CatchUpEntries: 100})
	client, err := clientv3.New(clientv3.Config{Endpoints: e.Endpoints()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	o.Sidecar = func(_ string, config map[string]any) { config["existingCluster"] = existing(e) }
	c := enlist(t, o, "")
	c.client = client
	out := &outsiders{e, c, client}
	out.write("before", 2000)
	return c, out
}

// existing is how the sidecars are told of plain etcds.
func existing(e *stores.Etcd) map[string]any {
	var all []map[string]any
	for _, m := range e.Members {
		all = append(all, map[string]any{"name": m.Name, "peerUrls": []string{m.PeerURL}})
	}
	return map[string]any{"members": all, "endpoints": e.Endpoints()}
}

// forget has the configuration not name the plain etcds any more.
func (c *crew) forget() {
	c.t.Helper()
	c.must(c.Reconfigure(func(_ string, config map[string]any) { delete(config, "existingCluster") }))
}

// write puts keys and enters them in the ledger.
func (o *outsiders) write(what string, n int) {
	o.c.t.Helper()
	for i := range n {
		o.c.put(o.client, fmt.Sprintf("%s%s/%04d", loadPrefix, what, i), fmt.Sprint(i))
	}
}

// work lets clients loose on the plain etcds.
func (o *outsiders) work() *shift {
	o.c.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s := &shift{c: o.c, record: linear.NewRecorder(), cancel: cancel, done: make(chan error, 1)}
	load := linear.Load{Clients: 16, Keys: 24, Prefix: loadPrefix + o.c.nextShift(), Size: 200, Seed: *seed, Pace: pace,
		Connect: func(int) (clientv3.KV, error) { return o.client, nil }}
	go func() { s.done <- load.Run(ctx, s.record) }()
	o.c.t.Cleanup(cancel)
	return s
}

// joined waits until every member votes in one cluster with the plain etcds.
func (o *outsiders) joined() {
	o.c.t.Helper()
	o.c.await("the members vote in the cluster of the plain etcds", func(ctx context.Context) error {
		r, err := o.client.MemberList(ctx)
		if err != nil {
			return err
		}
		votes := map[string]bool{}
		for _, m := range r.Members {
			votes[m.Name] = !m.IsLearner
		}
		for _, m := range o.c.Members() {
			if !votes[m.Name] {
				return fmt.Errorf("%s does not vote; the cluster has %v", m.Name, votes)
			}
		}
		if want := len(o.Members) + len(o.c.Members()); len(votes) != want {
			return fmt.Errorf("the cluster has %v, want %d members", votes, want)
		}
		return nil
	})
}

// remove takes a plain etcd off the list, as a person would, and ends it.
func (o *outsiders) remove(m *stores.Member) {
	o.c.t.Helper()
	asked := false
	o.c.await(m.Name+" is not listed any more", func(ctx context.Context) error { // etcd may lose its leader meanwhile, and not answer
		r, err := o.c.client.MemberList(ctx)
		if err != nil {
			return err
		}
		for _, listed := range r.Members {
			if listed.Name == m.Name {
				asked = true
				_, err := o.c.client.MemberRemove(ctx, listed.ID)
				return err
			}
		}
		if !asked {
			o.c.t.Fatalf("%s is not listed: %v", m.Name, r.Members)
		}
		return nil
	})
	m.Kill()
}

// here says whether a member here leads and writes the backups.
func (c *crew) here(ctx context.Context) error {
	if _, err := c.Leader(ctx); err != nil {
		return err
	}
	_, err := c.BackupLeader(ctx)
	return err
}

// TestAClusterOutsideIsMovedInUnderLoad has members join plain etcds while clients write, takes these
// away one by one, and goes on alone with backups. No acknowledged write may be missing.
func TestAClusterOutsideIsMovedInUnderLoad(t *testing.T) {
	t.Parallel()
	for what, story := range map[string]struct {
		server   string
		outside  int
		members  int
		byPerson bool // removes those outside before they are forgotten
	}{
		"three of etcd 3.6, removed by hand": {"etcd", 3, 3, true},
	} {
		t.Run(what, func(t *testing.T) {
			c, o := moving(t, story.outside, story.server, members.Options{Members: story.members})
			s := o.work()
			c.await("the clients are at work", worked(s, 300))
			for _, m := range c.Members() {
				m.Start()
			}
			o.joined()
			c.await("the clients go on", worked(s, 300))
			for _, m := range c.Members() {
				if state := c.state(m); !came(state, agentapi.JoinedAsLearner) || came(state, agentapi.NewClusterCreated) || came(state, agentapi.NewSingleNodeClusterCreated) {
					t.Errorf("%s came by %+v", m.Name, state.Transitions)
				}
			}
			c.await("a member here leads, and writes the backups", c.here)
			c.steady(s)

			// The clients move.
			c.connect()
			s = c.work(0, c.Members()...)
			c.await("the clients are at work here", worked(s, 300))
			if story.byPerson {
				for _, m := range o.Members {
					o.remove(m)
					c.await("the clients go on", worked(s, 300))
				}
				c.ready()
				c.steady(s)
				c.restarts() // with those outside still named, and none of them there
				s = c.work(0)
				c.forget()
			} else {
				c.forget()
				c.ready()
				for _, m := range o.Members {
					m.Kill()
				}
			}
			c.await("the clients go on", worked(s, 300))
			c.steady(s)
			c.proves()
		})
	}
}

// steady ends a shift, in which writes never stalled for long.
func (c *crew) steady(s *shift) {
	c.t.Helper()
	if stall, from := linear.Stall(s.end()); stall > patience {
		c.t.Errorf("nothing was written for %s from %s on", stall, from)
	}
}

// restarts has every etcd end, and come back.
func (c *crew) restarts() {
	c.t.Helper()
	for _, m := range c.Members() {
		m.Crash()
	}
	for _, m := range c.Members() {
		m.Start()
	}
	c.ready()
}

// TestAClusterOutsideThatDoesNotAnswerIsWaitedFor though nobody has data and the bucket has a backup: no
// cluster is begun and nothing is restored. When it answers it is joined.
func TestAClusterOutsideThatDoesNotAnswerIsWaitedFor(t *testing.T) {
	t.Parallel()
	for what, n := range map[string]int{"three members": 3, "one member": 1} {
		t.Run(what, func(t *testing.T) {
			// A cluster of the same prefix left backups.
			site := fleet.Get(t, "MinIO")
			endpoint, _ := site.Reach()
			way, err := site.Way(t.Context(), fleet.Bucket(t, site, sites.Versioned), endpoint, sites.Owner)
			if err != nil {
				t.Fatal(err)
			}
			former := enlist(t, members.Options{Members: 1, Backup: way}, "")
			former.start()
			former.work(200).wait()
			_, rev := former.holds(2)
			former.upload(rev)
			former.must(former.Members()[0].Stop())

			c, o := moving(t, 1, "etcd", members.Options{Members: n, Backup: way})
			o.Kill()
			before := former.list().end()
			for _, m := range c.Members() {
				m.Start()
			}
			for _, m := range c.Members() {
				state := c.reports(m, agentapi.WaitingForCluster)
				says(t, state.Waiting, o.Endpoint(), "no cluster is begun and no backup restored")
			}
			// They have looked often, and with a cause to restore, when they waited for that long.
			c.await("they waited for a while", func(ctx context.Context) error {
				for _, m := range c.Members() {
					if _, err := m.Etcd(ctx); err == nil {
						t.Fatalf("the etcd of %s runs", m.Name)
					}
					if n := strings.Count(m.EtcdLog(), "initialization waits"); n == 0 {
						return errors.New(m.Name + " does not say so yet")
					}
				}
				return nil
			})
			for _, m := range c.Members() {
				if state := c.state(m); state.LastRestoration != nil || came(state, agentapi.NewClusterCreated) || state.Data.State != agentapi.DataMissing {
					t.Errorf("%s: %+v", m.Name, state)
				}
			}
			if after := c.list().end(); after != before {
				t.Errorf("the bucket ends at %d, it ended at %d", after, before)
			}
			c.must(o.Members[0].Start(t.Context()))
			o.joined()
			kvs, err := c.client.Get(t.Context(), loadPrefix+"before/", clientv3.WithPrefix(), clientv3.WithCountOnly())
			if err != nil || kvs.Count != 2000 {
				t.Errorf("%d keys of the cluster outside, %v; want 2000", kvs.Count, err)
			}
		})
	}
}

// TestAnotherClusterThanTheOneOutsideIsNotJoined is for a wrong client URL.
func TestAnotherClusterThanTheOneOutsideIsNotJoined(t *testing.T) {
	t.Parallel()
	c, o := moving(t, 1, "etcd", members.Options{Members: 1})
	other := stores.RunEtcd(t, stores.EtcdOptions{Name: "stranger"})
	c.must(c.Reconfigure(func(_ string, config map[string]any) {
		named := existing(o.Etcd)
		named["endpoints"] = other.Endpoints()
		config["existingCluster"] = named
	}))
	m := c.Members()[0]
	m.Start()
	state := c.reports(m, agentapi.WaitingForCluster)
	says(t, state.Waiting, "it is not the one to join", "of the members old it has none", "stranger")
	client, err := clientv3.New(clientv3.Config{Endpoints: other.Endpoints()})
	c.must(err)
	defer client.Close()
	if r, err := client.MemberList(t.Context()); err != nil || len(r.Members) != 1 {
		t.Errorf("the other cluster has the members %v, %v", r, err)
	}
	c.must(c.Reconfigure(func(_ string, config map[string]any) { config["existingCluster"] = existing(o.Etcd) }))
	o.joined() // the sidecar follows the file
}
