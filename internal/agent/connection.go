package agent

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"druid.internal/druid/internal/agent/memberconf"
	"druid.internal/druid/internal/agent/upkeep"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/etcd/member"
)

// connection is upkeep's way to the cluster. It follows the wanted members: what is under way
// when they change may fail, and is looked at again.
type connection struct {
	config func(endpoints []string) member.Config
	local  string   // the own member's endpoint
	more   []string // endpoints of a service in front of the cluster
	// outside is the cluster that the members join. As long as the own member is a learner, which
	// answers nothing about the cluster, it may be all that can be asked.
	outside *followed
	// served are further endpoints, at which members were found to serve.
	served func() []string

	mu      sync.Mutex
	cluster *member.Cluster
	etcd    upkeep.Etcd
	wanted  *memberconf.Template
	with    []string // of served
}

// follow connects to the wanted members of t from now on.
func (c *connection) follow(t *memberconf.Template) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.connect(t)
}

// connect is follow. The caller holds the lock.
func (c *connection) connect(t *memberconf.Template) error {
	var endpoints []string
	for _, p := range t.Wanted() {
		endpoints = append(endpoints, p.ClientURLs...)
	}
	// The own etcd may serve where it was started to, which the configuration does not name any more.
	if len(endpoints) == 0 || !slices.Contains(endpoints, c.local) && schemeOf(endpoints[0]) == schemeOf(c.local) {
		endpoints = append(endpoints, c.local)
	}
	with := c.served()
	next, err := member.New(c.config(slices.Concat(endpoints, with, c.more, c.outside.endpoints())))
	if err != nil {
		return err
	}
	old := c.cluster
	c.cluster, c.etcd, c.wanted, c.with = next, upkeep.Connect(next, c.local), t, with
	if old != nil {
		return old.Close()
	}
	return nil
}

func schemeOf(endpoint string) string {
	scheme, _, _ := strings.Cut(endpoint, "://")
	return scheme
}

func (c *connection) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cluster.Close()
}

func (c *connection) now() upkeep.Etcd {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Equal(c.with, c.served()) {
		_ = c.connect(c.wanted) // else it goes on with those before
	}
	return c.etcd
}

func (c *connection) Members(ctx context.Context) (member.Membership, error) {
	return c.now().Members(ctx)
}

func (c *connection) Promote(ctx context.Context, id uint64) error { return c.now().Promote(ctx, id) }
func (c *connection) Remove(ctx context.Context, id uint64) error  { return c.now().Remove(ctx, id) }

func (c *connection) UpdatePeerURLs(ctx context.Context, id uint64, urls []string) error {
	return c.now().UpdatePeerURLs(ctx, id, urls)
}

func (c *connection) Alarms(ctx context.Context) ([]member.Alarm, error) { return c.now().Alarms(ctx) }

func (c *connection) Disarm(ctx context.Context, a member.Alarm) error {
	return c.now().Disarm(ctx, a)
}

func (c *connection) Compact(ctx context.Context, rev snapshot.Revision) error {
	return c.now().Compact(ctx, rev)
}

func (c *connection) Local(ctx context.Context) (upkeep.Node, member.Status, error) {
	return c.now().Local(ctx)
}

// Reach is also through the endpoints that the configuration names, for a member outside: what it
// advertises need not be reachable from here.
func (c *connection) Reach(ctx context.Context, p member.Peer) (upkeep.Node, member.Status, error) {
	if !c.outside.has(p) {
		return c.now().Reach(ctx, p)
	}
	advertised, cancel := context.WithTimeout(ctx, outsideShare)
	node, st, err := c.now().Reach(advertised, p)
	cancel()
	if err == nil {
		return node, st, nil
	}
	c.mu.Lock()
	cluster := c.cluster
	c.mu.Unlock()
	for _, e := range c.outside.endpoints() {
		m, failed := cluster.At(e)
		if failed != nil {
			continue
		}
		if st, failed := m.Status(ctx); failed == nil && st.MemberID == p.ID {
			return m, st, nil
		}
	}
	return nil, member.Status{}, err
}

// outsideShare is what a member outside gets to answer where it advertises.
const outsideShare = 2 * time.Second
