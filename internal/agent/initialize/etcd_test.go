package initialize

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"druid.internal/druid/internal/agent/memberconf"
	"druid.internal/druid/internal/agent/neighbours"
	"druid.internal/druid/internal/agent/status"
	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/etcd/datadir"
	"druid.internal/druid/internal/etcd/member"
	"druid.internal/druid/internal/hosttest"
)

// site is a member with a real data directory, a real etcd, and a sidecar of which there is only
// what this package is about.
type site struct {
	t       *testing.T
	name    string
	dir     string // of the data
	client  string // URL
	machine *Machine
	board   *status.Board
	etcd    *embed.Etcd
}

// sites are n members on loopback addresses of their own.
func sites(t *testing.T, n int) []*site {
	t.Helper()
	var out []*site
	var hosts, initial, clients, listenPeer []string
	for i := range n {
		host := hosttest.Own()
		hosts = append(hosts, host)
		peer, client := "http://"+host+":2380", "http://"+host+":2379"
		initial, clients, listenPeer = append(initial, nameOf(i)+"="+peer), append(clients, nameOf(i)+": "+client), append(listenPeer, peer)
		out = append(out, &site{t: t, name: nameOf(i), client: client, dir: filepath.Join(t.TempDir(), "new.etcd")})
	}
	for i, s := range out {
		text := fmt.Sprintf("data-dir: %s\nlog-level: error\nlog-outputs: [%s]\nunsafe-no-fsync: true\nlisten-peer-urls: %s\nlisten-client-urls: %s\ninitial-cluster: %s\nadvertise-client-urls: {%s}\n",
			s.dir, os.DevNull, listenPeer[i], s.client, strings.Join(initial, ","), strings.Join(clients, ", "))
		tm, err := memberconf.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		s.serve(tm, hosts[i]+":8080")
	}
	return out
}

// serve runs the sidecar until the test ends.
func (s *site) serve(tm *memberconf.Template, address string) {
	t := s.t
	s.board = status.New(s.name, time.Now, nil)
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { json.NewEncoder(w).Encode(s.board.Get()) })}
	var all sync.WaitGroup
	all.Go(func() { server.Serve(l) })
	client, err := agentapi.NewClient("http://"+address, agentapi.ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	asker := neighbours.New(neighbours.Options{Sidecar: client, Port: port, Etcd: member.Config{InsecureTransport: true}})
	s.machine = New(Options{
		Name: s.name, Template: func() (*memberconf.Template, error) { return tm, nil }, Directory: DirectoryOf(s.dir, "", time.Now),
		Journals: FileJournal(s.dir), Others: asker, Board: s.board,
	})
	ctx, cancel := context.WithCancel(context.Background())
	all.Go(func() { s.machine.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		server.Close()
		all.Wait()
		asker.Close()
	})
}

// start initializes the member and starts its etcd as the machine says. Any goroutine may call it.
func (s *site) start(mode agentapi.ValidationMode) error {
	s.machine.Acknowledge()
	s.machine.Start(mode)
	for end := time.Now().Add(time.Minute); s.machine.Status() == agentapi.InitProgress; {
		if time.Now().After(end) {
			return fmt.Errorf("%s: still not initialized: %s", s.name, s.board.Get().Waiting)
		}
		<-time.After(10 * time.Millisecond)
	}
	config, err := s.machine.Config(s.t.Context())
	if err != nil {
		return fmt.Errorf("%s: %w: %s", s.name, err, s.board.Get().Waiting)
	}
	path := filepath.Join(s.t.TempDir(), "etcd.conf.yaml")
	if err := os.WriteFile(path, config, 0o600); err != nil {
		return err
	}
	cfg, err := embed.ConfigFromFile(path)
	if err != nil {
		return fmt.Errorf("%s: %w in\n%s", s.name, err, config)
	}
	if s.etcd, err = embed.StartEtcd(cfg); err != nil {
		return fmt.Errorf("%s: %w with\n%s", s.name, err, config)
	}
	select {
	case <-s.etcd.Server.ReadyNotify():
		return nil
	case <-time.After(time.Minute):
		return fmt.Errorf("%s: etcd is not ready after a minute", s.name)
	}
}

func (s *site) stop() {
	if s.etcd != nil {
		s.etcd.Close()
		s.etcd = nil
	}
}

// startAll starts members at the same time.
func startAll(t *testing.T, all []*site, mode agentapi.ValidationMode) {
	t.Helper()
	errs := make(chan error, len(all))
	for _, s := range all {
		go func() { errs <- s.start(mode) }()
	}
	for range all {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
}

func (s *site) connect() *clientv3.Client {
	s.t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{s.client}, DialTimeout: 10 * time.Second, Logger: zap.NewNop()})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	return c
}

// promote gives the learner a vote as soon as it has caught up.
func promote(t *testing.T, through *site, id uint64) {
	t.Helper()
	c := through.connect()
	until(t, "the learner votes", func() bool {
		_, err := c.MemberPromote(t.Context(), id)
		return err == nil
	})
}

func TestThreeMembersBeginLoseOneAndRestart(t *testing.T) {
	all := sites(t, 3)
	t.Cleanup(func() {
		for _, s := range all {
			s.stop()
		}
	})
	startAll(t, all, agentapi.ValidateFull)
	cluster := uint64(all[0].etcd.Server.Cluster().ID())
	c := all[0].connect()
	until(t, "the cluster takes a write", func() bool { // its first leader may not last
		_, err := c.Put(t.Context(), "key", "kept")
		return err == nil
	})
	for _, s := range all {
		if got := uint64(s.etcd.Server.Cluster().ID()); got != cluster {
			t.Errorf("%s began cluster %x, and etcd-0 %x", s.name, got, cluster)
		}
	}

	// One data directory is lost: the member joins as a learner under a new id.
	old := all[2].etcd.Server.MemberID()
	all[2].stop()
	if err := os.RemoveAll(all[2].dir); err != nil {
		t.Fatal(err)
	}
	startAll(t, all[2:], agentapi.ValidateFull)
	if id := all[2].etcd.Server.MemberID(); id == old || !all[2].etcd.Server.IsLearner() || uint64(all[2].etcd.Server.Cluster().ID()) != cluster {
		t.Errorf("it came back as %s, learner %t, of cluster %s", id, all[2].etcd.Server.IsLearner(), all[2].etcd.Server.Cluster().ID())
	}
	promote(t, all[0], uint64(all[2].etcd.Server.MemberID()))
	if got := len(all[0].etcd.Server.Cluster().Members()); got != 3 {
		t.Errorf("the cluster has %d members", got)
	}

	// One log is torn in the middle: the same, and what was there is kept.
	all[1].stop()
	logs, err := filepath.Glob(filepath.Join(all[1].dir, "member", "wal", "*.wal"))
	if err != nil || len(logs) == 0 {
		t.Fatal(logs, err)
	}
	if err := os.Truncate(logs[0], 0); err != nil {
		t.Fatal(err)
	}
	startAll(t, all[1:2], agentapi.ValidateFull)
	if aside, err := datadir.Aside(all[1].dir); err != nil || len(aside) != 1 {
		t.Errorf("set aside: %v, %v", aside, err)
	}
	promote(t, all[0], uint64(all[1].etcd.Server.MemberID()))

	// All of them are stopped and come back at the same time.
	for _, s := range all {
		s.stop()
	}
	startAll(t, all, agentapi.ValidateSanity)
	got, err := all[1].connect().Get(t.Context(), "key")
	if err != nil || len(got.Kvs) != 1 || string(got.Kvs[0].Value) != "kept" {
		t.Errorf("the key is %v, %v", got, err)
	}
}

func TestAMemberWithDataNeverComesBackWithoutThem(t *testing.T) {
	all := sites(t, 1)
	t.Cleanup(all[0].stop)
	startAll(t, all, agentapi.ValidateFull)
	all[0].stop()
	s := all[0]
	s.machine.Acknowledge()
	s.machine.Start(agentapi.ValidateFull)
	until(t, "it is initialized", func() bool { return s.machine.Status() == agentapi.InitSuccessful })
	if err := os.RemoveAll(s.dir); err != nil { // after the decision to start with them
		t.Fatal(err)
	}
	config, err := s.machine.Config(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "etcd.conf.yaml")
	if err := os.WriteFile(path, config, 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := embed.ConfigFromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if e, err := embed.StartEtcd(cfg); err == nil {
		e.Close()
		t.Error("etcd began anew")
	}
}
