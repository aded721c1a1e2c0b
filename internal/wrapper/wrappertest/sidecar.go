// Package wrappertest has what tests of a wrapper need: a sidecar that does as it is told, and
// members with addresses and directories of their own. It is not part of any program.
package wrappertest

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"druid.internal/druid/internal/agentapi"
)

// Sidecar is a backup sidecar that examines and restores nothing. Every call is noted.
type Sidecar struct {
	Address string // host and port

	mu      sync.Mutex
	state   agentapi.InitState
	config  string
	token   string
	calls   []string
	outcome func(n int) agentapi.InitState // of the nth initialization; nil: InitSuccessful
	answer  map[string]string              // by path, instead of the real answer
	waiting string
	started int
	changed chan struct{} // closed at the next call
	server  *http.Server
	served  chan struct{} // closed when the server has ended
}

// NewSidecar listens on address, which may end in :0, and hands out the configuration. It asks
// for the token if that is not empty.
func NewSidecar(t testing.TB, address, config, token string) *Sidecar {
	t.Helper()
	s := &Sidecar{Address: address, state: agentapi.InitNew, config: config, token: token, answer: map[string]string{}, changed: make(chan struct{})}
	s.Up(t)
	t.Cleanup(s.Down)
	return s
}

// Up begins to answer.
func (s *Sidecar) Up(t testing.TB) {
	t.Helper()
	l, err := net.Listen("tcp", s.Address)
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Address = l.Addr().String()
	server, served := &http.Server{Handler: s}, make(chan struct{})
	s.server, s.served = server, served
	go func() {
		defer close(served)
		_ = server.Serve(l) // ends with Down
	}()
}

// Down ends it: connections are refused.
func (s *Sidecar) Down() {
	s.mu.Lock()
	server, served := s.server, s.served
	s.mu.Unlock()
	server.Close()
	<-served
}

// Base is the URL of the sidecar.
func (s *Sidecar) Base() string { return "http://" + s.Address }

// set changes what the sidecar does, under its lock.
func (s *Sidecar) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// Config changes the configuration.
func (s *Sidecar) Config(config string) { s.set(func() { s.config = config }) }

// Outcome decides how the nth initialization, counted from 1, comes out; it is asked at every
// question for the status.
func (s *Sidecar) Outcome(of func(n int) agentapi.InitState) { s.set(func() { s.outcome = of }) }

// Answer has the path answered with a text; an empty one takes that back.
func (s *Sidecar) Answer(path, text string) {
	s.set(func() {
		if s.answer[path] = text; text == "" {
			delete(s.answer, path)
		}
	})
}

// Waiting is what the member says that it waits for.
func (s *Sidecar) Waiting(why string) { s.set(func() { s.waiting = why }) }

// Calls are the calls so far: a path with its query, without repetitions in a row.
func (s *Sidecar) Calls() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// Await waits until the calls are as wanted.
func (s *Sidecar) Await(t testing.TB, wanted func(calls []string) bool) {
	t.Helper()
	for {
		s.mu.Lock()
		changed, ok := s.changed, wanted(s.calls)
		s.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-t.Context().Done():
			t.Fatalf("calls %q", s.Calls())
		}
	}
}

func (s *Sidecar) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	call := strings.TrimPrefix(r.URL.RequestURI(), "/")
	if n := len(s.calls); n == 0 || s.calls[n-1] != call {
		s.calls = append(s.calls, call)
	}
	close(s.changed)
	s.changed = make(chan struct{})
	if text, ok := s.answer[r.URL.Path]; ok {
		fmt.Fprint(w, text)
		return
	}
	if r.URL.Path != agentapi.InitStatus && s.token != "" && r.Header.Get("Authorization") != "Bearer "+s.token {
		http.Error(w, "a client certificate or a bearer token is needed", http.StatusUnauthorized)
		return
	}
	switch r.URL.Path {
	case agentapi.InitStatus:
		if s.state == agentapi.InitProgress {
			s.state = agentapi.InitSuccessful
			if s.outcome != nil {
				s.state = s.outcome(s.started)
			}
		}
		fmt.Fprint(w, string(s.state))
	case agentapi.InitStart:
		if s.state == agentapi.InitNew {
			s.state = agentapi.InitProgress
			s.started++
		}
	case agentapi.InitAcknowledge:
		s.state = agentapi.InitNew
	case agentapi.Config:
		if s.state != agentapi.InitSuccessful {
			http.Error(w, fmt.Sprintf("the status is %s", s.state), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, s.config)
	case agentapi.MemberPath:
		member, err := json.Marshal(agentapi.Member{Waiting: s.waiting})
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprintf(w, "%s\n", member)
	default:
		http.NotFound(w, r)
	}
}
