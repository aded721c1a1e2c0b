package member

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/hosttest"
)

// addLearner adds n as soon as etcd finds the cluster healthy.
func addLearner(t *testing.T, c *Cluster, n *node) Peer {
	t.Helper()
	var p Peer
	until(t, "a learner is added", func() (err error) {
		p, err = c.AddLearner(t.Context(), n.peerURLs())
		if err != nil && !errors.Is(err, ErrUnhealthy) {
			t.Fatal(err)
		}
		return err
	})
	return p
}

func TestAMemberJoinsAsLearnerIsPromotedAndRemoved(t *testing.T) {
	t.Parallel()
	nodes, c := startCluster(t, 1, calm)
	before, err := c.Members(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	first := nodes[0]
	want := Membership{ClusterID: uint64(first.etcd.Server.Cluster().ID()), Leader: first.id, Peers: []Peer{
		{ID: first.id, Name: "etcd-0", PeerURLs: first.peerURLs(), ClientURLs: []string{first.client()}},
	}}
	if diff := cmp.Diff(want, before); diff != "" {
		t.Fatalf("members (-want +got):\n%s", diff)
	}
	put(t, first.member(c).client, "a", strings.Repeat("x", 1000))

	var p Peer
	second := join(t, "etcd-1", calm, func(n *node) {
		p = addLearner(t, c, n)
		if p.ID == 0 || !p.Learner || p.Started() || !slices.Equal(p.PeerURLs, n.peerURLs()) {
			t.Fatalf("added %+v", p)
		}
		ms, err := c.Members(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := ms.ByPeerURL(n.peerURLs()[0]); !ok || got.ID != p.ID || got.Started() || ms.Voters() != 1 {
			t.Fatalf("members after the learner was added: %+v", ms)
		}
		is(t, "promote a learner that never started", c.Promote(t.Context(), p.ID), ErrLearnerNotReady)
		_, err = c.AddLearner(t.Context(), n.peerURLs())
		is(t, "add it again", err, ErrPeerURLExists)
		_, err = c.AddLearner(t.Context(), []string{"http://127.0.0.1:1"})
		is(t, "add a second learner", err, ErrTooManyLearners)
		_, _, err = c.Reach(t.Context(), p)
		is(t, "reach a learner that never started", err, ErrUnreachable)
	}, nodes...)

	learner := second.member(c)
	st := second.status(c)
	if !st.Learner || st.MemberID != p.ID || st.Leader != first.id || st.Term == 0 || st.Applied == 0 || st.Quota == 0 {
		t.Fatalf("status of the learner: %+v", st)
	}
	_, err = learner.Members(t.Context())
	is(t, "ask a learner for the members", err, ErrLearner)
	_, err = clusterOf(t, Config{}, second).Members(t.Context())
	is(t, "ask a cluster that is known through a learner only", err, ErrLearner)

	until(t, "the learner has caught up", func() error {
		err := c.Promote(t.Context(), p.ID)
		if err != nil && !errors.Is(err, ErrLearnerNotReady) {
			t.Fatal(err)
		}
		return err
	})
	if err := c.Promote(t.Context(), p.ID); err != nil {
		t.Errorf("promote a voting member: %v, want it done", err)
	}
	is(t, "promote nobody", c.Promote(t.Context(), 4711), ErrMemberNotFound)
	ms, err := c.Members(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got, ok := ms.ByName("etcd-1")
	if !ok || got.Learner || ms.Voters() != 2 {
		t.Fatalf("members after the promotion: %+v", ms)
	}
	m, st, err := c.Reach(t.Context(), got)
	if err != nil || m != learner || st.MemberID != got.ID || st.Learner {
		t.Fatalf("reach the new member: %+v %+v %v", m, st, err)
	}
	local, err := m.Members(t.Context())
	if diff := cmp.Diff(ms, local); err != nil || diff != "" {
		t.Fatalf("members as the new one knows them: %v\n%s", err, diff)
	}

	until(t, "the member is removed", func() error {
		err := c.Remove(t.Context(), got.ID)
		if err != nil && !errors.Is(err, ErrUnhealthy) {
			t.Fatal(err)
		}
		return err
	})
	if err := c.Remove(t.Context(), got.ID); err != nil {
		t.Errorf("remove it again: %v, want it done", err)
	}
	if err := c.Remove(t.Context(), 4711); err != nil {
		t.Errorf("remove nobody: %v, want it done", err)
	}
	is(t, "remove the last member", c.Remove(t.Context(), first.id), ErrUnhealthy)
}

func TestTheStrictCheckOfReconfigurationsIsToldFromAnOutage(t *testing.T) {
	t.Parallel()
	nodes, c := startCluster(t, 3, calm)
	_, followers := leaderOf(t, c, nodes...)
	dead := followers[1]
	dead.stop()
	spare := newNode(t, "etcd-3", nil)
	// Two of three: a fourth would make three the majority.
	_, err := c.AddLearner(t.Context(), spare.peerURLs())
	is(t, "add a learner while one of three is down", err, ErrUnhealthy)
	if errors.Is(err, ErrUnreachable) {
		t.Errorf("%v is ErrUnreachable", err)
	}
	is(t, "remove one of two that are up", c.Remove(t.Context(), followers[0].id), ErrUnhealthy)
	until(t, "the member that is down is removed", func() error {
		err := c.Remove(t.Context(), dead.id)
		if err != nil && !errors.Is(err, ErrUnhealthy) {
			t.Fatal(err)
		}
		return err
	})
	addLearner(t, c, spare)
}

func TestAPromotionIsAskedOfTheLeaderEvenIfOnlyAFollowerIsKnown(t *testing.T) {
	t.Parallel()
	nodes, c := startCluster(t, 2, calm)
	leader, followers := leaderOf(t, c, nodes...)
	only := clusterOf(t, Config{}, followers...)
	follower := followers[0].member(only)
	if m := only.leader(t.Context(), follower, followers[0].status(only)); m == nil || m.Endpoint() != leader.client() {
		t.Fatalf("the follower leads to %v, want the leader at %s", m, leader.client())
	}
	var p Peer
	join(t, "etcd-2", calm, func(n *node) {
		p = addLearner(t, only, n)
		is(t, "promote a learner that never started", only.Promote(t.Context(), p.ID), ErrLearnerNotReady)
	}, nodes...)
	until(t, "the learner is promoted", func() error {
		err := only.Promote(t.Context(), p.ID)
		if err != nil && !errors.Is(err, ErrLearnerNotReady) {
			t.Fatal(err)
		}
		return err
	})
}

func TestPeerURLsChange(t *testing.T) {
	t.Parallel()
	nodes, c := startCluster(t, 3, calm)
	_, followers := leaderOf(t, c, nodes...)
	id, other := followers[0].id, followers[1]
	want := []string{"http://" + hosttest.Own() + ":2380", followers[0].peerURLs()[0]} // the others still reach it
	slices.Sort(want)
	given := []string{want[1], want[0]}
	for range 2 { // the second time changes nothing
		if err := c.UpdatePeerURLs(t.Context(), id, given); err != nil {
			t.Fatal(err)
		}
	}
	ms, err := c.Members(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if p, ok := ms.ByID(id); !ok || !slices.Equal(p.PeerURLs, want) {
		t.Fatalf("the member is %+v, want the peer URLs %v", p, want)
	}
	is(t, "peer URLs of another", c.UpdatePeerURLs(t.Context(), id, other.peerURLs()), ErrPeerURLExists)
	is(t, "nobody's peer URLs", c.UpdatePeerURLs(t.Context(), 4711, want), ErrMemberNotFound)
	for name, urls := range map[string][]string{
		"none": nil, "no URL": {"etcd"}, "no port": {"http://etcd"}, "a path": {"http://etcd:2380/x"}, "a foreign scheme": {"ftp://etcd:2380"},
	} {
		is(t, name, c.UpdatePeerURLs(t.Context(), id, urls), ErrPeerURLs)
		_, err := c.AddLearner(t.Context(), urls)
		is(t, name, err, ErrPeerURLs)
	}
}

func TestLeadershipMovesFromTheLeaderOnly(t *testing.T) {
	t.Parallel()
	nodes, c := startCluster(t, 3, calm)
	leader, followers := leaderOf(t, c, nodes...)
	is(t, "ask a follower", followers[0].member(c).MoveLeader(t.Context(), followers[1].id), ErrNotLeader)
	is(t, "to nobody", leader.member(c).MoveLeader(t.Context(), 4711), ErrNoTransferee)
	if err := leader.member(c).MoveLeader(t.Context(), leader.id); err != nil {
		t.Errorf("to itself: %v", err)
	}
	if err := leader.member(c).MoveLeader(t.Context(), followers[0].id); err != nil {
		t.Fatal(err)
	}
	now, _ := leaderOf(t, c, nodes...)
	if now != followers[0] {
		t.Fatalf("%s leads, want %s", now.cfg.Name, followers[0].cfg.Name)
	}
	leader.stop()
	brief := clusterOf(t, Config{DialTimeout: 2e9}, now)
	is(t, "to one that is down", now.member(brief).MoveLeader(t.Context(), leader.id), ErrNoTransferee)
	if still, _ := leaderOf(t, c, nodes...); still != now {
		t.Fatalf("%s leads, want that %s leads on", still.cfg.Name, now.cfg.Name)
	}
}

func TestSpaceIsRegainedByCompactionDefragmentationAndDisarming(t *testing.T) {
	t.Parallel()
	nodes, c := startCluster(t, 1, func(cfg *embed.Config) { cfg.QuotaBackendBytes = 1 << 20 })
	m := nodes[0].member(c)
	var last int64
	var full error
	for i := range 1000 {
		r, err := m.client.Put(t.Context(), "key", fmt.Sprintf("%d %s", i, strings.Repeat("x", 50_000)))
		if err != nil {
			full = explain("write", m.endpoint, err)
			break
		}
		last = r.Header.Revision
	}
	is(t, "a write that finds no room", full, ErrNoSpace)
	alarms, err := c.Alarms(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	alarm := Alarm{nodes[0].id, AlarmNoSpace}
	if diff := cmp.Diff([]Alarm{alarm}, alarms); diff != "" {
		t.Fatalf("alarms (-want +got):\n%s", diff)
	}
	before := nodes[0].status(c)
	if !before.Alarmed(AlarmNoSpace) || before.Alarmed(AlarmCorrupt) || before.Quota != 1<<20 {
		t.Fatalf("status %+v", before)
	}
	gone := func(want ...bool) {
		t.Helper()
		for i, want := range want { // of the revision before the last, and of that
			if got, err := m.Compacted(t.Context(), snapshot.Revision(last-1+int64(i))); got != want || err != nil {
				t.Errorf("revision %d of %d is gone: %t, %v, want %t", last-1+int64(i), last, got, err, want)
			}
		}
	}
	gone(false, false)
	if _, err := m.client.Compact(t.Context(), last, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	gone(true, false)
	if err := m.Defragment(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := nodes[0].status(c); after.DBSize > before.DBSize/2 || !after.Alarmed(AlarmNoSpace) {
		t.Fatalf("defragmented from %d to %d bytes, alarms %v", before.DBSize, after.DBSize, after.Errors)
	}
	for range 2 { // the second time there is none
		if err := c.Disarm(t.Context(), alarm); err != nil {
			t.Fatal(err)
		}
	}
	if alarms, err := c.Alarms(t.Context()); err != nil || len(alarms) != 0 || nodes[0].status(c).Alarmed(AlarmNoSpace) {
		t.Fatalf("alarms after disarming: %v %v", alarms, err)
	}
	put(t, m.client, "key", "small")
}

func TestAnAlarmOfCorruptionIsAnAlarmOfOneMember(t *testing.T) {
	t.Parallel()
	nodes, c := startCluster(t, 1, nil)
	m := nodes[0].member(c)
	raise(t, m, 4711)
	want := []Alarm{{4711, AlarmCorrupt}}
	alarms, err := c.Alarms(t.Context())
	if diff := cmp.Diff(want, alarms); err != nil || diff != "" {
		t.Fatalf("%v, alarms (-want +got):\n%s", err, diff)
	}
	if st := nodes[0].status(c); !st.Alarmed(AlarmCorrupt) {
		t.Fatalf("status %+v", st)
	}
	_, err = m.client.Put(t.Context(), "a", "1")
	is(t, "a write while data differs", explain("write", m.endpoint, err), ErrCorrupt)
	for name, a := range map[string]Alarm{
		"of no kind": {4711, ""}, "of kind NONE": {4711, "NONE"}, "of an unknown kind": {4711, "FIRE"},
	} {
		if err := c.Disarm(t.Context(), a); err == nil || !strings.Contains(err.Error(), "name one kind") {
			t.Errorf("disarm one %s: %v, want it refused", name, err)
		}
	}
	if err := c.Disarm(t.Context(), Alarm{0, AlarmCorrupt}); err != nil { // of no member: etcd raises it, too
		t.Fatal(err)
	}
	if err := c.Disarm(t.Context(), alarms[0]); err != nil {
		t.Fatal(err)
	}
	put(t, m.client, "a", "1")
}
