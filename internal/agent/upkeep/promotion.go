package upkeep

import (
	"fmt"

	"druid.internal/druid/internal/backup/snapshot"
)

// maxLag is how many revisions a learner may be behind the leader when it is promoted. etcd asks
// for nine tenths of the leader's log only, which on an old cluster is far behind: such a voter
// makes writes wait for it when another one fails. etcd itself throttles a member that applies
// this many entries late.
const maxLag snapshot.Revision = 5000

// Promotion says whether to promote a learner.
type Promotion struct {
	Promote bool
	Done    bool // it is a voter: there is nothing to do
	Reason  string
}

// DecidePromotion looks at the own member only. What it cannot tell, such as a leader whose
// revision is not known, it leaves to etcd, which refuses a learner that is not ready.
func DecidePromotion(v View, wanted []Wanted) Promotion {
	self, listed := v.Member(v.Self)
	switch {
	case !listed:
		return Promotion{Reason: "the member is not listed in the cluster"}
	case !self.Learner:
		return Promotion{Done: true, Reason: "the member is a voter"}
	case len(wanted) > 0 && !isWanted(self, wanted):
		return Promotion{Reason: fmt.Sprintf("%s is not wanted: it stays a learner until it is removed", self)}
	case v.Leader == 0:
		return Promotion{Reason: "the learner sees no leader"}
	}
	// Health is no condition: a learner cannot read linearizably.
	if leader, ok := v.Member(v.Leader); ok && leader.Revision > self.Revision+maxLag {
		return Promotion{Reason: fmt.Sprintf("the learner is at revision %d, the leader at %d", self.Revision, leader.Revision)}
	}
	return Promotion{Promote: true, Reason: "the learner has caught up"}
}
