package serve

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/agentapi/auth"
	"druid.internal/druid/internal/agentapi/auth/authtest"
)

const (
	goodToken  = "GOODgoodGOODgoodGOODgood"
	wrongToken = "WRONGwrongWRONGwrongWRONG"
)

// patience is what a test waits for a fact at most.
const patience = time.Minute

var moment = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// canned answers with fixed values, and says that this is the leader.
func canned() Handlers {
	full := agentapi.Snapshot{CreatedOn: moment, Kind: "Full", SnapName: "Full-00000000-00009002-1767323045.gz", Prefix: "etcd-main/v2", CompressionSuffix: ".gz", LastRevision: 9002}
	return Handlers{
		InitStart:       func(agentapi.ValidationMode) error { return nil },
		InitStatus:      func() agentapi.InitState { return agentapi.InitNew },
		InitAcknowledge: func() error { return nil },
		Config:          func(context.Context) ([]byte, error) { return []byte("name: etcd-main-0\n"), nil },
		Healthy:         func() bool { return true },
		Member:          func(context.Context) agentapi.Member { return agentapi.Member{Name: "etcd-main-0"} },
		Operations:      func() []agentapi.Operation { return nil },
		Metrics:         http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "up 1\n") }),
		Defragment: func(context.Context) (agentapi.Operation, error) {
			return agentapi.Operation{Kind: "defragment", Status: agentapi.InProgress, Start: moment}, nil
		},
		Refuse: func(_ context.Context, d time.Duration) (agentapi.Refusal, error) {
			return agentapi.Refusal{LeftSeconds: int64(d.Seconds())}, nil
		},
		Full: func(_ context.Context, final bool) (agentapi.Snapshot, error) {
			s := full
			s.IsFinal = final
			return s, nil
		},
		Delta: func(context.Context) (*agentapi.Snapshot, error) { return nil, nil },
		Latest: func(context.Context) (agentapi.LatestSnapshots, error) {
			return agentapi.LatestSnapshots{FullSnapshot: &full}, nil
		},
		Timeline: func(context.Context) (agentapi.Timeline, error) {
			return agentapi.Timeline{Lineages: []agentapi.TimelineLineage{}, Findings: []agentapi.TimelineFinding{}}, nil
		},
		Verify: func(context.Context) (agentapi.Operation, error) {
			return agentapi.Operation{Kind: "verify", Status: agentapi.InProgress, Start: moment}, nil
		},
		Compact: func(context.Context) (agentapi.Operation, error) {
			return agentapi.Operation{Kind: "compact", Status: agentapi.InProgress, Start: moment}, nil
		},
		Leader: func(context.Context) (string, bool, error) { return "", true, nil },
	}
}

// pki are the files of a cluster's members and of those who call them.
type pki struct {
	dir           string
	server, ours  *authtest.CA
	serverCA      string // files
	clientCA      string
	token         string
	cert, certKey string // of servers
}

func newPKI(t *testing.T) *pki {
	t.Helper()
	p := &pki{dir: t.TempDir(), server: authtest.NewCA(t, "servers"), ours: authtest.NewCA(t, "clients")}
	p.serverCA = authtest.Write(t, filepath.Join(p.dir, "server-ca.crt"), p.server.PEM)
	p.clientCA = authtest.Write(t, filepath.Join(p.dir, "client-ca.crt"), p.ours.PEM)
	p.token = authtest.Write(t, filepath.Join(p.dir, "token"), []byte(goodToken+"\n"))
	p.cert, p.certKey = p.server.Files(t, p.dir, "server", authtest.Leaf{Hosts: []string{"127.0.0.1"}})
	return p
}

// options of a server with TLS that accepts certificates and tokens.
func (p *pki) options() Options {
	return Options{
		CertFile: p.cert, KeyFile: p.certKey, ClientCAFile: p.clientCA, TokenFile: p.token,
		Leader: auth.Credentials{CAFile: p.serverCA, TokenFile: p.token},
	}
}

// caller shows the client certificate of an authority; nil: none.
func (p *pki) caller(t *testing.T, name string, ca *authtest.CA, l authtest.Leaf) *http.Client {
	t.Helper()
	c := auth.Credentials{CAFile: p.serverCA}
	if ca != nil {
		c.CertFile, c.KeyFile = ca.Files(t, p.dir, name, l)
	}
	h, err := auth.NewClient(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.CloseIdleConnections)
	return h
}

// sidecar is a running server.
type sidecar struct {
	url, address string
	end          context.CancelFunc
}

func start(t *testing.T, o Options, h Handlers) *sidecar {
	t.Helper()
	s, err := New(o, h)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.Serve(ctx, l); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	scheme := "http://"
	if o.CertFile != "" {
		scheme = "https://"
	}
	return &sidecar{scheme + l.Addr().String(), l.Addr().String(), cancel}
}

// answer is what is left of a response whose body was read.
type answer struct {
	Status        string
	StatusCode    int
	Header        http.Header
	ContentLength int64
	Close         bool
}

// call makes a call without following redirects, and returns the whole answer.
func call(t *testing.T, h *http.Client, method, url, token string) (answer, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := h.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp.Status, resp.StatusCode, resp.Header, resp.ContentLength, resp.Close}, string(body)
}

func wait[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatal("nothing happened")
		panic("unreachable")
	}
}

// eventually waits for a fact.
func eventually(t *testing.T, what string, fact func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !fact() {
		if time.Now().After(deadline) {
			t.Fatal("not within the time: " + what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// served is the certificate that a server shows now.
func served(t *testing.T, address string) []byte {
	t.Helper()
	conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].Raw
}

var errBroken = errors.New("the disk is on fire")

// log collects what is logged by several goroutines.
type log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
