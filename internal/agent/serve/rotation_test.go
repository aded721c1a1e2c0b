package serve

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/agentapi/auth"
	"druid.internal/druid/internal/agentapi/auth/authtest"
)

const nextToken = "NEXTnextNEXTnextNEXTnext"

// caller calls without a pause.
type caller struct {
	name  string
	calls atomic.Int64
}

// run calls until stop is closed. Every call must succeed.
func (c *caller) run(t *testing.T, client *agentapi.Client, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		if _, err := client.Member(t.Context()); err != nil {
			t.Errorf("%s, after %d calls: %v", c.name, c.calls.Load(), err)
			return
		}
		c.calls.Add(1)
	}
}

// TestEverythingIsExchangedWhileOthersCall exchanges the server's certificate, both authorities, the client's
// certificate and the token, in the orders in which this is possible without an interruption. Neither
// the server nor its two callers are restarted, and no call fails.
func TestEverythingIsExchangedWhileOthersCall(t *testing.T) {
	p := newPKI(t)
	s := start(t, p.options(), canned())

	byCert := auth.Credentials{CAFile: p.serverCA}
	byCert.CertFile, byCert.KeyFile = p.ours.Files(t, p.dir, "caller", authtest.Leaf{})
	// The token's file is the caller's own, as on another machine, which gets it later.
	callersToken := authtest.Write(t, p.dir+"/callers-token", []byte(goodToken))
	byToken := auth.Credentials{CAFile: p.serverCA, TokenFile: callersToken}

	callers := []*caller{{name: "the caller with a certificate"}, {name: "the caller with a token"}}
	stop := make(chan struct{})
	var running sync.WaitGroup
	for i, credentials := range []auth.Credentials{byCert, byToken} {
		client, err := agentapi.NewClient(s.url, agentapi.ClientOptions{Credentials: credentials})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		running.Go(func() { callers[i].run(t, client, stop) })
	}
	defer running.Wait()
	defer close(stop)
	// settle waits until each caller has made calls that began after now.
	settle := func(step string) {
		for _, c := range callers {
			until := c.calls.Load() + 2
			eventually(t, step+": "+c.name+" makes calls", func() bool { return c.calls.Load() >= until || t.Failed() })
		}
	}
	// accepted tells the code of one call with what is given, on a new connection.
	accepted := func(ca *authtest.CA, token string) int {
		h := p.caller(t, "probe", ca, authtest.Leaf{})
		defer h.CloseIdleConnections()
		resp, _ := call(t, h, http.MethodGet, s.url+"/member", token)
		return resp.StatusCode
	}
	settle("before anything changes")

	first := served(t, s.address)
	p.server.Files(t, p.dir, "server", authtest.Leaf{Hosts: []string{"127.0.0.1"}})
	second := served(t, s.address)
	if bytes.Equal(first, second) {
		t.Error("the server shows its former certificate")
	}
	settle("the server's certificate")

	servers := authtest.NewCA(t, "other servers")
	authtest.Write(t, p.serverCA, slices.Concat(p.server.PEM, servers.PEM))
	settle("both authorities of servers")
	servers.Files(t, p.dir, "server", authtest.Leaf{Hosts: []string{"127.0.0.1"}})
	if bytes.Equal(second, served(t, s.address)) {
		t.Error("the server shows a certificate of its former authority")
	}
	settle("the server's certificate of the new authority")
	authtest.Write(t, p.serverCA, servers.PEM)
	settle("only the new authority of servers")

	clients := authtest.NewCA(t, "other clients")
	if got := accepted(clients, ""); got != 403 {
		t.Errorf("before its authority is known a certificate is answered %d, want 403", got)
	}
	authtest.Write(t, p.clientCA, slices.Concat(p.ours.PEM, clients.PEM))
	settle("both authorities of clients")
	clients.Files(t, p.dir, "caller", authtest.Leaf{})
	settle("the client's certificate of the new authority")
	authtest.Write(t, p.clientCA, clients.PEM)
	settle("only the new authority of clients")
	if got := accepted(p.ours, ""); got != 403 {
		t.Errorf("a certificate of the former authority is answered %d, want 403", got)
	}
	if got := accepted(clients, ""); got != 200 {
		t.Errorf("a certificate of the new authority is answered %d, want 200", got)
	}

	authtest.Write(t, p.token, []byte(goodToken+"\n"+nextToken))
	settle("both tokens")
	authtest.Write(t, callersToken, []byte(nextToken))
	settle("the caller's new token")
	authtest.Write(t, p.token, []byte(nextToken))
	settle("only the new token")
	if got := accepted(nil, goodToken); got != 401 {
		t.Errorf("the former token is answered %d, want 401", got)
	}
}

// TestATrustThatEndsEndsOnOpenConnectionsToo: what is verified in a handshake only would hold for as long
// as the connection does.
func TestATrustThatEndsEndsOnOpenConnectionsToo(t *testing.T) {
	p := newPKI(t)
	s := start(t, p.options(), canned())
	h := p.caller(t, "ours", p.ours, authtest.Leaf{})
	if resp, body := call(t, h, http.MethodGet, s.url+"/member", ""); resp.StatusCode != 200 {
		t.Fatalf("%s %s", resp.Status, body)
	}
	authtest.Write(t, p.clientCA, authtest.NewCA(t, "others").PEM)
	if resp, body := call(t, h, http.MethodGet, s.url+"/member", ""); resp.StatusCode != 403 || !resp.Close {
		t.Errorf("%s %q, closes %t; want 403 and the end of the connection", resp.Status, body, resp.Close)
	}
}

func TestAServerThatIsNotTrustedGetsNoToken(t *testing.T) {
	p := newPKI(t)
	o := p.options()
	o.CertFile, o.KeyFile = authtest.NewCA(t, "impostors").Files(t, p.dir, "impostor", authtest.Leaf{Hosts: []string{"127.0.0.1"}})
	called := false
	h := canned()
	h.Member = func(context.Context) agentapi.Member {
		called = true
		return agentapi.Member{}
	}
	o.OpenToAll = true
	s := start(t, o, h)
	client, err := agentapi.NewClient(s.url, agentapi.ClientOptions{Credentials: auth.Credentials{CAFile: p.serverCA, TokenFile: p.token}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.Member(t.Context()); err == nil || called {
		t.Errorf("%v, called %t; want an error before anything is sent", err, called)
	}
}
