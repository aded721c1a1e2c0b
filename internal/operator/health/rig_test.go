package health

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

var testNow = time.Date(2025, 6, 1, 3, 0, 0, 0, time.UTC)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(testNow.Add(-d)) }

func ptr[T any](v T) *T { return &v }

// cluster is one of n members of which nothing is wrong. The last one leads.
func cluster(n int, change ...func(*Observation)) Observation {
	e := &druidv1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Name: "main", Namespace: "ns"}}
	e.Spec.Replicas = int32(n)
	e.Spec.Backup.Store = &druidv1alpha1.StoreSpec{Prefix: "p", Provider: ptr(druidv1alpha1.StorageProvider("aws"))}
	e.Spec.Backup.FullSnapshotSchedule = ptr("0 0 * * *")
	e.Spec.Backup.DeltaSnapshotPeriod = &metav1.Duration{Duration: 5 * time.Minute}
	o := Observation{Etcd: e, StatefulSet: &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Replicas: ptr(int32(n))}, Status: appsv1.StatefulSetStatus{UpdateRevision: "new"}}}
	for i := range n {
		role, sub := druidv1alpha1.EtcdRoleMember, druidv1alpha1.MemberFollower
		if i == n-1 {
			role, sub = druidv1alpha1.EtcdRoleLeader, druidv1alpha1.MemberLeader
		}
		id := Identity{ID: fmt.Sprintf("a%d", i), ClusterID: "c1", Role: role}.String()
		o.Leases = append(o.Leases, coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: e.MemberLeaseName(i)},
			Spec: coordinationv1.LeaseSpec{HolderIdentity: &id, RenewTime: &metav1.MicroTime{Time: testNow.Add(-5 * time.Second)}}})
		o.Pods = append(o.Pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: e.PodName(i), Labels: map[string]string{appsv1.ControllerRevisionHashLabelKey: "new"}},
			Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.ContainersReady, Status: corev1.ConditionTrue}}}})
		o.Claims = append(o.Claims, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: e.VolumeClaimName(i), UID: "u"}, Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound}})
		m := druidv1alpha1.EtcdMember{ObjectMeta: metav1.ObjectMeta{Name: e.MemberName(i), CreationTimestamp: ago(30 * 24 * time.Hour)}}
		m.Status = druidv1alpha1.MemberReport{ID: ptr(fmt.Sprintf("%016x", 0xa0+i)), ClusterID: ptr("00000000000000c1"), State: druidv1alpha1.MemberStarted, SubState: sub,
			Transitions: []druidv1alpha1.MemberTransition{{State: druidv1alpha1.MemberStarted, SubState: sub, TransitionTime: ago(20 * 24 * time.Hour)}}}
		o.Members = append(o.Members, m)
	}
	if n > 0 {
		leader := &o.Members[n-1].Status
		leader.BackupLeader = true
		leader.Snapshots = &druidv1alpha1.MemberSnapshots{
			LastFull:  &druidv1alpha1.MemberSnapshot{Timestamp: ago(3 * time.Hour), Name: "Full-00000000-00000900-1", EndRevision: 900},
			LastDelta: &druidv1alpha1.MemberSnapshot{Timestamp: ago(2 * time.Minute), Name: "Incr-00000901-00001000-2", StartRevision: 901, EndRevision: 1000},
		}
	}
	for _, c := range change {
		c(&o)
	}
	return o
}

// renewed is when the member's Lease was renewed last.
func renewed(i int, before time.Duration) func(*Observation) {
	return func(o *Observation) { o.Leases[i].Spec.RenewTime = &metav1.MicroTime{Time: testNow.Add(-before)} }
}

// never renewed.
func unheard(i int) func(*Observation) {
	return func(o *Observation) { o.Leases[i].Spec = coordinationv1.LeaseSpec{} }
}

func podDown(i int) func(*Observation) {
	return func(o *Observation) { o.Pods[i].Status.Conditions[0].Status = corev1.ConditionFalse }
}

func held(i int, holder string) func(*Observation) {
	return func(o *Observation) { o.Leases[i].Spec.HolderIdentity = &holder }
}

// reports changes what a member says.
func reports(i int, change func(*druidv1alpha1.MemberReport)) func(*Observation) {
	return func(o *Observation) { change(&o.Members[i].Status) }
}

func state(s druidv1alpha1.MemberState, sub druidv1alpha1.MemberSubState, reason druidv1alpha1.MemberReason, message string) func(*druidv1alpha1.MemberReport) {
	return func(m *druidv1alpha1.MemberReport) {
		m.State, m.SubState = s, sub
		m.Transitions = append(m.Transitions, druidv1alpha1.MemberTransition{State: s, SubState: sub, Reason: reason, Message: message, TransitionTime: ago(time.Minute)})
	}
}

// learner is a new member of a cluster that grows.
func learner(i int) func(*Observation) {
	return func(o *Observation) {
		o.Members[i].Annotations = map[string]string{druidv1alpha1.AnnotationCreateAsLearner: "true"}
		state(druidv1alpha1.MemberStarting, druidv1alpha1.MemberLearner, druidv1alpha1.MemberReasonJoinedAsLearner, "")(&o.Members[i].Status)
	}
}

// rejoins is a member that lost its data and receives them again: it is no new one.
func rejoins(i int) func(*Observation) {
	return func(o *Observation) {
		state(druidv1alpha1.MemberStarting, druidv1alpha1.MemberLearner, druidv1alpha1.MemberReasonJoinedAsLearner, "")(&o.Members[i].Status)
	}
}

// formerName has the claims be of a StatefulSet with another template.
func formerName(o *Observation) {
	o.StatefulSet.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "former"}}}
	for i, c := range o.Claims {
		c.Name = "former-" + o.Etcd.PodName(i)
	}
}

func find(t *testing.T, o Observation, of druidv1alpha1.ConditionType) druidv1alpha1.Condition {
	t.Helper()
	c := druidv1alpha1.FindCondition(Conditions(o, Members(o, DefaultThresholds(), testNow), testNow), of)
	if c == nil {
		t.Fatalf("there is no condition %s", of)
	}
	return *c
}
