package neighbours

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/etcd/server/v3/embed"

	"druid.internal/druid/internal/agent/memberconf"
	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/etcd/member"
	"druid.internal/druid/internal/hosttest"
)

// startEtcd runs a real etcd of one member on free ports of 127.0.0.1.
func startEtcd(t *testing.T, change func(*embed.Config)) (endpoint string) {
	t.Helper()
	e := begin(t, change)
	if e == nil {
		t.FailNow()
	}
	t.Cleanup(e.Close)
	return "http://" + e.Clients[0].Addr().String()
}

// begin starts etcd and returns when it is ready. It may be called by any goroutine.
func begin(t *testing.T, change func(*embed.Config)) *embed.Etcd {
	t.Helper()
	cfg := embed.NewConfig()
	cfg.Dir = t.TempDir()
	cfg.LogLevel = "error"
	cfg.LogOutputs = []string{"/dev/null"}
	cfg.UnsafeNoFsync = true
	local := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{local}, []url.URL{local}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{local}, []url.URL{local}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	if change != nil {
		change(cfg)
	}
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		t.Error(err)
		return nil
	}
	select {
	case <-e.Server.ReadyNotify():
		return e
	case <-time.After(time.Minute):
		t.Error("etcd is not ready after a minute")
		e.Close()
		return nil
	}
}

// sidecar answers as the sidecar of a member, on its own address and a port all of them share.
func sidecar(t *testing.T, address string, m agentapi.Member) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != agentapi.MemberPath {
			http.NotFound(w, r)
			return
		}
		json.NewEncoder(w).Encode(m)
	})}}
	s.Start()
	t.Cleanup(s.Close)
}

func asker(t *testing.T, port int) *Asker {
	t.Helper()
	client, err := agentapi.NewClient("http://127.0.0.1:1", agentapi.ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	a := New(Options{Sidecar: client, Port: port, Etcd: member.Config{InsecureTransport: true}, Timeout: 20 * time.Second, EtcdTimeout: 20 * time.Second})
	t.Cleanup(func() { a.Close() })
	return a
}

// closed is an endpoint where nobody listens.
func closed() string { return "http://" + hosttest.Nobody() }

func TestEveryWantedMemberIsAsked(t *testing.T) {
	running := startEtcd(t, nil)
	second := agentapi.Member{Name: "etcd-1", Data: agentapi.Data{State: agentapi.DataValid, Revision: 7}}
	one, two := hosttest.Own(), hosttest.Own()
	sidecar(t, one+":8080", second)
	sidecar(t, two+":8080", agentapi.Member{Name: "somebody else"})
	a := asker(t, 8080)
	wanted := []memberconf.Peer{
		{Name: "etcd-0", ClientURLs: []string{closed(), running}},
		{Name: "etcd-1", ClientURLs: []string{"http://" + one + ":2379"}},
		{Name: "etcd-2", ClientURLs: []string{"http://" + two + ":2379"}},
		{Name: "etcd-3", ClientURLs: []string{closed()}},
		{Name: "etcd-4"},
	}
	v := a.Look(t.Context(), wanted, "etcd-0")
	if len(v.Sidecars) != 4 {
		t.Errorf("%d sidecars were asked, want the 4 others", len(v.Sidecars))
	}
	if diff := cmp.Diff(second, v.Sidecars["etcd-1"].Member); diff != "" || v.Sidecars["etcd-1"].Err != nil {
		t.Errorf("the sidecar of etcd-1 (-want +got):\n%s%v", diff, v.Sidecars["etcd-1"].Err)
	}
	for name, want := range map[string]string{"etcd-2": "somebody else", "etcd-3": "etcd-3", "etcd-4": "no client URL"} {
		if err := v.Sidecars[name].Err; err == nil || !strings.Contains(err.Error(), want) || v.Sidecars[name].Member.Name != "" {
			t.Errorf("the sidecar of %s answered %v, %v; want an error with %q", name, v.Sidecars[name].Member, err, want)
		}
	}
	clusters := v.Clusters()
	if len(clusters) != 1 || len(clusters[0].Peers) != 1 || !cmp.Equal(clusters[0].Endpoints, []string{running}) {
		t.Fatalf("clusters %+v, want the one at %s", clusters, running)
	}
	if e, ok := v.Etcd("etcd-0"); !ok || e.Endpoint != running || e.Status.ClusterID != clusters[0].ClusterID {
		t.Errorf("the etcd of etcd-0: %+v", e)
	}
	for _, name := range []string{"etcd-1", "etcd-2", "etcd-3", "etcd-4"} {
		if e, ok := v.Etcd(name); ok {
			t.Errorf("the etcd of %s answers: %+v", name, e)
		}
	}
}

// The configuration may name other client URLs before the etcds are restarted with them.
func TestAnEtcdIsAskedWhereItsSidecarSaysThatItServes(t *testing.T) {
	host := hosttest.Own()
	running := startEtcd(t, func(c *embed.Config) {
		u := []url.URL{{Scheme: "http", Host: host + ":2479"}}
		c.ListenClientUrls, c.AdvertiseClientUrls = u, u
	})
	for phrase, c := range map[string]struct {
		id      string
		told    []string
		answers bool
	}{
		"at another port":           {"a", []string{running}, true},
		"at one of two":             {"a", []string{"http://" + host + ":2480", running}, true},
		"without TLS any more":      {"a", []string{strings.Replace(running, "http:", "https:", 1)}, false},
		"at another host":           {"a", []string{startEtcd(t, nil)}, false},
		"of another member":         {"b", []string{running}, false},
		"nowhere":                   {"a", nil, false},
		"at what is no URL":         {"a", []string{"http://%zz"}, false},
		"at the one that is wanted": {"a", []string{"http://" + host + ":2379"}, false},
	} {
		t.Run(phrase, func(t *testing.T) {
			m := agentapi.Member{Name: "etcd-1", ID: "a", Etcd: &agentapi.Etcd{Members: []agentapi.Listed{{ID: c.id, Name: "etcd-1", ClientURLs: c.told}}}}
			sidecar(t, host+":8080", m)
			v := asker(t, 8080).Look(t.Context(), []memberconf.Peer{{Name: "etcd-0", ClientURLs: []string{closed()}}, {Name: "etcd-1", ClientURLs: []string{"http://" + host + ":2379"}}}, "etcd-0")
			if e, ok := v.Etcd("etcd-1"); ok != c.answers || ok && e.Endpoint != running {
				t.Errorf("it answers: %t at %s (%v), want %t", ok, e.Endpoint, e.Err, c.answers)
			}
		})
	}
}

func TestTheEtcdsOutsideAreAskedToo(t *testing.T) {
	running, nobody := startEtcd(t, nil), closed()
	a := asker(t, 1)
	a.outside = func() []string { return []string{nobody, running} }
	v := a.Look(t.Context(), []memberconf.Peer{{Name: "etcd-0", ClientURLs: []string{closed()}}}, "etcd-0")
	if len(v.Outside) != 2 || v.Outside[0].Err == nil || v.Outside[0].Endpoint != nobody || v.Outside[1].Err != nil {
		t.Errorf("outside answers %+v", v.Outside)
	}
	if c := v.Clusters(); len(c) != 1 || !cmp.Equal(c[0].Endpoints, []string{running}) {
		t.Errorf("clusters %+v, want the one at %s", c, running)
	}
	if e, ok := v.Etcd("etcd-0"); ok {
		t.Errorf("the own etcd is taken to be %+v", e)
	}
}

func TestAnEtcdWithoutMajorityIsNoClusterThatDecides(t *testing.T) {
	peers := []string{closed(), closed()}
	start := func(i int) *embed.Etcd {
		return begin(t, func(cfg *embed.Config) {
			u, err := url.Parse(peers[i])
			if err != nil {
				t.Error(err)
				return
			}
			cfg.Name = "etcd-" + strconv.Itoa(i)
			cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{*u}, []url.URL{*u}
			cfg.InitialCluster = "etcd-0=" + peers[0] + ",etcd-1=" + peers[1]
		})
	}
	other := make(chan *embed.Etcd, 1)
	go func() { other <- start(1) }()
	first := start(0)
	second := <-other
	if first == nil || second == nil {
		t.FailNow()
	}
	t.Cleanup(first.Close)
	endpoint := "http://" + first.Clients[0].Addr().String()
	a, wanted := asker(t, 1), []memberconf.Peer{{Name: "etcd-0", ClientURLs: []string{endpoint}}}
	for len(a.Look(t.Context(), wanted, "etcd-0").Clusters()) == 0 {
		if t.Context().Err() != nil {
			t.Fatal("the cluster never decided")
		}
	}
	second.Close()
	a.quick = 5 * time.Second // for what the etcd knows by itself; the majority is waited for until then
	v := a.Look(t.Context(), wanted, "etcd-0")
	e, ok := v.Etcd("etcd-0")
	if !ok || e.Members != nil || !errors.Is(e.Silence, member.ErrNoLeader) {
		t.Errorf("it answers: %t, with %+v", ok, e)
	}
	if got := v.Clusters(); len(got) != 0 {
		t.Errorf("clusters that decide: %+v, want none", got)
	}
}

func TestAnEtcdThatAcceptsButSaysNothingHoldsNobodyUp(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a := asker(t, 1)
	a.quick = 50 * time.Millisecond // the others would wait for 20 s
	v := a.Look(t.Context(), []memberconf.Peer{{Name: "etcd-0", ClientURLs: []string{"http://" + l.Addr().String()}}}, "etcd-0")
	if _, ok := v.Etcd("etcd-0"); ok {
		t.Error("it answered")
	}
}

func TestAnEtcdThatStartsLaterIsFoundByTheNextLook(t *testing.T) {
	endpoint := closed()
	a := asker(t, 1)
	wanted := []memberconf.Peer{{Name: "etcd-0", ClientURLs: []string{endpoint}}}
	for range 5 { // so that a connection that is kept would wait before it tries again
		if got := a.Look(t.Context(), wanted, "etcd-0").Clusters(); len(got) != 0 {
			t.Fatalf("nobody listens, but there is %+v", got)
		}
	}
	u, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	startEtcd(t, func(cfg *embed.Config) { cfg.ListenClientUrls = []url.URL{*u} })
	for a.Look(t.Context(), wanted, "etcd-0").Clusters() == nil {
		if t.Context().Err() != nil {
			t.Fatal("never found")
		}
	}
}

func TestTwoClustersAreToldApart(t *testing.T) {
	first, second := startEtcd(t, nil), startEtcd(t, func(cfg *embed.Config) { cfg.InitialClusterToken = "other" })
	v := asker(t, 1).Look(t.Context(), []memberconf.Peer{
		{Name: "etcd-0", ClientURLs: []string{first}}, {Name: "etcd-1", ClientURLs: []string{second}}}, "etcd-0")
	if got := v.Clusters(); len(got) != 2 || got[0].ClusterID >= got[1].ClusterID {
		t.Errorf("clusters %+v, want two in order", got)
	}
}

func TestChangesGoThroughAnEndpointThatDecides(t *testing.T) {
	running, dead := startEtcd(t, nil), closed()
	a := asker(t, 1)
	ctx, endpoints := t.Context(), []string{dead, running}
	added, err := a.AddLearner(ctx, endpoints, []string{"http://127.0.0.1:9"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.AddLearner(ctx, endpoints, []string{"http://127.0.0.1:10"}); !errors.Is(err, member.ErrTooManyLearners) {
		t.Errorf("a second learner: %v", err)
	}
	ms, err := a.Members(ctx, endpoints)
	if p, ok := ms.ByID(added.ID); err != nil || !ok || !p.Learner {
		t.Errorf("members %+v, %v, want the learner %x", ms, err, added.ID)
	}
	self, moved := ms.Peers[0], []string{"http://127.0.0.1:11"}
	if self.ID == added.ID {
		self = ms.Peers[1]
	}
	if err := a.UpdatePeerURLs(ctx, endpoints, self.ID, moved); err != nil {
		t.Error(err)
	}
	ms, err = a.Members(ctx, endpoints)
	if p, ok := ms.ByID(self.ID); err != nil || !ok || !slices.Equal(p.PeerURLs, moved) {
		t.Errorf("members %+v, %v, want %x at %q", ms, err, self.ID, moved)
	}
	if err := a.Remove(ctx, endpoints, added.ID); err != nil {
		t.Error(err)
	}
	if ms, err := a.Members(ctx, endpoints); err != nil || len(ms.Peers) != 1 {
		t.Errorf("after the removal: %+v, %v", ms, err)
	}
	for name, endpoints := range map[string][]string{"nobody": nil, "one who does not answer": {dead}} {
		if err := a.Remove(ctx, endpoints, added.ID); !errors.Is(err, member.ErrUnreachable) {
			t.Errorf("asking %s: %v", name, err)
		}
	}
}

func TestALookEndsWithItsTime(t *testing.T) {
	a := asker(t, 1)
	asked := make(chan struct{}, 1)
	a.sidecar = func(ctx context.Context, _ string) (agentapi.Member, error) {
		asked <- struct{}{}
		<-ctx.Done()
		return agentapi.Member{}, ctx.Err()
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-asked; cancel() }()
	v := a.Look(ctx, []memberconf.Peer{{Name: "etcd-0", ClientURLs: []string{closed()}}}, "etcd-1")
	if err := v.Sidecars["etcd-0"].Err; !errors.Is(err, context.Canceled) {
		t.Errorf("the sidecar that never answers: %v", err)
	}
}
