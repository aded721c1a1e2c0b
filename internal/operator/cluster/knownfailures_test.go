package cluster

import (
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/operator/desired"
)

// What happened elsewhere: docs/reference/known-failures.md names these tests.

func TestALeaseOfSnapshotsAheadOfTheBucketHasNoSay(t *testing.T) {
	o := running(t, 3, relaxed)
	for _, name := range []string{o.Etcd.FullSnapshotLeaseName(), o.Etcd.DeltaSnapshotLeaseName()} {
		l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: []metav1.OwnerReference{o.Etcd.OwnerReference()}},
			Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr("999999999"), RenewTime: &metav1.MicroTime{Time: testNow.Add(-240 * time.Hour)}}}
		o.Live[Key{"Lease", name}] = l
		o.Leases = append(o.Leases, *l)
	}
	p := mustDecide(t, o, testSettings)
	if c := druidv1alpha1.FindCondition(p.Conditions, druidv1alpha1.ConditionBackupReady); c.Status != druidv1alpha1.ConditionTrue {
		t.Errorf("BackupReady is %s (%s), want True: the bucket is judged by what the backup leader says", c.Status, c.Message)
	}
	if len(p.Remove) != 2 {
		t.Errorf("removed: %v, want both Leases", changes(o, p))
	}
}

func TestAnEtcdWithoutAPeriodOfDeltasIsLookedAt(t *testing.T) {
	for phrase, period := range map[string]*metav1.Duration{"none": nil, "zero": {}} {
		o := running(t, 3)
		o.Etcd.Spec.Backup.DeltaSnapshotPeriod = period
		p := mustDecide(t, o, testSettings)
		if c := druidv1alpha1.FindCondition(p.Conditions, druidv1alpha1.ConditionBackupReady); c == nil || c.Status != druidv1alpha1.ConditionTrue {
			t.Errorf("%s: BackupReady is %+v, want True", phrase, c)
		}
	}
}

func TestFurtherPeerURLsReachMembersWithAPrefix(t *testing.T) {
	e := newEtcd(3, func(e *druidv1alpha1.Etcd) {
		e.Spec.MemberNamePrefix = ptr("blue")
		e.Spec.Etcd.AdditionalAdvertisePeerURLs = []druidv1alpha1.AdditionalPeerURL{{MemberName: "blue-main-1", URLs: []string{"http://one.example.org:2380"}}}
	})
	found := false
	for _, object := range mustDecide(t, empty(e), testSettings).Objects {
		if c, ok := object.(*corev1.ConfigMap); ok {
			found = strings.Contains(c.Data[desired.EtcdFile], "blue-main-1=http://one.example.org:2380")
		}
	}
	if !found {
		t.Error("the configuration does not name the URL of the member with its prefix")
	}
}

func TestAPodOfAJobIsNoMemberForTheBudget(t *testing.T) {
	e := newEtcd(3)
	job := labels.Set(e.SelectorLabels())
	job[druidv1alpha1.LabelComponent] = druidv1alpha1.ComponentCompactionJob
	for _, object := range mustDecide(t, empty(e), testSettings).Objects {
		b, ok := object.(*policyv1.PodDisruptionBudget)
		if !ok {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err != nil {
			t.Fatal(err)
		}
		if selector.Matches(job) {
			t.Error("the budget counts pods of Jobs, which would let a member more be evicted")
		}
		if !selector.Matches(labels.Set(e.PodLabels())) {
			t.Error("the budget does not count members")
		}
		return
	}
	t.Error("there is no budget")
}
