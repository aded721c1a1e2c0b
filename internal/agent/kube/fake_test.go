package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/agentapi"
)

// server is an API server that has the two objects of one member, in the time of a synctest bubble.
type server struct {
	mu     sync.Mutex
	lease  *leasePatch // as it was written last; nil: there is none
	member *druidv1alpha1.EtcdMember
	fault  func(r *http.Request) *http.Response // nil, or an answer of nil: none
	lost   error                                // no answer
	hang   string                               // the object of which requests are never answered
	ahead  time.Duration                        // of its clock
	calls  []call
}

// call is a request.
type call struct {
	at     time.Duration // since the beginning
	method string
	object string // lease, member or status
}

func newServer() *server {
	return &server{lease: &leasePatch{}, member: &druidv1alpha1.EtcdMember{ObjectMeta: metav1.ObjectMeta{Name: "main-0", UID: "first"}}}
}

// answer is one with a Status.
func answer(code int, message string, header ...string) *http.Response {
	b, _ := json.Marshal(metav1.Status{Message: message})
	r := &http.Response{StatusCode: code, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(b))}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r
}

func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	object := "lease"
	if strings.Contains(r.URL.Path, "/etcdmembers/") {
		object = "member"
	}
	if strings.HasSuffix(r.URL.Path, "/status") {
		object = "status"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, call{time.Since(epoch), r.Method, object})
	if s.hang == object {
		s.mu.Unlock()
		<-r.Context().Done()
		s.mu.Lock()
		return nil, r.Context().Err()
	}
	if s.lost != nil {
		return nil, s.lost
	}
	if s.fault != nil {
		if a := s.fault(r); a != nil {
			return a, nil
		}
	}
	a := s.serve(object, r)
	a.Header.Set("Date", time.Now().Add(s.ahead).UTC().Format(http.TimeFormat))
	return a, nil
}

// epoch is when every bubble begins.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func (s *server) serve(object string, r *http.Request) *http.Response {
	if r.Header.Get("User-Agent") != "etcdbrctl" {
		return answer(400, "who are you?")
	}
	body, _ := io.ReadAll(r.Body)
	var out any
	switch {
	case object == "lease" && r.Method == http.MethodPatch && r.Header.Get("Content-Type") == mergePatch:
		if s.lease == nil {
			return answer(404, `leases.coordination.k8s.io "main-0" not found`)
		}
		if err := json.Unmarshal(body, s.lease); err != nil {
			return answer(400, err.Error())
		}
		out = s.lease
	case s.member == nil:
		return answer(404, `etcdmembers.druid.gardener.cloud "main-0" not found`)
	case object == "member" && r.Method == http.MethodGet:
		out = s.member
	case object == "status" && r.Header.Get("Content-Type") == applyPatch && strings.Contains(r.URL.RawQuery, "force=true"):
		var a application
		if err := json.Unmarshal(body, &a); err != nil {
			return answer(400, err.Error())
		}
		if a.Metadata.UID != s.member.UID {
			return answer(409, "the UID in the precondition is another one")
		}
		s.member.Status = a.Status
		out = s.member
	case object == "member" && r.Method == http.MethodPatch && r.Header.Get("Content-Type") == mergePatch:
		delete(s.member.Annotations, druidv1alpha1.AnnotationCreateAsLearner)
		out = s.member
	default:
		return answer(405, "not of this server")
	}
	b, err := json.Marshal(out)
	if err != nil {
		return answer(500, err.Error())
	}
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(b))}
}

// change is for tests that change the server while it serves.
func (s *server) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// status is what stands in the EtcdMember.
func (s *server) status() (r druidv1alpha1.MemberReport) {
	s.change(func() { r = *s.member.Status.DeepCopy() })
	return r
}

// count is how many requests of a kind there were.
func (s *server) count(method, object string) (n int) {
	s.change(func() {
		for _, c := range s.calls {
			if c.method == method && c.object == object {
				n++
			}
		}
	})
	return n
}

// forget forgets the requests so far.
func (s *server) forget() { s.change(func() { s.calls = nil }) }

// sidecar is a running member and what it logged and counted.
type sidecar struct {
	mu       sync.Mutex
	member   agentapi.Member
	lines    []string
	answered map[string]int
	ahead    time.Duration
}

func (s *sidecar) state() agentapi.Member {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.member
}

func (s *sidecar) update(f func(*agentapi.Member)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.member)
}

func (s *sidecar) Answered(object, situation string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answered[object+" "+situation]++
}
func (s *sidecar) Told(string, time.Time) {}
func (s *sidecar) Ahead(by time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead = by
}

// Write is a log's.
func (s *sidecar) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, strings.TrimSpace(string(b)))
	return len(b), nil
}

// logged counts the lines with a text.
func (s *sidecar) logged(text string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.lines {
		if strings.Contains(l, text) {
			n++
		}
	}
	return n
}

// working is a member that leads, for as long as it runs.
func working() agentapi.Member {
	return agentapi.Member{
		Name: "main-0", ID: "4c37667312a3912b", ClusterID: "cdf818194e3a8c32", PeerURLs: []string{"https://main-0:2380"},
		Etcd:        &agentapi.Etcd{Version: "3.6.16", Leader: "4c37667312a3912b", Revision: 7, DBSize: 1 << 20, DBSizeInUse: 1 << 19},
		Transitions: []agentapi.Transition{{State: agentapi.Started, SubState: agentapi.Leader, Reason: agentapi.NewSingleNodeClusterCreated, Time: epoch}},
	}
}

// story runs a sidecar beside a server in a bubble of time.
func story(t *testing.T, s *server, m agentapi.Member, tell func(c *sidecar)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &sidecar{member: m, answered: map[string]int{}}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			ended <- Run(ctx, Options{Server: "https://10.0.0.1:443", Client: &http.Client{Transport: s}, Namespace: "ns", Member: "main-0",
				Heartbeat: 10 * time.Second, State: c.state, Metrics: c, Log: slog.New(slog.NewTextHandler(c, nil))})
		}()
		pass(0)
		tell(c)
		stop()
		if err := <-ended; err != nil {
			t.Errorf("it ended with %v", err)
		}
	})
}

// pass lets so much time pass.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func uid(s *server, u types.UID) { s.member.UID = u }
