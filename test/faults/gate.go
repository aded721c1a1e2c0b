package faults

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync"
	"testing"

	"druid.internal/druid/test/stores"
)

// Fault is what happens to a request.
type Fault struct {
	// Match chooses requests; nil: all.
	Match func(*http.Request) bool
	// Times is how often; 0: always.
	Times int

	// One of these, in this order.
	Status   int    // answered by this status in the server's place, which never sees it
	Code     string // with Status: the S3 error code of the answer
	Body     string // with Status: the answer as it stands, JSON; goes before Code
	Lose     bool   // the server gets the request and its answer is lost, the connection breaks
	Truncate int64  // the answer's body breaks off after so many bytes; with Lose it is ignored

	// Then is called when the fault has happened, before the client notices.
	Then func()
}

// Gate forwards HTTP requests to a server and can see into them: it ends TLS with a
// certificate of the server's own CA. Signatures stay valid, since it leaves requests alone.
type Gate struct {
	Endpoint string // https://ADDRESS:PORT

	mu            sync.Mutex
	faults        []*Fault
	seen          []string
	before, after func(*http.Request)
}

// errLost makes the connection break without an answer.
var errLost = errors.New("the answer is lost")

// Server is where a gate leads: any of the servers of package stores with TLS.
type Server interface {
	Reach() (endpoint string, ca *stores.CA)
}

// NewGate opens a gate to a server. It is closed when the test ends.
func NewGate(tb testing.TB, to Server) *Gate {
	tb.Helper()
	endpoint, ca := to.Reach()
	target, err := url.Parse(endpoint)
	if err != nil {
		tb.Fatal(err)
	}
	conf, err := ca.ServerTLS("127.0.0.1")
	if err != nil {
		tb.Fatal(err)
	}
	g := &Gate{}
	transport := &http.Transport{TLSClientConfig: ca.ClientTLS(), DisableCompression: true}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host // it is signed
		},
		Transport:      transport,
		ModifyResponse: g.answer,
		ErrorHandler:   func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ErrorLog:       log.New(io.Discard, "", 0),
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f := g.take(r, func(f *Fault) bool { return f.Status != 0 }); f != nil {
			refuse(w, r, f)
			return
		}
		g.mu.Lock()
		before := g.before
		g.mu.Unlock()
		if before != nil {
			before(r)
		}
		proxy.ServeHTTP(w, r)
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = conf
	server.StartTLS()
	tb.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		transport.CloseIdleConnections()
	})
	g.Endpoint = server.URL
	return g
}

// Inject adds a fault; the first that matches a request happens.
func (g *Gate) Inject(f Fault) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.faults = append(g.faults, &f)
}

// Watch has before called with each request on its way to the server, and after when it was
// answered, on the way back. Both may block, and are called concurrently; nil: not called.
func (g *Gate) Watch(before, after func(*http.Request)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.before, g.after = before, after
}

// Heal removes all faults.
func (g *Gate) Heal() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.faults = nil
}

// Happened lists the requests to which something happened.
func (g *Gate) Happened() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.seen)
}

// take finds the fault for a request and counts it.
func (g *Gate) take(r *http.Request, kind func(*Fault) bool) *Fault {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, f := range g.faults {
		if !kind(f) || f.Match != nil && !f.Match(r) {
			continue
		}
		if f.Times == 1 {
			g.faults = slices.Delete(g.faults, i, i+1)
		} else if f.Times > 1 {
			f.Times--
		}
		g.seen = append(g.seen, r.Method+" "+r.URL.RequestURI())
		return f
	}
	return nil
}

func refuse(w http.ResponseWriter, r *http.Request, f *Fault) {
	_, _ = io.Copy(io.Discard, r.Body)
	if f.Then != nil {
		f.Then()
	}
	if f.Body != "" {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(f.Status)
		_, _ = io.WriteString(w, f.Body) // who asked is gone
		return
	}
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(f.Status)
	if f.Code != "" && r.Method != http.MethodHead {
		fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>%s</Code><Message>injected</Message></Error>`, f.Code)
	}
}

// answer happens to what the server answered.
func (g *Gate) answer(resp *http.Response) error {
	g.mu.Lock()
	after := g.after
	g.mu.Unlock()
	if after != nil {
		after(resp.Request)
	}
	f := g.take(resp.Request, func(f *Fault) bool { return f.Status == 0 })
	if f == nil {
		return nil
	}
	if f.Lose {
		// The server has done its work when its whole answer is there.
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if f.Then != nil {
			f.Then()
		}
		return errLost
	}
	if f.Then != nil {
		f.Then()
	}
	rest := resp.Body
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(io.LimitReader(rest, f.Truncate), failing{}), rest}
	return nil
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errLost }

// Request matches requests by method and by what their query contains, as S3 tells its
// operations apart. An empty method matches all.
func Request(method string, query ...string) func(*http.Request) bool {
	return func(r *http.Request) bool {
		if method != "" && r.Method != method {
			return false
		}
		for _, q := range query {
			if !bytes.Contains([]byte(r.URL.RawQuery), []byte(q)) {
				return false
			}
		}
		return true
	}
}
