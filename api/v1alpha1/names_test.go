package v1alpha1

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
)

func named(name string) *Etcd {
	return &Etcd{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "shoot", UID: "u-1"}}
}

// The names are those of clusters that run already.
func TestObjectsHaveTheNamesOfTheOriginal(t *testing.T) {
	e := named("etcd-main")
	e.Spec.MemberNamePrefix = new("blue")
	e.Spec.VolumeClaimTemplate = new("main")
	plain := named("etcd-main")
	for what, c := range map[string]struct{ got, want string }{
		"StatefulSet":         {e.StatefulSetName(), "etcd-main"},
		"ServiceAccount":      {e.ServiceAccountName(), "etcd-main"},
		"PodDisruptionBudget": {e.PodDisruptionBudgetName(), "etcd-main"},
		"peer Service":        {e.PeerServiceName(), "etcd-main-peer"},
		"client Service":      {e.ClientServiceName(), "etcd-main-client"},
		"ConfigMap":           {e.ConfigMapName(), "etcd-main-config"},
		"token":               {e.TokenSecretName(), "etcd-main-sidecar-token"},
		"Role":                {e.RoleName(), "druid.gardener.cloud:etcd:etcd-main"},
		"RoleBinding":         {e.RoleBindingName(), "druid.gardener.cloud:etcd:etcd-main"},
		"Lease of fulls":      {e.FullSnapshotLeaseName(), "etcd-main-full-snap"},
		"Lease of deltas":     {e.DeltaSnapshotLeaseName(), "etcd-main-delta-snap"},
		"pod":                 {e.PodName(2), "etcd-main-2"},
		"member":              {e.MemberName(2), "blue-etcd-main-2"},
		"Lease of a member":   {e.MemberLeaseName(2), "blue-etcd-main-2"},
		"volume":              {e.VolumeClaimName(2), "main-etcd-main-2"},
		"host":                {e.PeerHost(2), "etcd-main-2.etcd-main-peer.shoot.svc"},
		"pod to itself":       {e.LocalHostName(), "etcd-main-local"},
		"member, no prefix":   {plain.MemberName(0), "etcd-main-0"},
		"volume, no template": {plain.VolumeClaimName(0), "etcd-main-etcd-main-0"},
		"Job of a task":       {(&EtcdCopyBackupsTask{ObjectMeta: metav1.ObjectMeta{Name: "copy"}}).JobName(), "copy-worker"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %s, want %s", what, c.got, c.want)
		}
	}
}

func TestTheLongestNameMakesNoNameOrLabelThatIsTooLong(t *testing.T) {
	e := named("a" + strings.Repeat("b", 51))
	e.Spec.MemberNamePrefix = new(strings.Repeat("p", 63))
	for _, name := range []string{e.ClientServiceName(), e.PeerServiceName(), e.StatefulSetName() + "-1234567890", e.PodName(99)} {
		if errs := validation.IsDNS1035Label(name); len(errs) > 0 {
			t.Errorf("%s (%d): %v", name, len(name), errs)
		}
	}
	for _, name := range []string{e.RoleName(), e.TokenSecretName(), e.MemberName(99), e.ConfigMapName()} {
		for key, value := range e.ObjectLabels(ComponentRole, name) {
			if errs := validation.IsValidLabelValue(value); len(errs) > 0 {
				t.Errorf("%s=%s: %v", key, value, errs)
			}
		}
	}
}

func TestAPodIsOfTheEtcdWhoseNameItHas(t *testing.T) {
	e := named("etcd-main")
	for pod, want := range map[string]int{
		"etcd-main-0": 0, "etcd-main-12": 12,
		"etcd-main": -1, "etcd-main-": -1, "etcd-main-01": -1, "etcd-main-+1": -1, "etcd-main--1": -1, "etcd-main-x": -1,
		"etcd-main-0-1": -1, "etcd-mai-0": -1, "etcd-main-99999999999999999999": -1, "blue-etcd-main-0": -1,
	} {
		if got, ok := e.PodOrdinal(pod); ok != (want >= 0) || ok && got != want {
			t.Errorf("%s: %d, %t, want %d", pod, got, ok, want)
		}
	}
	e.Spec.MemberNamePrefix = new("blue")
	if got, ok := e.MemberOrdinal("blue-etcd-main-7"); !ok || got != 7 {
		t.Errorf("the member is %d, %t, want 7", got, ok)
	}
	if got, ok := e.MemberOrdinal("etcd-main-7"); ok {
		t.Errorf("without the prefix the member is %d, want none", got)
	}
}

func FuzzTheOrdinalOfAPodIsThatOfItsName(f *testing.F) {
	f.Add("etcd-main", "etcd-main-0")
	f.Add("etcd-main", "etcd-main-007")
	f.Add("a", "a-99999999999999999999")
	f.Fuzz(func(t *testing.T, name, pod string) {
		e := named(name)
		n, ok := e.PodOrdinal(pod)
		if ok && e.PodName(n) != pod {
			t.Errorf("%q is pod %d of %q, which is called %q", pod, n, name, e.PodName(n))
		}
		if rest, is := strings.CutPrefix(pod, name+"-"); is && !ok {
			if n, err := strconv.Atoi(rest); err == nil && n >= 0 && strconv.Itoa(n) == rest {
				t.Errorf("%q is no pod of %q", pod, name)
			}
		}
	})
}

func TestLabelsOfTheOperatorWin(t *testing.T) {
	e := named("etcd-main")
	e.Spec.Labels = map[string]string{"role": "main", LabelPartOf: "me", "app": "etcd"}
	e.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"role": "old", "instance": "etcd-main"}}
	want := map[string]string{
		"role": "main", "app": "etcd", "instance": "etcd-main",
		"app.kubernetes.io/managed-by": "etcd-druid", "app.kubernetes.io/part-of": "etcd-main",
		"app.kubernetes.io/component": "etcd-statefulset", "app.kubernetes.io/name": "etcd-main",
	}
	if diff := cmp.Diff(want, e.PodLabels()); diff != "" {
		t.Errorf("labels of a pod (-want +got):\n%s", diff)
	}
	wantMember := map[string]string{
		"app.kubernetes.io/managed-by": "etcd-druid", "app.kubernetes.io/part-of": "etcd-main",
		"app.kubernetes.io/component": "etcd-member", "app.kubernetes.io/name": "etcd-main-0", "gardener.cloud/owned-by": "etcd-main",
	}
	if diff := cmp.Diff(wantMember, e.MemberLabels(0)); diff != "" {
		t.Errorf("labels of an EtcdMember (-want +got):\n%s", diff)
	}
	for name, want := range map[string]string{
		"druid.gardener.cloud:etcd:etcd-main": "druid.gardener.cloud-etcd-etcd-main",
		strings.Repeat("a", 63):               strings.Repeat("a", 63),
		strings.Repeat("a", 64):               strings.Repeat("a", 52) + "-ffe054fe7a",
		strings.Repeat("a-", 40):              strings.Repeat("a-", 25) + "a-186c7a79de",
	} {
		if got := LabelValue(name); got != want {
			t.Errorf("label of %s: %s, want %s", name, got, want)
		}
	}
}

func TestAnnotationsCountByBeingThere(t *testing.T) {
	e := named("etcd-main")
	if e.Suspended() || e.ProtectionDisabled() || e.RuntimeComponentsDisabled() || e.UnhealthyPodEvictionAllowed() || e.TakesOverBackups() || e.ReconcileRequested() != "" {
		t.Error("without annotations something is asked for")
	}
	e.Annotations = map[string]string{
		"druid.gardener.cloud/suspend-etcd-spec-reconcile":             "",
		"druid.gardener.cloud/disable-etcd-component-protection":       "false",
		"druid.gardener.cloud/disable-etcd-runtime-component-creation": "",
		"resources.druid.gardener.cloud/allow-unhealthy-pod-eviction":  "",
		"druid.gardener.cloud/take-over-backups":                       "",
		"gardener.cloud/operation":                                     "reconcile",
	}
	if !e.Suspended() || !e.ProtectionDisabled() || !e.RuntimeComponentsDisabled() || !e.UnhealthyPodEvictionAllowed() || !e.TakesOverBackups() {
		t.Error("an annotation does not count")
	}
	if got := e.ReconcileRequested(); got != "gardener.cloud/operation" {
		t.Errorf("asked by %q, want the old spelling", got)
	}
	e.Annotations["druid.gardener.cloud/operation"] = "reconcile"
	if got := e.ReconcileRequested(); got != "druid.gardener.cloud/operation" {
		t.Errorf("asked by %q, want the new spelling first", got)
	}
	e.Annotations = map[string]string{"druid.gardener.cloud/operation": "restart"}
	if got := e.ReconcileRequested(); got != "" {
		t.Errorf("another operation counts as %q", got)
	}
}

func TestAllSecretsThatAreNamedAreKnown(t *testing.T) {
	ref := func(name string) *corev1.SecretReference { return &corev1.SecretReference{Name: name} }
	tls := TLSConfig{TLSCASecretRef: SecretReference{SecretReference: *ref("ca")}, ServerTLSSecretRef: *ref("server"), ClientTLSSecretRef: ref("client")}
	e := named("etcd-main")
	if got := e.Secrets(); len(got) != 0 || e.BackupsEnabled() {
		t.Errorf("without references there are %v, backups: %t", got, e.BackupsEnabled())
	}
	e.Spec.Etcd.ClientUrlTLS = &tls
	e.Spec.Etcd.PeerUrlTLS = &PeerTLSConfig{TLSConfig: TLSConfig{TLSCASecretRef: SecretReference{SecretReference: *ref("peer-ca")}, ServerTLSSecretRef: *ref("peer"), ClientTLSSecretRef: ref("peer-client")}}
	e.Spec.Etcd.AuthSecretRef = ref("users")
	e.Spec.Backup.TLS = &tls
	e.Spec.Backup.Store = &StoreSpec{Provider: new(StorageProvider("aws")), SecretRef: &corev1.SecretReference{Name: "bucket", Namespace: "elsewhere"}}
	want := []SecretUse{
		{"ca", "", "spec.etcd.clientUrlTls.tlsCASecretRef"}, {"server", "", "spec.etcd.clientUrlTls.serverTLSSecretRef"}, {"client", "", "spec.etcd.clientUrlTls.clientTLSSecretRef"},
		{"peer-ca", "", "spec.etcd.peerUrlTls.tlsCASecretRef"}, {"peer", "", "spec.etcd.peerUrlTls.serverTLSSecretRef"},
		{"users", "", "spec.etcd.authSecretRef"},
		{"ca", "", "spec.backup.tls.tlsCASecretRef"}, {"server", "", "spec.backup.tls.serverTLSSecretRef"}, {"client", "", "spec.backup.tls.clientTLSSecretRef"},
		{"bucket", "elsewhere", "spec.backup.store.secretRef"},
	}
	if diff := cmp.Diff(want, e.Secrets()); diff != "" {
		t.Errorf("Secrets (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"bucket", "ca", "client", "peer", "peer-ca", "server", "users"}, SecretNames(e.Secrets())); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	if _, named := e.CollectorSecret(); named || e.Identities() != IdentitiesShared {
		t.Errorf("without roles the identities are %s", e.Identities())
	}
	members := e.MemberSecrets()
	e.Spec.Backup.Store.Roles = &StoreRoles{CollectorSecretRef: ref("collector"), ExtenderSecretRef: ref("extender"), ExcluderSecretRef: ref("excluder")}
	if diff := cmp.Diff(append(want, SecretUse{"collector", "", FieldCollectorSecret}, SecretUse{"extender", "", FieldExtenderSecret}, SecretUse{"excluder", "", FieldExcluderSecret}), e.Secrets()); diff != "" {
		t.Errorf("Secrets with roles (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(members, e.MemberSecrets()); diff != "" {
		t.Errorf("members need those of roles, too (-want +got):\n%s", diff)
	}
	if use, named := e.ExtenderSecret(); !named || use.Name != "extender" || e.Identities() != IdentitiesSeparate {
		t.Errorf("the extender is %+v, the identities %s", use, e.Identities())
	}
	if use, named := e.ExcluderSecret(); !named || use.Name != "excluder" {
		t.Errorf("the excluder is %+v", use)
	}
	unused := []SecretUse{{"peer-client", "", FieldPeerClientSecret}}
	if diff := cmp.Diff(unused, e.UnusedSecrets()); diff != "" {
		t.Errorf("Secrets that nobody reads (-want +got):\n%s", diff)
	}
	local := e.DeepCopy()
	local.Spec.Backup.Store.Provider = new(StorageProvider("Local"))
	if diff := cmp.Diff(append(unused, SecretUse{"bucket", "elsewhere", FieldStoreSecret}), local.UnusedSecrets()); diff != "" {
		t.Errorf("Secrets that nobody reads, with a local store (-want +got):\n%s", diff)
	}
	if _, named := local.StoreSecret(); named {
		t.Error("members with a local store need its Secret")
	}
	task := &EtcdCopyBackupsTask{Spec: EtcdCopyBackupsTaskSpec{
		SourceStore: StoreSpec{Provider: new(StorageProvider("aws")), SecretRef: ref("from")},
		TargetStore: StoreSpec{Provider: new(StorageProvider("gcp"))},
	}}
	if diff := cmp.Diff([]SecretUse{{"from", "", "spec.sourceStore.secretRef"}}, task.Secrets()); diff != "" {
		t.Errorf("Secrets of a task (-want +got):\n%s", diff)
	}
}

func TestTheResourcesAreKnownToAScheme(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"Etcd", "EtcdList", "EtcdMember", "EtcdMemberList", "EtcdCopyBackupsTask", "EtcdCopyBackupsTaskList"} {
		if !scheme.Recognizes(Kind(kind)) {
			t.Errorf("%s is not known", kind)
		}
	}
	owner := named("etcd-main").OwnerReference()
	want := metav1.OwnerReference{APIVersion: "druid.gardener.cloud/v1alpha1", Kind: "Etcd", Name: "etcd-main", UID: "u-1", Controller: new(true), BlockOwnerDeletion: new(true)}
	if diff := cmp.Diff(want, owner); diff != "" {
		t.Errorf("owner (-want +got):\n%s", diff)
	}
}
