package journeys_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/test/process"
	"druid.internal/druid/test/sites"
	"druid.internal/druid/test/stores"
	"druid.internal/druid/test/writers"
)

// A cluster whose majority lost its volumes, and one whose keys somebody deleted, begin anew from the backups, as docs/operations/recovering.md
// has it: the first with the newest state, the second with that of a moment, exactly.
func recovery(t *testing.T, s *site) {
	const namespace, before, after = "recovery", "shop", "shop-restored"
	s.namespace(t, namespace)
	store := s.bucket(t, namespace, namespace, before)
	delete(store, "endpointOverride")
	s.at(t, s.minio, namespace)
	p := s.open(t, namespace, spec(3, backed(store)))
	s.apply(t, bystander(namespace))
	p.write(t, p.client)
	p.writers.Stop()
	newest := p.writers.Ledger.Newest()
	s.await(t, "all is uploaded", p.uploaded(newest))

	p.loseMajority(t)
	p.await(t, "it is told that the quorum is lost", p.says(druidv1alpha1.ConditionQuorumLost, druidv1alpha1.ConditionTrue, druidv1alpha1.ReasonQuorumLost, ""))
	p.await(t, "a member that lost its volume says so", p.waits("main-1", string(druidv1alpha1.MemberReasonQuorumLost)))
	p.beginsAnew(t, true, nil)
	p.holds(t, p.client)

	p.write(t, p.client)
	p.writers.Stop()
	good := p.writers.Ledger.Newest()
	gone, err := p.client.Delete(t.Context(), writers.Prefix, clientv3.WithPrefix())
	if err != nil || gone.Deleted == 0 {
		t.Fatalf("%d keys were deleted, %v", gone.Deleted, err)
	}
	s.await(t, "that is uploaded, too", p.uploaded(gone.Header.Revision))
	p.restoreElsewhere(t, namespace, before, after, good)
	p.beginsAnew(t, true, func() {
		p.patch(t, `{backup: {store: {prefix: `+after+`}}}`)
		p.kubectl(t, "--namespace="+namespace, "annotate", "etcd", name, druidv1alpha1.AnnotationTakeOverBackups+"=true")
	})
	p.holds(t, p.client)
	p.write(t, p.client)
	p.nothingIsLost(t, p.client)
	s.await(t, "what is written afterwards is uploaded", p.uploaded(p.writers.Ledger.Newest()))
	p.refusesAnother(t)
	p.isMadeAnew(t)
	p.holds(t, p.client)
	p.write(t, p.client)
	p.nothingIsLost(t, p.client)
	s.await(t, "one of the same name goes on with the backups by itself", p.uploaded(p.writers.Ledger.Newest()))
	p.await(t, "a full is known to have been taken", func(ctx context.Context) error {
		e, err := p.etcd(ctx)
		if err == nil && e.Status.LastBackup == nil {
			err = errors.New("status.lastBackup names none")
		}
		return err
	})
	p.beginsAnew(t, false, func() { s.at(t, s.another(t, namespace), namespace) })
}

// manifest is the Etcd as somebody would apply it in another name.
func (p *shop) manifest(t *testing.T, name string) map[string]any {
	t.Helper()
	e, err := p.etcd(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return map[string]any{
		"apiVersion": druidv1alpha1.GroupVersion().String(), "kind": druidv1alpha1.KindEtcd,
		"metadata": map[string]any{"name": name, "namespace": p.namespace}, "spec": e.Spec,
	}
}

// refusesAnother has another Etcd on the same prefix, which does not write there and says whose it is.
func (p *shop) refusesAnother(t *testing.T) {
	t.Helper()
	const another = "another"
	etcd := func(args ...string) string {
		t.Helper()
		return p.kubectl(t, append([]string{"--namespace=" + p.namespace}, args...)...)
	}
	p.apply(t, p.manifest(t, another))
	const ready = `.status.conditions[?(@.type=="BackupReady")]`
	etcd("wait", "etcd/"+another, "--for=jsonpath={"+ready+".reason}="+druidv1alpha1.ReasonStoreOwnedByAnother, "--timeout="+patience.String())
	if why := etcd("get", "etcd", another, "-o=jsonpath={"+ready+".message}"); !strings.Contains(why, p.namespace+"/"+name) {
		t.Errorf("the second Etcd on the prefix says %q, which does not name the first", why)
	}
	p.await(t, "the first is as it was", p.whole)
	etcd("delete", "etcd", another, "--timeout="+patience.String())
	etcd("delete", "persistentvolumeclaims", "--selector="+druidv1alpha1.LabelPartOf+"="+another, "--timeout="+patience.String())
}

// isMadeAnew deletes the Etcd with all its volumes, and makes one of the same name.
func (p *shop) isMadeAnew(t *testing.T) {
	t.Helper()
	again := p.manifest(t, name)
	p.kubectl(t, "--namespace="+p.namespace, "delete", "etcd", name, "--timeout="+patience.String())
	p.kubectl(t, "--namespace="+p.namespace, "delete", "persistentvolumeclaims", "--selector="+druidv1alpha1.LabelManagedBy+"="+druidv1alpha1.ManagedBy, "--timeout="+patience.String())
	p.apply(t, again)
	p.await(t, "the Etcd is whole", p.whole)
	p.connect(t)
}

// loseMajority deletes the volumes of two of three members, and their pods. Neither gets another one before both are gone: otherwise
// the first may join anew while the second still runs, and no quorum is lost.
func (p *shop) loseMajority(t *testing.T) {
	t.Helper()
	claims, pods := []string{"persistentvolumeclaim/main-main-1", "persistentvolumeclaim/main-main-2"}, []string{"pod/main-1", "pod/main-2"}
	hold := func(finalizers string) {
		t.Helper()
		for _, claim := range claims {
			p.kubectl(t, "--namespace="+p.namespace, "patch", claim, "--type=merge", `--patch={"metadata":{"finalizers":`+finalizers+`}}`)
		}
	}
	hold(`["kubernetes.io/pvc-protection","example.com/until-both-are-gone"]`)
	p.kubectl(t, "--namespace="+p.namespace, "annotate", "etcd", name, druidv1alpha1.AnnotationDisableProtection+"=")
	p.await(t, "the webhook lets them go", func(ctx context.Context) error {
		_, err := p.Kubectl(ctx, "--namespace="+p.namespace, "delete", claims[0], claims[1], pods[0], pods[1], "--wait=false", "--grace-period=1")
		return err
	})
	p.kubectl(t, append([]string{"--namespace=" + p.namespace, "wait", "--for=delete", "--timeout=" + patience.String()}, pods...)...)
	hold("null")
	p.kubectl(t, "--namespace="+p.namespace, "annotate", "etcd", name, druidv1alpha1.AnnotationDisableProtection+"-")
}

// theirs is the claim of somebody whose application has the name of the Etcd.
const theirs = "uploads"

// bystander is that claim: labelled as a part of something of that name, as others label theirs, and not managed by us.
func bystander(namespace string) corev1.PersistentVolumeClaim {
	return corev1.PersistentVolumeClaim{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
		ObjectMeta: metav1.ObjectMeta{Name: theirs, Namespace: namespace, Labels: map[string]string{druidv1alpha1.LabelPartOf: name}},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")}},
		},
	}
}

// waits is nil if the last transition of a member has this reason.
func (p *shop) waits(member, reason string) func(context.Context) error {
	return func(ctx context.Context) error {
		told, err := p.Kubectl(ctx, "--namespace="+p.namespace, "get", "etcdmember", member, "-o=jsonpath={.status.transitions[-1:].reason}")
		if err == nil && told != reason {
			err = fmt.Errorf("%s tells %q, want %q", member, told, reason)
		}
		return err
	}
}

// beginsAnew has the members stop and lose all volumes, and begin with what is in the bucket, after something else meanwhile. Where
// nothing can be restored, although there were backups, they begin with nothing only when somebody accepts that.
func (p *shop) beginsAnew(t *testing.T, restorable bool, meanwhile func()) {
	t.Helper()
	etcd := func(args ...string) {
		t.Helper()
		p.kubectl(t, append([]string{"--namespace=" + p.namespace}, args...)...)
	}
	etcd("annotate", "etcd", name, druidv1alpha1.AnnotationSkipHibernationBackup+"=true", druidv1alpha1.AnnotationDisableProtection+"=")
	etcd("scale", "etcd", name, "--replicas=0")
	ours := "--selector=" + druidv1alpha1.LabelManagedBy + "=" + druidv1alpha1.ManagedBy + "," + druidv1alpha1.LabelPartOf + "=" + name
	etcd("wait", "pod", ours+","+druidv1alpha1.LabelComponent+"="+druidv1alpha1.ComponentStatefulSet, "--for=delete", "--timeout="+patience.String())
	etcd("delete", "persistentvolumeclaims", ours, "--dry-run=server")
	etcd("delete", "persistentvolumeclaims", ours, "--timeout="+patience.String())
	if going := p.kubectl(t, "--namespace="+p.namespace, "get", "persistentvolumeclaim", theirs, "-o=jsonpath={.metadata.deletionTimestamp}"); going != "" {
		t.Errorf("the claim %s of somebody else is being deleted since %s", theirs, going)
	}
	if meanwhile != nil {
		meanwhile()
	}
	etcd("annotate", "etcd", name, druidv1alpha1.AnnotationSkipHibernationBackup+"-", druidv1alpha1.AnnotationDisableProtection+"-")
	etcd("scale", "etcd", name, "--replicas=3")
	if !restorable {
		p.await(t, "no member begins with nothing", p.waits("main-0", string(druidv1alpha1.MemberReasonRestorationFailed)))
		if why := p.kubectl(t, "--namespace="+p.namespace, "get", "etcdmember", "main-0", "-o=jsonpath={.status.transitions[-1:].message}"); !strings.Contains(why, "nothing is there: is it the account") {
			t.Errorf("main-0 does not say that the store is another one: %s", why)
		}
		etcd("annotate", "etcd", name, druidv1alpha1.AnnotationTakeOverBackups+"=true")
	}
	p.await(t, "the Etcd is whole", p.whole)
	if restorable {
		p.await(t, "an event tells of the restore", p.told("MemberRestored", "was restored from the backup: no member has data"))
	}
	p.connect(t)
}

// at has the Secret in a namespace name a server, which the specification does not: to it, all are the same store.
func (s *site) at(t *testing.T, m *stores.MinIO, namespace string) {
	t.Helper()
	files := sites.S3Way(&m.S3, namespace, m.Endpoint, m.Root).Files
	files["endpoint"] = m.Endpoint
	s.apply(t, secret(namespace, storeSecret, files))
}

// another is a server with a bucket of the same name, which is empty.
func (s *site) another(t *testing.T, bucket string) *stores.MinIO {
	t.Helper()
	m, err := stores.StartMinIO(t.Context(), stores.MinIOOptions{Dir: filepath.Join(t.TempDir(), "minio"), Host: s.Host})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := m.CreateBucket(t.Context(), bucket, stores.Compliance, 1); err != nil {
		t.Fatal(err)
	}
	return m
}

// restoreElsewhere makes a backup of the state at a revision below another prefix, with the programs that a person has.
func (p *shop) restoreElsewhere(t *testing.T, bucket, from, to string, revision int64) {
	t.Helper()
	way := sites.S3Way(&p.minio.S3, bucket, p.minio.Endpoint, p.minio.Root)
	credentials := t.TempDir()
	for file, text := range way.Files {
		if err := os.WriteFile(filepath.Join(credentials, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Join(t.TempDir(), "restored")
	run := func(verb, prefix string, more ...string) *process.Process {
		t.Helper()
		args := append([]string{verb, "--storage-provider=" + way.Provider, "--store-container=" + bucket, "--store-endpoint-override=" + way.Endpoint, "--store-prefix=" + prefix, "--data-dir=" + dir}, more...)
		one, err := process.Start("etcdbrctl "+verb, filepath.Join("..", "..", "bin", "etcdbrctl"), args, append(os.Environ(), way.Variable+"="+credentials))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(one.Kill)
		return one
	}
	restored := run("restore", from, fmt.Sprintf("--to-revision=%d", revision), "--bump-revision=auto")
	p.await(t, "it is restored", func(context.Context) error {
		if !restored.Ended() {
			return errors.New("it is being restored")
		}
		return nil
	})
	if err := restored.Err(); err != nil {
		t.Fatalf("%v\n%s", err, restored.Log().Tail())
	}
	plain, err := stores.StartEtcd(t.Context(), stores.EtcdOptions{DataDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(plain.Close)
	client, err := clientv3.New(clientv3.Config{Endpoints: plain.Endpoints(), Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	all, err := client.Get(t.Context(), writers.Prefix, clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	for _, lost := range p.writers.Ledger.AgainstKeys(all.Kvs, all.Header.Revision) {
		t.Error(lost)
	}
	backup := run("snapshot", to, "--endpoints="+plain.Endpoints()[0])
	p.await(t, "a full of it is in the bucket", func(context.Context) error {
		for key := range p.snapshots(t, bucket) {
			if strings.HasPrefix(key, to+"/") && strings.Contains(key, "/Full-") {
				return nil
			}
		}
		return fmt.Errorf("there is none: %s", backup.Log().Tail())
	})
	if err := backup.Stop(); err != nil {
		t.Fatal(err)
	}
	plain.Close()
}
