package journeys_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/test/cluster"
	"druid.internal/druid/test/cluster/image"
	"druid.internal/druid/test/original"
	"druid.internal/druid/test/stores"
)

// standInImage is of what stands in for the original's programs.
const standInImage = "registry.local/of-the-original:3.5"

// A cluster of the original with backups, all of whose connections use TLS, becomes ours, as docs/operations/taking-over.md has it,
// while clients write and its own sidecars go on with deltas and Leases. What they uploaded stays as it is, a full of ours comes
// beside it, and when all volumes are lost afterwards that restores. At last it is made ready for the way back.
func takeOver(t *testing.T, s *site) {
	const namespace = "taking-over"
	if err := s.LoadImage(t.Context(), standIns(t)); err != nil {
		t.Fatal(err)
	}
	s.namespace(t, namespace)
	p := &shop{site: s, namespace: namespace}
	secure := p.layOutOriginal(t)
	p.client = p.secured(t, secure, net.JoinHostPort(p.address(t), "2379"))
	p.write(t, p.client)
	s.await(t, "the original's sidecars have uploaded", func(context.Context) error {
		if got := s.snapshots(t, namespace); ending(got, "Full-", ".gz") == 0 || ending(got, "Incr-", ".gz") < 2 {
			return fmt.Errorf("in the bucket are %q", slices.Sorted(maps.Keys(got)))
		}
		return nil
	})
	for _, lease := range []string{"full", "delta"} {
		s.await(t, "the original's sidecars tell of snapshots", p.snapshotLease(lease, func(l holder) bool { return l.said }))
	}
	asked := time.Now()
	before, members, ofOriginal := s.snapshots(t, namespace), p.listed(t), p.uids(t)

	// Asking for it is taking the annotation away, as the operator applies what it finds.
	s.kubectl(t, "--namespace="+namespace, "annotate", "etcd", name, druidv1alpha1.AnnotationSuspendReconcile+"-")
	p.oneAtATime(t, 3, "the cluster is taken over", func(ctx context.Context) error {
		e, err := p.etcd(ctx)
		if err != nil {
			return err
		}
		if c := druidv1alpha1.FindCondition(e.Status.Conditions, druidv1alpha1.ConditionReady); c != nil && c.Status == druidv1alpha1.ConditionFalse {
			t.Errorf("on the way Ready is %+v", c)
		}
		now, err := p.pods(ctx)
		if err != nil {
			return err
		}
		for _, pod := range now {
			if slices.Contains(ofOriginal, string(pod.UID)) {
				return fmt.Errorf("%s is still the original's", pod.Name)
			}
		}
		return p.whole(ctx)
	})
	t.Cleanup(func() {
		if !t.Failed() && !p.closed {
			p.close(t)
		}
	})
	for _, lease := range []string{"full", "delta"} {
		s.await(t, "the snapshot Leases are gone", p.snapshotLease(lease, func(l holder) bool { return !l.there }))
	}
	s.await(t, "an event tells of it", p.told("TakingOver", "one at a time"))
	p.theirsRenewed(t, asked)
	if after := p.listed(t); !slices.Equal(after, members) {
		t.Errorf("the members are %q, and were %q", after, members)
	}
	p.nothingIsLost(t, p.client)
	newest := p.writers.Ledger.Newest()
	s.await(t, "all is uploaded", p.uploaded(newest))
	after := s.snapshots(t, namespace)
	for key, content := range before {
		if !bytes.Equal(after[key], content) {
			t.Errorf("%s of the original is not what it was: %d bytes, and were %d", key, len(after[key]), len(content))
		}
	}
	// One was taken by the original's sidecars before the first pod went, and one by ours.
	if was, is := ending(before, "Full-", ".gz"), ending(after, "Full-", ".gz"); is <= was {
		t.Errorf("the original's fulls are %d, and were %d before its pods went", is, was)
	}
	if ending(after, "Full-", ".zst") == 0 {
		t.Errorf("no full is ours: in the bucket are %q", slices.Sorted(maps.Keys(after)))
	}

	p.loseEverything(t)
	s.await(t, "the Etcd is whole", p.whole)
	p.holds(t, p.client)
	p.write(t, p.client)
	p.nothingIsLost(t, p.client)
	p.handsBack(t, secure)
}

// secured makes a client that uses TLS of an address, under a name that certificates have.
func (p *shop) secured(t *testing.T, secure *tls.Config, address string) *clientv3.Client {
	t.Helper()
	return p.dial(t, func(c *clientv3.Config) {
		c.TLS, c.Endpoints = secure, []string{"https://" + name + "-client:2379"}
		c.DialOptions = []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", address)
		})}
	})
}

// ending counts the snapshots of a kind that are packed so.
func ending(snapshots map[string][]byte, kind, suffix string) (n int) {
	for key := range snapshots {
		if strings.HasPrefix(path.Base(key), kind) && strings.HasSuffix(key, suffix) {
			n++
		}
	}
	return n
}

// standIns packs an etcd 3.5 and what stands in for the original's sidecar.
func standIns(t *testing.T) (tar string) {
	t.Helper()
	sidecar := filepath.Join(t.TempDir(), "sidecar")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", sidecar, "../cmd/originalsidecar")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	etcd, err := stores.Binary("etcd-3.5")
	if err != nil {
		t.Fatal(err)
	}
	tar = filepath.Join(t.TempDir(), "original.tar")
	if err := image.Write(tar, image.Spec{Name: standInImage, Files: []image.File{{Path: "/etcd", Source: etcd}, {Path: "/sidecar", Source: sidecar}}}); err != nil {
		t.Fatal(err)
	}
	return tar
}

// secretsOf are the names of the Secrets that certificates are in.
func secretsOf(certificates ...[]original.Certificate) (names []string) {
	for _, c := range slices.Concat(certificates...) {
		names = append(names, c.Secret)
	}
	return names
}

// certifyOriginal makes the Secrets of the original's cluster with one authority each for clients, members and sidecars, and returns
// how a client shows itself.
func (p *shop) certifyOriginal(t *testing.T) (secure *tls.Config) {
	t.Helper()
	var members []string
	for i := range 3 {
		members = append(members, fmt.Sprintf("%s-%d.%s-peer.%s.svc", name, i, name, p.namespace))
	}
	hosts := append([]string{name + "-local", name + "-client", name + "-client." + p.namespace + ".svc"}, members...)
	for _, of := range []struct {
		ca, server string
		hosts      []string
	}{{"ca", "server", hosts}, {"peer-ca", "peer-server", members}, {"sidecar-ca", "sidecar-server", hosts}} {
		ca, err := stores.NewCA()
		if err != nil {
			t.Fatal(err)
		}
		p.apply(t, secret(p.namespace, of.ca, map[string]string{"ca.crt": string(ca.PEM)}), secret(p.namespace, of.server, certificate(t, ca, of.hosts...)))
		if of.ca != "ca" {
			continue
		}
		own := certificate(t, ca, "client")
		p.apply(t, secret(p.namespace, "client", own))
		pair, err := tls.X509KeyPair([]byte(own["tls.crt"]), []byte(own["tls.key"]))
		if err != nil {
			t.Fatal(err)
		}
		secure = ca.ClientTLS()
		secure.Certificates = []tls.Certificate{pair}
	}
	return secure
}

// layOutOriginal makes the Etcd and what the original has for it, in its name, and waits until the members serve. It returns how a
// client shows itself. Our operator, which runs already, is told to wait, as the original is not there to do so.
func (p *shop) layOutOriginal(t *testing.T) (secure *tls.Config) {
	t.Helper()
	store := p.bucketOn(t, p.minio, stores.Unversioned, p.namespace, p.namespace, "shop--main")
	secure = p.certifyOriginal(t)
	for _, held := range append(secretsOf(original.Certificates, original.SidecarCertificates), storeSecret) {
		p.kubectl(t, "--namespace="+p.namespace, "patch", "secret", held, "--type=merge", `--patch={"metadata":{"finalizers":["`+druidv1alpha1.Finalizer+`"]}}`)
	}
	files := func(ca, server string) map[string]any {
		return map[string]any{"tlsCASecretRef": map[string]any{"name": ca}, "serverTLSSecretRef": map[string]any{"name": server}}
	}
	clients := files("ca", "server")
	clients["clientTLSSecretRef"] = map[string]any{"name": "client"}
	p.create(t, map[string]any{
		"apiVersion": druidv1alpha1.GroupVersion().String(), "kind": druidv1alpha1.KindEtcd,
		"metadata": map[string]any{
			"name": name, "namespace": p.namespace, "finalizers": []string{druidv1alpha1.Finalizer},
			"annotations": map[string]string{druidv1alpha1.AnnotationSuspendReconcile: "true"},
		},
		"spec": spec(3, map[string]any{
			"etcd":   map[string]any{"clientUrlTls": clients, "peerUrlTls": files("peer-ca", "peer-server")},
			"backup": map[string]any{"deltaSnapshotPeriod": "2s", "store": store, "tls": files("sidecar-ca", "sidecar-server")},
		}),
	})
	p.kubectl(t, "--namespace="+p.namespace, "patch", "etcd", name, "--subresource=status", "--type=merge", `--patch={"status":{"observedGeneration":1}}`)
	e, err := p.etcd(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	here := strings.NewReplacer("CLIENTPORT", "2379", "SIDECARPORT", "8080", "16Gi", "1Gi", "namespace: shop", "namespace: "+p.namespace, ".shop.svc", "."+p.namespace+".svc",
		"value: backups", "value: "+p.namespace, "secretName: credentials", "secretName: "+storeSecret)
	owner := metav1.NewControllerRef(&e, druidv1alpha1.GroupVersion().WithKind(druidv1alpha1.KindEtcd))
	var objects []any
	for _, one := range strings.Split(here.Replace(original.WithTLS.Replace(original.Objects)), "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(one), &object.Object); err != nil {
			t.Fatal(err)
		}
		object.SetOwnerReferences([]metav1.OwnerReference{*owner})
		if object.GetKind() == "StatefulSet" {
			p.standIn(t, object)
		}
		if object.GetKind() == "Lease" {
			unstructured.RemoveNestedField(object.Object, "spec") // the sidecars fill it
		}
		objects = append(objects, object.Object)
	}
	p.create(t, objects...)
	p.await(t, "the original's members serve", func(ctx context.Context) error {
		set, err := p.Client.AppsV1().StatefulSets(p.namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil && set.Status.ReadyReplicas != 3 {
			err = fmt.Errorf("%d of 3 pods are ready", set.Status.ReadyReplicas)
		}
		return err
	})
	return secure
}

// create makes objects in the name of the original's operator.
func (p *shop) create(t *testing.T, objects ...any) {
	t.Helper()
	var text strings.Builder
	for _, o := range objects {
		one, err := yaml.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&text, "---\n%s", one)
	}
	if _, err := p.KubectlWith(t.Context(), text.String(), "create", "--field-manager=etcd-druid", "-f", "-"); err != nil {
		t.Fatal(err)
	}
}

// standIn has the containers of the original's StatefulSet be an etcd 3.5 with the original's names, ports and data directory, and
// what stands in for its sidecar, with the arguments, variables and volumes of the original and TLS everywhere.
func (p *shop) standIn(t *testing.T, object *unstructured.Unstructured) {
	t.Helper()
	var set appsv1.StatefulSet
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &set); err != nil {
		t.Fatal(err)
	}
	pod := &set.Spec.Template.Spec
	etcd, sidecar := &pod.Containers[0], &pod.Containers[1]
	var all []string
	for i := range 3 {
		all = append(all, fmt.Sprintf("main-%[1]d=https://main-%[1]d.main-peer.%[2]s.svc:2380", i, p.namespace))
	}
	at := "https://$(POD_NAME).main-peer." + p.namespace + ".svc:"
	etcd.Image, etcd.Command = standInImage, []string{"/etcd"}
	etcd.Args = []string{
		"--name=$(POD_NAME)", "--data-dir=/var/etcd/data/new.etcd", "--initial-cluster-token=etcd-cluster", "--initial-cluster=" + strings.Join(all, ","),
		"--listen-peer-urls=https://0.0.0.0:2380", "--listen-client-urls=https://0.0.0.0:2379", "--listen-metrics-urls=http://0.0.0.0:2381",
		"--initial-advertise-peer-urls=" + at + "2380", "--advertise-client-urls=" + at + "2379",
		"--client-cert-auth", "--trusted-ca-file=/var/etcd/ssl/ca/ca.crt", "--cert-file=/var/etcd/ssl/server/tls.crt", "--key-file=/var/etcd/ssl/server/tls.key",
		"--peer-client-cert-auth", "--peer-trusted-ca-file=/var/etcd/ssl/peer/ca/ca.crt", "--peer-cert-file=/var/etcd/ssl/peer/server/tls.crt", "--peer-key-file=/var/etcd/ssl/peer/server/tls.key",
	}
	etcd.Env = []corev1.EnvVar{{Name: "POD_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}}}
	etcd.ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/health", Port: intstr.FromInt32(2381)}}, PeriodSeconds: 2}

	readable := int32(0o440)
	const dir = "/var/etcdbr/ssl/server"
	sidecar.Image, sidecar.Command = standInImage, []string{"/sidecar"}
	sidecar.Args = append(sidecar.Args, "--store-endpoint-override="+p.minio.Endpoint, "--delta-snapshot-period=2s", "--server-cert="+dir+"/tls.crt", "--server-key="+dir+"/tls.key")
	for _, c := range slices.Concat(original.Certificates, original.SidecarCertificates) {
		mount := corev1.VolumeMount{Name: c.Volume, MountPath: c.Path}
		if c.Etcd {
			etcd.VolumeMounts = append(etcd.VolumeMounts, mount)
		}
		if c.Sidecar {
			sidecar.VolumeMounts = append(sidecar.VolumeMounts, mount)
		}
		pod.Volumes = append(pod.Volumes, corev1.Volume{Name: c.Volume, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: c.Secret, DefaultMode: &readable}}})
	}
	made, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&set)
	if err != nil {
		t.Fatal(err)
	}
	object.Object["spec"] = made["spec"]
}

// holder is what a Lease says.
type holder struct{ there, said bool }

// snapshotLease is nil if the original's Lease of fulls or deltas is so.
func (p *shop) snapshotLease(of string, is func(holder) bool) func(context.Context) error {
	return func(ctx context.Context) error {
		l, err := p.Client.CoordinationV1().Leases(p.namespace).Get(ctx, name+"-"+of+"-snap", metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		h := holder{there: err == nil}
		h.said = h.there && l.Spec.HolderIdentity != nil && l.Spec.RenewTime != nil
		if !is(h) {
			return fmt.Errorf("the Lease of %s is there: %t, and says something: %t", of, h.there, h.said)
		}
		return nil
	}
}

// theirsRenewed: nothing took the Leases, or the right to write to them, from the original's sidecars as long as there was one.
func (p *shop) theirsRenewed(t *testing.T, since time.Time) {
	t.Helper()
	requests, err := p.Requests(func(r cluster.Request) bool {
		return r.UserAgent == "original-sidecar" && r.Namespace == p.namespace && r.At.After(since)
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(requests) == 0 {
		t.Error("the original's sidecars renewed no Lease while they were replaced")
	}
	for _, r := range requests {
		busy := r.Code == http.StatusConflict || r.Code == http.StatusTooManyRequests
		if r.Code >= http.StatusBadRequest && r.Code < http.StatusInternalServerError && !busy {
			t.Errorf("a sidecar of the original was refused: %s", r)
		}
	}
}

// listed are the members by id, name and address.
func (p *shop) listed(t *testing.T) (all []string) {
	t.Helper()
	var list *clientv3.MemberListResponse
	p.await(t, "the members are listed", func(ctx context.Context) (err error) {
		list, err = p.client.MemberList(ctx)
		return err
	})
	for _, m := range list.Members {
		all = append(all, fmt.Sprintf("%016x %s %q learner=%t", m.ID, m.Name, m.PeerURLs, m.IsLearner))
	}
	slices.Sort(all)
	return all
}
