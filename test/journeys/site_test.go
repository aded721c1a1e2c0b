package journeys_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/test/chart"
	"druid.internal/druid/test/cluster"
	"druid.internal/druid/test/cluster/image"
	"druid.internal/druid/test/sites"
	"druid.internal/druid/test/stores"
)

// site is a Kubernetes with the operator and a store.
type site struct {
	*cluster.Cluster
	ours  bool // its machines are
	minio *stores.MinIO
	image string // with which the operator is installed
	next  string

	installed bool
	gone      map[string]bool // journeys, by name
	ends      []period        // in which an operator lost its rights and ended, in this order

	mu      sync.Mutex          // of what follows
	granted []rbacv1.PolicyRule // to the members of all Etcds there were
	members map[string]bool     // their users
}

// period is a time between two moments.
type period struct{ from, to time.Time }

// healer is exempt from the protection of what belongs to an Etcd.
const healer = "system:serviceaccount:protection:healer"

// begin brings up everything and takes it down when the test ends.
func begin(t *testing.T) *site {
	t.Helper()
	s := &site{ours: *kubeconfig == "", gone: map[string]bool{}, members: map[string]bool{}}
	options := cluster.Options{Kubeconfig: *kubeconfig, Nodes: 3, Sync: 5 * time.Second, Progress: t.Output()}
	if s.ours {
		s.image, s.next = "registry.local/etcd-druid:journeys", "registry.local/etcd-druid:next"
		options.Images = images(t, s.image, s.next)
	} else {
		s.image, s.next = *firstImage, *nextImage
		if s.image == "" || s.next == "" || *host == "" {
			t.Fatal("with -kubeconfig say -image, -next-image and -host, too: the names of an image that the nodes can pull, and an address of this machine that pods reach")
		}
	}
	s.Cluster = cluster.Run(t, options)
	if !s.ours {
		s.Host = *host
	}
	var err error
	if s.minio, err = stores.StartMinIO(t.Context(), stores.MinIOOptions{Dir: filepath.Join(t.TempDir(), "minio"), Host: s.Host}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.minio.Stop(); err != nil {
			t.Error(err)
		}
	})
	s.install(t)
	t.Cleanup(func() {
		if s.ours || !s.installed {
			return
		}
		if _, err := chart.Uninstall(context.WithoutCancel(t.Context()), s.Kubeconfig, patience, quiet); err != nil {
			t.Error(err)
		}
	})
	return s
}

// images are tarballs of our programs under each name. `make build` has made them.
func images(t *testing.T, names ...string) (tars []string) {
	t.Helper()
	for i, name := range names {
		tar := filepath.Join(t.TempDir(), fmt.Sprintf("image-%d.tar", i))
		if err := image.WriteOurs(tar, name, filepath.Join("..", "..", "bin")); err != nil {
			t.Fatalf("%v; make build makes the programs", err)
		}
		tars = append(tars, tar)
	}
	return tars
}

// values are those of the chart.
func (s *site) values(image string) map[string]any {
	return map[string]any{
		"image":   chart.Image(image),
		"webhook": map[string]any{"enabled": true, "exemptServiceAccounts": []any{healer}},
		"config": map[string]any{"controllers": map[string]any{
			"etcd": map[string]any{"enableEtcdSpecAutoReconcile": true, "etcdStatusSyncPeriod": "5s"},
		}},
	}
}

var quiet = slog.New(slog.DiscardHandler)

func (s *site) install(t *testing.T) {
	t.Helper()
	if err := chart.Install(t.Context(), s.Kubeconfig, s.values(s.image), patience, quiet); err != nil {
		t.Fatal(err)
	}
	s.begun(t)
}

// begun waits until the operator that was installed can work.
func (s *site) begun(t *testing.T) {
	t.Helper()
	s.installed = true
	s.await(t, "the API server lets Etcds own objects", s.owners)
}

// operatorUser is as what the operator is logged in.
const operatorUser = "system:serviceaccount:" + chart.Namespace + ":etcd-druid"

// ownedByNobody is the name of what was asked for in the operator's name, but not by it.
const ownedByNobody = "owned-by-nobody"

// owners is nil once the API server's check of owner references, which looks for new definitions
// every half minute, knows Etcds and tasks. Before that the operator would be refused, and try again.
func (s *site) owners(ctx context.Context) error {
	config := rest.CopyConfig(s.Config)
	config.Impersonate.UserName = operatorUser // administrators are not checked
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	blocks := true
	for _, kind := range []string{druidv1alpha1.KindEtcd, druidv1alpha1.KindEtcdCopyBackupsTask} {
		owned := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Name: ownedByNobody, OwnerReferences: []metav1.OwnerReference{{
				APIVersion: druidv1alpha1.GroupVersion().String(), Kind: kind, Name: "main", UID: "none", BlockOwnerDeletion: &blocks,
			}},
		}}
		if _, err := client.CoreV1().ConfigMaps(metav1.NamespaceDefault).Create(ctx, owned, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
			return err
		}
	}
	return nil
}

// await waits for a fact.
func (s *site) await(t *testing.T, what string, fact func(context.Context) error) {
	t.Helper()
	if err := cluster.Await(t.Context(), patience, fact); err != nil {
		t.Fatalf("wait until %s: %v", what, err)
	}
}

// kubectl does what a person does.
func (s *site) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := s.Kubectl(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (s *site) apply(t *testing.T, objects ...any) {
	t.Helper()
	var text strings.Builder
	for _, o := range objects {
		if text.WriteString("---\n"); fmt.Sprintf("%T", o) == "string" {
			text.WriteString(o.(string) + "\n")
			continue
		}
		one, err := yaml.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		text.Write(one)
	}
	if _, err := s.KubectlWith(t.Context(), text.String(), "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
}

// secret is a Secret of these files.
func secret(namespace, name string, files map[string]string) corev1.Secret {
	return corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}, StringData: files,
	}
}

// storeSecret is the name of the Secret with the store's credentials.
const storeSecret = "etcd-backup"

// bucket makes a bucket and the Secret for it in a namespace, and returns the specification of a store in it.
func (s *site) bucket(t *testing.T, namespace, name, prefix string) map[string]any {
	t.Helper()
	return s.bucketOn(t, s.minio, stores.Compliance, namespace, name, prefix)
}

// bucketOn makes them on a server, with a protection.
func (s *site) bucketOn(t *testing.T, m *stores.MinIO, protection stores.Protection, namespace, name, prefix string) map[string]any {
	t.Helper()
	if err := m.CreateBucket(t.Context(), name, protection, 1); err != nil {
		t.Fatal(err)
	}
	s.apply(t, secret(namespace, storeSecret, sites.S3Way(&m.S3, name, m.Endpoint, m.Root).Files))
	return map[string]any{
		"provider": "aws", "container": name, "prefix": prefix, "endpointOverride": m.Endpoint,
		"secretRef": map[string]any{"name": storeSecret},
	}
}

// credentials are the files of the Secret for a bucket.
func (s *site) credentials(bucket string) map[string]string {
	return sites.S3Way(&s.minio.S3, bucket, s.minio.Endpoint, s.minio.Root).Files
}
