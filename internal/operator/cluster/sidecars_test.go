package cluster

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/agentapi/auth/authtest"
	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/operator/metrics"
)

// secrets are what is read of an API server.
type secrets map[string]map[string][]byte

func (s secrets) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	data, ok := s[key.Name]
	if !ok {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, key.Name)
	}
	o.(*corev1.Secret).Data = data
	return nil
}

func (s secrets) List(context.Context, client.ObjectList, ...client.ListOption) error {
	panic("nothing is listed")
}

// sidecar is one that answers as the cluster's first member.
type sidecar struct {
	mu       sync.Mutex
	member   agentapi.Member
	calls    []string
	verified []agentapi.Operation // answers of /operations, the last again and again
	fails    string               // the path that is answered with an error
	age      int64                // of the full, in seconds
}

func (s *sidecar) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Header.Get("Authorization") != "Bearer a-token-that-is-long-enough" {
		http.Error(w, "no", http.StatusUnauthorized)
		return
	}
	s.calls = append(s.calls, r.Method+" "+r.URL.RequestURI())
	answer := func(v any) { _ = json.NewEncoder(w).Encode(v) }
	switch r.URL.Path {
	case s.fails:
		http.Error(w, "not now", http.StatusInternalServerError)
	case agentapi.MemberPath:
		answer(s.member)
	case agentapi.Full:
		answer(agentapi.Snapshot{SnapName: "Full-1", LastRevision: 9, ContentRevision: 11, AgeSeconds: s.age})
	case agentapi.Clients:
		answer(agentapi.Refusal{})
	case agentapi.Latest:
		answer(agentapi.LatestSnapshots{FullSnapshot: &agentapi.Snapshot{SnapName: "Full-1", ImmutableUntil: testNow.Add(time.Hour), Mode: "compliance"}})
	case agentapi.Verify:
		answer(agentapi.Operation{Kind: "verify", Status: agentapi.InProgress, Start: testNow})
	case agentapi.Operations:
		answer(s.verified[:min(1, len(s.verified))])
		if len(s.verified) > 1 {
			s.verified = s.verified[1:]
		}
	}
}

// listen has the sidecar be that of the pod of a cluster of one.
func listen(t *testing.T, s *sidecar, secure bool) (httpAsker, *Observed) {
	t.Helper()
	o := running(t, 1)
	o.Sidecars = nil
	s.member.Name = "main-0"
	objects := secrets{"main-sidecar-token": {"token": []byte("a-token-that-is-long-enough\nand-a-former-one-below\n")}}
	server := httptest.NewUnstartedServer(s)
	if secure {
		ca := authtest.NewCA(t, "ca")
		cert, key := ca.Issue(t, authtest.Leaf{Hosts: []string{o.Etcd.PeerHost(0)}, Server: true})
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		server.TLS = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
		server.StartTLS()
		objects["ca"] = map[string][]byte{"bundle.crt": ca.PEM}
		o.Etcd.Spec.Backup.TLS = &druidv1alpha1.TLSConfig{TLSCASecretRef: druidv1alpha1.SecretReference{SecretReference: corev1.SecretReference{Name: "ca"}, DataKey: ptr("bundle.crt")}}
	} else {
		server.Start()
	}
	t.Cleanup(server.Close)
	host, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	o.Pods[0].Status.PodIP, o.Etcd.Spec.Backup.Port = host, ptr(int32(number))
	for _, object := range mustDecide(t, empty(o.Etcd), testSettings).Objects {
		if set, is := object.(*appsv1.StatefulSet); is {
			o.Pods[0].Spec = set.Spec.Template.Spec
		}
	}
	return httpAsker{secrets: objects, log: slog.New(slog.DiscardHandler)}, o
}

func TestSidecarsAreAskedWithTheirTokenAndBelievedByTheirName(t *testing.T) {
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprintf("TLS %t", secure), func(t *testing.T) {
			s := &sidecar{member: agentapi.Member{ID: id(0)}}
			a, o := listen(t, s, secure)
			if got := a.ask(t.Context(), o); got[0].ID != id(0) {
				t.Errorf("answers %+v, want that of main-0", got)
			}
			s.member.Name = "other-0" // its pod was given the address since
			if got := a.ask(t.Context(), o); len(got) != 0 {
				t.Errorf("the sidecar of other-0 was believed: %+v", got)
			}
		})
	}
}

// TestSidecarsAreAskedAsTheirPodsWereMade changes port and TLS of a cluster that runs: until its pods are
// replaced, which waits for their answers, they have the former ones.
func TestSidecarsAreAskedAsTheirPodsWereMade(t *testing.T) {
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprintf("TLS before %t", secure), func(t *testing.T) {
			a, o := listen(t, &sidecar{member: agentapi.Member{ID: id(0)}}, secure)
			o.Etcd.Spec.Backup.Port = ptr(int32(1))
			if o.Etcd.Spec.Backup.TLS = nil; !secure {
				o.Etcd.Spec.Backup.TLS = &druidv1alpha1.TLSConfig{TLSCASecretRef: druidv1alpha1.SecretReference{SecretReference: corev1.SecretReference{Name: "not-yet-there"}}}
			}
			if got := a.ask(t.Context(), o); got[0].ID != id(0) {
				t.Errorf("answers %+v, want that of main-0", got)
			}
		})
	}
}

// Who did not answer just now as the member that is meant, or cannot refuse, is left alone.
func TestThoseWhoCanAreToldHowToTreatClients(t *testing.T) {
	can := &agentapi.Member{Name: "main-0", Refusal: &agentapi.Refusal{}}
	for phrase, c := range map[string]struct {
		member *agentapi.Member // nil: it did not answer
		d      time.Duration
		fails  string
		want   []string
	}{
		"it is to refuse":           {member: can, d: 10 * time.Minute, want: []string{"POST /clients?refuse=10m0s"}},
		"it is to serve":            {member: can, want: []string{"POST /clients?refuse=0s"}},
		"it fails":                  {member: can, fails: agentapi.Clients, want: []string{"POST /clients?refuse=0s"}},
		"it did not answer":         {},
		"it is of a former version": {member: &agentapi.Member{Name: "main-0"}},
		"it cannot":                 {member: &agentapi.Member{Name: "main-0", Refusal: &agentapi.Refusal{Impossible: "no token"}}},
	} {
		s := &sidecar{fails: c.fails}
		a, o := listen(t, s, false)
		if c.member != nil {
			o.Sidecars = map[int]agentapi.Member{0: *c.member}
		}
		a.refuse(t.Context(), o, c.d)
		if !slices.Equal(s.calls, c.want) {
			t.Errorf("%s: calls %q, want %q", phrase, s.calls, c.want)
		}
	}
}

func TestNobodyIsAskedWithoutTheToken(t *testing.T) {
	s := &sidecar{}
	a, o := listen(t, s, false)
	delete(a.secrets.(secrets), "main-sidecar-token")
	if got := a.ask(t.Context(), o); len(got) != 0 || len(s.calls) != 0 {
		t.Errorf("answers %v to %q, want none", got, s.calls)
	}
}

func TestASnapshotIsDoneWhenItIsVerified(t *testing.T) {
	operation := func(o agentapi.Outcome, message string) agentapi.Operation {
		return agentapi.Operation{Kind: "verify", Status: o, Start: testNow, Message: message, Proved: &agentapi.Proved{Base: "Full-1", EndRevision: 11}}
	}
	other := func(base string) agentapi.Operation {
		return agentapi.Operation{Kind: "verify", Status: agentapi.Success, Start: testNow, Proved: &agentapi.Proved{Base: base, EndRevision: 11}}
	}
	older := other("Full-0")
	older.Proved.EndRevision = 10
	for phrase, c := range map[string]struct {
		leader   bool
		verified []agentapi.Operation
		want     string // why it failed
		upgrade  bool   // it need not be the final one
	}{
		"it can be restored":                               {true, []agentapi.Operation{operation(agentapi.InProgress, ""), operation(agentapi.Success, "")}, "", false},
		"it cannot be restored":                            {true, []agentapi.Operation{operation(agentapi.Failed, "a hole at 7")}, "cannot be restored: a hole at 7", false},
		"another one is verified":                          {true, []agentapi.Operation{other("Full-0")}, "Full-0 was verified in its place", false},
		"first another one is":                             {true, []agentapi.Operation{other("Full-0"), other("Full-1")}, "", false},
		"it does not say which one":                        {true, []agentapi.Operation{{Kind: "verify", Status: agentapi.Success, Start: testNow}}, "does not tell what it verified", false},
		"the sidecar forgot it":                            {true, []agentapi.Operation{{Kind: "defragment"}}, "the sidecar has begun anew", false},
		"nobody makes the backups":                         {false, nil, "no sidecar answers that makes the backups", false},
		"an older one is not taken":                        {true, []agentapi.Operation{{Kind: "verify", Status: agentapi.Success, Start: testNow.Add(-time.Hour)}}, "the sidecar has begun anew", false},
		"before an upgrade a former one, then a later one": {true, []agentapi.Operation{other("Full-0"), other("Full-2")}, "", true},
		"before an upgrade only what was there before":     {true, []agentapi.Operation{older}, "Full-0 was verified in its place", true},
		"before an upgrade it does not say which one":      {true, []agentapi.Operation{{Kind: "verify", Status: agentapi.Success, Start: testNow}}, "does not tell what it verified", true},
	} {
		t.Run(phrase, func(t *testing.T) {
			s := &sidecar{member: agentapi.Member{BackupLeader: c.leader}, verified: c.verified}
			a, o := listen(t, s, false)
			all := newSnapshots(a, time.Now, a.log, metrics.New())
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- all.Start(ctx) }()
			what := Snapshot{For: "the test", Final: !c.upgrade, Purpose: "u/5"}
			all.begin(o, what)
			all.begin(o, what) // which is one
			told := <-all.told
			if told.Object.GetName() != "main" {
				t.Errorf("told of %v", told.Object)
			}
			state := all.of(o.Etcd)[what.For]
			if state.Done != (c.want == "") || !strings.Contains(state.Failed, c.want) || state.Running {
				t.Errorf("%+v, want done or failed with %q", state, c.want)
			}
			if c.upgrade {
				cancel()
				if err := <-ended; err != nil {
					t.Error(err)
				}
				return
			}
			if f := state.Final; (f != nil) != state.Done || f != nil && (f.Name != "Full-1" || f.Revision != 11 || f.ProtectedUntil == nil || !f.ProtectedUntil.Time.Equal(testNow.Add(time.Hour))) {
				t.Errorf("%+v, want what was taken", f)
			}
			if state.Done && state.Mode != immutability.ModeCompliance {
				t.Errorf("its lock is of mode %q", state.Mode)
			}
			if (state.Spoilt != "") != (c.leader && !state.Done) {
				t.Errorf("spoilt %q, of %+v", state.Spoilt, state)
			}
			if c.leader && s.calls[1] != "POST /snapshot/full?final=true&for=u%2F5" {
				t.Errorf("calls %q, want a final snapshot", s.calls)
			}
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

// That nobody could be asked is otherwise in the log alone.
func TestWhyNobodyCanBeAskedIsTold(t *testing.T) {
	o := running(t, 3, relaxed, wants(5))
	r, _ := newReconciler(t, o.Etcd) // there is no Secret with a token
	o.Sidecars = r.asking.sidecars.ask(context.Background(), o)
	if w := mustDecide(t, o, testSettings).Waits(); !strings.Contains(w, "a member that answers and sees a leader") || !strings.Contains(w, o.Etcd.TokenSecretName()) {
		t.Errorf("it waits %q, want the Secret to be named without which nobody can be asked", w)
	}
}
