package operator_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/config/admission"
	"druid.internal/druid/internal/agent/kube"
	"druid.internal/druid/internal/agent/status"
	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/operator/desired"
	"druid.internal/druid/test/cluster"
)

// police has the API server know our admission policies, and waits until they refuse.
func police(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	text, err := admission.Files.ReadFile("members.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
		object, err := yaml.YAMLToJSON(document)
		if err != nil {
			t.Fatal(err)
		}
		plural := "validatingadmissionpolicies"
		if bytes.Contains(document, []byte("kind: ValidatingAdmissionPolicyBinding")) {
			plural = "validatingadmissionpolicybindings"
		}
		err = c.Client.Discovery().RESTClient().Post().AbsPath("/apis/admissionregistration.k8s.io/v1/" + plural).Body(object).Do(t.Context()).Error()
		if err != nil {
			t.Fatalf("%v\n%s", err, document)
		}
	}
}

// membersOf makes what the sidecars of an Etcd need: the ServiceAccount with its Role, Leases,
// EtcdMembers and pods, which stay pending.
func membersOf(t *testing.T, c *cluster.Cluster, e *druidv1alpha1.Etcd) {
	t.Helper()
	made := postEtcd(t, c, e)
	e.UID = made.UID
	set, err := desired.Objects(desired.Input{Etcd: e, Images: desired.Images{Wrapper: "w", Sidecar: "s", Init: "i"}, Members: e.Spec.Replicas, Replicas: e.Spec.Replicas})
	if err != nil {
		t.Fatal(err)
	}
	client := c.Client.Discovery().RESTClient()
	put := func(path string, object runtime.Object) {
		t.Helper()
		body, err := yaml.Marshal(object)
		if err == nil {
			body, err = yaml.YAMLToJSON(body)
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := client.Post().AbsPath(path).Body(body).Do(t.Context()).Error(); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
	in := "/namespaces/" + e.Namespace
	put("/api/v1"+in+"/serviceaccounts", set.ServiceAccount)
	put("/apis/rbac.authorization.k8s.io/v1"+in+"/roles", set.Role)
	put("/apis/rbac.authorization.k8s.io/v1"+in+"/rolebindings", set.RoleBinding)
	for i, l := range set.Leases {
		put("/apis/coordination.k8s.io/v1"+in+"/leases", l)
		put("/apis/druid.gardener.cloud/v1alpha1"+in+"/etcdmembers", set.Members[i])
		put("/api/v1"+in+"/pods", &corev1.Pod{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
			ObjectMeta: metav1.ObjectMeta{Name: e.PodName(i)},
			Spec:       corev1.PodSpec{ServiceAccountName: e.ServiceAccountName(), Containers: []corev1.Container{{Name: "c", Image: "none"}}},
		})
	}
}

// postEtcd makes the Etcd: what is owned by one that does not exist is collected.
func postEtcd(t *testing.T, c *cluster.Cluster, e *druidv1alpha1.Etcd) (made druidv1alpha1.Etcd) {
	t.Helper()
	prefix := ""
	if p := e.Spec.MemberNamePrefix; p != nil {
		prefix = fmt.Sprintf(`,"memberNamePrefix":%q`, *p)
	}
	body := fmt.Sprintf(`{"apiVersion":"druid.gardener.cloud/v1alpha1","kind":"Etcd","metadata":{"name":%q},"spec":{"replicas":%d,"labels":{"app":"etcd"},"etcd":{},"backup":{}%s}}`, e.Name, e.Spec.Replicas, prefix)
	text, err := c.Client.Discovery().RESTClient().Post().AbsPath("/apis/druid.gardener.cloud/v1alpha1/namespaces/" + e.Namespace + "/etcds").Body([]byte(body)).DoRaw(t.Context())
	if err == nil {
		err = yaml.Unmarshal(text, &made)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return made
}

// podConfig is the configuration of a client with the token that a kubelet gives to a pod.
func podConfig(t *testing.T, c *cluster.Cluster, namespace, account, pod string) *rest.Config {
	t.Helper()
	p, err := c.Client.CoreV1().Pods(namespace).Get(t.Context(), pod, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.Client.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), account, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod, UID: p.UID}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config := rest.AnonymousClientConfig(c.Config)
	config.BearerToken = r.Status.Token
	return config
}

func etcdOf(namespace, name string, prefix *string) *druidv1alpha1.Etcd {
	e := &druidv1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}}
	e.Spec.Replicas, e.Spec.MemberNamePrefix = 3, prefix
	return e
}

// member reads an EtcdMember.
func memberAt(ctx context.Context, c *cluster.Cluster, namespace, name string) (m druidv1alpha1.EtcdMember, err error) {
	text, err := c.Client.Discovery().RESTClient().Get().AbsPath("/apis/druid.gardener.cloud/v1alpha1/namespaces/" + namespace + "/etcdmembers/" + name).DoRaw(ctx)
	if err != nil {
		return m, err
	}
	return m, yaml.Unmarshal(text, &m)
}

func TestAPodWritesItsOwnMemberAlone(t *testing.T) {
	together(t, light)
	c := borrow(t)
	police(t, c)
	if _, err := c.Client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shoot"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	prefix := "seed"
	for _, e := range []*druidv1alpha1.Etcd{etcdOf("shoot", "main", nil), etcdOf("shoot", "main-0", nil), etcdOf("shoot", "events", &prefix)} {
		membersOf(t, c, e)
	}
	client := func(etcd, pod string) *rest.RESTClient { return restClient(t, podConfig(t, c, "shoot", etcd, pod)) }
	admin := c.Client.Discovery().RESTClient().(*rest.RESTClient)
	free, err := c.ServiceAccountConfig(t.Context(), "shoot", "main")
	if err != nil {
		t.Fatal(err)
	}
	unbound := restClient(t, free)
	const (
		state  = `{"status":{"waiting":"for a person"}}`
		renew  = `{"metadata":{"annotations":{"member.etcd.gardener.cloud/tls-enabled":"true"}},"spec":{"holderIdentity":"1:2:Leader"}}`
		marked = `{"metadata":{"annotations":{"druid.gardener.cloud/create-as-learner":"","other":"stays"}}}`
		unmark = `{"metadata":{"annotations":{"druid.gardener.cloud/create-as-learner":null}}}`
	)
	change := func(by *rest.RESTClient, path, body string) error {
		group := "druid.gardener.cloud/v1alpha1"
		if strings.HasPrefix(path, "leases") {
			group = "coordination.k8s.io/v1"
		}
		return by.Patch(types.MergePatchType).AbsPath("/apis/" + group + "/namespaces/shoot/" + path).Body([]byte(body)).Do(t.Context()).Error()
	}
	// A policy is in force a moment after it was made. Until then this changes something, but nothing
	// that what follows depends on.
	await(t, func(context.Context) error {
		if err := change(admin, "etcdmembers/main-0/status", state); !apierrors.IsForbidden(err) {
			return fmt.Errorf("a status is changed: %v", err)
		}
		if err := change(unbound, "leases/main-0", renew); !apierrors.IsForbidden(err) {
			return fmt.Errorf("a Lease is changed: %v", err)
		}
		return nil
	})
	if err := change(admin, "etcdmembers/main-1", marked); err != nil {
		t.Fatalf("the administrator may not mark a learner: %v", err)
	}
	for _, c := range []struct {
		phrase     string
		by         *rest.RESTClient
		path, body string
		want       string // in the refusal; empty: it is granted
	}{
		{"its status", client("main", "main-1"), "etcdmembers/main-1/status", state, ""},
		{"its Lease", client("main", "main-1"), "leases/main-1", renew, ""},
		{"its mark as a learner", client("main", "main-1"), "etcdmembers/main-1", unmark, ""},
		{"its status, with a prefix", client("events", "events-2"), "etcdmembers/seed-events-2/status", state, ""},
		{"its Lease, with a prefix", client("events", "events-2"), "leases/seed-events-2", renew, ""},
		{"another's status", client("main", "main-1"), "etcdmembers/main-0/status", state, "only the pod of member main-0 may write its status"},
		{"another's Lease", client("main", "main-1"), "leases/main-0", renew, "only the pod of member main-0 may write this, and this is pod main-1"},
		{"another's mark", client("main", "main-0"), "etcdmembers/main-1", marked, "only the pod of member main-1"},
		{"another's status, with a prefix", client("events", "events-1"), "etcdmembers/seed-events-2/status", state, "only the pod of member seed-events-2"},
		{"of an Etcd whose name begins with its own", client("main", "main-0"), "etcdmembers/main-0-0/status", state, "cannot patch"},
		{"of an Etcd with which its own begins", client("main-0", "main-0-0"), "etcdmembers/main-0/status", state, "cannot patch"},
		{"an annotation", client("main", "main-1"), "etcdmembers/main-1", `{"metadata":{"annotations":{"other":"mine"}}}`, "may only remove the annotation"},
		{"its mark, to set it", client("main", "main-1"), "etcdmembers/main-1", marked, "may only remove the annotation"},
		{"its labels", client("main", "main-1"), "etcdmembers/main-1", `{"metadata":{"labels":{"gardener.cloud/owned-by":"events"}}}`, "may not change labels"},
		{"the labels of its Lease", client("main", "main-1"), "leases/main-1", `{"metadata":{"labels":null}}`, "may not change labels"},
		{"its owner", client("main", "main-1"), "leases/main-1", `{"metadata":{"ownerReferences":null}}`, "cannot set an ownerRef"},
		{"a finalizer", client("main", "main-1"), "etcdmembers/main-1", `{"metadata":{"finalizers":["a/b"]}}`, "may not change labels"},
		{"with a token that is bound to no pod: a status", unbound, "etcdmembers/main-1/status", state, "and no pod"},
		{"with a token that is bound to no pod: a Lease", unbound, "leases/main-1", renew, "this is no pod"},
		{"as the administrator: a status", admin, "etcdmembers/main-1/status", state, "only the pod of member main-1 may write its status"},
		{"as the administrator: a Lease", admin, "leases/main-1", renew, ""},
	} {
		err := change(c.by, c.path, c.body)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s is refused: %v", c.phrase, err)
		case c.want != "" && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want a refusal with %q", c.phrase, err, c.want)
		}
	}
	// RBAC lets nobody of them make or delete anything, or write another Lease; the policy does not either, but for those of the original's
	// snapshots.
	for _, lease := range []string{"main-full-snap", "main-delta-snap", "main-other-snap"} {
		o := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: lease, Labels: map[string]string{druidv1alpha1.LabelManagedBy: druidv1alpha1.ManagedBy, druidv1alpha1.LabelPartOf: "main"}}}
		if _, err := c.Client.CoordinationV1().Leases("shoot").Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("a Role that allows more does not help", func(t *testing.T) {
		role, err := c.Client.RbacV1().Roles("shoot").Get(t.Context(), "druid.gardener.cloud:etcd:main", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range role.Rules {
			role.Rules[i].Verbs, role.Rules[i].ResourceNames = []string{"*"}, nil
		}
		if _, err := c.Client.RbacV1().Roles("shoot").Update(t.Context(), role, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		by := client("main", "main-1")
		await(t, func(context.Context) error {
			for _, path := range []string{"/apis/coordination.k8s.io/v1/namespaces/shoot/leases/main-1", "/apis/coordination.k8s.io/v1/namespaces/shoot/leases/main-full-snap", "/apis/druid.gardener.cloud/v1alpha1/namespaces/shoot/etcdmembers/main-1"} {
				err := by.Delete().AbsPath(path).Do(t.Context()).Error()
				if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "makes and deletes nothing") {
					return fmt.Errorf("deleting %s: %w", path, err)
				}
			}
			return nil
		})
		for path, want := range map[string]string{
			"leases/main-full-snap":         "",
			"leases/main-delta-snap":        "",
			"leases/main-other-snap":        "only the pod of member main-other-snap may write this",
			"leases/main-full-snap, labels": "may not change labels",
		} {
			body := renew
			path, labels := strings.CutSuffix(path, ", labels")
			if labels {
				body = `{"metadata":{"labels":{"app.kubernetes.io/part-of":"events"}}}`
			}
			switch err := change(by, path, body); {
			case want == "" && err != nil:
				t.Errorf("a sidecar of the original is refused %s: %v", path, err)
			case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
				t.Errorf("%s: %v, want a refusal with %q", path, err, want)
			}
		}
		if err := change(unbound, "leases/main-full-snap", renew); err == nil || !strings.Contains(err.Error(), "this is no pod") {
			t.Errorf("with a token that is bound to no pod: %v, want a refusal", err)
		}
	})
}

func restClient(t *testing.T, config *rest.Config) *rest.RESTClient {
	t.Helper()
	set, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return set.Discovery().RESTClient().(*rest.RESTClient)
}

// requests counts what an agent asks.
type requests struct {
	http.RoundTripper
	mu   sync.Mutex
	n    int
	lost int // without an answer
}

func (r *requests) RoundTrip(q *http.Request) (*http.Response, error) {
	resp, err := r.RoundTripper.RoundTrip(q)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n++
	if err != nil {
		r.lost++
	}
	return resp, err
}

func (r *requests) counts() (all, lost int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.n, r.lost
}

func TestASidecarTellsKubernetesOfItsMember(t *testing.T) {
	together(t, light)
	c := borrow(t)
	police(t, c)
	e := etcdOf("default", "main", nil)
	membersOf(t, c, e)
	if err := c.Client.Discovery().RESTClient().Patch(types.MergePatchType).AbsPath("/apis/druid.gardener.cloud/v1alpha1/namespaces/default/etcdmembers/main-1").
		Body([]byte(`{"metadata":{"annotations":{"druid.gardener.cloud/create-as-learner":""}}}`)).Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
	config := podConfig(t, c, "default", "main", "main-1")
	await(t, func(ctx context.Context) error { // a Role is in force a moment after it was made
		return restClient(t, config).Get().AbsPath("/apis/druid.gardener.cloud/v1alpha1/namespaces/default/etcdmembers/main-1").Do(ctx).Error()
	})
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	asked := &requests{RoundTripper: client.Transport}
	client.Transport = asked
	board := status.New("main-1", time.Now, nil)
	lines := &buffer{}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		ended <- kube.Run(ctx, kube.Options{Server: c.Config.Host, Client: client, Namespace: "default", Member: "main-1", Heartbeat: 2 * time.Second,
			State: board.Get, Log: slog.New(slog.NewTextHandler(io.MultiWriter(t.Output(), lines), nil))})
	}()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	// It is a learner, which votes soon.
	board.Move(agentapi.Starting, agentapi.Learner, agentapi.JoinedAsLearner, "receives the data")
	leads := func(m *agentapi.Member) {
		m.ID, m.ClusterID, m.PeerURLs = "4c37667312a3912b", "cdf818194e3a8c32", []string{"http://main-1:2380"}
		m.Etcd = &agentapi.Etcd{Version: "3.6.16", Learner: true, Leader: "17", Revision: 9, DBSize: 6442450944, DBSizeInUse: 1000, Alarms: []string{"NOSPACE"}}
	}
	board.Update(leads)
	await(t, func(ctx context.Context) error {
		m, err := memberAt(ctx, c, "default", "main-1")
		if err != nil {
			return err
		}
		if s := m.Status; s.State != "Starting" || s.SubState != "Learner" || s.ID == nil || s.Revision != 9 || s.DBSize == nil || s.DBSize.Value() != 6442450944 || len(m.Annotations) != 1 {
			return fmt.Errorf("it says %+v, with %v", s, m.Annotations)
		}
		return nil
	})
	board.Move(agentapi.Started, agentapi.Follower, agentapi.PromotedAsVotingMember, "votes")
	now := time.Now()
	board.Update(func(m *agentapi.Member) {
		m.Etcd = &agentapi.Etcd{Version: "3.6.16", Leader: "4c37667312a3912b", Revision: 10}
		m.BackupLeader = true
		m.Snapshots = &agentapi.Snapshots{LastFull: &agentapi.Uploaded{Timestamp: now, Name: "Full-1", Size: 5, EndRevision: 9}, NothingNew: &now}
		m.LastRestoration = &agentapi.Restored{Type: agentapi.FromLeader, Status: agentapi.Success, Start: now, End: &now}
		m.LastDefragmentation = &agentapi.Defragmentation{Start: now, End: &now, Status: agentapi.Success, Reason: "schedule", InitialDBSize: 9, FinalDBSize: 5}
		m.VolumeMismatches = []agentapi.Mismatch{{IdentifiedAt: now, VolumeID: "v", Restarts: 1}}
	})
	await(t, func(ctx context.Context) error {
		m, err := memberAt(ctx, c, "default", "main-1")
		if err != nil {
			return err
		}
		s := m.Status
		if _, learner := m.Annotations[druidv1alpha1.AnnotationCreateAsLearner]; learner || s.State != "Started" || len(s.Transitions) != 2 || len(s.Alarms) != 0 || s.Snapshots == nil || s.LastRestoration == nil ||
			s.LastDefragmentation == nil || len(s.VolumeMismatches) != 1 {
			return fmt.Errorf("it says %+v, with %v", s, m.Annotations)
		}
		return nil
	})
	renewed := func(since time.Time) func(context.Context) error {
		return func(ctx context.Context) error {
			l, err := c.Client.CoordinationV1().Leases("default").Get(ctx, "main-1", metav1.GetOptions{})
			if err != nil {
				return err
			}
			if l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity != "4c37667312a3912b:cdf818194e3a8c32:Leader" || l.Annotations["member.etcd.gardener.cloud/tls-enabled"] != "false" || l.Spec.RenewTime.Before(&metav1.MicroTime{Time: since}) {
				return fmt.Errorf("the Lease is %+v, with %v", l.Spec, l.Annotations)
			}
			return nil
		}
	}
	await(t, renewed(time.Now()))

	// One that just started does not know the Roles yet: only until here nothing may be refused.
	if refused, all := meant(t, c); refused != 0 || all == 0 {
		t.Errorf("%d of %d requests were refused", refused, all)
	}
	if err := c.Kill(cluster.APIServer); err != nil {
		t.Fatal(err)
	}
	down, lostBefore := asked.counts()
	began := time.Now()
	await(t, func(context.Context) error {
		if _, lost := asked.counts(); lost < lostBefore+4 {
			return errors.New("the sidecar did not notice yet")
		}
		return nil
	})
	if all, _ := asked.counts(); float64(all-down) > 2*time.Since(began).Seconds()+4 {
		t.Errorf("%d requests within %v of an outage", all-down, time.Since(began))
	}
	board.Update(func(m *agentapi.Member) { m.Waiting = "for nobody" })
	if err := c.Restart(t.Context(), cluster.APIServer); err != nil {
		t.Fatal(err)
	}
	await(t, renewed(time.Now()))
	await(t, func(ctx context.Context) error {
		if m, err := memberAt(ctx, c, "default", "main-1"); err != nil || m.Status.Waiting != "for nobody" || len(m.Status.Transitions) != 2 {
			return fmt.Errorf("it says %+v (%v)", m.Status, err)
		}
		return nil
	})

	// The object of another cluster of the same name has no history.
	if err := c.Client.Discovery().RESTClient().Delete().AbsPath("/apis/druid.gardener.cloud/v1alpha1/namespaces/default/etcdmembers/main-1").Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
	board.Update(func(m *agentapi.Member) { m.Waiting = "" })
	await(t, func(context.Context) error {
		if !strings.Contains(lines.String(), "situation=missing") {
			return errors.New("the sidecar did not notice yet that its EtcdMember is gone")
		}
		return nil
	})
	remade := &druidv1alpha1.EtcdMember{TypeMeta: metav1.TypeMeta{APIVersion: "druid.gardener.cloud/v1alpha1", Kind: "EtcdMember"}, ObjectMeta: metav1.ObjectMeta{Name: "main-1", Labels: e.MemberLabels(1)}}
	body, err := yaml.Marshal(remade)
	if err == nil {
		body, err = yaml.YAMLToJSON(body)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Client.Discovery().RESTClient().Post().AbsPath("/apis/druid.gardener.cloud/v1alpha1/namespaces/default/etcdmembers").Body(body).Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
	await(t, func(ctx context.Context) error {
		if m, err := memberAt(ctx, c, "default", "main-1"); err != nil || m.Status.State != "Started" || m.Status.BackupLeader != true {
			return fmt.Errorf("the new object says %+v (%v)", m.Status, err)
		}
		return nil
	})
	if _, all := meant(t, c); all == 0 {
		t.Error("the audit log has no request of the sidecar")
	}
}

// meant complains about requests of the sidecar that are not about its own two objects, and returns
// how many were refused, of how many.
func meant(t *testing.T, c *cluster.Cluster) (refused, all int) {
	t.Helper()
	sent, err := c.Requests(func(r cluster.Request) bool { return r.UserAgent == "etcdbrctl" })
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range sent {
		if r.Verb != "get" && r.Verb != "patch" || r.Name != "main-1" || r.User != "system:serviceaccount:default:main" {
			t.Errorf("a request that was not meant: %s", r)
		}
		if r.Code == http.StatusForbidden {
			refused++
		}
	}
	return refused, len(sent)
}

// buffer may be written and read by many.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
