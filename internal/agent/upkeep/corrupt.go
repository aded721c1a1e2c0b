package upkeep

import (
	"fmt"
	"slices"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/etcd/member"
)

// Verdict is the next step against CORRUPT.
type Verdict struct {
	Act    VerdictAct
	Alarm  member.Alarm // to disarm
	Reason string
}

// VerdictAct is a kind of step.
type VerdictAct string

// The steps.
const (
	VerdictNone       VerdictAct = "none"
	VerdictReport     VerdictAct = "report"     // a person decides
	VerdictQuarantine VerdictAct = "quarantine" // the own member is given up and joins anew
	VerdictDisarm     VerdictAct = "disarm"
)

// Hashes are the members' hashes of the key space at one revision; a member that could not tell
// is absent.
type Hashes map[uint64]snapshot.HashKV

// DecideCorrupt judges by what the members hold now, not by the alarm alone: the own member is
// given up only if it is accused, holds something else than a majority of all voters, and these
// are healthy and agree among themselves; so however many are given up, a majority serves on.
// While the alarm lasts etcd refuses every write, so it is disarmed, by the leader's sidecar, when
// the accused member is gone or all members are proven to agree.
func DecideCorrupt(v View, hashes Hashes) Verdict {
	accused := v.raised(member.AlarmCorrupt)
	if len(accused) == 0 {
		return Verdict{Act: VerdictNone, Reason: "no CORRUPT"}
	}
	if v.Leads() {
		for _, id := range accused {
			if _, listed := v.Member(id); id != 0 && !listed {
				return Verdict{Act: VerdictDisarm, Alarm: member.Alarm{MemberID: id, Kind: member.AlarmCorrupt},
					Reason: fmt.Sprintf("member %x, which it accused, is gone", id)}
			}
		}
	}
	voters, _ := v.votes()
	agreed, who := majority(v, hashes)
	if len(who) < quorum(voters) || voters < 2 {
		return Verdict{Act: VerdictReport, Reason: fmt.Sprintf(
			"etcd raised CORRUPT, and no majority of the %d voters is known to hold the same data: compare the members and restore; nothing is given up automatically", voters)}
	}
	self, listed := v.Member(v.Self)
	if !listed {
		return Verdict{Act: VerdictReport, Reason: "etcd raised CORRUPT; this member is not listed"}
	}
	suspect := slices.Contains(accused, v.Self) || slices.Contains(accused, 0)
	own, told := hashes[v.Self]
	told = told && comparable(own, agreed)
	switch {
	case suspect && told && own.Hash != agreed.Hash:
		return Verdict{Act: VerdictQuarantine, Reason: fmt.Sprintf(
			"etcd raised CORRUPT; at revision %d %s has hash %d, and %d of %d voters have %d", agreed.Revision, self, own.Hash, len(who), voters, agreed.Hash)}
	case suspect && !told && slices.Contains(accused, v.Self):
		return Verdict{Act: VerdictQuarantine, Reason: fmt.Sprintf(
			"etcd accuses %s of corruption, which has no comparable hash at revision %d; %d of %d voters have %d", self, agreed.Revision, len(who), voters, agreed.Hash)}
	}
	all := !slices.ContainsFunc(v.Members, func(m Member) bool {
		h, told := hashes[m.ID]
		return !told || !same(h, agreed)
	})
	if all && v.Leads() {
		return Verdict{Act: VerdictDisarm, Alarm: member.Alarm{MemberID: accused[0], Kind: member.AlarmCorrupt},
			Reason: fmt.Sprintf("all %d members have the same hash at revision %d", len(v.Members), agreed.Revision)}
	}
	why := fmt.Sprintf("etcd raised CORRUPT against %s; waiting until it has left, or all members are known to agree", v.name(accused[0]))
	if id := accused[0]; id != 0 && !slices.Contains(who, id) {
		why = fmt.Sprintf("etcd raised CORRUPT against %s; waiting until it has left, as %d of %d voters agree without it: its own sidecar gives its data up. "+
			"If that lasts for minutes, as its disk, its node or its sidecar is broken: etcdctl member remove %x; it joins anew when it can", v.name(id), len(who), voters, id)
	}
	return Verdict{Act: VerdictReport, Reason: why}
}

// majority is the hash that most healthy voters have, and who they are.
func majority(v View, hashes Hashes) (snapshot.HashKV, []uint64) {
	var best snapshot.HashKV
	var who []uint64
	for _, m := range v.Members {
		h, told := hashes[m.ID]
		if !told {
			continue
		}
		var with []uint64
		for _, o := range v.Members {
			if oh, ok := hashes[o.ID]; ok && same(oh, h) && !o.Learner && o.Healthy() {
				with = append(with, o.ID)
			}
		}
		if len(with) > len(who) {
			best, who = h, with
		}
	}
	return best, who
}

// comparable says whether two hashes are of the same history: only then their difference means
// anything.
func comparable(a, b snapshot.HashKV) bool {
	return a.Revision == b.Revision && a.CompactRevision == b.CompactRevision
}

func same(a, b snapshot.HashKV) bool { return comparable(a, b) && a.Hash == b.Hash }
