package upkeep

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/etcd/member"
)

// View is the cluster at one moment.
type View struct {
	Self    uint64 // the member this sidecar belongs to
	Leader  uint64 // as Self sees it; 0: none
	Members []Member
	Alarms  []member.Alarm // one of member 0 is of the whole cluster
}

// Member is one member of the cluster as it is listed, and as it answered.
type Member struct {
	member.Peer

	// Ill says what keeps the member from being healthy: healthy is who started, answers, reads
	// linearizably and sees the leader the others see. Empty: nothing.
	Ill string

	// The rest is known of members that answered.
	Revision    snapshot.Revision
	DBSize      int64 // bytes of the database file
	DBSizeInUse int64 // bytes of it that are in use
}

// Wanted is a member as the configuration wants it.
type Wanted struct {
	Name     string
	PeerURLs []string
	// Outside: it is of the cluster that these members joined. It stays, but is not looked after, and
	// shall not lead.
	Outside bool
}

// ours are those of the wanted that are not outside.
func ours(wanted []Wanted) []Wanted {
	return slices.DeleteFunc(slices.Clone(wanted), func(w Wanted) bool { return w.Outside })
}

// foreign says whether m was never one of these members: it has another kind of name.
func foreign(m Member, wanted []Wanted) bool {
	return m.Started() && !slices.ContainsFunc(ours(wanted), func(w Wanted) bool { return stem(w.Name) == stem(m.Name) })
}

// stem is a name without the number it ends in.
func stem(name string) string {
	if ordinal(name) < 0 {
		return name
	}
	return name[:strings.LastIndexByte(name, '-')]
}

// Healthy says that nothing is known to be wrong with the member.
func (m Member) Healthy() bool { return m.Ill == "" && m.Started() }

// Free is what a defragmentation would give back, in bytes.
func (m Member) Free() int64 { return max(0, m.DBSize-m.DBSizeInUse) }

// String is what people call the member.
func (m Member) String() string {
	if !m.Started() {
		return fmt.Sprintf("%016x (never started, %s)", m.ID, strings.Join(m.PeerURLs, ","))
	}
	return m.Name
}

// Member finds a member by its id.
func (v View) Member(id uint64) (Member, bool) {
	i := slices.IndexFunc(v.Members, func(m Member) bool { return m.ID == id })
	if i < 0 {
		return Member{}, false
	}
	return v.Members[i], true
}

// Leads says that this sidecar belongs to the leader.
func (v View) Leads() bool { return v.Leader != 0 && v.Leader == v.Self }

// revision is what the member has applied, 0 if that is not known.
func (v View) revision(id uint64) snapshot.Revision {
	m, _ := v.Member(id)
	return m.Revision
}

// name is for messages.
func (v View) name(id uint64) string {
	if m, ok := v.Member(id); ok {
		return m.String()
	}
	return fmt.Sprintf("%016x", id)
}

// raised are the members an alarm of the kind names.
func (v View) raised(kind member.AlarmKind) []uint64 {
	var ids []uint64
	for _, a := range v.Alarms {
		if a.Kind == kind {
			ids = append(ids, a.MemberID)
		}
	}
	return ids
}

// unquiet says what forbids to disturb any member: one is ill, never started, or catches up as a
// learner, or the cluster has no leader or is corrupt. Empty: nothing.
func (v View) unquiet() string {
	if v.Leader == 0 {
		return "the cluster has no leader"
	}
	if len(v.raised(member.AlarmCorrupt)) > 0 {
		return "etcd raised CORRUPT"
	}
	for _, m := range v.Members {
		switch {
		case !m.Started():
			return fmt.Sprintf("member %s", m)
		case m.Ill != "":
			return fmt.Sprintf("member %s is not healthy: %s", m, m.Ill)
		case m.Learner:
			return fmt.Sprintf("member %s is a learner that catches up", m)
		}
	}
	return ""
}

// votes counts the voters, and those of them that are healthy.
func (v View) votes() (voters, healthy int) {
	for _, m := range v.Members {
		if m.Learner {
			continue
		}
		voters++
		if m.Healthy() {
			healthy++
		}
	}
	return voters, healthy
}

// quorum of so many voters.
func quorum(voters int) int { return voters/2 + 1 }

// successor is the best member to lead instead of Self: a healthy voter that is furthest, among
// those that suit.
func (v View) successor(suits func(Member) bool) (Member, bool) {
	var best []Member
	for _, m := range v.Members {
		if m.ID != v.Leader && !m.Learner && m.Healthy() && suits(m) {
			best = append(best, m)
		}
	}
	if len(best) == 0 {
		return Member{}, false
	}
	return slices.MinFunc(best, func(a, b Member) int {
		return cmp.Or(cmp.Compare(b.Revision, a.Revision), byOrdinal(a.Name, b.Name))
	}), true
}

// byOrdinal orders names by the number they end in, as etcd-main-2 before etcd-main-10, then by
// the name.
func byOrdinal(a, b string) int {
	return cmp.Or(cmp.Compare(ordinal(a), ordinal(b)), cmp.Compare(a, b))
}

// ordinal is the number after the last hyphen, -1 if there is none.
func ordinal(name string) int {
	n, i := 0, strings.LastIndexByte(name, '-')
	if i < 0 || i == len(name)-1 || len(name)-i > 10 {
		return -1
	}
	for _, c := range name[i+1:] {
		if c < '0' || c > '9' {
			return -1
		}
		n = n*10 + int(c-'0')
	}
	return n
}
