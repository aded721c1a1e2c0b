package member

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/client/pkg/v3/types"
)

// AddLearner makes room in the cluster for a member without a vote, which is to start with
// these peer URLs. ErrTooManyLearners; ErrPeerURLExists; ErrUnhealthy; ErrPeerURLs.
func (c *Cluster) AddLearner(ctx context.Context, peerURLs []string) (Peer, error) {
	urls, err := checked(peerURLs)
	if err != nil {
		return Peer{}, err
	}
	var added Peer
	uncertain := false
	err = c.ask(ctx, "add a learner to etcd", func(ctx context.Context, m *Member, _ Status) error {
		r, err := pb.NewClusterClient(m.client.ActiveConnection()).MemberAdd(ctx, &pb.MemberAddRequest{PeerURLs: urls, IsLearner: true})
		if err == nil {
			added = peer(r.Member)
			return nil
		}
		err = explain("add a learner to etcd", m.endpoint, err)
		if uncertain && errors.Is(err, ErrPeerURLExists) { // perhaps by us, a moment ago
			ms, listErr := m.list(ctx, true)
			if listErr != nil {
				return listErr
			}
			if p, ok := ms.ByPeerURL(urls[0]); ok && p.Learner && !p.Started() && slices.Equal(p.PeerURLs, urls) {
				added = p
				return nil
			}
		}
		uncertain = true
		return err
	})
	return added, err
}

// Promote gives learner id a vote. It is done already if id votes. ErrLearnerNotReady until the
// leader has sent it nearly all of its log; ErrMemberNotFound; ErrUnhealthy.
//
// The leader itself is asked if it can be reached: the other members forward the question, but
// before 3.6 without the user's token, and a refusal they do not know keeps them repeating it.
func (c *Cluster) Promote(ctx context.Context, id uint64) error {
	return c.ask(ctx, "promote a learner of etcd", func(ctx context.Context, m *Member, st Status) error {
		if leader := c.leader(ctx, m, st); leader != nil {
			m = leader
		}
		_, err := pb.NewClusterClient(m.client.ActiveConnection()).MemberPromote(ctx, &pb.MemberPromoteRequest{ID: id})
		if errors.Is(rpctypes.Error(err), rpctypes.ErrMemberNotLearner) {
			return nil
		}
		return explain(fmt.Sprintf("promote learner %x of etcd", id), m.endpoint, err)
	})
}

// leader is the one m follows, nil if it cannot be reached at once.
func (c *Cluster) leader(ctx context.Context, m *Member, st Status) *Member {
	if st.Leader == st.MemberID {
		return m
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.timeout()/4)
	defer cancel()
	ms, err := m.list(ctx, false)
	if err != nil {
		return nil
	}
	p, _ := ms.ByID(st.Leader)
	leader, st, err := c.Reach(ctx, p)
	if err != nil || st.Leader != st.MemberID {
		return nil
	}
	return leader
}

// Remove takes member id out of the cluster, for ever: the id never comes back. It is done
// already if there is no such member. ErrUnhealthy if too few healthy members would be left.
func (c *Cluster) Remove(ctx context.Context, id uint64) error {
	return c.ask(ctx, "remove a member of etcd", func(ctx context.Context, m *Member, _ Status) error {
		_, err := pb.NewClusterClient(m.client.ActiveConnection()).MemberRemove(ctx, &pb.MemberRemoveRequest{ID: id})
		if errors.Is(rpctypes.Error(err), rpctypes.ErrMemberNotFound) {
			return nil
		}
		return explain(fmt.Sprintf("remove member %x of etcd", id), m.endpoint, err)
	})
}

// UpdatePeerURLs tells the cluster where member id is from now on. The member itself listens
// where its own configuration says. ErrMemberNotFound; ErrPeerURLExists; ErrPeerURLs.
func (c *Cluster) UpdatePeerURLs(ctx context.Context, id uint64, peerURLs []string) error {
	urls, err := checked(peerURLs)
	if err != nil {
		return err
	}
	return c.ask(ctx, "change the peer URLs of a member of etcd", func(ctx context.Context, m *Member, _ Status) error {
		_, err := pb.NewClusterClient(m.client.ActiveConnection()).MemberUpdate(ctx, &pb.MemberUpdateRequest{ID: id, PeerURLs: urls})
		return explain(fmt.Sprintf("change the peer URLs of member %x of etcd", id), m.endpoint, err)
	})
}

// checked sorts peer URLs, as etcd keeps them. A bad one must not get to the members: it would
// end them.
func checked(peerURLs []string) ([]string, error) {
	urls, err := types.NewURLs(peerURLs)
	if err != nil {
		return nil, fmt.Errorf("%w: %w; write them like https://etcd-main-0.etcd-main-peer:2380", ErrPeerURLs, err)
	}
	return urls.StringSlice(), nil
}

// MoveLeader hands leadership to member to and returns when it has it. Only the leader can be
// asked: ErrNotLeader. ErrNoTransferee if to has no vote here, or does not take over in time,
// after which the leader leads on.
func (m *Member) MoveLeader(ctx context.Context, to uint64) error {
	bounded, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	what := fmt.Sprintf("move etcd's leadership to member %x", to)
	_, err := pb.NewMaintenanceClient(m.client.ActiveConnection()).MoveLeader(bounded, &pb.MoveLeaderRequest{TargetID: to})
	late := err != nil && (bounded.Err() != nil || strings.Contains(err.Error(), "leader transfer took too long"))
	if late && ctx.Err() == nil { // whoever notices first
		return fmt.Errorf("%s at %s: %w: it did not take over within %s (check that it is up and connected)", what, m.endpoint, ErrNoTransferee, m.timeout)
	}
	return explain(what, m.endpoint, err)
}

// Defragment writes the member's database anew, without the free pages. Until it is done, which
// takes the time to copy what is in use, the member answers nothing else that needs the
// database; it is bounded by ctx only. When ctx ends the member finishes nevertheless.
func (m *Member) Defragment(ctx context.Context) error {
	_, err := pb.NewMaintenanceClient(m.client.ActiveConnection()).Defragment(ctx, &pb.DefragmentRequest{})
	return explain("defragment etcd's database", m.endpoint, err)
}
