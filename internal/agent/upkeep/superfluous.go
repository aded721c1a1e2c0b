package upkeep

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Removal is the next step towards a cluster without superfluous members.
type Removal struct {
	Act    RemovalAct
	Member uint64 // to remove, or to hand the leadership to
	Reason string
}

// RemovalAct is a kind of step.
type RemovalAct string

// The steps.
const (
	KeepAll RemovalAct = "keep" // nobody is superfluous
	Wait    RemovalAct = "wait" // somebody is, but must not or cannot go yet
	Remove  RemovalAct = "remove"
	HandOn  RemovalAct = "hand on" // the leader itself is superfluous: another one leads first
)

// RemovalFacts are what a removal is decided from.
type RemovalFacts struct {
	View
	Wanted []Wanted
	// Since is when each superfluous member was first seen to be so.
	Since map[uint64]time.Time
	// Grace is how long a member must have been superfluous: the list of wanted members reaches
	// the sidecars at different times, and a member that was just added must not be removed by one
	// that has not heard of it.
	Grace time.Duration
	Now   time.Time
}

// Superfluous are the members that the configuration does not want: those of other names, and
// those that never started and have none of the wanted peer URLs. As long as a cluster outside is
// named, only those count of whom the name says that they were members here: who else is in that
// cluster is for those to say who run it.
func Superfluous(v View, wanted []Wanted) []Member {
	var out []Member
	moving := len(ours(wanted)) < len(wanted)
	for _, m := range v.Members {
		if !isWanted(m, wanted) && !(moving && (foreign(m, wanted) || !m.Started())) {
			out = append(out, m)
		}
	}
	// Who takes no part goes first, then who is ill, then the highest ordinal; the leader last.
	slices.SortFunc(out, func(a, b Member) int {
		return cmp.Or(cmp.Compare(v.weight(a), v.weight(b)), byOrdinal(b.Name, a.Name), cmp.Compare(a.ID, b.ID))
	})
	return out
}

func (v View) weight(m Member) int {
	switch {
	case m.ID == v.Leader:
		return 5
	case m.Learner && !m.Started():
		return 0
	case !m.Started():
		return 1
	case m.Learner:
		return 2
	case !m.Healthy():
		return 3
	}
	return 4
}

func isWanted(m Member, wanted []Wanted) bool {
	return slices.ContainsFunc(wanted, func(w Wanted) bool {
		if m.Started() {
			return m.Name == w.Name
		}
		return slices.ContainsFunc(m.PeerURLs, func(u string) bool { return slices.Contains(w.PeerURLs, u) })
	})
}

// DecideRemoval chooses at most one member. It never removes one if the healthy voters that stay
// were no quorum of the voters that stay, nor the last healthy voter that is wanted. Members that were
// never of these, as those of a cluster that was joined, go only while all that are wanted are healthy
// voters.
func DecideRemoval(f RemovalFacts) Removal {
	superfluous := Superfluous(f.View, f.Wanted)
	own := ours(f.Wanted)
	switch {
	case len(own) == 0:
		return Removal{Act: Wait, Reason: "the configuration names no member: nobody is removed by it"}
	case len(superfluous) == 0:
		return Removal{Act: KeepAll, Reason: "every member is wanted"}
	case f.Leader == 0:
		return Removal{Act: Wait, Reason: "the cluster has no leader"}
	}
	if !slices.ContainsFunc(f.Members, func(m Member) bool { return isWanted(m, own) && m.Healthy() && !m.Learner }) {
		return Removal{Act: Wait, Reason: fmt.Sprintf("no wanted member is a healthy voter; check initial-cluster of the configuration, which does not name %s", superfluous[0])}
	}
	blocked := ""
	for _, m := range superfluous {
		since, seen := f.Since[m.ID]
		if why := f.keeps(m); why != "" {
			blocked = cmp.Or(blocked, why)
			continue
		}
		if why := f.incomplete(own); why != "" && foreign(m, own) {
			blocked = cmp.Or(blocked, fmt.Sprintf("%s is not wanted, and leaves when all who are wanted are healthy voters: %s", m, why))
			continue
		}
		if !seen || f.Now.Sub(since) < f.Grace {
			blocked = cmp.Or(blocked, fmt.Sprintf("%s is not wanted; it is removed if that lasts for %v", m, f.Grace))
			continue
		}
		if m.ID == f.Leader {
			to, ok := f.successor(func(o Member) bool { return isWanted(o, own) })
			if !ok {
				return Removal{Act: Wait, Reason: fmt.Sprintf("%s leads and is not wanted, but nobody can lead instead", m)}
			}
			return Removal{Act: HandOn, Member: to.ID, Reason: fmt.Sprintf("%s leads and is not wanted: %s leads instead, then removes it", m, to)}
		}
		return Removal{Act: Remove, Member: m.ID, Reason: fmt.Sprintf("%s is not among the %d wanted members", m, len(own))}
	}
	return Removal{Act: Wait, Reason: blocked}
}

// incomplete says which of the wanted members is no healthy voter. Empty: all are.
func (v View) incomplete(wanted []Wanted) string {
	for _, w := range wanted {
		i := slices.IndexFunc(v.Members, func(m Member) bool { return isWanted(m, []Wanted{w}) })
		switch {
		case i < 0:
			return w.Name + " has not joined"
		case v.Members[i].Learner:
			return w.Name + " has no vote yet"
		case !v.Members[i].Healthy():
			return fmt.Sprintf("%s is not healthy: %s", w.Name, cmp.Or(v.Members[i].Ill, "it never started"))
		}
	}
	return ""
}

// keeps says why the quorum forbids to remove m. Empty: it does not.
func (v View) keeps(m Member) string {
	if m.Learner {
		return "" // it does not vote
	}
	voters, healthy := v.votes()
	voters--
	if m.Healthy() {
		healthy--
	}
	if healthy < quorum(voters) || voters == 0 {
		return fmt.Sprintf("%s is not wanted, but without it %d healthy of %d voters were left, which is no quorum", m, healthy, voters)
	}
	return ""
}
