package operator_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// gate stands between an operator and the API server, and sees every step that it takes: each request
// that changes something, and each call of a sidecar that does. For each namespace by itself the operator can
// be dead from a step on: nothing of what it asks for there comes through any more, until [gate.revive].
type gate struct {
	config *rest.Config // for the operator

	mu    sync.Mutex
	roads map[string]*road // by namespace
}

// road is the way into one namespace.
type road struct {
	mu    sync.Mutex
	steps []string // that were begun
	end   *fault
	brief bool // the operator dies after each step
	tells bool // but not after one that writes a status
	dead  bool
	judge func(step, body string) // before a step takes effect

	turns  *fault // a step that is refused, again as often as is said, or nil
	refuse int    // how often it still is

	underWay int // steps that take effect, and of which a dead operator is not told
}

// fault is a place in the code at which an operator dies: directly before or after a step, which is
// the nth of its name.
type fault struct {
	step  string
	nth   int
	after bool
}

func (f fault) String() string {
	when := "before"
	if f.after {
		when = "after"
	}
	return fmt.Sprintf("%s %s #%d", when, f.step, f.nth)
}

// ofStatus: the step writes what is known, and changes nothing.
func (f fault) ofStatus() bool { return strings.HasSuffix(f.step, "/status") }

// faultsOf are the places around each of these steps. Whoever dies before a step has died after the one
// before it, for all that anybody can see, so there is one place before the first.
func faultsOf(steps []string) (all []fault) {
	seen := map[string]int{}
	for i, s := range steps {
		if i == 0 {
			all = append(all, fault{s, 1, false})
		}
		seen[s]++
		all = append(all, fault{s, seen[s], true})
	}
	return all
}

// newGate lets the operator through as the user of the given configuration.
func newGate(t *testing.T, to *rest.Config) *gate {
	t.Helper()
	transport, err := rest.TransportFor(to)
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(to.Host)
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{roads: map[string]*road{}}
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1, // watches tell at once
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: g.handler(proxy), ReadHeaderTimeout: time.Minute}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	server.BaseContext = func(net.Listener) context.Context { return ctx }
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() {
		stop()
		_ = server.Close()
	})
	g.config = &rest.Config{Host: "http://" + listener.Addr().String()}
	return g
}

// road is the way into a namespace; "" stands for what is in none.
func (g *gate) road(namespace string) *road {
	g.mu.Lock()
	defer g.mu.Unlock()
	r := g.roads[namespace]
	if r == nil {
		r = &road{}
		g.roads[namespace] = r
	}
	return r
}

// begin counts the steps anew. The operator dies at the fault; nil: it does not.
func (r *road) begin(f *fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.steps, r.end, r.dead = nil, f, false
}

// turn counts the steps anew. The one at the fault is refused, and so are as many more of its name as make it so many times.
func (r *road) turn(f *fault, times int) {
	r.begin(nil)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turns, r.refuse = f, times
}

// left is how often a step is still to be refused.
func (r *road) left() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refuse
}

// turnsAway says whether a step is refused: it takes no effect, and the operator is told.
func (r *road) turnsAway(step string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.turns == nil || r.refuse == 0 || r.turns.step != step || r.times(step)+1 < r.turns.nth {
		return false
	}
	r.steps = append(r.steps, step)
	r.refuse--
	return true
}

// times is how often a step was begun. The caller holds the lock.
func (r *road) times(step string) (n int) {
	for _, s := range r.steps {
		if s == step {
			n++
		}
	}
	return n
}

// revive lets another operator through, which does not die at a fault.
func (r *road) revive() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.end, r.dead = nil, false
}

// shorten has every operator die after its first step here, or lets them live.
func (r *road) shorten(brief bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.steps, r.brief, r.dead = nil, brief, false
}

// tell has operators survive that they write a status. Otherwise none does what has to be waited for: while it is under way the status
// says so, and is written before what came of it can be.
func (r *road) tell() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tells = true
}

// watch has every step judged before it takes effect.
func (r *road) watch(judge func(step, body string)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.judge = judge
}

func (r *road) isDead() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dead
}

// buried: the operator is dead, and its last step has taken effect or never will.
func (r *road) buried() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dead && r.underWay == 0
}

// over ends a step that takes effect and of which the operator is not told.
func (r *road) over() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.underWay--
}

func (r *road) taken() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.steps)
}

// enter says whether a step takes effect, and whether the operator is told.
func (r *road) enter(step, body string) (goes, answered bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dead {
		return false, false
	}
	nth := r.times(step) + 1
	r.steps = append(r.steps, step)
	goes, answered = true, true
	switch {
	case r.brief && !(r.tells && fault{step: step}.ofStatus()):
		r.dead, answered = true, false
	case r.end != nil && r.end.step == step && r.end.nth == nth:
		r.dead, goes, answered = true, r.end.after, false
	}
	if goes && r.judge != nil {
		r.judge(step, body)
	}
	if goes && !answered {
		r.underWay++ // until [road.over]
	}
	return goes, answered
}

// refused takes a death after a step back, if the API server refused it: it changed nothing. Whoever dies
// after each step would else ask the same again and again.
func (r *road) refused(code int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.brief || code < http.StatusBadRequest {
		return false
	}
	r.dead = false
	return true
}

func (g *gate) handler(api http.Handler) http.Handler {
	return http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		namespace, what := place(r.URL.Path)
		road := g.road(namespace)
		if r.Method == http.MethodGet || what == "" {
			if road.isDead() {
				panic(http.ErrAbortHandler)
			}
			api.ServeHTTP(out, r)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		step := r.Method + " " + what
		if r.Method == http.MethodPost && !strings.Contains(what, "/") {
			var made struct{ Metadata struct{ Name string } }
			_ = json.Unmarshal(body, &made)
			step += "/" + made.Metadata.Name
		}
		if strings.Contains(step, " events/") {
			if road.isDead() {
				panic(http.ErrAbortHandler)
			}
			api.ServeHTTP(out, r) // it is no step: nothing depends on it
			return
		}
		if road.turnsAway(step) {
			conflict(out, r.URL.Path)
			return
		}
		goes, answered := road.enter(step, string(body))
		switch {
		case !goes:
			panic(http.ErrAbortHandler)
		case !answered:
			defer road.over()
			answer := httptest.NewRecorder()
			api.ServeHTTP(answer, r.WithContext(context.WithoutCancel(r.Context()))) // it is done, whoever dies
			if !road.refused(answer.Code) {
				panic(http.ErrAbortHandler)
			}
			maps.Copy(out.Header(), answer.Header())
			out.WriteHeader(answer.Code)
			_, _ = out.Write(answer.Body.Bytes())
			return
		}
		api.ServeHTTP(out, r)
	})
}

// conflict answers as an API server in which somebody else was faster.
func conflict(out http.ResponseWriter, path string) {
	_, what := place(path)
	resource, name, _ := strings.Cut(what, "/")
	var group string
	if parts := strings.Split(strings.Trim(path, "/"), "/"); parts[0] == "apis" {
		group = parts[1]
	}
	err := apierrors.NewConflict(schema.GroupResource{Group: group, Resource: resource}, name, errors.New("the object has been modified; please apply your changes to the latest version and try again"))
	status := err.Status()
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	out.Header().Set("Content-Type", "application/json")
	out.WriteHeader(int(status.Code))
	_ = json.NewEncoder(out).Encode(status)
}

// place is where a path leads: a namespace, and what is in it, as "pods/main-0" or "etcds/main/status".
func place(path string) (namespace, what string) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		parts = parts[3:]
	default:
		return "", ""
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		return parts[1], strings.Join(parts[2:], "/")
	}
	return "", strings.Join(parts, "/")
}
