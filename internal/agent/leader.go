package agent

import (
	"context"
	"fmt"

	"druid.internal/druid/internal/agent/memberconf"
	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/etcd/member"
)

// whereabouts finds the sidecar of the backup leader.
type whereabouts struct {
	etcd func(context.Context) (member.Status, error)
	list func(context.Context) (member.Membership, error)
	base func(memberconf.Peer) (string, error)
	// outside says who belongs to a cluster outside and has no sidecar; nil: nobody.
	outside func(member.Peer) bool
}

// leader is what serve.Handlers.Leader wants.
func (w whereabouts) leader(ctx context.Context) (base string, self bool, err error) {
	s, err := w.etcd(ctx)
	switch {
	case err != nil:
		return "", false, fmt.Errorf("%w: the own etcd does not tell who leads: %w", agentapi.ErrUnavailable, err)
	case s.Leader == 0:
		return "", false, fmt.Errorf("%w: the own etcd sees no leader", agentapi.ErrUnavailable)
	case s.Leader == s.MemberID:
		return "", true, nil
	}
	list, err := w.list(ctx)
	if err != nil {
		return "", false, fmt.Errorf("%w: the members of the cluster are not known: %w", agentapi.ErrUnavailable, err)
	}
	for _, p := range list.Peers {
		if p.ID == s.Leader && w.outside != nil && w.outside(p) {
			return "", false, fmt.Errorf("%w: %s leads, a member outside without a sidecar: backups are written once a member of this cluster leads", agentapi.ErrUnavailable, p.Name)
		}
		if p.ID == s.Leader {
			base, err := w.base(memberconf.Peer{Name: p.Name, ClientURLs: p.ClientURLs})
			return base, false, err
		}
	}
	return "", false, fmt.Errorf("%w: the leader %016x is not listed", agentapi.ErrUnavailable, s.Leader)
}
