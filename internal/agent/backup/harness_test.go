package backup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"druid.internal/druid/internal/agent/metrics"
	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/backup/restoreplan"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/engine/catalog"
	"druid.internal/druid/internal/engine/replay"
	"druid.internal/druid/internal/engine/snapshotter"
	"druid.internal/druid/internal/engine/verifier"
	"druid.internal/druid/internal/etcd/member"
	"druid.internal/druid/internal/hosttest"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/storetest"
)

const prefix = "ns--uid/etcd-main"

// patience is how long a test waits for a fact before it fails.
const patience = time.Minute

// etcds is a cluster of real etcds.
type etcds struct {
	t       *testing.T
	servers []*embed.Etcd
	dirs    []string
	client  *clientv3.Client
}

// newEtcds starts n members.
func newEtcds(t *testing.T, n int) *etcds {
	t.Helper()
	var configs []*embed.Config
	var all []string
	for i := range n {
		cfg := embed.NewConfig()
		cfg.Name, cfg.Dir = fmt.Sprintf("etcd-main-%d", i), filepath.Join(t.TempDir(), "data")
		cfg.LogLevel, cfg.LogOutputs = "panic", []string{"/dev/null"}
		cfg.UnsafeNoFsync = true
		host := hosttest.Own()
		peer, client := url.URL{Scheme: "http", Host: host + ":2380"}, url.URL{Scheme: "http", Host: host + ":2379"}
		cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
		cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
		all = append(all, cfg.Name+"="+peer.String())
		configs = append(configs, cfg)
	}
	e := &etcds{t: t}
	var endpoints []string
	for _, cfg := range configs {
		cfg.InitialCluster = strings.Join(all, ",")
		server, err := embed.StartEtcd(cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(server.Close)
		e.servers, e.dirs = append(e.servers, server), append(e.dirs, cfg.Dir)
		endpoints = append(endpoints, cfg.AdvertiseClientUrls[0].String())
	}
	for _, s := range e.servers {
		select {
		case <-s.Server.ReadyNotify():
		case <-time.After(patience):
			t.Fatal("etcd does not get ready")
		}
	}
	var err error
	e.client, err = clientv3.New(clientv3.Config{Endpoints: endpoints, DialTimeout: patience, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.client.Close() })
	return e
}

func (e *etcds) endpoint(i int) string {
	return e.servers[i].Config().AdvertiseClientUrls[0].String()
}

// cluster is what member i knows of itself and the others.
func (e *etcds) cluster(i int) *member.Cluster {
	e.t.Helper()
	c, err := member.New(member.Config{Endpoints: []string{e.endpoint(i)}, InsecureTransport: true, DialTimeout: 10 * time.Second})
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() { c.Close() })
	return c
}

// put writes n keys and returns the last revision that was acknowledged.
func (e *etcds) put(n int) snapshot.Revision {
	e.t.Helper()
	var last int64
	for i := range n {
		for deadline := time.Now().Add(patience); ; {
			ctx, cancel := context.WithTimeout(e.t.Context(), 5*time.Second)
			r, err := e.client.Put(ctx, fmt.Sprintf("key/%d", i%17), fmt.Sprintf("value %d", i))
			cancel()
			if err == nil {
				last = r.Header.Revision
				break
			}
			if time.Now().After(deadline) {
				e.t.Fatal(err)
			}
		}
	}
	return snapshot.Revision(last)
}

// leader waits for one and is its index.
func (e *etcds) leader() int {
	e.t.Helper()
	for deadline := time.Now().Add(patience); ; {
		for i, s := range e.servers {
			if id := s.Server.Leader(); id != 0 && id == s.Server.MemberID() {
				return i
			}
		}
		if time.Now().After(deadline) {
			e.t.Fatal("nobody leads")
		}
		time.Sleep(5 * time.Millisecond) // between two looks
	}
}

// hand moves leadership to member i and waits until the others know.
func (e *etcds) hand(i int) {
	e.t.Helper()
	to := uint64(e.servers[i].Server.MemberID())
	for deadline := time.Now().Add(patience); ; {
		from := e.leader()
		if from == i {
			return
		}
		m, err := e.cluster(from).At(e.endpoint(from))
		if err != nil {
			e.t.Fatal(err)
		}
		if err = m.MoveLeader(e.t.Context(), to); err == nil {
			return
		}
		if time.Now().After(deadline) {
			e.t.Fatal(err)
		}
	}
}

// board is what is told about a member.
type board struct {
	mu     sync.Mutex
	member agentapi.Member
}

func (b *board) update(fn func(*agentapi.Member)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	fn(&b.member)
}

func (b *board) now() agentapi.Member {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.member
}

// sidecar is a Leader that runs.
type sidecar struct {
	*Leader
	t        *testing.T
	board    *board
	registry *prometheus.Registry
	cancel   context.CancelFunc
	done     chan struct{}
	err      error
}

// config is of member i; the store is opened by from.
func (e *etcds) config(i int, from Source) Config {
	e.t.Helper()
	c := e.cluster(i)
	log := slog.New(slog.DiscardHandler)
	if os.Getenv("BACKUP_TEST_LOG") != "" {
		log = slog.New(slog.NewTextHandler(os.Stderr, nil)).With("member", i)
	}
	return Config{
		Local: LocalOf(c, e.endpoint(i)), Voters: VotersOf(c, func(member.Peer) bool { return false }), Store: from, Prefix: prefix,
		Snapshots: snapshotter.Config{
			Data: snapshotter.DataDir(e.dirs[i]), Compression: snapshot.Zstd, DeltaPeriod: 20 * time.Millisecond, SpillDir: e.t.TempDir(),
			Retry: snapshotter.Backoff{First: time.Millisecond, Max: 20 * time.Millisecond}, Writer: "test",
		},
		LookEvery: 20 * time.Millisecond, ScratchDir: e.t.TempDir(), Log: log,
	}
}

func to(s store.Store) Source {
	return Source{Open: func(context.Context) (store.Store, error) { return s, nil }}
}

func run(t *testing.T, cfg Config) *sidecar {
	t.Helper()
	s := &sidecar{t: t, board: &board{}, registry: prometheus.NewRegistry(), done: make(chan struct{})}
	cfg.Update = s.board.update
	cfg.Metrics = metrics.New(s.registry, cfg.Now)
	cfg.Snapshots.Metrics = snapshotter.NewMetrics(s.registry)
	var err error
	if s.Leader, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	var ctx context.Context
	ctx, s.cancel = context.WithCancel(t.Context())
	go func() {
		defer close(s.done)
		s.err = s.Run(ctx)
	}()
	t.Cleanup(func() {
		if err := s.stop(); err != nil {
			t.Errorf("the sidecar ended with %v", err)
		}
	})
	return s
}

func (s *sidecar) stop() error {
	s.cancel()
	<-s.done
	return s.err
}

// metric is the value of a metric by its name and labels, as name{label="value"}.
func (s *sidecar) metric(name string, labels ...string) (float64, bool) {
	s.t.Helper()
	families, err := s.registry.Gather()
	if err != nil {
		s.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			var told []string
			for _, l := range m.GetLabel() {
				told = append(told, l.GetName()+"="+l.GetValue())
			}
			if strings.Join(told, " ") != strings.Join(labels, " ") {
				continue
			}
			if m.GetCounter() != nil {
				return m.GetCounter().GetValue(), true
			}
			return m.GetGauge().GetValue(), true
		}
	}
	return 0, false
}

// until waits for a fact.
func until(t *testing.T, what string, fact func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !fact(); {
		if time.Now().After(deadline) {
			t.Fatalf("after %s still not: %s", patience, what)
		}
		time.Sleep(2 * time.Millisecond) // between two looks
	}
}

func memory() *storetest.Memory { return storetest.NewMemory(storetest.S3Like()) }

func look(t *testing.T, s store.Reader, prefix snapshot.Prefix) *catalog.Catalog {
	t.Helper()
	c, err := catalog.Read(t.Context(), s, prefix, catalog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// reaches waits until the newest chain in the bucket ends at rev or later.
func reaches(t *testing.T, s store.Reader, rev snapshot.Revision) timeline.Chain {
	t.Helper()
	var chain timeline.Chain
	until(t, fmt.Sprintf("the bucket reaches revision %d", rev), func() bool {
		var ok bool
		lineages := look(t, s, prefix).Timeline.Lineages
		if len(lineages) > 0 {
			chain, ok = lineages[0].NewestChain()
		}
		return ok && chain.End >= rev
	})
	return chain
}

// whole proves that there is one lineage without gaps, and that each of its chains restores.
func whole(t *testing.T, s store.Reader, rev snapshot.Revision) {
	t.Helper()
	c := look(t, s, prefix)
	if n := len(c.Timeline.Lineages); n != 1 {
		t.Errorf("the bucket has %d lineages, want 1", n)
	}
	for _, f := range c.Timeline.Findings {
		if f.Severity != timeline.Info || f.Code == timeline.Gap || f.Code == timeline.Hole {
			t.Errorf("finding: %s", f)
		}
	}
	report, err := verifier.Verify(t.Context(), verifier.Request{From: replay.Options{Store: s, Timeline: c.Timeline, Target: restoreplan.Latest()}, All: true, ScratchDir: t.TempDir()})
	if err != nil {
		t.Fatalf("%v: %+v", err, report)
	}
	end := snapshot.Revision(0)
	for _, chain := range report.Chains {
		end = max(end, chain.End)
	}
	if end < rev {
		t.Errorf("what restores ends at revision %d, want %d", end, rev)
	}
}

// asked does what may fail while leadership moves until it succeeds.
func asked[T any](t *testing.T, do func(context.Context) (T, error)) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		v, err := do(ctx)
		if err == nil {
			return v
		}
		if ctx.Err() != nil || !errors.Is(err, agentapi.ErrNotLeader) {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Millisecond) // between two attempts
	}
}
