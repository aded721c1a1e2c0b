package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"druid.internal/druid/examples/policies"
	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/test/members"
	"druid.internal/druid/test/sites"
	"druid.internal/druid/test/stores"
	"druid.internal/druid/test/writers"
)

// Facts of a demonstration that is worth looking at.
const (
	enoughWrites = 300              // acknowledged ones, before something is done to the cluster
	outage       = 12 * time.Second // of the store
	// stallAtMost is more than electing a leader takes, on a machine that has more to do.
	stallAtMost = 30 * time.Second
)

func seconds(d time.Duration) string { return fmt.Sprintf("%.1fs", d.Seconds()) }

func (d *demo) store() (string, error) {
	var err error
	if d.ca, err = stores.NewCA(); err != nil {
		return "", err
	}
	if err := d.startStore(""); err != nil {
		return "", err
	}
	if err := d.minio.CreateBucket(d.ctx, bucket, stores.Compliance, 1); err != nil {
		return "", err
	}
	return d.minio.Endpoint + ", objects locked for a day; the members may delete nothing", d.issue()
}

// issue has the store issue credentials, which die with it.
func (d *demo) issue() error {
	keys, err := d.minio.Assume(d.ctx, policies.S3(policies.Writer, bucket, storePrefix))
	if err != nil {
		return err
	}
	d.way = sites.S3Way(&d.minio.S3, bucket, d.minio.Endpoint, keys)
	return d.credentials()
}

func (d *demo) startStore(port string) (err error) {
	d.minio, err = stores.StartMinIO(d.ctx, stores.MinIOOptions{Dir: filepath.Join(d.dir, "minio"), Port: port, CA: d.ca})
	return err
}

func (d *demo) bootstrap() (string, error) {
	var err error
	if d.cluster, err = members.Start(d.ctx, members.Options{
		Programs: d.programs, Members: 3, Dir: filepath.Join(d.dir, "members"), TLS: members.Everywhere,
		Backup: d.way, Prefix: storePrefix, Owner: "demo",
	}); err != nil {
		return "", err
	}
	if err := d.cluster.AwaitReady(d.ctx); err != nil {
		return "", err
	}
	leader, err := d.leader()
	if err != nil {
		return "", err
	}
	s, err := d.etcd(leader)
	if err != nil {
		return "", err
	}
	if d.client, err = d.cluster.Client(); err != nil {
		return "", err
	}
	return fmt.Sprintf("cluster %016x, etcd %s, %s leads", s.Header.ClusterId, s.Version, leader.Name), nil
}

// leader waits for one.
func (d *demo) leader() (leader *members.Member, err error) {
	err = d.cluster.Await(d.ctx, "a member leads", func(ctx context.Context) error {
		leader, err = d.cluster.Leader(ctx)
		return err
	})
	return leader, err
}

// etcd waits until a member's answers.
func (d *demo) etcd(m *members.Member) (s *clientv3.StatusResponse, err error) {
	err = d.cluster.Await(d.ctx, m.Name+"'s etcd answers", func(ctx context.Context) error {
		s, err = m.Etcd(ctx)
		return err
	})
	return s, err
}

// more waits until n more writes were acknowledged.
func (d *demo) more(n int) error {
	goal := d.writers.EverAcknowledged() + n
	return d.cluster.Await(d.ctx, fmt.Sprintf("%d more writes are acknowledged", n), func(context.Context) error {
		if got := d.writers.EverAcknowledged(); got < goal {
			return fmt.Errorf("%d are missing", goal-got)
		}
		return nil
	})
}

func (d *demo) load() (string, error) {
	d.writers.Start(d.ctx, d.client)
	if err := d.more(enoughWrites); err != nil {
		return "", err
	}
	newest := d.writers.Ledger.Newest()
	if _, err := d.awaitUploaded(newest); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d clients, revision %d was uploaded while they go on", writers.Clients, newest), nil
}

func (d *demo) killLeader() (string, error) {
	return d.deposed(func(m *members.Member) bool { return m.KillEtcd() })
}

func (d *demo) crashLeader() (string, error) {
	return d.deposed(func(m *members.Member) bool {
		sidecar := m.KillSidecar()
		return m.KillEtcd() && sidecar
	})
}

// deposed kills something of the leader and waits until the cluster is whole again.
func (d *demo) deposed(kill func(*members.Member) bool) (string, error) {
	old, err := d.leader()
	if err != nil {
		return "", err
	}
	lives := old.EtcdLife().Starts
	d.writers.Mark()
	if !kill(old) {
		return "", fmt.Errorf("there was nothing to kill of %s", old.Name)
	}
	if err := d.cluster.Await(d.ctx, old.Name+"'s etcd is started again", func(context.Context) error {
		if l := old.EtcdLife(); l.Starts <= lives || !l.Running {
			return errors.New("it was not")
		}
		return nil
	}); err != nil {
		return "", err
	}
	if err := d.cluster.AwaitReady(d.ctx); err != nil {
		return "", err
	}
	if err := d.more(enoughWrites); err != nil {
		return "", err
	}
	next, err := d.leader()
	if err != nil {
		return "", err
	}
	stall := d.writers.Stall()
	if stall > stallAtMost {
		return "", fmt.Errorf("no write was acknowledged for %s", stall)
	}
	return fmt.Sprintf("%s: %s leads now, writes stalled %s, all three serve", old.Name, next.Name, seconds(stall)), nil
}

// heal damages a member, which must take part again by itself while the others go on.
func (d *demo) heal(ordinal int, damage func(*members.Member) error) func() (string, error) {
	return func() (string, error) {
		m := d.cluster.Member(ordinal)
		before, err := d.etcd(m)
		if err != nil {
			return "", err
		}
		d.writers.Mark()
		if err := damage(m); err != nil {
			return "", err
		}
		if err := d.more(enoughWrites); err != nil { // without it
			return "", err
		}
		m.Start()
		if err := d.cluster.AwaitReady(d.ctx); err != nil {
			return "", err
		}
		after, err := d.etcd(m)
		if err != nil {
			return "", err
		}
		stall := d.writers.Stall()
		if stall > stallAtMost {
			return "", fmt.Errorf("the others did not acknowledge a write for %s", stall)
		}
		how := "kept its identity"
		if before.Header.MemberId != after.Header.MemberId {
			how = "joined as a learner and votes again"
		}
		return fmt.Sprintf("%s %s (%s), the others stalled %s", m.Name, how, d.why(m), seconds(stall)), nil
	}
}

// why is the reason why a member's own data were not taken, or were, in this life of its sidecar.
func (d *demo) why(m *members.Member) string {
	s, err := m.State(d.ctx)
	if err != nil {
		return err.Error()
	}
	for _, t := range s.Transitions {
		switch t.Reason {
		case agentapi.DBCorruptionDetected, agentapi.ClusterScaledUp, agentapi.DBValidationFailed, agentapi.DBValidationSucceeded:
			return string(t.Reason)
		}
	}
	return "no reason was given"
}

func (d *demo) scale(n int, note string) func() (string, error) {
	return func() (string, error) {
		d.writers.Mark()
		if err := d.cluster.Scale(d.ctx, n); err != nil {
			return "", err
		}
		if err := d.more(enoughWrites); err != nil {
			return "", err
		}
		list, err := d.client.MemberList(d.ctx)
		if err != nil {
			return "", err
		}
		stall := d.writers.Stall()
		if stall > stallAtMost {
			return "", fmt.Errorf("no write was acknowledged for %s", stall)
		}
		return fmt.Sprintf("%d members vote, writes stalled %s%s", len(list.Members), seconds(stall), note), nil
	}
}

// unprotected is the metric that says for how long acknowledged writes are not in the bucket.
const unprotected = "etcdbr_protection_unprotected_seconds"

func (d *demo) outage() (string, error) {
	address, err := url.Parse(d.minio.Endpoint)
	if err != nil {
		return "", err
	}
	d.writers.Mark()
	began := time.Now()
	if err := d.minio.Stop(); err != nil {
		return "", err
	}
	var worst float64
	if err := d.cluster.Await(d.ctx, "the sidecar says that nothing is uploaded", func(ctx context.Context) error {
		m, err := d.cluster.BackupLeader(ctx)
		if err != nil {
			return err
		}
		if worst, err = m.Metric(ctx, unprotected); err != nil {
			return err
		}
		if worst < outage.Seconds() {
			return fmt.Errorf("%s is %g", unprotected, worst)
		}
		state, err := m.State(ctx)
		if err == nil && state.Waiting == "" {
			err = fmt.Errorf("the state of %s says nothing of it", m.Name)
		}
		return err
	}); err != nil {
		return "", err
	}
	if err := d.startStore(address.Port()); err != nil {
		return "", err
	}
	if err := d.issue(); err != nil {
		return "", err
	}
	if err := d.cluster.Credentials(d.way.Files); err != nil {
		return "", err
	}
	away := time.Since(began)
	if _, err := d.awaitUploaded(d.writers.Ledger.Newest()); err != nil {
		return "", err
	}
	if _, err := d.gapless(); err != nil {
		return "", err
	}
	stall := d.writers.Stall()
	if stall > stallAtMost {
		return "", fmt.Errorf("no write was acknowledged for %s", stall)
	}
	return fmt.Sprintf("away for %s, metric (%.0fs unprotected) and state said so, writes stalled %s; new credentials were read, no gap", seconds(away), worst, seconds(stall)), nil
}

func (d *demo) compare() (string, error) {
	d.writers.Stop()
	keys, err := d.compareKeys()
	if err != nil {
		return "", err
	}
	events, rev, err := d.compareHistory(2)
	if err != nil {
		return "", err
	}
	d.compared = rev
	d.writers.Start(d.ctx, d.client)
	return fmt.Sprintf("%d acknowledged, found in %d keys and the %d events of revision 2 to %d", d.writers.Ledger.Acknowledged(), keys, events, rev),
		d.more(enoughWrites)
}

func (d *demo) loseAll() (string, error) {
	if _, err := d.awaitUploaded(d.compared); err != nil {
		return "", err
	}
	for _, m := range d.cluster.Members() {
		m.Crash() // all first: the writes of the last moment are in no other member
	}
	d.writers.Stop()
	for _, m := range d.cluster.Members() {
		if err := m.LoseVolume(); err != nil {
			return "", err
		}
	}
	l, err := d.gapless()
	if err != nil {
		return "", err
	}
	acknowledged, uploaded := d.writers.Ledger.Newest(), l.Lineages[0].Newest
	// What came too late for the newest delta is lost, and was never promised to survive this.
	before := d.writers.Ledger.Acknowledged()
	d.writers.Ledger.Forget(uploaded)
	lost := before - d.writers.Ledger.Acknowledged()
	d.compared = uploaded
	return fmt.Sprintf("acknowledged up to revision %d, uploaded up to %d: %d writes of the last moment are gone", acknowledged, uploaded, lost), nil
}

func (d *demo) comeBack() (string, error) {
	for _, m := range d.cluster.Members() {
		m.Start()
	}
	if err := d.cluster.AwaitReady(d.ctx); err != nil {
		return "", err
	}
	keys, err := d.compareKeys()
	if err != nil {
		return "", err
	}
	r, err := d.client.Get(d.ctx, "\x00")
	if err != nil {
		return "", err
	}
	now := r.Header.Revision
	if now <= d.writers.Ledger.Newest() || now <= d.compared {
		return "", fmt.Errorf("the revision is %d, and was %d: clients that watch would miss what happens", now, d.compared)
	}
	if err := d.relists(d.compared); err != nil {
		return "", err
	}
	d.compared = now
	return fmt.Sprintf("all %d keys are there, the revision was bumped to %d, watching clients are told to list anew", keys, now), nil
}

// relists is nil if a client that watches from an old revision is told that it is too old.
func (d *demo) relists(rev int64) error {
	anew := false
	err := d.cluster.Await(d.ctx, fmt.Sprintf("who watches from revision %d is told to list anew", rev), func(ctx context.Context) (err error) {
		anew, err = writers.ListsAnew(ctx, d.client, rev)
		return err
	})
	if err == nil && !anew {
		err = fmt.Errorf("a watch from revision %d gets events instead of the order to list anew", rev)
	}
	return err
}

func (d *demo) goOn() (string, error) {
	d.writers.Start(d.ctx, d.client)
	if err := d.more(enoughWrites); err != nil {
		return "", err
	}
	d.writers.Stop()
	if _, err := d.compareKeys(); err != nil {
		return "", err
	}
	events, rev, err := d.compareHistory(d.compared + 1)
	if err != nil {
		return "", err
	}
	l, err := d.awaitUploaded(d.writers.Ledger.Newest())
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d events up to revision %d, all uploaded; %d lineages in the bucket", events, rev, len(l.Lineages)), nil
}

func (d *demo) restore() (string, error) {
	into := filepath.Join(d.dir, "restored")
	if _, err := d.etcdbrctl("restore", "--data-dir="+into, "--keep-history", "--name=default",
		"--initial-cluster=default=http://127.0.0.1:2380", "--initial-advertise-peer-urls=http://127.0.0.1:2380"); err != nil {
		return "", err
	}
	e, err := stores.StartEtcd(d.ctx, stores.EtcdOptions{DataDir: into, Flags: []string{"--initial-cluster-state=existing"}})
	if err != nil {
		return "", fmt.Errorf("a real etcd does not start on the restored directory: %w", err)
	}
	defer e.Close()
	live := d.client
	defer func() { d.client = live }()
	if d.client, err = clientv3.New(clientv3.Config{Endpoints: e.Endpoints(), DialTimeout: 10 * time.Second}); err != nil {
		return "", err
	}
	defer d.client.Close()
	keys, err := d.compareKeys()
	if err != nil {
		return "", err
	}
	events, rev, err := d.compareHistory(d.compared + 1)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("a plain etcd serves %d keys and the %d events up to revision %d: all acknowledged ones", keys, events, rev), nil
}
