package upkeep

import (
	"context"
	"fmt"
	"sync"
	"time"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/etcd/member"
)

// Etcd is what upkeep asks and changes. [Connect] makes one of a [member.Cluster], whose methods
// these are; those of the first group need a majority and go to any member.
type Etcd interface {
	Members(ctx context.Context) (member.Membership, error)
	Promote(ctx context.Context, id uint64) error
	Remove(ctx context.Context, id uint64) error
	UpdatePeerURLs(ctx context.Context, id uint64, urls []string) error
	Alarms(ctx context.Context) ([]member.Alarm, error)
	Disarm(ctx context.Context, a member.Alarm) error
	Compact(ctx context.Context, rev snapshot.Revision) error

	// Local is the own member.
	Local(ctx context.Context) (Node, member.Status, error)
	// Reach is the listed one.
	Reach(ctx context.Context, p member.Peer) (Node, member.Status, error)
}

// Node is one member.
type Node interface {
	Endpoint() string
	Members(ctx context.Context) (member.Membership, error) // as far as it knows
	Revision(ctx context.Context) (snapshot.Revision, error)
	HashKV(ctx context.Context, rev snapshot.Revision) (snapshot.HashKV, error)
	Compacted(ctx context.Context, rev snapshot.Revision) (bool, error)
	Defragment(ctx context.Context) error
	MoveLeader(ctx context.Context, to uint64) error
}

// Connect uses the cluster c, of which the own member is at the endpoint local. c knows the client
// URLs of all wanted members, for a learner answers nothing about the cluster.
func Connect(c *member.Cluster, local string) Etcd { return connected{c, local} }

type connected struct {
	*member.Cluster
	local string
}

func (c connected) Local(ctx context.Context) (Node, member.Status, error) {
	m, err := c.At(c.local)
	if err != nil {
		return nil, member.Status{}, err
	}
	st, err := m.Status(ctx)
	return m, st, err
}

func (c connected) Reach(ctx context.Context, p member.Peer) (Node, member.Status, error) {
	return c.Cluster.Reach(ctx, p)
}

// probeTimeout is how long a member may take to prove that it is healthy. A member that is being
// defragmented does not.
const probeTimeout = 5 * time.Second

// observe looks at the whole cluster. It fails if the own member does not answer or the cluster
// cannot list its members. What other members do not answer makes them ill.
func observe(ctx context.Context, etcd Etcd) (View, error) {
	_, self, err := status(ctx, etcd.Local)
	if err != nil {
		return View{}, err
	}
	listed, err := etcd.Members(ctx)
	if err != nil {
		return View{}, err
	}
	v := View{Self: self.MemberID, Leader: self.Leader, Members: make([]Member, len(listed.Peers))}
	alarmed := self.Alarmed(member.AlarmNoSpace) || self.Alarmed(member.AlarmCorrupt)
	var all sync.WaitGroup
	for i, p := range listed.Peers {
		v.Members[i] = Member{Peer: p}
		if p.Started() {
			all.Go(func() { v.Members[i] = probe(ctx, etcd, p, self.Leader) })
		}
	}
	all.Wait()
	if ctx.Err() != nil {
		return View{}, ctx.Err()
	}
	if alarmed {
		if v.Alarms, err = etcd.Alarms(ctx); err != nil {
			return View{}, err
		}
	}
	return v, nil
}

// probe asks one member for what makes it healthy.
func probe(ctx context.Context, etcd Etcd, p member.Peer, leader uint64) Member {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	m := Member{Peer: p}
	node, st, err := etcd.Reach(ctx, p)
	if err != nil {
		m.Ill = err.Error()
		return m
	}
	m.Revision, m.DBSize, m.DBSizeInUse = st.Revision, st.DBSize, st.DBSizeInUse
	switch {
	case st.Leader != leader:
		m.Ill = fmt.Sprintf("it follows %x while %x leads", st.Leader, leader)
	case p.Learner: // it cannot read linearizably
	default:
		if _, err := node.Revision(ctx); err != nil {
			m.Ill = err.Error()
		}
	}
	return m
}

// status bounds a question to the own member.
func status(ctx context.Context, ask func(context.Context) (Node, member.Status, error)) (Node, member.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	return ask(ctx)
}

// every calls f at once and then again after each interval, until ctx ends.
func every(ctx context.Context, interval time.Duration, f func(context.Context)) {
	t := time.NewTicker(interval)
	defer t.Stop()
	for {
		f(ctx)
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}
