package backup

import (
	"fmt"
	"time"

	"druid.internal/druid/internal/etcd/member"
)

// sight is what one look at etcd showed about leadership.
type sight string

const (
	leads   sight = "leads"
	follows sight = "follows" // another one leads, or this one has no vote
	unclear sight = "unclear" // etcd does not answer, or sees no leader
)

// see judges an answer of this member's etcd.
func see(st member.Status, err error) (sight, string) {
	switch {
	case err != nil:
		return unclear, fmt.Sprintf("etcd does not tell who leads: %v", err)
	case st.Learner:
		return follows, "etcd is a learner"
	case st.Leader == 0:
		return unclear, "etcd sees no leader"
	case st.Leader == st.MemberID:
		return leads, "etcd leads"
	}
	return follows, fmt.Sprintf("member %016x leads", st.Leader)
}

// write decides whether to write the backups from now on, by what was seen last, whether we write
// now, and for how long nothing clear was seen. Leadership is taken up only when etcd says so, and
// given up at once when it names another one. While it says nothing, a writer goes on for a while:
// what it would write is committed in any case, and an etcd that is busy for a moment should not
// cost a reading of the whole bucket.
func write(now bool, s sight, unclearFor, patience time.Duration) bool {
	switch s {
	case leads:
		return true
	case unclear:
		return now && unclearFor < patience
	}
	return false
}
