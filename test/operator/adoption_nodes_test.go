package operator_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"druid.internal/druid/test/cluster"
	"druid.internal/druid/test/cluster/image"
	written "druid.internal/druid/test/original"
	"druid.internal/druid/test/stores"
	"druid.internal/druid/test/writers"
)

// The images of the story.
const (
	ownImage     = "registry.local/etcd-druid:taken-over"
	standInImage = "registry.local/etcd-of-the-original:3.5"
)

// packed makes the image of our programs, and that of an etcd 3.5.
func packed(t *testing.T) (tars []string) {
	t.Helper()
	dir := t.TempDir()
	own := image.Spec{Name: ownImage}
	for _, program := range []string{"etcdbrctl", "etcd-wrapper"} {
		path := filepath.Join(dir, program)
		build := exec.Command("go", "build", "-o", path, "./cmd/"+program)
		build.Dir = filepath.Join("..", "..")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("build %s: %v\n%s", program, err, out)
		}
		own.Files = append(own.Files, image.File{Path: "/usr/local/bin/" + program, Source: path})
	}
	system, err := image.System()
	if err != nil {
		t.Fatal(err)
	}
	own.Files = append(own.Files, system...)
	etcd, err := stores.Binary("etcd-3.5")
	if err != nil {
		t.Fatal(err)
	}
	for name, spec := range map[string]image.Spec{"own.tar": own, "original.tar": {Name: standInImage, Files: []image.File{{Path: "/etcd", Source: etcd}}}} {
		tar := filepath.Join(dir, name)
		if err := image.Write(tar, spec); err != nil {
			t.Fatal(err)
		}
		tars = append(tars, tar)
	}
	return tars
}

// standIn has the containers of the original's StatefulSet be an etcd 3.5 with the original's names, ports
// and data directory, and one that does nothing: what the original's own programs do is not needed
// to take them over.
func standIn(t *testing.T, set *unstructured.Unstructured) {
	t.Helper()
	containers, _, err := unstructured.NestedSlice(set.Object, "spec", "template", "spec", "containers")
	if err != nil {
		t.Fatal(err)
	}
	etcd, sidecar := containers[0].(map[string]any), containers[1].(map[string]any)
	var all []string
	for i := range 3 {
		all = append(all, fmt.Sprintf("main-%[1]d=https://main-%[1]d.main-peer.shop.svc:2380", i))
	}
	etcd["image"], etcd["command"] = standInImage, []any{"/etcd"}
	etcd["args"] = []any{
		"--name=$(POD_NAME)", "--data-dir=/var/etcd/data/new.etcd", "--initial-cluster-token=etcd-cluster", "--initial-cluster=" + strings.Join(all, ","),
		"--listen-peer-urls=https://0.0.0.0:2380", "--listen-client-urls=https://0.0.0.0:2379", "--listen-metrics-urls=http://0.0.0.0:2381",
		"--initial-advertise-peer-urls=https://$(POD_NAME).main-peer.shop.svc:2380", "--advertise-client-urls=https://$(POD_NAME).main-peer.shop.svc:2379",
		"--client-cert-auth", "--trusted-ca-file=/var/etcd/ssl/ca/ca.crt", "--cert-file=/var/etcd/ssl/server/tls.crt", "--key-file=/var/etcd/ssl/server/tls.key",
		"--peer-client-cert-auth", "--peer-trusted-ca-file=/var/etcd/ssl/peer/ca/ca.crt", "--peer-cert-file=/var/etcd/ssl/peer/server/tls.crt", "--peer-key-file=/var/etcd/ssl/peer/server/tls.key",
	}
	etcd["env"] = []any{map[string]any{"name": "POD_NAME", "valueFrom": map[string]any{"fieldRef": map[string]any{"fieldPath": "metadata.name"}}}}
	etcd["readinessProbe"] = map[string]any{"httpGet": map[string]any{"path": "/health", "port": int64(2381)}, "periodSeconds": int64(2)}
	sidecar["image"] = "registry.local/pause:" + stores.PauseVersion
	delete(sidecar, "args")
	pod := set.Object["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
	sidecar["volumeMounts"] = sidecar["volumeMounts"].([]any)[:2] // without a store it has no credentials
	volumes := pod["volumes"].([]any)[:1]
	for _, c := range written.Certificates {
		etcd["volumeMounts"] = append(etcd["volumeMounts"].([]any), map[string]any{"name": c.Volume, "mountPath": c.Path})
		volumes = append(volumes, map[string]any{"name": c.Volume, "secret": map[string]any{"secretName": c.Secret, "defaultMode": int64(0o440)}})
	}
	pod["containers"], pod["volumes"] = containers, volumes
}

// certifyOriginal makes the Secrets of the original's cluster, one authority for clients and one for members, and returns how
// a client shows itself.
func (s *site) certifyOriginal(t *testing.T) *tls.Config {
	t.Helper()
	ca, err := stores.NewCA()
	if err != nil {
		t.Fatal(err)
	}
	issue := func(by *stores.CA, hosts ...string) map[string][]byte {
		cert, key, err := by.Issue(hosts...)
		if err != nil {
			t.Fatal(err)
		}
		return map[string][]byte{corev1.TLSCertKey: cert, corev1.TLSPrivateKeyKey: key}
	}
	peers, err := stores.NewCA()
	if err != nil {
		t.Fatal(err)
	}
	// Members look the names up by which they are called, so each is named.
	members := []string{"main-0.main-peer.shop.svc", "main-1.main-peer.shop.svc", "main-2.main-peer.shop.svc"}
	hosts := append([]string{"main-local", "main-client", "main-client.shop", "main-client.shop.svc"}, members...)
	all := map[string]map[string][]byte{
		"ca": {"ca.crt": ca.PEM}, "server": issue(ca, hosts...), "client": issue(ca, "client"),
		"peer-ca": {"ca.crt": peers.PEM}, "peer-server": issue(peers, members...),
	}
	for name, data := range all {
		o := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}
		if _, err := s.Client.CoreV1().Secrets("shop").Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	pair, err := tls.X509KeyPair(all["client"][corev1.TLSCertKey], all["client"][corev1.TLSPrivateKeyKey])
	if err != nil {
		t.Fatal(err)
	}
	c := ca.ClientTLS()
	c.Certificates = []tls.Certificate{pair}
	return c
}

// dial finds what is asked for by the names that pods have for it, as the certificates have.
func (s *site) dial(ctx context.Context, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	var ip string
	if pod, is := strings.CutSuffix(host, ".main-peer.shop.svc"); is {
		p, err := s.Client.CoreV1().Pods("shop").Get(ctx, pod, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		ip = p.Status.PodIP
	} else {
		o, err := s.Client.CoreV1().Services("shop").Get(ctx, host, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		ip = o.Spec.ClusterIP
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(ip, port))
}

// layOutStandIn makes the objects of the original without backups, and waits until its members run.
func (s *site) layOutStandIn(t *testing.T) {
	t.Helper()
	e := s.create(t, `
apiVersion: druid.gardener.cloud/v1alpha1
kind: Etcd
metadata: {name: main, namespace: shop, finalizers: [druid.gardener.cloud/etcd-druid]}
spec:
  labels: {}
  replicas: 3
  storageCapacity: 1Gi
  etcd:
    clientUrlTls: {tlsCASecretRef: {name: ca}, serverTLSSecretRef: {name: server}, clientTLSSecretRef: {name: client}}
    peerUrlTls: {tlsCASecretRef: {name: peer-ca}, serverTLSSecretRef: {name: peer-server}}
  backup: {}
`, nil)
	set(e.Object, map[string]any{"observedGeneration": e.GetGeneration()}, "status")
	if _, err := s.objects.Resource(resources["Etcd"]).Namespace("shop").UpdateStatus(t.Context(), e, metav1.UpdateOptions{FieldManager: "etcd-druid"}); err != nil {
		t.Fatal(err)
	}
	owner := metav1.NewControllerRef(e, e.GroupVersionKind())
	withPorts := strings.NewReplacer("CLIENTPORT", "2379", "SIDECARPORT", "8080", "16Gi", "1Gi").Replace(written.Objects)
	for _, one := range strings.Split(written.WithTLS.Replace(withPorts), "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(one), &object.Object); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(object.GetName(), "-snap") {
			continue // without backups there are none
		}
		if object.GetKind() == "StatefulSet" {
			standIn(t, object)
		}
		made, err := yaml.Marshal(object.Object)
		if err != nil {
			t.Fatal(err)
		}
		s.create(t, string(made), owner)
	}
	await(t, func(ctx context.Context) error {
		set, err := s.Client.AppsV1().StatefulSets("shop").Get(ctx, "main", metav1.GetOptions{})
		if err == nil && set.Status.ReadyReplicas != 3 {
			err = fmt.Errorf("%d of 3 pods are ready", set.Status.ReadyReplicas)
		}
		return err
	})
}

// memberIDs are the members that etcd lists, and the versions that they run.
func memberIDs(ctx context.Context, s *site, c *clientv3.Client) (ids, versions []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	list, err := c.MemberList(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, m := range list.Members {
		ids = append(ids, fmt.Sprintf("%016x %s %s learner=%t", m.ID, m.Name, m.PeerURLs[0], m.IsLearner))
		st, err := c.Status(ctx, "https://"+m.Name+".main-peer.shop.svc:2379")
		if err != nil {
			return nil, nil, err
		}
		minor, _, _ := strings.Cut(strings.TrimPrefix(st.Version, "3."), ".")
		versions = append(versions, "3."+minor)
	}
	slices.Sort(ids)
	return ids, versions, nil
}

// Pods of the original on real nodes, with TLS between members and of clients, are replaced one after the other by operators that die
// after each step, while clients write: the members, their data and what was acknowledged stay.
func TestAClusterOfTheOriginalIsTakenOverWhileClientsWrite(t *testing.T) {
	together(t, heavy)
	c := cluster.Run(t, cluster.Options{Pin: *pin, Nodes: 3, Sync: 5 * time.Second, Images: packed(t), Progress: t.Output()})
	define(t, c)
	objects, err := dynamic.NewForConfig(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	s := &site{c, objects, buildProgram(t)}
	s.grant(t)
	s.namespace(t, "shop")
	secure := s.certifyOriginal(t)
	s.layOutStandIn(t)

	etcd, err := clientv3.New(clientv3.Config{TLS: secure, Endpoints: []string{"https://main-client:2379"}, DialOptions: []grpc.DialOption{grpc.WithContextDialer(s.dial)}, DialTimeout: 5 * time.Second, DialKeepAliveTime: 2 * time.Second, DialKeepAliveTimeout: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { etcd.Close() })
	ids, versions, err := memberIDs(t.Context(), s, etcd)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"3.5", "3.5", "3.5"}; !slices.Equal(versions, want) {
		t.Fatalf("the members run %q, want %q", versions, want)
	}
	for _, m := range ids {
		if !strings.Contains(m, " https://main-") {
			t.Fatalf("a member of the original is %q, want it to be reached by TLS", m)
		}
	}
	w := writing(t, etcd)
	begun := time.Now()
	m := s.mortal(t, automatic, "images: {all: "+ownImage+"}")
	m.g.road("shop").shorten(true)
	allOurs := func(ctx context.Context) error {
		if err := s.operation("shop", "main", "Reconcile Succeeded")(ctx); err != nil {
			return err
		}
		list, err := s.Client.CoreV1().Pods("shop").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		if n := len(list.Items); n != 3 {
			return fmt.Errorf("there are %d pods", n)
		}
		for _, pod := range list.Items {
			if !slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
				return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
			}) {
				return fmt.Errorf("%s is not ready", pod.Name)
			}
			if !slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Image == ownImage }) {
				return fmt.Errorf("%s is still of the original", pod.Name)
			}
		}
		return nil
	}
	m.until(t, 15*time.Minute, allOurs)
	stall := w.Stall()
	w.Stop()
	t.Logf("taken over in %v by operators of which %d died; the longest time without an acknowledged write was %v, of %d writes", time.Since(begun).Round(time.Second), m.deaths, stall.Round(time.Millisecond), w.EverAcknowledged())

	after, versions, err := memberIDs(t.Context(), s, etcd)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(after, ids) {
		t.Errorf("the members are %q, and were %q", after, ids)
	}
	if want := []string{"3.6", "3.6", "3.6"}; !slices.Equal(versions, want) {
		t.Errorf("the members run %q, want %q", versions, want)
	}
	if m.deaths < 20 {
		t.Errorf("%d operators died: too few to show anything", m.deaths)
	}
	if stall > stallAtMost {
		t.Errorf("for %v no write was acknowledged", stall)
	}
	all, err := etcd.Get(t.Context(), writers.Prefix, clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	for _, lost := range w.Ledger.AgainstKeys(all.Kvs, all.Header.Revision) {
		t.Error(lost)
	}
}
