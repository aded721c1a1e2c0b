package operator_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"druid.internal/druid/internal/agentapi"
	written "druid.internal/druid/test/original"
)

// original is a cluster of the original: three pods, behind whose addresses its etcds and sidecars
// answer. The first one leads.
type original struct {
	addresses            [3]string
	clients, sidecars    int // ports
	mu                   sync.Mutex
	version              string
	snapshots            int
	snapshot             chan struct{} // closed: snapshots are answered
	pb.MaintenanceServer               // what is not answered panics
	pb.ClusterServer
}

// originalAt is one of its etcds.
type originalAt struct {
	*original
	number int
}

func (m originalAt) Status(context.Context, *pb.StatusRequest) (*pb.StatusResponse, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &pb.StatusResponse{Header: m.header(), Version: m.version, Leader: 0xa0, DbSize: 1 << 20}, nil
}

func (m originalAt) MemberList(context.Context, *pb.MemberListRequest) (*pb.MemberListResponse, error) {
	r := &pb.MemberListResponse{Header: m.header()}
	for i := range m.addresses {
		r.Members = append(r.Members, &pb.Member{ID: 0xa0 + uint64(i), Name: fmt.Sprintf("main-%d", i), PeerURLs: []string{fmt.Sprintf("http://main-%d.main-peer.shop.svc:2380", i)}})
	}
	return r, nil
}

func (m originalAt) header() *pb.ResponseHeader {
	return &pb.ResponseHeader{ClusterId: 0xc1, MemberId: 0xa0 + uint64(m.number), Revision: 9120}
}

// ServeHTTP is a sidecar, which passes on to the one that makes the backups.
func (o *original) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != agentapi.Full {
		http.NotFound(w, r)
		return
	}
	o.mu.Lock()
	o.snapshots++
	o.mu.Unlock()
	select {
	case <-o.snapshot:
		_ = json.NewEncoder(w).Encode(agentapi.Snapshot{Kind: "Full", SnapName: "Full-00000000-00009120-1700000000.gz"})
	case <-r.Context().Done():
	}
}

func (o *original) runs(version string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.version = version
}

func (o *original) asked() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.snapshots
}

// newOriginal has etcds and sidecars answer.
func newOriginal(t *testing.T) *original {
	t.Helper()
	o := &original{addresses: [3]string{"127.0.0.11", "127.0.0.12", "127.0.0.13"}, version: "3.4.34", snapshot: make(chan struct{})}
	clients, sidecars := samePort(t, o.addresses[:]), samePort(t, o.addresses[:])
	port := func(l net.Listener) int { return l.Addr().(*net.TCPAddr).Port }
	o.clients, o.sidecars = port(clients[0]), port(sidecars[0])
	for i := range o.addresses {
		etcd := grpc.NewServer()
		pb.RegisterMaintenanceServer(etcd, originalAt{o, i})
		pb.RegisterClusterServer(etcd, originalAt{o, i})
		sidecar := &http.Server{Handler: o, ReadHeaderTimeout: time.Minute}
		var ended sync.WaitGroup
		ended.Go(func() { _ = etcd.Serve(clients[i]) })
		ended.Go(func() { _ = sidecar.Serve(sidecars[i]) })
		t.Cleanup(func() {
			etcd.Stop()
			_ = sidecar.Close()
			ended.Wait()
		})
	}
	return o
}

// samePort listens at all addresses on one port.
func samePort(t *testing.T, addresses []string) []net.Listener {
	t.Helper()
	var last error
	for range 20 {
		var all []net.Listener
		port := 0
		for _, a := range addresses {
			l, err := net.Listen("tcp", net.JoinHostPort(a, strconv.Itoa(port)))
			if last = err; err != nil {
				break
			}
			all, port = append(all, l), l.Addr().(*net.TCPAddr).Port
		}
		if last == nil {
			return all
		}
		for _, l := range all {
			l.Close()
		}
	}
	t.Fatal(last)
	return nil
}

const originalsEtcd = `
apiVersion: druid.gardener.cloud/v1alpha1
kind: Etcd
metadata: {name: main, namespace: shop, finalizers: [druid.gardener.cloud/etcd-druid]}
spec:
  labels: {}
  replicas: 3
  etcd: {clientPort: CLIENTPORT}
  backup:
    port: SIDECARPORT
    store: {provider: aws, container: backups, prefix: shop--main, secretRef: {name: credentials}}
`

// layOut makes what the original makes, in its name, and has its pods run. change makes it older.
func (o *original) layOut(t *testing.T, s *site, change func(string) string) {
	t.Helper()
	ports := strings.NewReplacer("CLIENTPORT", strconv.Itoa(o.clients), "SIDECARPORT", strconv.Itoa(o.sidecars))
	e := s.create(t, ports.Replace(originalsEtcd), nil)
	set(e.Object, map[string]any{"observedGeneration": e.GetGeneration()}, "status")
	if _, err := s.objects.Resource(resources["Etcd"]).Namespace("shop").UpdateStatus(t.Context(), e, metav1.UpdateOptions{FieldManager: "etcd-druid"}); err != nil {
		t.Fatal(err)
	}
	owner := metav1.NewControllerRef(e, e.GroupVersionKind())
	for _, one := range strings.Split(change(ports.Replace(written.Objects)), "\n---\n") {
		s.create(t, one, owner)
	}
	for i := range o.addresses {
		o.start(t, s, fmt.Sprintf("main-%d", i), o.addresses[i])
	}
	// A Lease that was renewed before its pod was made would be of a former one.
	for i := range o.addresses {
		s.change(t, "Lease", "shop", fmt.Sprintf("main-%d", i), func(l map[string]any) {
			set(l, time.Now().UTC().Format("2006-01-02T15:04:05.000000Z"), "spec", "renewTime")
		})
	}
}

// start has a pod run, as a kubelet would say it.
func (o *original) start(t *testing.T, s *site, name, address string) {
	t.Helper()
	await(t, func(ctx context.Context) error {
		p, err := s.Client.CoreV1().Pods("shop").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		p.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: address, PodIPs: []corev1.PodIP{{IP: address}}, Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue}, {Type: corev1.ContainersReady, Status: corev1.ConditionTrue},
		}}
		for _, c := range p.Spec.Containers {
			p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: c.Name, Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}})
		}
		_, err = s.Client.CoreV1().Pods("shop").UpdateStatus(ctx, p, metav1.UpdateOptions{})
		return err
	})
}

// create makes an object in the name of the original's operator.
func (s *site) create(t *testing.T, text string, owner *metav1.OwnerReference) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	if owner != nil {
		o.SetOwnerReferences([]metav1.OwnerReference{*owner})
	}
	made, err := s.objects.Resource(resources[o.GetKind()]).Namespace("shop").Create(t.Context(), o, metav1.CreateOptions{FieldManager: "etcd-druid"})
	if err != nil {
		t.Fatalf("create %s %s: %v", o.GetKind(), o.GetName(), err)
	}
	return made
}

// pods are the names of the pods that are those of before, by their uids.
func (s *site) pods(ctx context.Context, before map[string]string) (same []string, all map[string]string, err error) {
	all = map[string]string{}
	list, err := s.Client.CoreV1().Pods("shop").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, nil, err
	}
	for _, p := range list.Items {
		all[p.Name] = string(p.UID)
		if before[p.Name] == string(p.UID) && p.DeletionTimestamp == nil {
			same = append(same, p.Name)
		}
	}
	return same, all, nil
}

// only is nil if of the pods of before only these are left.
func (s *site) only(before map[string]string, want ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		same, _, err := s.pods(ctx, before)
		if err == nil && strings.Join(same, " ") != strings.Join(want, " ") {
			err = fmt.Errorf("pods as before: %q, want %q", same, want)
		}
		return err
	}
}

// version is the resource version of an object: it is untouched as long as that stays.
func (s *site) version(t *testing.T, kind, name string) string {
	t.Helper()
	o, err := s.get(t.Context(), kind, "shop", name)
	if err != nil {
		t.Fatal(err)
	}
	if kind == "StatefulSet" {
		return fmt.Sprint(o.GetGeneration(), o.GetUID()) // its status changes by itself
	}
	return o.GetResourceVersion()
}

// ours is nil if the StatefulSet is as we make it.
func (s *site) ours(ctx context.Context) error {
	set, err := s.Client.AppsV1().StatefulSets("shop").Get(ctx, "main", metav1.GetOptions{})
	if err == nil && set.Spec.UpdateStrategy.Type != "OnDelete" {
		err = errors.New("the StatefulSet is not changed yet")
	}
	return err
}
