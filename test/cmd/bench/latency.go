package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"druid.internal/druid/test/members"
)

// wirePort is where the other members connect to a member, instead of its peer port.
const wirePort = 2382

// delays are those between members, one way: none, that of zones of one region and more than that.
var delays = []time.Duration{0, 500 * time.Microsecond, 2500 * time.Microsecond}

// How long each kind of request is measured, in milliseconds, and how many keys it goes to.
const (
	latencyMillis      = 2000
	latencyMillisQuick = 150
	keysOfEach         = 16 // of each client, nobody else's
)

// request is one kind, sent by clients that each wait for the answer.
type request struct {
	name    string
	clients int
	size    int // of values
	reads   []clientv3.OpOption
}

func (r request) writes() bool { return r.reads == nil }

// requests are those of the study in the documentation of the original.
var requests = []request{
	{"put 256 B, 1 client", 1, 256, nil},
	{"put 256 B, 100 clients", 100, 256, nil},
	{"put 1 MB, 1 client", 1, 1_000_000, nil},
	{"linearizable read of 256 B, 1 client", 1, 256, []clientv3.OpOption{}},
	{"linearizable read of 256 B, 100 clients", 100, 256, []clientv3.OpOption{}},
	{"serializable read of 256 B, 1 client", 1, 256, []clientv3.OpOption{clientv3.WithSerializable()}},
}

// answered are the times of all requests of one kind.
type answered struct {
	seconds []float64
	took    time.Duration
}

// String is the mean, the 99th percentile and how many there were in a second.
func (a answered) String() string {
	sum := 0.0
	for _, s := range a.seconds {
		sum += s
	}
	sorted := slices.Sorted(slices.Values(a.seconds))
	n := len(sorted)
	return fmt.Sprintf("%.2f (%.2f) ms, %.0f/s", 1000*sum/float64(n), 1000*sorted[min(n-1, n*99/100)], float64(n)/a.took.Seconds())
}

// measureLatency sends requests to one member, and to three with a network of some length between them.
func measureLatency(ctx context.Context, b *bench) (*result, error) {
	if _, err := os.Stat(b.wrapper); err != nil {
		return nil, fmt.Errorf("%w; `make build` builds it", err)
	}
	t := table{title: "Requests to one member and to three, with a network between them", head: []string{"request", "to"},
		note: "Mean (99th percentile) of the time until a request was answered, and answers in a second. Clients are beside the member that they ask. Round trips are those between members, as measured."}
	single, _, err := b.latencies(ctx, 1, delays[:1])
	if err != nil {
		return nil, fmt.Errorf("one member: %w", err)
	}
	three, trips, err := b.latencies(ctx, 3, delays)
	if err != nil {
		return nil, fmt.Errorf("three members: %w", err)
	}
	t.head = append(t.head, "1 member")
	for _, trip := range trips {
		t.head = append(t.head, fmt.Sprintf("3 members, %.2f ms round trip", 1000*trip.Seconds()))
	}
	for i, r := range requests {
		leader, follower := []string{r.name, "the leader", single[0][0][i].String()}, []string{"", "a follower", ""}
		for d := range delays {
			leader, follower = append(leader, three[d][0][i].String()), append(follower, three[d][1][i].String())
		}
		t.rows = append(t.rows, leader, follower)
	}
	return &result{tables: []table{t}}, nil
}

// latencies are those of all requests with each delay, to the leader and then to a follower, and the
// round trips that the delays make.
func (b *bench) latencies(ctx context.Context, n int, delays []time.Duration) (all [][2][]answered, trips []time.Duration, err error) {
	done := doing("%d members", n)
	etcd := map[string]any{}
	c, err := b.cluster(ctx, members.Options{Members: n, Dir: filepath.Join(b.scratch("latency"), fmt.Sprint(n)), Etcd: etcd})
	if err != nil {
		return nil, nil, err
	}
	defer c.Close()
	wires, err := wired(c, etcd)
	defer func() {
		for _, w := range wires {
			w.close()
		}
	}()
	if err != nil {
		return nil, nil, err
	}
	if err := ready(ctx, c); err != nil {
		return nil, nil, err
	}
	done()
	for _, delay := range delays {
		for _, w := range wires {
			w.delay.Store(int64(delay))
		}
		b.load = max(b.load, loadAverage())
		trip, err := roundTrip(ctx, delay)
		if err != nil {
			return nil, nil, err
		}
		both, err := b.askBoth(ctx, c, wires, fmt.Sprintf("%d members, delay %s", n, delay))
		if err != nil {
			return nil, nil, fmt.Errorf("delay %s: %w", delay, err)
		}
		all, trips = append(all, both), append(trips, trip)
	}
	return all, trips, nil
}

// wired has the members connect to each other by wires alone.
func wired(c *members.Cluster, etcd map[string]any) (wires []*wire, err error) {
	var initial []string
	peers := map[string][]string{}
	for _, m := range c.Members() {
		at := net.JoinHostPort(m.Address, fmt.Sprint(wirePort))
		peer, err := url.Parse(m.PeerURL())
		if err != nil {
			return wires, err
		}
		w, err := layWire(at, peer.Host)
		if err != nil {
			return wires, err
		}
		wires = append(wires, w)
		peer.Host = at
		initial = append(initial, m.Name+"="+peer.String())
		peers[m.Name] = []string{peer.String()}
	}
	etcd["initial-cluster"], etcd["initial-advertise-peer-urls"] = strings.Join(initial, ","), peers
	return wires, c.Reconfigure(func(string, map[string]any) {})
}

// askBoth sends all requests to the leader, and to a follower if there is one.
func (b *bench) askBoth(ctx context.Context, c *members.Cluster, wires []*wire, title string) (both [2][]answered, err error) {
	leader, err := c.Leader(ctx)
	if err != nil {
		return both, err
	}
	others := c.Others(leader)
	for i, m := range append([]*members.Member{leader}, others[:min(1, len(others))]...) {
		for _, r := range requests {
			before := passed(wires)
			a, err := b.ask(ctx, c, m, r)
			if err != nil {
				return both, fmt.Errorf("%s, to %s: %w", r.name, m.Name, err)
			}
			if r.writes() && len(others) > 0 && passed(wires)-before < int64(r.size) {
				return both, fmt.Errorf("%s, to %s: the members do not use the network with the delay", r.name, m.Name)
			}
			both[i] = append(both[i], a)
			fmt.Printf("  %-26s %-10s %-42s %s\n", title, []string{"leader", "follower"}[i], r.name, a)
		}
	}
	if now, err := c.Leader(ctx); err != nil || now != leader {
		return both, errors.Join(errors.New("another member leads than at the beginning: the figures are of no use"), err)
	}
	return both, nil
}

func passed(wires []*wire) (bytes int64) {
	for _, w := range wires {
		bytes += w.passed.Load()
	}
	return bytes
}

// ask sends requests of one kind to a member for a while. Every answer has to be right, and what was
// acknowledged has to be there.
func (b *bench) ask(ctx context.Context, cluster *members.Cluster, m *members.Member, r request) (a answered, err error) {
	c, err := cluster.ClientOf(m)
	if err != nil {
		return a, err
	}
	defer c.Close()
	value, written := randomValue(r.size), make([]map[string]int64, r.clients)
	put := func(ctx context.Context, client, i int) error {
		k := r.key(client, i)
		done, err := c.Put(ctx, k, value)
		if err == nil {
			written[client][k] = done.Header.Revision
		}
		return err
	}
	send := func(ctx context.Context, client, i int) error {
		k := r.key(client, i)
		got, err := c.Get(ctx, k, r.reads...)
		if err == nil && (len(got.Kvs) != 1 || string(got.Kvs[0].Value) != value || got.Kvs[0].ModRevision != written[client][k]) {
			err = fmt.Errorf("%s is not what was written", k)
		}
		return err
	}
	if r.writes() {
		send = put
	}
	for client := range written {
		written[client] = map[string]int64{}
	}
	if err := together(ctx, r.clients, func(ctx context.Context, client int) error { // connected, and something to read
		for i := range keysOfEach {
			if err := put(ctx, client, i); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return a, err
	}
	times, began := make([][]float64, r.clients), time.Now()
	end := began.Add(time.Duration(b.of(latencyMillis, latencyMillisQuick)) * time.Millisecond)
	if err := together(ctx, r.clients, func(ctx context.Context, client int) error {
		for i := 0; time.Now().Before(end); i++ {
			asked := time.Now()
			if err := send(ctx, client, i); err != nil {
				return err
			}
			times[client] = append(times[client], time.Since(asked).Seconds())
		}
		return nil
	}); err != nil {
		return a, err
	}
	a = answered{seconds: slices.Concat(times...), took: time.Since(began)}
	return a, r.check(ctx, c, value, written)
}

// key is one of those of a client.
func (r request) key(client, i int) string {
	return fmt.Sprintf("%s%03d/%02d", r.keys(), client, i%keysOfEach)
}

func (r request) keys() string { return fmt.Sprintf("/latency/%d/%d/", r.size, r.clients) }

// check looks for everything that was acknowledged.
func (r request) check(ctx context.Context, c *clientv3.Client, value string, written []map[string]int64) error {
	there, err := c.Get(ctx, r.keys(), clientv3.WithPrefix())
	if err != nil {
		return err
	}
	revisions := map[string]int64{}
	for _, kv := range there.Kvs {
		if string(kv.Value) == value {
			revisions[string(kv.Key)] = kv.ModRevision
		}
	}
	for _, of := range written {
		for k, rev := range of {
			if revisions[k] != rev {
				return fmt.Errorf("%s was acknowledged at revision %d and has revision %d", k, rev, revisions[k])
			}
		}
	}
	return nil
}

// together has clients do something at the same time.
func together(ctx context.Context, clients int, do func(context.Context, int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	for client := range clients {
		g.Go(func() error { return do(ctx, client) })
	}
	return g.Wait()
}

// randomValue is of letters.
func randomValue(size int) string {
	value := make([]byte, size)
	for i := range value {
		value[i] = 'a' + byte(rand.IntN(26))
	}
	return string(value)
}
