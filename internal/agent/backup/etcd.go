package backup

import (
	"context"
	"fmt"

	"druid.internal/druid/internal/engine/snapshotter"
	"druid.internal/druid/internal/etcd/member"
)

// Member is the etcd of this member; *member.Member does it.
type Member interface {
	snapshotter.Member
	// MoveLeader hands leadership to another member; only the leader can be asked.
	MoveLeader(ctx context.Context, to uint64) error
}

// Voter is a voting member of the cluster.
type Voter struct {
	ID   uint64
	Name string // for people
	// Connect returns it if it answers.
	Connect func(context.Context) (snapshotter.Member, error)
}

// LocalOf is the member at one endpoint.
func LocalOf(c *member.Cluster, endpoint string) func(context.Context) (Member, error) {
	return func(context.Context) (Member, error) {
		m, err := c.At(endpoint)
		if err != nil {
			return nil, err
		}
		return m, nil
	}
}

// VotersOf are the members that a cluster lists, but for those that are not to be asked: others run
// them, and may have them where they do not answer.
func VotersOf(c *member.Cluster, but func(member.Peer) bool) func(context.Context) ([]Voter, error) {
	return func(ctx context.Context) ([]Voter, error) {
		ms, err := c.Members(ctx)
		if err != nil {
			return nil, err
		}
		var all []Voter
		for _, p := range ms.Peers {
			if p.Learner || but(p) {
				continue
			}
			name := p.Name
			if name == "" {
				name = fmt.Sprintf("%016x", p.ID)
			}
			all = append(all, Voter{ID: p.ID, Name: name, Connect: func(ctx context.Context) (snapshotter.Member, error) {
				m, _, err := c.Reach(ctx, p)
				if err != nil {
					return nil, err
				}
				return m, nil
			}})
		}
		return all, nil
	}
}

// votes returns the etcd of this member if it can be backed up from: it votes and sees a leader.
func votes(ctx context.Context, local func(context.Context) (Member, error)) (Member, error) {
	m, err := local(ctx)
	if err != nil {
		return nil, err
	}
	st, err := m.Status(ctx)
	switch {
	case err != nil:
		return nil, err
	case st.Learner:
		return nil, fmt.Errorf("member %x is a learner; backups are taken from voting members", st.MemberID)
	case st.Leader == 0:
		return nil, fmt.Errorf("member %x: %w", st.MemberID, member.ErrNoLeader)
	}
	return m, nil
}
