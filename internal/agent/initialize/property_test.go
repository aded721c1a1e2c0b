package initialize

import (
	"errors"
	"math/rand/v2"
	"testing"

	"druid.internal/druid/internal/agent/neighbours"
	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/etcd/datadir"
	"druid.internal/druid/internal/etcd/member"
)

// anyFacts is any combination of facts, also of those that contradict each other.
func anyFacts(r *rand.Rand) Facts {
	pick := func(n int) bool { return r.IntN(n) == 0 }
	f := facts([]int{1, 2, 3, 5}[r.IntN(4)])
	text := func() string { return []string{"", "a", "b", "c"}[r.IntN(4)] }
	nonces := func() map[string]string {
		if pick(2) {
			return nil
		}
		out := map[string]string{}
		for _, p := range f.Wanted {
			out[p.Name] = text()
		}
		return out
	}
	digest := func() string {
		if pick(5) {
			return "another"
		}
		return testDigest
	}
	if pick(12) {
		f.Volume = Volume{Reason: []agentapi.Reason{agentapi.VolumeMismatch, agentapi.VolumeReadOnly}[r.IntN(2)]}
	}
	f.Data = datadir.Inspection{
		State:     []datadir.Condition{datadir.Missing, datadir.Missing, datadir.Missing, datadir.Invalid, datadir.Valid, datadir.Valid, datadir.Blank, datadir.TooOld}[r.IntN(8)],
		ClusterID: uint64(r.IntN(3)) + testCluster - 1, MemberID: uint64(r.IntN(3)) + 0xa0, Revision: snapshot.Revision(r.IntN(12)), Removed: pick(6),
	}
	f.OthersLeave = pick(6)
	f.Data.Why, f.Volume.Why = "why", "why"
	f.Data.AtMost = f.Data.Revision + snapshot.Revision(r.IntN(6))
	for i := range r.IntN(4) {
		f.Data.Voters = append(f.Data.Voters, 0xa0+uint64(i))
	}
	if pick(6) {
		f.Data.ClusterID = 0
	}
	f.Settled = pick(2)
	f.Journal = Journal{Cluster: digest(), Restoring: pick(6), Learner: uint64(r.IntN(3)) + 0xa0 - 1, HandedOut: pick(2)}
	if f.Journal.Nonce = text(); f.Journal.Nonce == "" {
		f.Journal.Saw = nonces()
	}
	f.Backup = Backup{State: []BackupState{BackupUnasked, BackupNotConfigured, BackupUnreachable, BackupNone, BackupExists, BackupExists}[r.IntN(6)],
		Latest: snapshot.Revision(r.IntN(12)), Relation: []Relation{RelationSame, RelationOther, RelationUnknown}[r.IntN(3)], Owned: []string{"", "", "b's"}[r.IntN(3)]}
	for i := range f.Wanted {
		if i > 0 && !pick(3) {
			states := []agentapi.DataState{agentapi.DataUnknown, agentapi.DataMissing, agentapi.DataMissing, agentapi.DataInvalid, agentapi.DataValid, agentapi.DataBlank}
			other(i, states[r.IntN(6)], func(m *agentapi.Member) {
				m.Bootstrap = &agentapi.Bootstrap{Cluster: digest(), Nonce: text()}
				if m.Bootstrap.Nonce == "" {
					m.Bootstrap.Saw = nonces()
				}
				if pick(4) {
					m.Etcd = &agentapi.Etcd{Revision: int64(r.IntN(3))}
				}
			})(&f)
		}
		if i > 0 && pick(6) {
			away(i)(&f)
		}
		if pick(6) {
			var peers []member.Peer
			for j := range f.Wanted {
				if !pick(3) {
					change := []func(*member.Peer){unstarted, nameless, asLearner, func(*member.Peer) {}}
					peers = append(peers, peer(j, change[r.IntN(4)], change[r.IntN(4)]))
				}
			}
			cluster(uint64(r.IntN(3))+testCluster-1, i, peers...)(&f)
		} else if pick(6) {
			leaderless(i, snapshot.Revision(r.IntN(3)))(&f)
		} else {
			f.View.Etcds = append(f.View.Etcds, neighbours.Etcd{Name: nameOf(i), Err: errors.New("no answer")})
		}
	}
	if len(f.Wanted) == 1 {
		f.View = neighbours.View{}
	}
	return f
}

func TestNothingIsBegunOrReplacedByMistake(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 2))
	seen := map[Action]int{}
	const cases = 300_000
	for i := range cases {
		f := anyFacts(r)
		d := Decide(f)
		seen[d.Action]++
		wrong := func(why string) {
			t.Fatalf("case %d: %s by rule %s although %s\nfacts %+v", i, d.Action, d.Rule, why, f)
		}
		if d.Rule == "" || d.Message == "" {
			wrong("it says no rule or no reason")
		}
		others := f.others()
		empties := count(others, empty)
		begins := d.Action == BootstrapNew || d.Action == BootstrapSole
		restores := d.Action == RestoreSole || d.Action == RestoreSeed
		replaces := begins || restores || d.Action == BootstrapLate || d.Action == GiveUp || d.Action == JoinAsLearner
		if f.Volume.Reason != "" && d.Action != Refuse {
			wrong("the volume is wrong")
		}
		if begins || restores {
			switch {
			case empties != len(others):
				wrong("some other member may have something")
			case len(f.View.Clusters()) > 0:
				wrong("a cluster answers")
			case begins && f.Backup.State != BackupNone && f.Backup.State != BackupNotConfigured:
				wrong("there may be a backup")
			case begins && f.Journal.Restoring:
				wrong("data were set aside for a restore")
			case begins && !f.nothing():
				wrong("there is something on the volume")
			case restores && f.Backup.Owned != "":
				wrong("the backup is another's")
			case restores && f.Backup.State != BackupExists:
				wrong("there is no backup")
			}
		}
		if f.OthersLeave && (begins || restores) {
			wrong("others leave the cluster")
		}
		if d.Action == RestoreSeed || d.Action == BootstrapNew {
			for _, o := range others {
				if o.boot.Cluster != f.Digest {
					wrong("the members are not configured alike")
				}
				if (o.boot.Nonce == "") != (d.Action == RestoreSeed) {
					wrong("the members do not agree on beginning")
				}
			}
		}
		if d.Action == RestoreSeed && (f.Self != f.Wanted[0].Name || f.Journal.Nonce != "" || !f.nothing()) {
			wrong("it is not the one to restore")
		}
		if d.Action == RestoreSole && f.Data.State == datadir.Valid {
			switch {
			case f.Data.Revision >= f.Backup.Latest:
				wrong("the data are not behind")
			case f.Data.AtMost >= f.Backup.Latest && !f.Settled:
				wrong("the data may not be behind")
			case f.Backup.Relation != RelationSame:
				wrong("the data are of another history")
			}
		}
		if d.Action == BootstrapLate {
			if d.Saw[f.Self] != f.Journal.Nonce || f.Journal.Nonce == "" || !f.nothing() {
				wrong("it has no word of its own")
			}
			for _, o := range others {
				if o.condition == unreachable || o.condition == unknown || o.condition != empty && o.boot.Saw[f.Self] != f.Journal.Nonce {
					wrong("not everybody who has something has its word")
				}
			}
		}
		if d.Action == GiveUp && f.Data.State != datadir.Blank {
			wrong("clients wrote to the data")
		}
		if replaces && (f.Data.State == datadir.TooOld || f.Data.State == datadir.TooNew) {
			wrong("another etcd can use the data")
		}
		if d.Action == JoinAsLearner && f.Data.State == datadir.Valid {
			c := d.Cluster
			if _, listed := c.ByID(f.Data.MemberID); c.ClusterID == f.Data.ClusterID && listed {
				wrong("the cluster counts on the data")
			}
			if c.ClusterID != f.Data.ClusterID && f.wantedAmong(c) < f.quorum() && (!f.Data.Removed || f.Data.AtMost > f.View.Revision(c.ClusterID)) {
				wrong("a minority has that cluster, and these data may have more")
			}
		}
		if d.Action == Start && f.nothing() {
			wrong("there are no data")
		}
		if d.Action == Start && f.Data.State == datadir.Invalid {
			wrong("the data are damaged")
		}
		if len(d.Remove) > 0 && d.Action != JoinAsLearner {
			wrong("members are removed")
		}
	}
	for _, a := range []Action{Start, BootstrapSole, BootstrapNew, BootstrapLate, JoinAsLearner, RestoreSole, RestoreSeed, AskBackup, Settle, Offer, Withdraw, GiveUp, Wait, Refuse, QuorumLost} {
		if seen[a] < 20 {
			t.Errorf("%s was decided %d times of %d, which shows nothing", a, seen[a], cases)
		}
	}
}
