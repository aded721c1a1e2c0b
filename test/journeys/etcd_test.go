package journeys_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/test/cluster"
	"druid.internal/druid/test/writers"
)

// shop is the Etcd main of a namespace, with clients that write.
type shop struct {
	*site
	namespace string
	client    *clientv3.Client
	writers   writers.Writers
	closed    bool
}

const name = "main"

// spec is the specification of an Etcd of so many members, with what else it shall have.
func spec(members int, more map[string]any) map[string]any {
	all := map[string]any{"replicas": members, "labels": map[string]any{"app": "etcd"}, "storageCapacity": "1Gi", "etcd": map[string]any{}, "backup": map[string]any{}}
	for key, value := range more {
		all[key] = value
	}
	return all
}

// backed are the settings of backups in a store.
func backed(store map[string]any) map[string]any {
	return map[string]any{"backup": map[string]any{"deltaSnapshotPeriod": "2s", "store": store}}
}

// namespace makes one. In a cluster of somebody else it is taken away again, unless the journey failed.
func (s *site) namespace(t *testing.T, namespace string) {
	t.Helper()
	s.apply(t, fmt.Sprintf("{apiVersion: v1, kind: Namespace, metadata: {name: %s}}", namespace))
	t.Cleanup(func() {
		if s.ours || t.Failed() {
			return
		}
		if _, err := s.Kubectl(context.WithoutCancel(t.Context()), "delete", "namespace", namespace, "--wait=false"); err != nil {
			t.Error(err)
		}
	})
}

// open makes the Etcd and waits until it is whole. At the end of a journey that went well it is deleted.
func (s *site) open(t *testing.T, namespace string, spec map[string]any) *shop {
	t.Helper()
	p := s.found(t, namespace, spec)
	p.opens(t)
	return p
}

// found makes the Etcd.
func (s *site) found(t *testing.T, namespace string, spec map[string]any) *shop {
	t.Helper()
	p := &shop{site: s, namespace: namespace}
	p.make(t, spec)
	return p
}

func (p *shop) make(t *testing.T, spec map[string]any) {
	t.Helper()
	p.apply(t, map[string]any{
		"apiVersion": druidv1alpha1.GroupVersion().String(), "kind": druidv1alpha1.KindEtcd,
		"metadata": map[string]any{"name": name, "namespace": p.namespace}, "spec": spec,
	})
}

// opens waits until the Etcd is whole.
func (p *shop) opens(t *testing.T) {
	t.Helper()
	p.await(t, "the Etcd is whole", p.whole)
	t.Cleanup(func() {
		if !t.Failed() && !p.closed {
			p.close(t)
		}
	})
	p.connect(t)
}

// connect makes a client of the Service. The addresses of pods change.
func (p *shop) connect(t *testing.T) {
	t.Helper()
	p.client = p.dial(t, nil)
}

func (p *shop) dial(t *testing.T, secure func(*clientv3.Config)) *clientv3.Client {
	t.Helper()
	c := clientv3.Config{
		Endpoints:   []string{"http://" + net.JoinHostPort(p.address(t), "2379")},
		DialTimeout: 10 * time.Second, DialKeepAliveTime: 2 * time.Second, DialKeepAliveTimeout: 2 * time.Second, Logger: zap.NewNop(),
	}
	if secure != nil {
		secure(&c)
	}
	client, err := clientv3.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

// direct makes a client of the pods, past the Service.
func (p *shop) direct(t *testing.T) *clientv3.Client {
	t.Helper()
	pods, err := p.pods(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return p.dial(t, func(c *clientv3.Config) {
		c.Endpoints = nil
		for _, pod := range pods {
			c.Endpoints = append(c.Endpoints, "http://"+net.JoinHostPort(pod.Status.PodIP, "2379"))
		}
	})
}

// address is that of the Service of clients.
func (p *shop) address(t *testing.T) string {
	t.Helper()
	service, err := p.Client.CoreV1().Services(p.namespace).Get(t.Context(), name+"-client", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return service.Spec.ClusterIP
}

// etcd reads the Etcd.
func (p *shop) etcd(ctx context.Context) (e druidv1alpha1.Etcd, err error) {
	return e, p.read(ctx, "etcds", name, &e)
}

// read reads one of our resources.
func (p *shop) read(ctx context.Context, resource, name string, into any) error {
	text, err := p.Client.Discovery().RESTClient().Get().AbsPath("/apis", druidv1alpha1.GroupVersion().String(), "namespaces", p.namespace, resource, name).DoRaw(ctx)
	if err != nil {
		return err
	}
	return yaml.Unmarshal(text, into)
}

// patch changes the specification as a person would.
func (p *shop) patch(t *testing.T, spec string) {
	t.Helper()
	change, err := yaml.YAMLToJSON([]byte("{spec: " + spec + "}"))
	if err != nil {
		t.Fatal(err)
	}
	p.kubectl(t, "--namespace="+p.namespace, "patch", "etcd", name, "--type=merge", "--patch="+string(change))
}

// pods are those of the members, in their order.
func (p *shop) pods(ctx context.Context) ([]corev1.Pod, error) {
	list, err := p.Client.CoreV1().Pods(p.namespace).List(ctx, metav1.ListOptions{LabelSelector: druidv1alpha1.LabelPartOf + "=" + name})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

func ready(pod corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// whole is nil if the specification was carried out, all members serve and nothing is wrong.
func (p *shop) whole(ctx context.Context) error {
	e, err := p.etcd(ctx)
	if err != nil {
		return err
	}
	if s := e.Status.ObservedGeneration; s == nil || *s != e.Generation {
		return errors.New("the operator has not seen the specification yet")
	}
	if o := e.Status.LastOperation; o == nil || o.State != druidv1alpha1.LastOperationSucceeded || len(e.Status.LastErrors) > 0 {
		return fmt.Errorf("the last operation is %+v, the last errors %v", o, e.Status.LastErrors)
	}
	wanted := []druidv1alpha1.ConditionType{
		druidv1alpha1.ConditionReady, druidv1alpha1.ConditionAllMembersReady, druidv1alpha1.ConditionAllMembersUpdated, druidv1alpha1.ConditionDataVolumesReady,
	}
	if e.Spec.Backup.Store != nil {
		wanted = append(wanted, druidv1alpha1.ConditionBackupReady)
		if b := e.Status.Backup; b == nil || b.FirstRestorable == nil || b.LastRestorable == nil {
			return fmt.Errorf("of the bucket is told %+v", b)
		}
	}
	for _, kind := range wanted {
		if c := druidv1alpha1.FindCondition(e.Status.Conditions, kind); c == nil || c.Status != druidv1alpha1.ConditionTrue {
			return fmt.Errorf("%s is %+v", kind, c)
		}
	}
	pods, err := p.pods(ctx)
	if err != nil {
		return err
	}
	if len(pods) != int(e.Spec.Replicas) || e.Status.ReadyReplicas != e.Spec.Replicas {
		return fmt.Errorf("there are %d pods, ready are %d, want %d", len(pods), e.Status.ReadyReplicas, e.Spec.Replicas)
	}
	set, err := p.Client.AppsV1().StatefulSets(p.namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if set.Status.ObservedGeneration != set.Generation {
		return errors.New("Kubernetes has not seen the StatefulSet yet")
	}
	for _, pod := range pods {
		if !ready(pod) {
			return fmt.Errorf("pod %s is not ready", pod.Name)
		}
		if pod.Labels["controller-revision-hash"] != set.Status.UpdateRevision {
			return fmt.Errorf("pod %s has a former template", pod.Name)
		}
	}
	return nil
}

// says is nil if the Etcd has a condition so.
func (p *shop) says(of druidv1alpha1.ConditionType, status druidv1alpha1.ConditionStatus, reason, message string) func(context.Context) error {
	return func(ctx context.Context) error {
		e, err := p.etcd(ctx)
		if err != nil {
			return err
		}
		c := druidv1alpha1.FindCondition(e.Status.Conditions, of)
		if c == nil || c.Status != status || c.Reason != reason || !strings.Contains(c.Message, message) {
			return fmt.Errorf("%s is %+v, want %s, %s with %q", of, c, status, reason, message)
		}
		return nil
	}
}

// told is nil if there is such an event about the Etcd.
func (p *shop) told(reason, note string) func(context.Context) error {
	return func(ctx context.Context) error {
		list, err := p.Client.EventsV1().Events(p.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		var others []string
		for _, e := range list.Items {
			if e.Regarding.Kind != druidv1alpha1.KindEtcd {
				continue
			}
			if e.Reason == reason && strings.Contains(e.Note, note) {
				return nil
			}
			others = append(others, e.Reason+": "+e.Note)
		}
		return fmt.Errorf("the events are %q, want %s with %q", others, reason, note)
	}
}

// enoughWrites are acknowledged before something is done to the cluster.
const enoughWrites = 50

// write lets clients write through kv, and returns when they were heard.
func (p *shop) write(t *testing.T, kv clientv3.KV) {
	t.Helper()
	p.writers.Start(t.Context(), kv)
	t.Cleanup(p.writers.Stop)
	p.more(t)
	p.writers.Mark()
}

// more waits until more writes were acknowledged.
func (p *shop) more(t *testing.T) {
	t.Helper()
	goal := p.writers.EverAcknowledged() + enoughWrites
	p.await(t, "clients write", func(context.Context) error {
		if got := p.writers.EverAcknowledged(); got < goal {
			return fmt.Errorf("%d writes are missing", goal-got)
		}
		return nil
	})
}

// stallAtMost is more than an election takes, and the search for a client that is let in, on a machine that
// has more to do.
const stallAtMost = 90 * time.Second

// nothingIsLost ends the writing and looks for every acknowledged write through kv.
func (p *shop) nothingIsLost(t *testing.T, kv clientv3.KV) {
	t.Helper()
	p.more(t)
	stall := p.writers.Stall()
	p.writers.Stop()
	p.holds(t, kv)
	t.Logf("%d writes were acknowledged, the longest time without one was %s", p.writers.EverAcknowledged(), stall.Round(10*time.Millisecond))
	if stall > stallAtMost {
		t.Errorf("for %s no write was acknowledged", stall)
	}
}

// holds looks for every acknowledged write through kv, while nobody writes.
func (p *shop) holds(t *testing.T, kv clientv3.KV) {
	t.Helper()
	var got *clientv3.GetResponse
	p.await(t, "the keys can be read", func(ctx context.Context) (err error) {
		got, err = kv.Get(ctx, writers.Prefix, clientv3.WithPrefix())
		return err
	})
	for _, lost := range p.writers.Ledger.AgainstKeys(got.Kvs, got.Header.Revision) {
		t.Error(lost)
	}
}

// oneAtATime watches while a change of the members' pods is carried out: at any time at most one is away.
func (p *shop) oneAtATime(t *testing.T, members int, what string, done func(context.Context) error) {
	t.Helper()
	fewest := members
	p.await(t, what, func(ctx context.Context) error {
		pods, err := p.pods(ctx)
		if err != nil {
			return err
		}
		serving := 0
		for _, pod := range pods {
			if ready(pod) {
				serving++
			}
		}
		if serving < fewest {
			if fewest = serving; fewest < members-1 {
				t.Errorf("of %d members only %d are ready", members, serving)
			}
		}
		return done(ctx)
	})
}

// uids are those of the pods.
func (p *shop) uids(t *testing.T) (all []string) {
	t.Helper()
	pods, err := p.pods(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range pods {
		all = append(all, string(pod.UID))
	}
	return all
}

// close deletes the Etcd, after which its volumes are left and nothing else.
func (p *shop) close(t *testing.T) {
	t.Helper()
	p.closed = true
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	role, err := p.Client.RbacV1().Roles(p.namespace).Get(ctx, druidv1alpha1.Group+":etcd:"+name, metav1.GetOptions{})
	if err != nil {
		t.Error(err)
		return
	}
	p.mu.Lock()
	p.granted = append(p.granted, role.Rules...)
	p.members["system:serviceaccount:"+p.namespace+":"+name] = true
	p.mu.Unlock()
	if _, err := p.Kubectl(ctx, "--namespace="+p.namespace, "delete", "etcd", name, "--timeout="+patience.String()); err != nil {
		t.Error(err)
		return
	}
	err = cluster.Await(ctx, patience, func(ctx context.Context) error {
		left, err := p.Kubectl(ctx, "--namespace="+p.namespace, "get", kinds, "--selector="+druidv1alpha1.LabelPartOf+"="+name, "-o", "name")
		if err == nil && strings.TrimSpace(left) != "" {
			err = fmt.Errorf("left are %s", strings.Join(strings.Fields(left), ", "))
		}
		return err
	})
	if err == nil {
		_, err = p.Kubectl(ctx, "--namespace="+p.namespace, "delete", "persistentvolumeclaims", "--all", "--wait=false")
	}
	if err != nil {
		t.Error(err)
	}
}

// kinds are of what the operator makes for an Etcd, without the claims, which stay.
const kinds = "statefulsets,pods,services,configmaps,secrets,serviceaccounts,roles,rolebindings,poddisruptionbudgets,leases,etcdmembers"
