package member

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"

	"druid.internal/druid/internal/hosttest"
)

// node is a real etcd among several. It can be stopped and started again with its data.
type node struct {
	t    *testing.T
	cfg  *embed.Config
	etcd *embed.Etcd // nil: it does not run
	id   uint64
}

func newNode(t *testing.T, name string, change func(*embed.Config)) *node {
	cfg := embed.NewConfig()
	cfg.Name, cfg.Dir = name, t.TempDir()
	cfg.LogLevel, cfg.LogOutputs = "error", []string{"/dev/null"}
	cfg.UnsafeNoFsync = true
	cfg.TickMs, cfg.ElectionMs = 100, 1000
	at := hosttest.Own()
	client, peer := url.URL{Scheme: "http", Host: at + ":2379"}, url.URL{Scheme: "http", Host: at + ":2380"}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	cfg.InitialCluster = name + "=" + peer.String()
	if change != nil {
		change(cfg)
	}
	n := &node{t: t, cfg: cfg}
	t.Cleanup(n.stop)
	return n
}

// calm members elect another leader only if theirs is silent for long, which a busy machine is not.
func calm(cfg *embed.Config) { cfg.ElectionMs = 5000 }

func (n *node) client() string     { return n.cfg.AdvertiseClientUrls[0].String() }
func (n *node) peerURLs() []string { return []string{n.cfg.AdvertisePeerUrls[0].String()} }

// launch starts the node and waits for nothing.
func (n *node) launch() {
	n.t.Helper()
	e, err := embed.StartEtcd(n.cfg)
	if err != nil {
		n.t.Fatalf("start %s: %v", n.cfg.Name, err)
	}
	n.etcd, n.id = e, uint64(e.Server.MemberID())
}

func (n *node) ready() {
	n.t.Helper()
	select {
	case <-n.etcd.Server.ReadyNotify():
	case err := <-n.etcd.Err():
		n.t.Fatalf("%s: %v", n.cfg.Name, err)
	case <-time.After(time.Minute):
		n.t.Fatalf("%s is not ready after a minute", n.cfg.Name)
	}
}

func (n *node) stop() {
	if n.etcd == nil {
		return
	}
	select {
	case <-n.etcd.Server.ReadyNotify():
	default:
		n.etcd.Server.Stop() // Close alone waits for ever for one that never became ready
	}
	n.etcd.Close()
	n.etcd = nil
}

// startCluster runs size new members and returns them with the cluster under test, which is
// configured with the endpoints of all.
func startCluster(t *testing.T, size int, change func(*embed.Config)) ([]*node, *Cluster) {
	t.Helper()
	var nodes []*node
	var initial []string
	for i := range size {
		n := newNode(t, fmt.Sprintf("etcd-%d", i), change)
		nodes = append(nodes, n)
		initial = append(initial, n.cfg.InitialCluster)
	}
	for _, n := range nodes {
		n.cfg.InitialCluster = strings.Join(initial, ",")
		n.launch()
	}
	for _, n := range nodes {
		n.ready()
	}
	return nodes, clusterOf(t, Config{}, nodes...)
}

// clusterOf talks to these nodes.
func clusterOf(t *testing.T, cfg Config, nodes ...*node) *Cluster {
	t.Helper()
	for _, n := range nodes {
		cfg.Endpoints = append(cfg.Endpoints, n.client())
	}
	cfg.InsecureTransport = true
	if cfg.DialTimeout == 0 {
		cfg.DialTimeout = 30 * time.Second
	}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// join starts a node that is a member of the cluster of others already.
func join(t *testing.T, name string, change func(*embed.Config), add func(*node), others ...*node) *node {
	t.Helper()
	n := newNode(t, name, change)
	initial := []string{n.cfg.InitialCluster}
	for _, o := range others {
		initial = append(initial, o.cfg.Name+"="+o.peerURLs()[0])
	}
	n.cfg.InitialCluster, n.cfg.ClusterState = strings.Join(initial, ","), embed.ClusterStateFlagExisting
	add(n)
	n.launch()
	n.ready()
	return n
}

func (n *node) member(c *Cluster) *Member {
	n.t.Helper()
	m, err := c.At(n.client())
	if err != nil {
		n.t.Fatal(err)
	}
	return m
}

func (n *node) status(c *Cluster) Status {
	n.t.Helper()
	st, err := n.member(c).Status(n.t.Context())
	if err != nil {
		n.t.Fatal(err)
	}
	return st
}

// leaderOf waits until every running node follows the same leader, and returns it first.
func leaderOf(t *testing.T, c *Cluster, nodes ...*node) (leader *node, followers []*node) {
	t.Helper()
	until(t, "all follow one leader", func() error {
		leader, followers = nil, nil
		for _, n := range nodes {
			if n.etcd == nil {
				continue
			}
			st := n.status(c)
			switch {
			case st.Leader == 0:
				return fmt.Errorf("%s has no leader", n.cfg.Name)
			case st.Leader == n.id:
				leader = n
			default:
				followers = append(followers, n)
			}
		}
		for _, f := range followers {
			if leader == nil || f.status(c).Leader != leader.id {
				return errors.New("they differ")
			}
		}
		return nil
	})
	return leader, followers
}

// until tries again as long as fact fails, up to a minute.
func until(t *testing.T, what string, fact func() error) {
	t.Helper()
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	pause := time.NewTicker(20 * time.Millisecond)
	defer pause.Stop()
	for {
		err := fact()
		if err == nil {
			return
		}
		select {
		case <-deadline.C:
			t.Fatalf("wait until %s: %v", what, err)
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		case <-pause.C:
		}
	}
}

// is reports err unless it is want.
func is(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %q", what, err, want)
	}
	if err != nil && strings.Contains(err.Error(), "\n") {
		t.Errorf("%s: the error has several lines: %q", what, err)
	}
}
