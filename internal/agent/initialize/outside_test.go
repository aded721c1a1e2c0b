package initialize

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"druid.internal/druid/internal/agent/memberconf"
	"druid.internal/druid/internal/agent/neighbours"
	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/etcd/datadir"
	"druid.internal/druid/internal/etcd/member"
)

const outsideEndpoint = "http://old:2379"

// joining has the members join the cluster of old-0 and old-1.
func joining(f *Facts) {
	f.Outside = &Outside{Endpoints: []string{outsideEndpoint}, Members: []memberconf.Peer{
		{Name: "old-0", PeerURLs: []string{"http://old-0:2380"}}, {Name: "old-1", PeerURLs: []string{"http://old-1:2380"}}}}
}

// oldPeer is a member outside, with the id 0xf0 and so on.
func oldPeer(i int, changes ...func(*member.Peer)) member.Peer {
	p := member.Peer{ID: 0xf0 + uint64(i), Name: fmt.Sprintf("old-%d", i), PeerURLs: []string{fmt.Sprintf("http://old-%d:2380", i)}, ClientURLs: []string{outsideEndpoint}}
	for _, change := range changes {
		change(&p)
	}
	return p
}

// lives has a cluster answer at the endpoint outside.
func lives(id uint64, peers ...member.Peer) func(*Facts) { return livesAs("3.5.26", id, peers...) }

func livesAs(version string, id uint64, peers ...member.Peer) func(*Facts) {
	return func(f *Facts) {
		joining(f)
		f.View.Outside = append(f.View.Outside, neighbours.Etcd{Endpoint: outsideEndpoint, Members: &member.Membership{ClusterID: id, Leader: 0xf0, Peers: peers},
			Status: member.Status{ClusterID: id, MemberID: 0xf0, Leader: 0xf0, Revision: 7, Version: version}})
	}
}

// silent has nobody answer there.
func silent(f *Facts) {
	joining(f)
	f.View.Outside = append(f.View.Outside, neighbours.Etcd{Endpoint: outsideEndpoint, Err: errors.New("connection refused")})
}

// undecided has an etcd answer there whose cluster has no majority.
func undecided(f *Facts) {
	joining(f)
	f.View.Outside = append(f.View.Outside, neighbours.Etcd{Endpoint: outsideEndpoint, Silence: member.ErrNoLeader, Status: member.Status{ClusterID: testCluster}})
}

// came has the journal say that the data came from a cluster outside.
func came(id uint64) func(*Facts) {
	return journal(Journal{Learner: 0xa0, HandedOut: true, Outside: id})
}

func ofOutside(i *datadir.Inspection) {
	i.Membership = []datadir.Member{{ID: 0xf0, Name: "old-0", PeerURLs: []string{"http://old-0:2380"}}, {ID: i.MemberID, Name: nameOf(0), PeerURLs: peerOf(0).PeerURLs}}
}

// outsideRules are rules 3, 4 and 7 for members that join a cluster outside.
var outsideRules = map[string]map[string]struct {
	facts      Facts
	want       Action
	wantReason agentapi.Reason
}{
	"3.0": {"an etcd runs as this one": {facts(1, noBackup, leaderless(0, 7), silent), Wait, agentapi.WaitingForCluster}},
	"3.1": {
		"it has joined":                        {facts(3, has(datadir.Valid, 7), came(testCluster), lives(testCluster, oldPeer(0), peer(0))), Start, agentapi.DBValidationSucceeded},
		"it has joined as the only one wanted": {facts(1, backup9, has(datadir.Valid, 7), lives(testCluster, oldPeer(0), peer(0))), Start, agentapi.DBValidationSucceeded},
		"those outside have gone":              {facts(3, has(datadir.Valid, 7), silent, cluster(testCluster, 1, peer(0), peer(1), peer(2))), Start, agentapi.DBValidationSucceeded},
	},
	"3.2": {"it was removed": {facts(3, has(datadir.Valid, 7), came(testCluster), lives(testCluster, oldPeer(0))), JoinAsLearner, agentapi.WaitingToJoinAsLearner}},
	"3.5": {"data of an earlier cluster of its own": {facts(3, has(datadir.Valid, 7, elsewhere, ofMember(nameOf(0), peerOf(0).PeerURLs[0])), lives(testCluster, oldPeer(0))), Wait, agentapi.WaitingForCluster}},
	"3.7": {"it was removed, and nobody answers": {facts(3, has(datadir.Valid, 7, removed), came(testCluster), silent), Wait, agentapi.WaitingForCluster}},
	"3.8": {
		"data from outside, by the journal":    {facts(3, has(datadir.Valid, 7), came(testCluster), silent, away(1), away(2)), Start, agentapi.DBValidationSucceeded},
		"data from outside, by their own word": {facts(3, has(datadir.Valid, 7, ofOutside), silent, away(1), away(2)), Start, agentapi.DBValidationSucceeded},
		"the only one wanted":                  {facts(1, backup9, has(datadir.Valid, 7), came(testCluster), silent), Start, agentapi.DBValidationSucceeded},
		"nothing but an etcd alone outside":    {facts(3, has(datadir.Valid, 7), came(testCluster), undecided), Start, agentapi.DBValidationSucceeded},
	},
	"3.9":  {"blank like another one's": {facts(3, has(datadir.Blank, 1), came(testCluster), silent, other(1, agentapi.DataBlank), away(2)), Start, agentapi.DBValidationSucceeded}},
	"3.13": {"data of a stranger": {facts(3, has(datadir.Valid, 7, elsewhere, ofMember(nameOf(0), "https://stranger:2380")), lives(testCluster, oldPeer(0))), Refuse, agentapi.OtherLineage}},
	"4.0":  {"two clusters answer": {facts(3, lives(0xc2, oldPeer(0)), cluster(0xc3, 1, peer(1))), Wait, agentapi.WaitingForCluster}},
	"4.1":  {"an offer from before": {facts(3, offered("n0"), journal(Journal{Cluster: "old", Nonce: "n0"}), lives(testCluster, oldPeer(0))), Withdraw, ""}},
	"4.3": {
		"the cluster outside answers":                 {facts(3, noBackup, lives(testCluster, oldPeer(0), oldPeer(1))), JoinAsLearner, agentapi.WaitingToJoinAsLearner},
		"it answers, and there is a backup":           {facts(3, backup9, lives(testCluster, oldPeer(0))), JoinAsLearner, agentapi.WaitingToJoinAsLearner},
		"it answers the only one wanted":              {facts(1, backup9, lives(testCluster, oldPeer(0))), JoinAsLearner, agentapi.WaitingToJoinAsLearner},
		"it answers, the bucket does not":             {facts(1, down, lives(testCluster, oldPeer(0))), JoinAsLearner, agentapi.WaitingToJoinAsLearner},
		"another one has joined, outside is silent":   {facts(3, backup9, silent, cluster(testCluster, 1, oldPeer(0), peer(1))), JoinAsLearner, agentapi.WaitingToJoinAsLearner},
		"those outside have gone, this volume too":    {facts(3, backup9, silent, cluster(testCluster, 1, peer(0), peer(1), peer(2))), JoinAsLearner, agentapi.WaitingToJoinAsLearner},
		"its members are known by their URLs":         {facts(3, lives(testCluster, oldPeer(0, func(p *member.Peer) { p.Name = "renamed" }))), JoinAsLearner, agentapi.WaitingToJoinAsLearner},
		"a version that nobody understands":           {facts(3, livesAs("devel", testCluster, oldPeer(0))), JoinAsLearner, agentapi.WaitingToJoinAsLearner},
		"damaged data, and the cluster answers":       {facts(3, backup9, has(datadir.Invalid, 7), lives(testCluster, oldPeer(0))), JoinAsLearner, agentapi.WaitingToJoinAsLearner},
		"it was listed before, with another scheme":   {facts(3, lives(testCluster, oldPeer(0), peer(0, func(p *member.Peer) { p.PeerURLs = []string{"https://etcd-0:2380"} }))), JoinAsLearner, agentapi.WaitingToJoinAsLearner},
		"others have begun, which was long before it": {facts(3, offered("n0"), other(1, agentapi.DataBlank, saw("n0", "n1", "n2")), other(2, agentapi.DataValid, saw("n0", "n1", "n2")), lives(testCluster, oldPeer(0), peer(0, unstarted), peer(1), peer(2))), JoinAsLearner, agentapi.WaitingToJoinAsLearner},
	},
	"7.1": {
		"nobody has anything, the bucket neither":   {facts(3, noBackup, silent), Wait, agentapi.WaitingForCluster},
		"nobody has anything, there is a backup":    {facts(3, backup9, silent), Wait, agentapi.WaitingForCluster},
		"the only one wanted":                       {facts(1, noBackup, silent), Wait, agentapi.WaitingForCluster},
		"the only one wanted, there is a backup":    {facts(1, backup9, silent), Wait, agentapi.WaitingForCluster},
		"the bucket was not asked, and need not be": {facts(1, unasked, silent), Wait, agentapi.WaitingForCluster},
		"all offered to begin before":               {facts(3, noBackup, silent, offered("n0"), other(1, agentapi.DataMissing, nonce("n1")), other(2, agentapi.DataMissing, nonce("n2"))), Wait, agentapi.WaitingForCluster},
		"an etcd answers, but no cluster":           {facts(3, backup9, undecided), Wait, agentapi.WaitingForCluster},
		"damaged data, the others have none":        {facts(3, backup9, has(datadir.Invalid, 7), silent), Wait, agentapi.WaitingForCluster},
		"one other has data":                        {facts(3, backup9, silent, other(1, agentapi.DataValid)), Wait, agentapi.WaitingForCluster},
	},
	"7.2": {
		"another cluster answers":                      {facts(3, lives(0xdd, oldPeer(7))), Wait, agentapi.WaitingForCluster},
		"another cluster answers the only one":         {facts(1, backup9, lives(0xdd, oldPeer(7))), Wait, agentapi.WaitingForCluster},
		"another cluster, and blank data of its own":   {facts(3, has(datadir.Blank, 1, elsewhere), lives(0xde, oldPeer(7))), Wait, agentapi.WaitingForCluster},
		"another cluster, and damaged data of its own": {facts(3, has(datadir.Invalid, 7), lives(0xdd, oldPeer(7))), Wait, agentapi.WaitingForCluster},
	},
	"7.3": {
		"data of an earlier cluster":              {facts(3, has(datadir.Valid, 7), silent), Wait, agentapi.WaitingForCluster},
		"of the only one wanted, and in a bucket": {facts(1, backup9, has(datadir.Valid, 9), silent), Wait, agentapi.WaitingForCluster},
		"joined from outside, then replaced":      {facts(3, has(datadir.Valid, 7, elsewhere), came(testCluster), silent), Wait, agentapi.WaitingForCluster},
		"blank data of an earlier cluster":        {facts(3, has(datadir.Blank, 1), silent), Wait, agentapi.WaitingForCluster},
	},
	"7.4": {"it has just begun to receive them": {facts(3, has(datadir.Blank, 1), came(testCluster), silent), Wait, agentapi.WaitingForCluster}},
	"7.5": {"another member has its name": {facts(3, lives(testCluster, oldPeer(0), oldPeer(1, func(p *member.Peer) { p.Name = nameOf(0) }))), Wait, agentapi.WaitingForCluster}},
	"7.6": {"an etcd that is too old": {facts(3, livesAs("3.4.34", testCluster, oldPeer(0))), Wait, agentapi.WaitingForCluster}},
}

func TestEachRuleByItsNumberWithAClusterOutside(t *testing.T) {
	for rule, cases := range outsideRules {
		for name, c := range cases {
			got := Decide(c.facts)
			if got.Action != c.want || got.Rule != rule || got.Reason != c.wantReason {
				t.Errorf("rule %s, %s: %s because of %q by rule %s (%s); want %s because of %q", rule, name, got.Action, got.Reason, got.Rule, got.Message, c.want, c.wantReason)
			}
			if got.Message == "" || strings.Contains(got.Message, "\n") {
				t.Errorf("rule %s, %s: no message of one line: %q", rule, name, got.Message)
			}
		}
	}
}

// TestWithAClusterOutsideNothingIsBegunOrRestored goes through every case of the other rules too.
func TestWithAClusterOutsideNothingIsBegunOrRestored(t *testing.T) {
	seen := map[Action]int{}
	for rule, cases := range rules {
		for name, c := range cases {
			f := c.facts
			silent(&f)
			d := Decide(f)
			seen[d.Action]++
			switch d.Action {
			case Wait, Refuse, Withdraw, JoinAsLearner, Start:
			default:
				t.Errorf("rule %s, %s: %s by rule %s, want none of it", rule, name, d.Action, d.Rule)
			}
			if d.Action == Start && len(f.View.Clusters()) == 0 && !f.moved() {
				t.Errorf("rule %s, %s: data that did not come from outside are started by rule %s", rule, name, d.Rule)
			}
		}
	}
	if seen[Wait] == 0 || seen[Start] == 0 || seen[Refuse] == 0 {
		t.Errorf("the cases lead to %v: too few to prove anything", seen)
	}
}

func TestWhatIsWaitedForOutsideIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		facts Facts
		want  []string
	}{
		"nobody answers":          {facts(3, backup9, silent), []string{outsideEndpoint + ": connection refused", "no cluster is begun and no backup restored", "take it out of the configuration"}},
		"no majority":             {facts(3, backup9, undecided), []string{"its etcd runs, but its cluster decides nothing"}},
		"it was not asked":        {facts(3, backup9, joining), []string{"does not answer: " + outsideEndpoint}},
		"another cluster answers": {facts(3, lives(0xdd, oldPeer(7))), []string{"00000000000000dd answers at " + outsideEndpoint, "old-0, old-1", "old-7 (http://old-7:2380)"}},
		"a name is taken":         {facts(3, lives(testCluster, oldPeer(0, func(p *member.Peer) { p.Name = nameOf(0) }))), []string{"another member of the name etcd-0, at http://old-0:2380"}},
		"data of another cluster": {facts(3, has(datadir.Valid, 7), silent), []string{"cluster 00000000000000c1", "remove the data directory if they are not needed"}},
		"too old":                 {facts(3, livesAs("3.4.34", testCluster, oldPeer(0))), []string{"version 3.4.34", "upgrade the cluster to etcd 3.5.26"}},
	} {
		got := Decide(c.facts).Message
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %q, want it to say %q", name, got, want)
			}
		}
	}
}

// TestAMemberJoinsTheClusterOutside goes through the steps, and remembers where the data came from.
func TestAMemberJoinsTheClusterOutside(t *testing.T) {
	r := newRig(t, 1, lives(testCluster, oldPeer(0)))
	r.o.Outside = func() *Outside { return r.facts.Outside }
	r.listed = member.Membership{ClusterID: testCluster, Peers: []member.Peer{oldPeer(0)}}
	if got := r.initialize(agentapi.ValidateFull); got != agentapi.InitSuccessful {
		t.Fatalf("the state is %s: %s", got, r.o.Board.Get().Waiting)
	}
	want := []string{"add learner e0", "save learner e0", "save learner e0, handed out"}
	if diff := cmp.Diff(want, r.did); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	if r.journal.Outside != testCluster {
		t.Errorf("the journal says %+v, want the cluster %x", r.journal, testCluster)
	}
	for _, want := range []string{"initial-cluster-state: existing\n", "initial-cluster: old-0=http://old-0:2380,etcd-0=http://etcd-0:2380\n"} {
		if config := r.config(); !strings.Contains(config, want) {
			t.Errorf("no %q in\n%s", want, config)
		}
	}
}

// TestAMemberWaitsForTheClusterOutside and begins none, however long that takes; then joins it.
func TestAMemberWaitsForTheClusterOutside(t *testing.T) {
	for _, n := range []int{1, 3} {
		r := newRig(t, n, silent)
		r.o.Outside = func() *Outside { return r.facts.Outside }
		r.backup = func() (Backup, error) { return Backup{State: BackupExists, Latest: snapshot.Revision(9)}, nil }
		r.restore = func(RestoreOrder) error { t.Error("the backup was restored"); return nil }
		said := ""
		r.paused = func(n int) {
			if n == 50 {
				said = r.o.Board.Get().Waiting
				r.facts.View.Outside = nil
				lives(testCluster, oldPeer(0))(&r.facts)
				r.listed = member.Membership{ClusterID: testCluster, Peers: []member.Peer{oldPeer(0)}}
			}
		}
		if got := r.initialize(agentapi.ValidateFull); got != agentapi.InitSuccessful {
			t.Fatalf("the state is %s: %s", got, r.o.Board.Get().Waiting)
		}
		if !strings.Contains(said, "connection refused") {
			t.Errorf("it said %q while it waited", said)
		}
		want := []string{"add learner e0", "save learner e0", "save learner e0, handed out"}
		if diff := cmp.Diff(want, r.did); diff != "" {
			t.Errorf("steps of %d (-want +got):\n%s", n, diff)
		}
	}
}
