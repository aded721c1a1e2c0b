package cluster

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/operator/health"
)

func TestMissingSecretsAreTheReasonWhyMembersAreNotReady(t *testing.T) {
	uses := []druidv1alpha1.SecretUse{{Name: "ca", Field: "spec.etcd.peerUrlTls.tlsCASecretRef"}, {Name: "keys", Field: "spec.backup.store.secretRef"}}
	for name, c := range map[string]struct {
		status     druidv1alpha1.ConditionStatus
		missing    []druidv1alpha1.SecretUse
		lacking    []LackingSecret
		faulty     []FaultySecret
		wantReason string
		wantText   string
	}{
		"two are missing": {druidv1alpha1.ConditionFalse, uses, nil, nil, druidv1alpha1.ReasonSecretMissing,
			"ca (spec.etcd.peerUrlTls.tlsCASecretRef), keys (spec.backup.store.secretRef); make them in the namespace of the Etcd, or correct the fields; members that are ready: 0 of 3"},
		"one lacks keys": {druidv1alpha1.ConditionFalse, nil, []LackingSecret{{uses[1], []string{"region", "accessKeyID"}}}, nil, druidv1alpha1.ReasonSecretMissing,
			"Secrets without keys that they must have: keys has no region, accessKeyID (spec.backup.store.secretRef); add them; members that are ready: 0 of 3"},
		"one is missing, another lacks a key": {druidv1alpha1.ConditionFalse, uses[:1], []LackingSecret{{uses[1], []string{"region"}}}, nil, druidv1alpha1.ReasonSecretMissing,
			"or correct the fields; Secrets without keys that they must have: keys has no region (spec.backup.store.secretRef); add them; members that are ready: 0 of 3"},
		"one holds no certificate": {druidv1alpha1.ConditionFalse, nil, nil, []FaultySecret{{uses[0], "ca.crt holds none"}}, druidv1alpha1.ReasonSecretInvalid,
			"Secrets that cannot be used: ca: ca.crt holds none (spec.etcd.peerUrlTls.tlsCASecretRef); correct them; members that are ready: 0 of 3"},
		"one with two uses holds none": {druidv1alpha1.ConditionFalse, nil, nil, []FaultySecret{{uses[0], "none"}, {uses[1], "none"}, {druidv1alpha1.SecretUse{Name: "ca", Field: "spec.backup.tls.tlsCASecretRef"}, "none"}}, druidv1alpha1.ReasonSecretInvalid,
			"Secrets that cannot be used: ca: none (spec.etcd.peerUrlTls.tlsCASecretRef, spec.backup.tls.tlsCASecretRef); keys: none (spec.backup.store.secretRef); correct them; members that are ready: 0 of 3"},
		"one is missing, another holds no certificate": {druidv1alpha1.ConditionFalse, uses[1:], nil, []FaultySecret{{uses[0], "ca.crt holds none"}}, druidv1alpha1.ReasonSecretMissing,
			"or correct the fields; Secrets that cannot be used: ca: ca.crt holds none (spec.etcd.peerUrlTls.tlsCASecretRef); correct them; members that are ready: 0 of 3"},
		"none is":                  {druidv1alpha1.ConditionFalse, nil, nil, nil, druidv1alpha1.ReasonNotAllMembersReady, "members that are ready: 0 of 3"},
		"all members work without": {druidv1alpha1.ConditionTrue, uses, []LackingSecret{{uses[1], []string{"region"}}}, nil, druidv1alpha1.ReasonNotAllMembersReady, "members that are ready: 0 of 3"},
	} {
		before := []druidv1alpha1.Condition{{Type: druidv1alpha1.ConditionAllMembersReady, Status: c.status, Reason: druidv1alpha1.ReasonNotAllMembersReady, Message: "members that are ready: 0 of 3"}}
		o := &Observed{Observation: health.Observation{Etcd: &druidv1alpha1.Etcd{}}, MissingSecrets: c.missing, LackingSecrets: c.lacking, FaultySecrets: c.faulty}
		got := druidv1alpha1.FindCondition(ownConditions(before, o, Plan{}, time.Unix(0, 0)), druidv1alpha1.ConditionAllMembersReady)
		if got == nil || got.Status != c.status || got.Reason != c.wantReason || !strings.HasSuffix(got.Message, c.wantText) {
			t.Errorf("%s: %+v, want %s %s ...%s", name, got, c.status, c.wantReason, c.wantText)
		}
		o.Etcd.Status.Conditions = []druidv1alpha1.Condition{*got}
		for i := range before { // as it is found anew
			before[i] = before[i].After(got, metav1.Unix(60, 0))
		}
		if again := druidv1alpha1.FindCondition(ownConditions(before, o, Plan{}, time.Unix(60, 0)), got.Type); !reflect.DeepEqual(again, got) {
			t.Errorf("%s: the next look says %+v, and the one before %+v", name, again, got)
		}
	}
}

// A Secret that is missing when a cluster wakes up was not missed for as long as it slept.
func TestMembersThatAreNotReadyAfterASleepCountFromThen(t *testing.T) {
	for reason, want := range map[string]time.Duration{druidv1alpha1.ReasonNotChecked: 0, druidv1alpha1.ReasonNotAllMembersReady: time.Hour} {
		o := running(t, 3, silent(0, 10*time.Minute), func(o *Observed) {
			o.Etcd.Status.Conditions = []druidv1alpha1.Condition{{Type: druidv1alpha1.ConditionAllMembersReady, Status: druidv1alpha1.ConditionFalse, Reason: reason, LastTransitionTime: ago(time.Hour), LastUpdateTime: ago(time.Hour)}}
		})
		c := druidv1alpha1.FindCondition(mustDecide(t, o, testSettings).Conditions, druidv1alpha1.ConditionAllMembersReady)
		if c.Status != druidv1alpha1.ConditionFalse || c.LastTransitionTime != ago(want) {
			t.Errorf("after %s: %s since %s, want it since %s", reason, c.Status, c.LastTransitionTime, ago(want))
		}
	}
}

// TestSecretsOfAFormerSpecificationAreMissed: members that still use TLS between each other need them until all have changed.
func TestSecretsOfAFormerSpecificationAreMissed(t *testing.T) {
	o := running(t, 1, down(0), silent(0, 10*time.Minute), func(o *Observed) {
		o.Pods[0].Spec.NodeName = "node"
		o.Pods[0].Spec.Volumes = append(slices.Clone(o.Pods[0].Spec.Volumes), corev1.Volume{Name: "peer", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "peer-server"}}})
	})
	r, _ := newReconciler(t)
	if err := r.missingSecrets(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if got := missing(o.MissingSecrets); !strings.Contains(got, "peer-server (main-0 still mounts it, the specification named it before)") {
		t.Errorf("missing are %q", got)
	}
}

// Whatever else is wrong with a pod would be put down to a Secret that nobody reads.
func TestSecretsThatNobodyReadsAreNotMissedAndAreNamedAsWithoutEffect(t *testing.T) {
	o := running(t, 1, down(0), silent(0, 10*time.Minute), func(o *Observed) {
		p := &druidv1alpha1.PeerTLSConfig{}
		p.TLSCASecretRef.Name, p.ServerTLSSecretRef.Name = "ca", "server"
		p.ClientTLSSecretRef = &corev1.SecretReference{Name: "peer-client"}
		o.Etcd.Spec.Etcd.PeerUrlTLS = p
		o.Etcd.Spec.Backup.Store = &druidv1alpha1.StoreSpec{Provider: ptr(druidv1alpha1.StorageProvider("local")), SecretRef: &corev1.SecretReference{Name: "directory"}}
		o.Pods[0].Spec.NodeName = "node"
	})
	secret := func(name string, keys ...string) *corev1.Secret {
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: o.Etcd.Namespace}, Data: map[string][]byte{}}
		for _, k := range keys {
			s.Data[k] = []byte("x")
		}
		return s
	}
	r, _ := newReconciler(t, secret("ca", "ca.crt"), secret("server", "tls.crt", "tls.key"))
	if err := r.missingSecrets(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	conditions := mustDecide(t, o, testSettings).Conditions
	const garbage = "Secrets that cannot be used: ca: ca.crt holds no certificate of an authority in PEM (spec.etcd.peerUrlTls.tlsCASecretRef); server: tls.crt and tls.key are no certificate"
	if c := druidv1alpha1.FindCondition(conditions, druidv1alpha1.ConditionAllMembersReady); c.Reason != druidv1alpha1.ReasonSecretInvalid || !strings.HasPrefix(c.Message, garbage) {
		t.Errorf("AllMembersReady says %s: %s", c.Reason, c.Message)
	}
	idle := druidv1alpha1.FindCondition(conditions, druidv1alpha1.ConditionFieldsWithoutEffect)
	if idle == nil || idle.Reason != druidv1alpha1.ReasonFieldsNotUsed {
		t.Fatalf("FieldsWithoutEffect is %+v", idle)
	}
	for _, want := range []string{"spec.etcd.peerUrlTls.clientTLSSecretRef", "spec.backup.store.secretRef", "/etc/gardener/local-backupbuckets", "hostPath"} {
		if !strings.Contains(idle.Message, want) {
			t.Errorf("FieldsWithoutEffect says %q, want %q in it", idle.Message, want)
		}
	}
}

// TestFieldsWithoutAControllerAreNamed: compaction has none yet, and nothing is taken and ignored.
func TestFieldsWithoutAControllerAreNamed(t *testing.T) {
	for field, set := range map[string]func(b *druidv1alpha1.BackupSpec){
		"spec.backup.snapshotCompaction": func(b *druidv1alpha1.BackupSpec) { b.SnapshotCompaction = &druidv1alpha1.SnapshotCompactionSpec{} },
		//nolint:staticcheck // whoever still uses it is told
		"spec.backup.compactionResources": func(b *druidv1alpha1.BackupSpec) { b.CompactionResources = &corev1.ResourceRequirements{} },
	} {
		o := running(t, 1, func(o *Observed) { // beside one that will never count for anything
			set(&o.Etcd.Spec.Backup)
			o.Etcd.Spec.Backup.Store = &druidv1alpha1.StoreSpec{Provider: ptr(druidv1alpha1.StorageProvider("Local")), SecretRef: &corev1.SecretReference{Name: "nothing"}}
		})
		c := druidv1alpha1.FindCondition(mustDecide(t, o, testSettings).Conditions, druidv1alpha1.ConditionFieldsWithoutEffect)
		if c == nil || c.Status != druidv1alpha1.ConditionTrue || c.Reason != druidv1alpha1.ReasonControllerNotPresent || !strings.Contains(c.Message, field) {
			t.Errorf("with %s: %+v", field, c)
		}
	}
}

func TestImagesOfTheOriginalThatAreReplacedAreNamed(t *testing.T) {
	o := running(t, 1, func(o *Observed) {
		o.Etcd.Spec.Etcd.Image = ptr("europe-docker.pkg.dev/gardener-project/public/gardener/etcd-wrapper:v0.6.0")
	})
	c := druidv1alpha1.FindCondition(mustDecide(t, o, testSettings).Conditions, druidv1alpha1.ConditionImagesReplaced)
	if c == nil || c.Status != druidv1alpha1.ConditionTrue || !strings.Contains(c.Message, "etcd-wrapper:v0.6.0") {
		t.Errorf("ImagesReplaced is %+v", c)
	}
}
