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

const (
	testCluster = 0xc1
	testDigest  = "digest"
)

func peerOf(i int) memberconf.Peer {
	return memberconf.Peer{Name: nameOf(i), PeerURLs: []string{fmt.Sprintf("http://%s:2380", nameOf(i))}, ClientURLs: []string{clientOf(i)}}
}

func nameOf(i int) string   { return fmt.Sprintf("etcd-%d", i) }
func clientOf(i int) string { return fmt.Sprintf("http://%s:2379", nameOf(i)) }

// facts are those of etcd-0, one of n wanted members that have and know nothing.
func facts(n int, changes ...func(*Facts)) Facts {
	f := Facts{Self: nameOf(0), Digest: testDigest, Data: datadir.Inspection{State: datadir.Missing, Revision: 1, AtMost: 1},
		View: neighbours.View{Sidecars: map[string]neighbours.Sidecar{}}, Backup: Backup{State: BackupNotConfigured}}
	for i := range n {
		f.Wanted = append(f.Wanted, peerOf(i))
		if i > 0 {
			other(i, agentapi.DataMissing)(&f)
		}
	}
	for _, change := range changes {
		change(&f)
	}
	return f
}

// other has data of a state, and agrees on what the cluster is to be.
func other(i int, state agentapi.DataState, changes ...func(*agentapi.Member)) func(*Facts) {
	return func(f *Facts) {
		m := agentapi.Member{Name: nameOf(i), Data: agentapi.Data{State: state, Revision: 7, Why: "x"}, Bootstrap: &agentapi.Bootstrap{Cluster: testDigest}}
		for _, change := range changes {
			change(&m)
		}
		f.View.Sidecars[nameOf(i)] = neighbours.Sidecar{Member: m}
	}
}

func away(i int) func(*Facts) {
	return func(f *Facts) { f.View.Sidecars[nameOf(i)] = neighbours.Sidecar{Err: errors.New("no answer")} }
}

func nonce(text string) func(*agentapi.Member) {
	return func(m *agentapi.Member) { m.Bootstrap.Nonce = text }
}

func saw(pairs ...string) func(*agentapi.Member) {
	return func(m *agentapi.Member) { m.Bootstrap.Saw = sawMap(pairs...) }
}

func sawMap(nonces ...string) map[string]string {
	out := map[string]string{}
	for i, n := range nonces {
		out[nameOf(i)] = n
	}
	return out
}

// ofCluster is of whose cluster the data are.
func ofCluster(id uint64) func(*agentapi.Member) {
	return func(m *agentapi.Member) { m.Data.ClusterID = idText(id) }
}

func otherConfig(m *agentapi.Member) { m.Bootstrap.Cluster = "another" }
func serving(m *agentapi.Member)     { m.Etcd = &agentapi.Etcd{Leader: "b", Revision: 9} }

func learns(m *agentapi.Member)   { m.Data.Learner = true }
func learning(m *agentapi.Member) { m.Etcd = &agentapi.Etcd{Learner: true, Revision: 9} }
func promoted(m *agentapi.Member) {
	m.Data.Learner, m.Etcd = true, &agentapi.Etcd{Revision: 9}
}

func examining(m *agentapi.Member) {
	m.Initialization = agentapi.InitProgress
}

// has gives etcd-0 data, as member 0xa0 of the test's cluster.
func has(state datadir.Condition, rev int, changes ...func(*datadir.Inspection)) func(*Facts) {
	return func(f *Facts) {
		f.Data = datadir.Inspection{State: state, ClusterID: testCluster, MemberID: 0xa0, Revision: snapshot.Revision(rev), AtMost: snapshot.Revision(rev), Voters: []uint64{0xa0}, Why: string(state)}
		for _, change := range changes {
			change(&f.Data)
		}
	}
}

// ofMember gives the data a record of the member they are of.
func ofMember(name, peerURL string) func(*datadir.Inspection) {
	return func(i *datadir.Inspection) {
		i.Membership = []datadir.Member{{ID: i.MemberID, Name: name, PeerURLs: []string{peerURL}}}
	}
}

func voters(n int) func(*datadir.Inspection) {
	return func(i *datadir.Inspection) {
		i.Voters = nil
		for j := range n {
			i.Voters = append(i.Voters, 0xa0+uint64(j))
		}
	}
}

func gone(m *agentapi.Member)         { m.Data.Removed = true }
func removed(i *datadir.Inspection)   { i.Removed = true }
func shell(i *datadir.Inspection)     { i.ClusterID, i.MemberID, i.Voters = 0, 0, nil }
func elsewhere(i *datadir.Inspection) { i.ClusterID = 0xdd }
func atMost(rev int) func(*datadir.Inspection) {
	return func(i *datadir.Inspection) { i.AtMost = snapshot.Revision(rev) }
}

func bucket(state BackupState, rev int, r Relation) func(*Facts) {
	return func(f *Facts) {
		f.Backup = Backup{State: state, Latest: snapshot.Revision(rev), Relation: r, Why: "why"}
	}
}

// broken is a bucket into which revision 9 was uploaded, and which cannot be restored.
func broken(r Relation) func(*Facts) {
	return func(f *Facts) {
		f.Backup = Backup{State: BackupExists, Uploaded: 9, Broken: "missing 3-4", Relation: r, Why: "why"}
	}
}

// others is a bucket with backups of another.
func others(rev int, r Relation) func(*Facts) {
	return func(f *Facts) {
		bucket(BackupExists, rev, r)(f)
		f.Backup.Owned = "the prefix is b's"
	}
}

var (
	unasked  = bucket(BackupUnasked, 0, "")
	down     = bucket(BackupUnreachable, 0, "")
	crowded  = bucket(BackupCrowded, 0, "")
	noBackup = bucket(BackupNone, 0, "")
	backup9  = bucket(BackupExists, 9, RelationSame)
	broken9  = broken(RelationSame)
)

func journal(j Journal) func(*Facts) { return func(f *Facts) { f.Journal = j } }
func offered(text string) func(*Facts) {
	return journal(Journal{Cluster: testDigest, Nonce: text})
}

func leaving(f *Facts) { f.OthersLeave = true }
func settled(f *Facts) { f.Settled = true }

// peer is a listed member with the usual id: 0xa0 and so on.
func peer(i int, changes ...func(*member.Peer)) member.Peer {
	p := member.Peer{ID: 0xa0 + uint64(i), Name: nameOf(i), PeerURLs: peerOf(i).PeerURLs, ClientURLs: []string{clientOf(i)}}
	for _, change := range changes {
		change(&p)
	}
	return p
}

func unstarted(p *member.Peer) { p.ClientURLs = nil }
func nameless(p *member.Peer)  { p.Name, p.ClientURLs = "", nil }
func asLearner(p *member.Peer) { p.Learner = true }

// cluster answers through etcd-at.
func cluster(id uint64, at int, peers ...member.Peer) func(*Facts) {
	return func(f *Facts) {
		f.View.Etcds = append(f.View.Etcds, neighbours.Etcd{Name: nameOf(at), Endpoint: clientOf(at), Members: &member.Membership{ClusterID: id, Leader: 0xa0 + uint64(at), Peers: peers},
			Status: member.Status{ClusterID: id, MemberID: 0xa0 + uint64(at), Leader: 0xa0 + uint64(at), Revision: 7}})
	}
}

// leaderless is an etcd that answers but decides nothing.
func leaderless(at int, rev snapshot.Revision) func(*Facts) {
	return func(f *Facts) {
		f.View.Etcds = append(f.View.Etcds, neighbours.Etcd{Name: nameOf(at), Endpoint: clientOf(at), Silence: member.ErrNoLeader,
			Status: member.Status{ClusterID: testCluster, MemberID: 0xa0 + uint64(at), Revision: rev}})
	}
}

func volume(r agentapi.Reason) func(*Facts) {
	return func(f *Facts) { f.Volume = Volume{Reason: r, Why: "mount it"} }
}

// TestTheRowsOfTheInitializationTable are the eight rows of the documentation's table for the
// initialization; rows 4, 5 and 8 as its page about restoring a single member changed them: an
// empty learner joins, nothing is restored for it.
func TestTheRowsOfTheInitializationTable(t *testing.T) {
	all := []member.Peer{peer(0), peer(1), peer(2)}
	for row, c := range map[string]struct {
		facts       Facts
		wantAction  Action
		wantRemoved []uint64
	}{
		"1 first member of a fresh cluster, before the others are ready":   {facts(3, noBackup), Offer, nil},
		"1 first member of a fresh cluster, when the others are ready":     {facts(3, noBackup, offered("n0"), other(1, agentapi.DataMissing, nonce("n1")), other(2, agentapi.DataMissing, nonce("n2"))), BootstrapNew, nil},
		"1 only member of a fresh cluster":                                 {facts(1, noBackup), BootstrapSole, nil},
		"2 a following member of a fresh cluster":                          {facts(3, noBackup, offered("n0"), other(1, agentapi.DataMissing, saw("n0", "n1", "n2")), other(2, agentapi.DataMissing, nonce("n2"))), BootstrapLate, nil},
		"2 a following member of a fresh cluster that answers already":     {facts(3, noBackup, offered("n0"), other(1, agentapi.DataBlank, saw("n0", "n1", "n2")), other(2, agentapi.DataBlank, saw("n0", "n1", "n2")), cluster(testCluster, 1, peer(0, unstarted), peer(1), peer(2))), BootstrapLate, nil},
		"3 restart in a cluster with quorum, with valid data":              {facts(3, has(datadir.Valid, 5), other(1, agentapi.DataValid), other(2, agentapi.DataValid), cluster(testCluster, 1, all...)), Start, nil},
		"4 restart in a cluster with quorum, log readable, data damaged":   {facts(3, backup9, has(datadir.Invalid, 5), other(1, agentapi.DataValid), other(2, agentapi.DataValid), cluster(testCluster, 1, all...)), JoinAsLearner, []uint64{0xa0}},
		"5 restart in a cluster with quorum, nothing left":                 {facts(3, backup9, other(1, agentapi.DataValid), other(2, agentapi.DataValid), cluster(testCluster, 1, all...)), JoinAsLearner, []uint64{0xa0}},
		"6 restart in a cluster without quorum, with valid data":           {facts(3, has(datadir.Valid, 5), backup9, away(1), away(2)), Start, nil},
		"7 first member of a lost cluster, with a backup":                  {facts(3, backup9), RestoreSeed, nil},
		"7 only member of a lost cluster, with a backup":                   {facts(1, backup9), RestoreSole, nil},
		"8 a following member of a lost cluster, before the first is back": {facts(3, backup9, func(f *Facts) { f.Self = nameOf(1); other(0, agentapi.DataMissing)(f) }), Wait, nil},
		"8 a following member of a lost cluster, when the first is back": {facts(3, backup9, func(f *Facts) { f.Self = nameOf(1) }, other(0, agentapi.DataValid),
			cluster(testCluster, 0, peer(0))), JoinAsLearner, nil},
	} {
		got := Decide(c.facts)
		if got.Action != c.wantAction || !cmp.Equal(got.Remove, c.wantRemoved) {
			t.Errorf("row %s: %s, removing %x (rule %s: %s); want %s, removing %x", row, got.Action, got.Remove, got.Rule, got.Message, c.wantAction, c.wantRemoved)
		}
	}
}

// rules are cases for each rule by its number. Each of them is decided by just that rule.
var rules = map[string]map[string]struct {
	facts      Facts
	want       Action
	wantReason agentapi.Reason
}{
	"1.1": {
		"another member's volume with data": {facts(3, has(datadir.Valid, 5), volume(agentapi.VolumeMismatch)), Refuse, agentapi.VolumeMismatch},
		"a volume that cannot be written":   {facts(1, volume(agentapi.VolumeReadOnly)), Refuse, agentapi.VolumeReadOnly},
	},
	"1.2": {"a member nobody wants": {facts(3, func(f *Facts) { f.Self = "etcd-7" }), Refuse, agentapi.WaitingForCluster}},
	"1.4": {
		"data of another member":  {facts(3, has(datadir.Valid, 5, ofMember(nameOf(1), "http://etcd-1:2380")), cluster(testCluster, 1, peer(0), peer(1), peer(2))), Refuse, agentapi.VolumeMismatch},
		"of another member, sole": {facts(1, has(datadir.Valid, 5, ofMember(nameOf(1), "http://etcd-1:2380"))), Refuse, agentapi.VolumeMismatch},
	},
	"1.3": {
		"data of etcd 3.4":                         {facts(1, backup9, has(datadir.TooOld, 5)), Refuse, agentapi.DBValidationFailed},
		"data of a later etcd":                     {facts(1, backup9, has(datadir.TooNew, 5)), Refuse, agentapi.DBValidationFailed},
		"data of etcd 3.4 while a cluster answers": {facts(3, has(datadir.TooOld, 5), cluster(testCluster, 1, peer(0), peer(1))), Refuse, agentapi.DBValidationFailed},
	},
	"2.1": {"the only one, removed by its cluster": {facts(1, backup9, has(datadir.Valid, 5, removed)), Refuse, agentapi.WaitingForCluster}},
	"2.2": {
		"behind, but one of three that may still run": {facts(1, backup9, has(datadir.Valid, 5, voters(3))), Start, agentapi.DBValidationSucceeded},
		"the same, and they leave":                    {facts(1, backup9, has(datadir.Valid, 5, voters(3)), leaving), Start, agentapi.DBValidationSucceeded},
	},
	"2.3": {"the bucket was not asked": {facts(1, unasked, has(datadir.Valid, 5)), AskBackup, ""}},
	"2.4": {
		"the bucket does not answer":             {facts(1, down, has(datadir.Valid, 5)), Wait, agentapi.WaitingForStore},
		"the bucket does not answer, blank data": {facts(1, down, has(datadir.Blank, 1)), Wait, agentapi.WaitingForStore},
		"too many objects, blank data":           {facts(1, crowded, has(datadir.Blank, 1)), Wait, agentapi.WaitingForStore},
	},
	"2.18": {
		"more objects than are read in time":            {facts(1, crowded, has(datadir.Valid, 5)), Start, agentapi.DBValidationSucceeded},
		"more objects than are read in time, and a log": {facts(1, crowded, has(datadir.Valid, 5, atMost(9))), Start, agentapi.DBValidationSucceeded},
	},
	"2.5": {"no bucket": {facts(1, has(datadir.Valid, 5)), Start, agentapi.DBValidationSucceeded}},
	"2.6": {
		"an empty bucket":             {facts(1, noBackup, has(datadir.Valid, 5)), Start, agentapi.DBValidationSucceeded},
		"an empty bucket, blank data": {facts(1, noBackup, has(datadir.Blank, 1)), Start, agentapi.DBValidationSucceeded},
	},
	"2.7": {"blank data and a backup": {facts(1, bucket(BackupExists, 9, RelationUnknown), has(datadir.Blank, 1)), RestoreSole, agentapi.DBValidationFailed}},
	"2.8": {
		"behind another history":                 {facts(1, bucket(BackupExists, 9, RelationOther), has(datadir.Valid, 5)), Refuse, agentapi.OtherLineage},
		"ahead of another history":               {facts(1, bucket(BackupExists, 9, RelationOther), has(datadir.Valid, 50)), Refuse, agentapi.OtherLineage},
		"behind another history but for its log": {facts(1, bucket(BackupExists, 9, RelationOther), has(datadir.Valid, 5, atMost(20))), Refuse, agentapi.OtherLineage},
		"another history, which is broken":       {facts(1, broken(RelationOther), has(datadir.Valid, 50)), Refuse, agentapi.OtherLineage},
	},
	"2.9": {
		"as far as the backup":                {facts(1, backup9, has(datadir.Valid, 9)), Start, agentapi.DBValidationSucceeded},
		"ahead of the backup":                 {facts(1, backup9, has(datadir.Valid, 10)), Start, agentapi.DBValidationSucceeded},
		"not behind another's":                {facts(1, others(9, RelationUnknown), has(datadir.Valid, 9)), Start, agentapi.DBValidationSucceeded},
		"ahead of a backup that names no one": {facts(1, bucket(BackupExists, 9, RelationUnknown), has(datadir.Valid, 10)), Start, agentapi.DBValidationSucceeded},
		"blank, and so is the backup":         {facts(1, bucket(BackupExists, 1, RelationSame), has(datadir.Blank, 1)), Start, agentapi.DBValidationSucceeded},
	},
	"2.10": {
		"behind, but perhaps not with its log":            {facts(1, backup9, has(datadir.Valid, 5, atMost(9))), Settle, ""},
		"the same, where no one knows whose backup it is": {facts(1, bucket(BackupExists, 9, RelationUnknown), has(datadir.Valid, 5, atMost(9))), Settle, ""},
	},
	"2.11": {
		"behind with all of its log":    {facts(1, backup9, has(datadir.Valid, 5, atMost(8))), RestoreSole, agentapi.DBValidationFailed},
		"behind after its log was used": {facts(1, backup9, has(datadir.Valid, 5, atMost(9)), settled), RestoreSole, agentapi.DBValidationFailed},
	},
	"2.12": {"behind a backup that names no one": {facts(1, bucket(BackupExists, 9, RelationUnknown), has(datadir.Valid, 5)), Refuse, agentapi.OtherLineage}},
	"2.13": {
		"all that was uploaded, and broken backups": {facts(1, broken9, has(datadir.Valid, 9)), Start, agentapi.DBValidationSucceeded},
		"the same, where no one knows whose":        {facts(1, broken(RelationUnknown), has(datadir.Valid, 10)), Start, agentapi.DBValidationSucceeded},
	},
	"2.14": {"perhaps all that was uploaded, and broken backups": {facts(1, broken9, has(datadir.Valid, 5, atMost(9))), Settle, ""}},
	"2.15": {
		"behind what was uploaded, and broken backups":         {facts(1, broken9, has(datadir.Valid, 5)), Refuse, agentapi.RestorationFailed},
		"behind it with all of the log":                        {facts(1, broken9, has(datadir.Valid, 5, atMost(9)), settled), Refuse, agentapi.RestorationFailed},
		"no client ever wrote to the data, and broken backups": {facts(1, broken(RelationUnknown), has(datadir.Blank, 1)), Refuse, agentapi.RestorationFailed},
	},
	"3.0": {
		"somebody runs as this member":    {facts(3, leaderless(0, 5)), Wait, agentapi.WaitingForCluster},
		"somebody runs with the own data": {facts(3, has(datadir.Valid, 5), cluster(testCluster, 0, peer(0), peer(1))), Wait, agentapi.WaitingForCluster},
	},
	"3.1": {
		"listed":                           {facts(3, has(datadir.Valid, 5), cluster(testCluster, 1, peer(0), peer(1))), Start, agentapi.DBValidationSucceeded},
		"listed as a learner":              {facts(3, has(datadir.Blank, 1), cluster(testCluster, 1, peer(0, asLearner), peer(1))), Start, agentapi.DBValidationSucceeded},
		"listed by one of two clusters":    {facts(3, has(datadir.Valid, 5), cluster(0xdd, 2, peer(2)), cluster(testCluster, 1, peer(0), peer(1))), Start, agentapi.DBValidationSucceeded},
		"listed, own address a balancer's": {facts(3, has(datadir.Valid, 5), cluster(testCluster, 1, peer(0), peer(1)), func(f *Facts) { e := f.View.Etcds[0]; e.Name = nameOf(0); f.View.Etcds = append(f.View.Etcds, e) }), Start, agentapi.DBValidationSucceeded},
	},
	"3.2": {"removed from its cluster": {facts(3, has(datadir.Valid, 5), cluster(testCluster, 1, peer(1), peer(2))), JoinAsLearner, agentapi.WaitingToJoinAsLearner}},
	"3.3": {"data of a third cluster": {facts(3, has(datadir.Valid, 5, elsewhere), cluster(0xc2, 1, peer(1)), cluster(0xc3, 2, peer(2))), Wait, agentapi.WaitingForCluster}},
	"3.4": {"blank data of another cluster": {facts(3, has(datadir.Blank, 1, elsewhere), cluster(testCluster, 1, peer(1))), JoinAsLearner, agentapi.WaitingToJoinAsLearner}},
	"3.5": {
		"data of another cluster than that of a minority":                      {facts(3, has(datadir.Valid, 5, elsewhere), cluster(testCluster, 1, peer(1), peer(2, asLearner))), Wait, agentapi.WaitingForCluster},
		"removed from another cluster, and behind it is who answers":           {facts(3, has(datadir.Valid, 8, elsewhere, removed), cluster(testCluster, 1, peer(1))), Wait, agentapi.WaitingForCluster},
		"removed from another cluster, perhaps further than the one answering": {facts(3, has(datadir.Valid, 5, elsewhere, removed, atMost(8)), cluster(testCluster, 1, peer(1))), Wait, agentapi.WaitingForCluster},
	},
	"3.15": {"removed from a cluster that was restored since": {facts(3, has(datadir.Valid, 5, elsewhere, removed), cluster(testCluster, 1, peer(1))), JoinAsLearner, agentapi.WaitingToJoinAsLearner}},
	"3.6":  {"data of another cluster than that of the majority": {facts(3, has(datadir.Valid, 5, elsewhere), cluster(testCluster, 1, peer(1), peer(2))), JoinAsLearner, agentapi.WaitingToJoinAsLearner}},
	"3.13": {"data of a cluster of which no wanted member is one": {facts(3, has(datadir.Valid, 5, elsewhere, ofMember(nameOf(0), "https://stranger:2380")), cluster(testCluster, 1, peer(1), peer(2))), Refuse, agentapi.OtherLineage}},
	"3.14": {"the same, and the cluster of the others has no leader for a moment": {
		facts(3, has(datadir.Valid, 5, elsewhere, ofMember(nameOf(0), "https://stranger:2380")), other(1, agentapi.DataValid, ofCluster(testCluster)), away(2)), Wait, agentapi.WaitingForCluster}},
	"3.7": {"removed, and nobody answers": {facts(3, has(datadir.Valid, 5, removed), away(1), away(2)), Wait, agentapi.WaitingForCluster}},
	"3.8": {
		"nobody answers": {facts(3, has(datadir.Valid, 5), away(1), away(2)), Start, agentapi.DBValidationSucceeded},
		"whose the others' are is not known, nor that anybody here had these": {
			facts(3, has(datadir.Valid, 5, elsewhere, ofMember(nameOf(0), "https://stranger:2380")), other(1, agentapi.DataValid), away(2)), Start, agentapi.DBValidationSucceeded},
		"the others lost everything": {facts(3, backup9, has(datadir.Valid, 5)), Start, agentapi.DBValidationSucceeded},
		"the bucket does not answer": {facts(3, down, has(datadir.Valid, 5), away(1), away(2)), Start, agentapi.DBValidationSucceeded},
	},
	"3.9": {
		"blank like another":          {facts(3, has(datadir.Blank, 1), other(1, agentapi.DataBlank), away(2)), Start, agentapi.DBValidationSucceeded},
		"blank, others may yet begin": {facts(3, has(datadir.Blank, 1), journal(Journal{Cluster: testDigest, Saw: sawMap("n0", "n1", "n2")}), other(1, agentapi.DataMissing, nonce("n1"))), Start, agentapi.DBValidationSucceeded},
		"blank, it alone votes, and who learns names it still": {facts(3, has(datadir.Blank, 1), other(1, agentapi.DataUnknown, ofCluster(testCluster), func(m *agentapi.Member) {
			m.Etcd = &agentapi.Etcd{Learner: true, Leader: "00000000000000a0", Revision: 1}
		})), Start, agentapi.DBValidationSucceeded},
		"blank, one has just begun": {facts(3, has(datadir.Blank, 1), journal(Journal{Cluster: testDigest, Saw: sawMap("n0", "n1", "n2")}), other(1, agentapi.DataMissing, saw("n0", "n1", "n2"))), Start, agentapi.DBValidationSucceeded},
	},
	"3.10": {"blank, and one does not answer": {facts(3, has(datadir.Blank, 1), away(1)), Wait, agentapi.WaitingForCluster}},
	"3.11": {
		"blank, and one of five has data":      {facts(5, has(datadir.Blank, 1), other(1, agentapi.DataValid)), QuorumLost, agentapi.QuorumLost},
		"blank, and who has data is a learner": {facts(3, has(datadir.Blank, 1, voters(2)), other(1, agentapi.DataValid, learns)), QuorumLost, agentapi.QuorumLost},
	},
	"3.12": {
		"blank, and nobody has anything":       {facts(3, has(datadir.Blank, 1), backup9), GiveUp, agentapi.DBValidationFailed},
		"blank, the others began without it":   {facts(5, has(datadir.Blank, 1), journal(Journal{Cluster: testDigest, Saw: sawMap("n0", "n1", "n2", "n3", "n4")}), other(1, agentapi.DataMissing, saw("x", "n1", "n2", "n3", "n4"))), GiveUp, agentapi.DBValidationFailed},
		"blank, like others of other clusters": {facts(3, has(datadir.Blank, 1), other(1, agentapi.DataBlank, func(m *agentapi.Member) { m.Data.ClusterID = idText(7) }), other(2, agentapi.DataBlank, func(m *agentapi.Member) { m.Data.ClusterID = idText(8) })), GiveUp, agentapi.DBValidationFailed},
	},
	"4.0": {"two clusters": {facts(3, cluster(0xc2, 1, peer(1)), cluster(0xc3, 2, peer(2))), Wait, agentapi.WaitingForCluster}},
	"4.1": {
		"a promise of the volume before it was emptied": {facts(3, journal(Journal{Cluster: testDigest, Saw: sawMap("n0", "n1", "n2")}), cluster(testCluster, 1, peer(0), peer(1), peer(2))), Withdraw, ""},
		"an offer for another cluster":                  {facts(3, journal(Journal{Cluster: "old", Nonce: "n0"}), cluster(testCluster, 1, peer(0), peer(1), peer(2))), Withdraw, ""},
	},
	"4.2": {"the cluster waits for it": {facts(3, offered("n0"), other(1, agentapi.DataBlank, saw("n0", "n1", "n2")), other(2, agentapi.DataValid, saw("n0", "n1", "n2")), cluster(testCluster, 1, peer(0, unstarted), peer(1), peer(2))), BootstrapLate, agentapi.NewClusterCreated}},
	"4.3": {
		"a cluster answers":                      {facts(3, cluster(testCluster, 1, peer(1), peer(2))), JoinAsLearner, agentapi.WaitingToJoinAsLearner},
		"a cluster of one answers":               {facts(3, backup9, cluster(testCluster, 1, peer(1))), JoinAsLearner, agentapi.WaitingToJoinAsLearner},
		"a cluster answers, the bucket does not": {facts(3, down, cluster(testCluster, 1, peer(1), peer(2))), JoinAsLearner, agentapi.WaitingToJoinAsLearner},
		"it had another nonce when they began":   {facts(3, offered("new"), other(1, agentapi.DataBlank, saw("n0", "n1", "n2")), other(2, agentapi.DataBlank, saw("n0", "n1", "n2")), cluster(testCluster, 1, peer(0, unstarted), peer(1), peer(2))), JoinAsLearner, agentapi.WaitingToJoinAsLearner},
		"they removed it since":                  {facts(3, offered("n0"), other(1, agentapi.DataBlank, saw("n0", "n1", "n2")), other(2, agentapi.DataBlank, saw("n0", "n1", "n2")), cluster(testCluster, 1, peer(1), peer(2))), JoinAsLearner, agentapi.WaitingToJoinAsLearner},
		"files of a start that got nowhere":      {facts(3, has(datadir.Blank, 1, shell), cluster(testCluster, 1, peer(1), peer(2))), JoinAsLearner, agentapi.WaitingToJoinAsLearner},
		"its address is taken by another":        {facts(3, cluster(testCluster, 1, peer(1), peer(2, func(p *member.Peer) { p.PeerURLs = peerOf(0).PeerURLs }))), Wait, agentapi.WaitingForCluster},
		"somebody runs under its id": {facts(3, cluster(testCluster, 1, peer(0), peer(1)), func(f *Facts) {
			f.View.Etcds = append(f.View.Etcds, neighbours.Etcd{Name: nameOf(2), Status: member.Status{MemberID: 0xa0}})
		}), Wait, agentapi.WaitingForCluster},
	},
	"5.1": {
		"damaged, one does not answer":   {facts(3, has(datadir.Invalid, 5), away(1)), Wait, agentapi.WaitingForCluster},
		"damaged, one does not know yet": {facts(3, has(datadir.Invalid, 5), other(1, agentapi.DataUnknown)), Wait, agentapi.WaitingForCluster},
	},
	"5.2": {
		"damaged, the others have data":              {facts(3, has(datadir.Invalid, 5), other(1, agentapi.DataValid), other(2, agentapi.DataValid)), Wait, agentapi.WaitingForCluster},
		"damaged, one of the others learnt till now": {facts(3, has(datadir.Invalid, 5), other(1, agentapi.DataValid), other(2, agentapi.DataValid, promoted)), Wait, agentapi.WaitingForCluster},
	},
	"5.3": {
		"damaged, the others have nothing":     {facts(3, backup9, has(datadir.Invalid, 5)), QuorumLost, agentapi.QuorumLost},
		"damaged, one other learns":            {facts(3, backup9, has(datadir.Invalid, 5), other(1, agentapi.DataValid), other(2, agentapi.DataValid, learns)), QuorumLost, agentapi.QuorumLost},
		"damaged, one other has data":          {facts(3, backup9, has(datadir.Invalid, 5), other(1, agentapi.DataValid)), QuorumLost, agentapi.QuorumLost},
		"damaged, one other serves elsewhere":  {facts(3, backup9, has(datadir.Invalid, 5), other(1, agentapi.DataValid, serving)), Wait, agentapi.WaitingForCluster},
		"damaged, one other is about to start": {facts(3, backup9, has(datadir.Invalid, 5), other(1, agentapi.DataValid, examining)), Wait, agentapi.WaitingForCluster},
	},
	"5.4": {"a promise of the volume before it was emptied": {facts(3, noBackup, journal(Journal{Cluster: testDigest, Saw: sawMap("n0", "n1", "n2")})), Withdraw, ""}},
	"5.6": {
		"one does not answer":                        {facts(3, noBackup, away(2)), Wait, agentapi.WaitingForCluster},
		"one does not answer, but there is a backup": {facts(3, backup9, away(2)), Wait, agentapi.WaitingForCluster},
	},
	"5.7": {"one does not know yet": {facts(3, noBackup, other(2, agentapi.DataUnknown)), Wait, agentapi.WaitingForCluster}},
	"5.8": {"one is configured otherwise": {facts(3, noBackup, other(2, agentapi.DataMissing, otherConfig)), Wait, agentapi.WaitingForCluster}},
	"5.9": {"another has begun with it": {facts(3, offered("n0"), other(1, agentapi.DataMissing, saw("n0", "n1", "n2"))), BootstrapLate, agentapi.NewClusterCreated}},
	"5.10": {
		"the others have data and are silent":     {facts(3, backup9, other(1, agentapi.DataValid), other(2, agentapi.DataValid)), Wait, agentapi.WaitingForCluster},
		"of one it is not known of which cluster": {facts(3, backup9, other(1, agentapi.DataValid, ofCluster(7)), other(2, agentapi.DataValid)), Wait, agentapi.WaitingForCluster},
	},
	"5.11": {
		"one has begun without it":                          {facts(3, offered("new"), other(1, agentapi.DataMissing, saw("n0", "n1", "n2"))), Wait, agentapi.WaitingForCluster},
		"two have begun with different ones":                {facts(3, offered("n0"), other(1, agentapi.DataBlank, saw("n0", "n1", "n2")), other(2, agentapi.DataBlank, saw("n0", "n1", "x"))), Wait, agentapi.WaitingForCluster},
		"one has blank data":                                {facts(3, backup9, other(1, agentapi.DataBlank)), Wait, agentapi.WaitingForCluster},
		"one is empty, but an etcd without data runs there": {facts(3, backup9, leaderless(1, 1), other(1, agentapi.DataBlank)), Wait, agentapi.WaitingForCluster},
	},
	"5.12": {
		"one of three has data":                               {facts(3, backup9, other(1, agentapi.DataValid)), QuorumLost, agentapi.QuorumLost},
		"one of three runs alone":                             {facts(3, backup9, other(1, agentapi.DataUnknown), leaderless(1, 7)), QuorumLost, agentapi.QuorumLost},
		"two have data of members that their cluster removed": {facts(3, backup9, other(1, agentapi.DataValid, gone), other(2, agentapi.DataValid, gone)), QuorumLost, agentapi.QuorumLost},
		"one of the two that have data is a learner":          {facts(3, backup9, other(1, agentapi.DataValid), other(2, agentapi.DataValid, learns)), QuorumLost, agentapi.QuorumLost},
		"the same, and it names a leader":                     {facts(3, backup9, other(1, agentapi.DataValid), other(2, agentapi.DataValid, func(m *agentapi.Member) { m.Etcd = &agentapi.Etcd{Learner: true, Leader: "a", Revision: 9} })), QuorumLost, agentapi.QuorumLost},
		"the same, and its etcd runs":                         {facts(3, backup9, other(1, agentapi.DataValid), other(2, agentapi.DataValid, learning)), QuorumLost, agentapi.QuorumLost},
		"the two that have data are of two clusters":          {facts(3, backup9, other(1, agentapi.DataValid, ofCluster(7)), other(2, agentapi.DataValid, ofCluster(8))), QuorumLost, agentapi.QuorumLost},
		"one of three has damaged data":                       {facts(3, backup9, other(1, agentapi.DataInvalid)), QuorumLost, agentapi.QuorumLost},
		"two of five have data":                               {facts(5, noBackup, other(1, agentapi.DataValid), other(3, agentapi.DataValid)), QuorumLost, agentapi.QuorumLost},
		"one of three serves elsewhere":                       {facts(3, backup9, other(1, agentapi.DataValid, serving)), Wait, agentapi.WaitingForCluster},
		"one of three examines its data":                      {facts(3, backup9, other(1, agentapi.DataValid, examining)), Wait, agentapi.WaitingForCluster},
	},
	"5.20": {"the bucket was not asked": {facts(3, unasked), AskBackup, ""}},
	"5.21": {"the bucket does not answer": {facts(3, down), Wait, agentapi.WaitingForStore}},
	"5.22": {"it offered to begin, and there is a backup": {facts(3, backup9, offered("n0")), Withdraw, ""}},
	"5.23": {"another one restores": {facts(3, backup9, func(f *Facts) {
		f.Self = nameOf(2)
		other(0, agentapi.DataMissing)(f)
		delete(f.View.Sidecars, nameOf(2))
	}), Wait, agentapi.WaitingForCluster}},
	"5.24": {"another one offers to begin": {facts(3, backup9, other(2, agentapi.DataMissing, nonce("n2"))), Wait, agentapi.WaitingForCluster}},
	"5.25": {"all are empty and there is a backup": {facts(5, backup9), RestoreSeed, agentapi.DBValidationFailed}},
	"5.26": {"the backup went while it was restored": {facts(3, noBackup, journal(Journal{Restoring: true})), Refuse, agentapi.RestorationFailed}},
	"5.27": {
		"all are empty, and so is the bucket": {facts(3, noBackup), Offer, ""},
		"all are empty, no bucket":            {facts(5, other(1, agentapi.DataMissing, nonce("n1"))), Offer, ""},
		"files of a start that got nowhere":   {facts(3, has(datadir.Blank, 1, shell)), Offer, ""},
	},
	"5.28": {"one is not ready": {facts(3, offered("n0"), other(1, agentapi.DataMissing, nonce("n1"))), Wait, agentapi.WaitingForCluster}},
	"5.29": {"all are ready": {facts(3, offered("n0"), other(1, agentapi.DataMissing, nonce("n1")), other(2, agentapi.DataMissing, nonce("n2"))), BootstrapNew, agentapi.NewClusterCreated}},
	"5.30": {
		"all are empty, and the backups are broken": {facts(3, broken9), Refuse, agentapi.RestorationFailed},
		"the same, and another one would restore": {facts(3, broken9, func(f *Facts) {
			f.Self = nameOf(2)
			other(0, agentapi.DataMissing)(f)
			delete(f.View.Sidecars, nameOf(2))
		}), Refuse, agentapi.RestorationFailed},
	},
	"2.17": {
		"blank data beside others that leave": {facts(1, bucket(BackupExists, 9, RelationUnknown), has(datadir.Blank, 1), leaving), Wait, agentapi.WaitingForCluster},
		"behind, beside others that leave":    {facts(1, backup9, has(datadir.Valid, 5), leaving), Wait, agentapi.WaitingForCluster},
	},
	"6.10": {
		"nothing left, and others leave":            {facts(1, backup9, leaving), Wait, agentapi.WaitingForCluster},
		"damaged, and others leave":                 {facts(1, backup9, has(datadir.Invalid, 5), leaving), Wait, agentapi.WaitingForCluster},
		"no data, no backup, and others may not go": {facts(1, noBackup, leaving), Wait, agentapi.WaitingForCluster},
	},
	"6.1": {"the bucket was not asked": {facts(1, unasked), AskBackup, ""}},
	"6.2": {
		"the bucket does not answer":          {facts(1, down), Wait, agentapi.WaitingForStore},
		"the bucket does not answer, damaged": {facts(1, down, has(datadir.Invalid, 1)), Wait, agentapi.WaitingForStore},
	},
	"6.3": {"damaged data of another history": {facts(1, bucket(BackupExists, 9, RelationOther), has(datadir.Invalid, 5)), Refuse, agentapi.OtherLineage}},
	"6.4": {
		"nothing, and a backup":                {facts(1, backup9), RestoreSole, agentapi.DBValidationFailed},
		"damaged, and a backup":                {facts(1, backup9, has(datadir.Invalid, 50)), RestoreSole, agentapi.DBValidationFailed},
		"damaged beyond knowing, and a backup": {facts(1, bucket(BackupExists, 9, RelationUnknown), has(datadir.Invalid, 1)), RestoreSole, agentapi.DBValidationFailed},
		"files of a start that got nowhere":    {facts(1, backup9, has(datadir.Blank, 1, shell)), RestoreSole, agentapi.DBValidationFailed},
	},
	"6.5": {
		"damaged, and no bucket":       {facts(1, has(datadir.Invalid, 5)), Refuse, agentapi.DBValidationFailed},
		"damaged, and an empty bucket": {facts(1, noBackup, has(datadir.Invalid, 5)), Refuse, agentapi.DBValidationFailed},
	},
	"6.6": {"the backup went while it was restored": {facts(1, noBackup, journal(Journal{Restoring: true})), Refuse, agentapi.RestorationFailed}},
	"6.7": {
		"nothing, and no bucket":       {facts(1), BootstrapSole, agentapi.NewSingleNodeClusterCreated},
		"nothing, and an empty bucket": {facts(1, noBackup), BootstrapSole, agentapi.NewSingleNodeClusterCreated},
	},
	"2.16": {
		"blank data and another's backup":      {facts(1, others(9, RelationUnknown), has(datadir.Blank, 1)), Refuse, agentapi.WaitingForStore},
		"behind another's of the same history": {facts(1, others(9, RelationSame), has(datadir.Valid, 5)), Refuse, agentapi.WaitingForStore},
	},
	"5.32": {
		"all are empty, there is a backup, and others leave": {facts(3, backup9, leaving), Wait, agentapi.WaitingForCluster},
		"all are ready, there is none, and others leave":     {facts(3, offered("n0"), other(1, agentapi.DataMissing, nonce("n1")), other(2, agentapi.DataMissing, nonce("n2")), leaving), Wait, agentapi.WaitingForCluster},
	},
	"5.31": {
		"all are empty, and the backup is another's": {facts(3, others(9, RelationUnknown)), Refuse, agentapi.WaitingForStore},
		"the same, and another one would restore": {facts(3, others(9, RelationUnknown), func(f *Facts) {
			f.Self = nameOf(2)
			other(0, agentapi.DataMissing)(f)
			delete(f.View.Sidecars, nameOf(2))
		}), Refuse, agentapi.WaitingForStore},
		"the same, and it cannot be restored": {facts(3, broken9, func(f *Facts) { f.Backup.Owned = "the prefix is b's" }), Refuse, agentapi.WaitingForStore},
	},
	"6.9": {
		"nothing, and another's backup":                    {facts(1, others(9, RelationUnknown)), Refuse, agentapi.WaitingForStore},
		"damaged, and another's backup":                    {facts(1, others(9, RelationUnknown), has(datadir.Invalid, 5)), Refuse, agentapi.WaitingForStore},
		"damaged, and another's backup of another history": {facts(1, others(9, RelationOther), has(datadir.Invalid, 5)), Refuse, agentapi.WaitingForStore},
		"nothing, and another's that cannot be restored":   {facts(1, broken9, func(f *Facts) { f.Backup.Owned = "the prefix is b's" }), Refuse, agentapi.WaitingForStore},
	},
	"6.8": {
		"nothing, and broken backups": {facts(1, broken9), Refuse, agentapi.RestorationFailed},
		"damaged, and broken backups": {facts(1, broken9, has(datadir.Invalid, 5)), Refuse, agentapi.RestorationFailed},
	},
}

// "not behind the backup (revision 0)" was said where nothing could be restored.
func TestBackupsThatCannotBeRestoredAreTold(t *testing.T) {
	for _, rule := range []string{"2.13", "2.14", "2.15", "5.30", "6.8"} {
		for name, c := range rules[rule] {
			if got := Decide(c.facts).Message; !strings.Contains(got, "the backups cannot be restored: missing 3-4") || strings.Contains(got, "revision 0") {
				t.Errorf("rule %s, %s: %q does not tell", rule, name, got)
			}
		}
	}
}

// Whoever wrote a wrong prefix must learn what to do before the text about the other one ends.
func TestBackupsOfAnotherAreToldWithTheRemedy(t *testing.T) {
	for _, rule := range []string{"2.16", "5.31", "6.9"} {
		for name, c := range rules[rule] {
			got := Decide(c.facts).Message
			before, _, told := strings.Cut(got, "the prefix is b's")
			if !told || len(before) > 350 || !strings.Contains(before, "another prefix") || !strings.Contains(before, "druid.gardener.cloud/take-over-backups=true") {
				t.Errorf("rule %s, %s: %q does not tell", rule, name, got)
			}
		}
	}
}

func TestEachRuleByItsNumber(t *testing.T) {
	for rule, cases := range rules {
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

func TestMessagesSpeakOfOneAndOfMany(t *testing.T) {
	unknown := func(i int) func(*Facts) { return other(i, agentapi.DataUnknown) }
	differs := func(i int) func(*Facts) { return other(i, agentapi.DataMissing, otherConfig) }
	for name, c := range map[string]struct {
		facts Facts
		want  string
	}{
		"5.6, one":   {facts(5, noBackup, away(2)), "neither does the sidecar of etcd-2;"},
		"5.6, two":   {facts(5, noBackup, away(2), away(3)), "neither do the sidecars of etcd-2 and etcd-3;"},
		"5.7, one":   {facts(5, noBackup, unknown(2)), "and etcd-2 has not examined its data yet"},
		"5.7, three": {facts(5, noBackup, unknown(1), unknown(2), unknown(4)), "and etcd-1, etcd-2 and etcd-4 have not examined their data yet"},
		"5.8, one":   {facts(5, noBackup, differs(2)), "the configuration of etcd-2 wants another"},
		"5.8, two":   {facts(5, noBackup, differs(1), differs(2)), "the configurations of etcd-1 and etcd-2 want another"},
	} {
		if got := Decide(c.facts).Message; !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want it to say %q", name, got, c.want)
		}
	}
}

func TestWhatTheClusterKnowsTheMemberByIsRemovedFirst(t *testing.T) {
	moved := func(p *member.Peer) { p.PeerURLs = []string{"https://elsewhere:2380"} }
	renamed := func(p *member.Peer) { p.Name = "other-name" }
	joining := journal(Journal{Learner: 0xa0})
	handedOut := journal(Journal{Learner: 0xa0, HandedOut: true})
	for name, c := range map[string]struct {
		own     func(*Facts)
		listed  []member.Peer
		want    []uint64
		listing uint64
	}{
		"nothing":                                 {nil, []member.Peer{peer(1)}, nil, 0},
		"its name":                                {nil, []member.Peer{peer(0, moved), peer(1)}, []uint64{0xa0}, 0},
		"its address":                             {nil, []member.Peer{peer(0, renamed), peer(1)}, []uint64{0xa0}, 0},
		"an address nobody began with":            {nil, []member.Peer{peer(0, nameless), peer(1)}, []uint64{0xa0}, 0},
		"its data's id":                           {has(datadir.Invalid, 5), []member.Peer{peer(0, nameless, moved), peer(1)}, []uint64{0xa0}, 0},
		"two entries":                             {nil, []member.Peer{peer(0, moved), {ID: 0xb0, PeerURLs: peerOf(0).PeerURLs, Learner: true}, peer(1)}, []uint64{0xa0, 0xb0}, 0},
		"a learner it added itself":               {joining, []member.Peer{peer(0, nameless, asLearner), peer(1)}, nil, 0xa0},
		"a learner that may have run":             {handedOut, []member.Peer{peer(0, nameless, asLearner), peer(1)}, []uint64{0xa0}, 0},
		"a learner that ran":                      {joining, []member.Peer{peer(0, asLearner), peer(1)}, []uint64{0xa0}, 0},
		"a learner it added with another address": {joining, []member.Peer{peer(0, nameless, asLearner, moved), peer(1)}, nil, 0},
		"somebody else's learner":                 {nil, []member.Peer{peer(0, nameless, asLearner), peer(1)}, []uint64{0xa0}, 0},
	} {
		f := facts(3, cluster(testCluster, 1, c.listed...))
		if c.own != nil {
			c.own(&f)
		}
		got := Decide(f)
		if got.Action != JoinAsLearner || !cmp.Equal(got.Remove, c.want) || got.Listed != c.listing {
			t.Errorf("%s: %s (%s: %s), removes %x and is listed as %x; want %x and %x", name, got.Action, got.Rule, got.Message, got.Remove, got.Listed, c.want, c.listing)
		}
	}
}
