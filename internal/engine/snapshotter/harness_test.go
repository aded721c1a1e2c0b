package snapshotter

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/engine/catalog"
	"druid.internal/druid/internal/etcd/member"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/storetest"
)

const prefix = "ns--uid/etcd-main"

// patience is how long a test waits for a fact before it fails.
const patience = time.Minute

// etcd is a real etcd with a client.
type etcd struct {
	t       *testing.T
	server  *embed.Etcd
	client  *clientv3.Client
	cluster *member.Cluster
	close   func() // before the test ends
}

func newEtcd(t *testing.T) *etcd {
	t.Helper()
	cfg := embed.NewConfig()
	cfg.Dir = filepath.Join(t.TempDir(), "data")
	return runEtcd(t, cfg)
}

func runEtcd(t *testing.T, cfg *embed.Config) *etcd {
	t.Helper()
	cfg.LogLevel, cfg.LogOutputs = "error", []string{"/dev/null"}
	cfg.UnsafeNoFsync = true
	local := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{local}, []url.URL{local}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{local}, []url.URL{local}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	server, err := embed.StartEtcd(cfg)
	if err != nil {
		t.Fatal(err)
	}
	stop := sync.OnceFunc(server.Close)
	t.Cleanup(stop)
	select {
	case <-server.Server.ReadyNotify():
	case <-time.After(patience):
		t.Fatal("etcd does not get ready")
	}
	endpoint := "http://" + server.Clients[0].Addr().String()
	cluster, err := member.New(member.Config{Endpoints: []string{endpoint}, InsecureTransport: true, DialTimeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cluster.Close() })
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, DialTimeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return &etcd{t: t, server: server, client: client, cluster: cluster, close: stop}
}

func (e *etcd) connect(ctx context.Context) (Member, error) { return e.cluster.Member(ctx) }

// put writes n keys and returns the last revision.
func (e *etcd) put(n int) snapshot.Revision {
	e.t.Helper()
	var last int64
	for i := range n {
		r, err := e.client.Put(e.t.Context(), fmt.Sprintf("key/%d", i%7), fmt.Sprintf("value %d", i))
		if err != nil {
			e.t.Fatal(err)
		}
		last = r.Header.Revision
	}
	return snapshot.Revision(last)
}

func (e *etcd) compact(rev snapshot.Revision) {
	e.t.Helper()
	if _, err := e.client.Compact(e.t.Context(), int64(rev), clientv3.WithCompactPhysical()); err != nil {
		e.t.Fatal(err)
	}
}

func (e *etcd) revision() snapshot.Revision {
	e.t.Helper()
	r, err := e.client.Get(e.t.Context(), "x")
	if err != nil {
		e.t.Fatal(err)
	}
	return snapshot.Revision(r.Header.Revision)
}

// history is every event from a revision on, as etcd tells it.
func (e *etcd) history(from, to snapshot.Revision) []*mvccpb.Event {
	e.t.Helper()
	if from > to {
		return nil
	}
	m, err := e.cluster.Member(e.t.Context())
	if err != nil {
		e.t.Fatal(err)
	}
	enough := errors.New("enough")
	var all []*mvccpb.Event
	err = m.WatchAll(e.t.Context(), from, member.WatchPace{}, func(b member.Batch) error {
		for _, ev := range b.Events {
			if snapshot.Revision(ev.Kv.ModRevision) <= to {
				all = append(all, ev)
			}
		}
		if b.Known >= to && len(all) > 0 && snapshot.Revision(all[len(all)-1].Kv.ModRevision) == to {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) {
		e.t.Fatal(err)
	}
	return all
}

// memoryIdentity is an IdentityFile without a file.
type memoryIdentity struct {
	mu    sync.Mutex
	id    Identity
	found bool

	cluster uint64 // of the data; 0: they do not record it
}

func (m *memoryIdentity) ClusterID() (uint64, error) { return m.cluster, nil }

func (m *memoryIdentity) Load() (Identity, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.id, m.found, nil
}

func (m *memoryIdentity) Store(id Identity) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.id, m.found = id, true
	return nil
}

// events collects what a snapshotter tells.
type events struct {
	mu  sync.Mutex
	all []Event
}

func (e *events) add(ev Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, ev)
}

func (e *events) has(code EventCode) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.ContainsFunc(e.all, func(ev Event) bool { return ev.Code == code })
}

// running is a snapshotter at work.
type running struct {
	*Snapshotter
	t      *testing.T
	cancel context.CancelFunc
	done   chan struct{}
	err    error
	events *events
}

func config(e *etcd, s store.Store) Config {
	return Config{
		Connect: e.connect, Store: s, Prefix: prefix, Compression: snapshot.Zstd, DeltaPeriod: 20 * time.Millisecond,
		Retry: Backoff{First: time.Millisecond, Max: 20 * time.Millisecond}, Writer: "test", SpillDir: e.t.TempDir(),
	}
}

func start(t *testing.T, cfg Config) *running {
	t.Helper()
	r := &running{t: t, done: make(chan struct{}), events: &events{}}
	tell := cfg.OnEvent
	cfg.OnEvent = func(ev Event) {
		r.events.add(ev)
		if tell != nil {
			tell(ev)
		}
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r.Snapshotter = s
	ctx, cancel := context.WithCancel(t.Context())
	r.cancel = cancel
	go func() {
		defer close(r.done)
		r.err = s.Run(ctx)
	}()
	t.Cleanup(func() { r.stop() })
	return r
}

func (r *running) stop() error {
	r.cancel()
	<-r.done
	return r.err
}

// delta asks for a delta until it succeeds.
func (r *running) delta() *Taken {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	for {
		t, err := r.TakeDelta(ctx)
		if err == nil {
			return t
		}
		if ctx.Err() != nil || errors.Is(err, ErrOwned) {
			r.t.Fatal(err)
		}
	}
}

func (r *running) full(final bool) Taken {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	for {
		t, err := r.TakeFull(ctx, final)
		if err == nil {
			return t
		}
		if ctx.Err() != nil || errors.Is(err, ErrOwned) {
			r.t.Fatal(err)
		}
	}
}

// delivered waits until the newest full is such as is wanted.
func (r *running) delivered(is func(*Taken) bool) Taken {
	r.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(2 * time.Millisecond) { // between two looks
		if s := r.Standing(); is(s.LastFull) {
			return *s.LastFull
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("after %s the newest full still is %+v", patience, r.Standing().LastFull)
		}
	}
}

// until waits for a fact about the bucket.
func until(t *testing.T, s store.Reader, what string, fact func(*catalog.Catalog) bool) *catalog.Catalog {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		c := read(t, s)
		if fact(c) {
			return c
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %s still not: %s\n%v", patience, what, names(c))
		}
		time.Sleep(2 * time.Millisecond) // between two looks at the bucket
	}
}

func read(t *testing.T, s store.Reader) *catalog.Catalog {
	t.Helper()
	c, err := catalog.Read(t.Context(), s, prefix, catalog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func names(c *catalog.Catalog) []string {
	var all []string
	for _, o := range c.Listing.Objects {
		all = append(all, o.Key.Name.String())
	}
	return all
}

func fulls(c *catalog.Catalog) int {
	n := 0
	for _, o := range c.Listing.Objects {
		if o.Key.Name.Kind == snapshot.Full {
			n++
		}
	}
	return n
}

// newest is the newest lineage that has a usable full, and its newest chain.
func newest(c *catalog.Catalog) (timeline.Lineage, timeline.Chain, bool) {
	for _, l := range c.Timeline.Lineages {
		if chains := l.Chains(); len(chains) > 0 {
			return l, chains[0], true
		}
	}
	return timeline.Lineage{}, timeline.Chain{}, false
}

func withLease(id clientv3.LeaseID) clientv3.OpOption { return clientv3.WithLease(id) }

func memory() *storetest.Memory { return storetest.NewMemory(storetest.S3Like()) }
