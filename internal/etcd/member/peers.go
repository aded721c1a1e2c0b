package member

import (
	"context"
	"errors"
	"fmt"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// Peer is a member as the cluster lists it.
type Peer struct {
	ID         uint64
	Name       string // empty: it was added and never started
	PeerURLs   []string
	ClientURLs []string // empty: it was added and never started
	Learner    bool
}

// Started says whether the member ever told the cluster its name.
func (p Peer) Started() bool { return p.Name != "" }

// Membership is who belongs to a cluster.
type Membership struct {
	ClusterID uint64
	Leader    uint64 // as the member that answered sees it; 0: none
	Peers     []Peer // by ID
}

// ByID finds a member.
func (m Membership) ByID(id uint64) (Peer, bool) {
	return m.first(func(p Peer) bool { return p.ID == id })
}

// ByName finds a member that started. Names need not be unique; it is the first by ID.
func (m Membership) ByName(name string) (Peer, bool) {
	return m.first(func(p Peer) bool { return p.Started() && p.Name == name })
}

// ByPeerURL finds the member that is reached there by the others. One that never started has
// no name and is found by this only.
func (m Membership) ByPeerURL(url string) (Peer, bool) {
	return m.first(func(p Peer) bool { return slices.Contains(p.PeerURLs, url) })
}

// Voters is how many members count for the majority.
func (m Membership) Voters() int {
	n := 0
	for _, p := range m.Peers {
		if !p.Learner {
			n++
		}
	}
	return n
}

func (m Membership) first(is func(Peer) bool) (Peer, bool) {
	if i := slices.IndexFunc(m.Peers, is); i >= 0 {
		return m.Peers[i], true
	}
	return Peer{}, false
}

// Members lists who belongs to the cluster now. It needs a majority: without one it fails with
// ErrNoLeader, and with ErrUnreachable if nobody answers.
func (c *Cluster) Members(ctx context.Context) (Membership, error) {
	var ms Membership
	err := c.ask(ctx, "list etcd's members", func(ctx context.Context, m *Member, st Status) error {
		var err error
		ms, err = m.list(ctx, true)
		ms.Leader = st.Leader
		return err
	})
	if err != nil {
		return Membership{}, err
	}
	return ms, nil
}

// Members lists who belongs to the cluster as far as this member knows, which may be behind. It
// needs no majority. A learner does not answer: ErrLearner.
func (m *Member) Members(ctx context.Context) (Membership, error) {
	st, err := m.Status(ctx)
	if err != nil {
		return Membership{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	ms, err := m.list(ctx, false)
	ms.Leader = st.Leader
	return ms, err
}

func (m *Member) list(ctx context.Context, linearizable bool) (Membership, error) {
	r, err := pb.NewClusterClient(m.client.ActiveConnection()).MemberList(ctx, &pb.MemberListRequest{Linearizable: linearizable})
	if err != nil {
		return Membership{}, explain("list etcd's members", m.endpoint, err)
	}
	ms := Membership{ClusterID: r.Header.GetClusterId()}
	for _, p := range r.Members {
		ms.Peers = append(ms.Peers, peer(p))
	}
	slices.SortFunc(ms.Peers, func(a, b Peer) int {
		switch {
		case a.ID < b.ID:
			return -1
		case a.ID > b.ID:
			return 1
		}
		return 0
	})
	return ms, nil
}

func peer(p *pb.Member) Peer {
	return Peer{ID: p.GetID(), Name: p.GetName(), PeerURLs: p.GetPeerURLs(), ClientURLs: p.GetClientURLs(), Learner: p.GetIsLearner()}
}

// Reach asks the client URLs of a listed member for its status, in turn, and returns the first
// that is this member. ErrUnreachable if none is: nobody answers, or another member does.
func (c *Cluster) Reach(ctx context.Context, p Peer) (*Member, Status, error) {
	if len(p.ClientURLs) == 0 {
		return nil, Status{}, fmt.Errorf("member %x: %w: it has told the cluster no client URL, so it never started", p.ID, ErrUnreachable)
	}
	var failures several
	for _, url := range p.ClientURLs {
		m, err := c.At(url)
		if err != nil {
			failures = append(failures, err)
			continue
		}
		st, err := m.Status(ctx)
		switch {
		case ctx.Err() != nil:
			return nil, Status{}, fmt.Errorf("reach member %x: %w", p.ID, errors.Join(err, ctx.Err()))
		case err != nil:
			failures = append(failures, err)
		case st.MemberID != p.ID:
			failures = append(failures, fmt.Errorf("member %x: %w: member %x answers at %s", p.ID, ErrUnreachable, st.MemberID, url))
		default:
			return m, st, nil
		}
	}
	return nil, Status{}, failures
}
