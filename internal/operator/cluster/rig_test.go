package cluster

import (
	"fmt"
	"maps"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/operator/desired"
	"druid.internal/druid/internal/operator/health"
	"druid.internal/druid/internal/operator/kube"
)

var testNow = time.Date(2025, 6, 1, 3, 0, 0, 0, time.UTC)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(testNow.Add(-d)) }

func ptr[T any](v T) *T { return &v }

var testSettings = Settings{
	Images:        desired.Images{Wrapper: "own:1", Sidecar: "own:1", Init: "own:1"},
	AutoReconcile: true,
	Thresholds:    health.DefaultThresholds(),
}

// newEtcd is one that the operator has not seen yet.
func newEtcd(replicas int32, change ...func(*druidv1alpha1.Etcd)) *druidv1alpha1.Etcd {
	e := &druidv1alpha1.Etcd{
		ObjectMeta: metav1.ObjectMeta{Name: "main", Namespace: "shop", UID: "etcd-uid", Generation: 1, CreationTimestamp: ago(24 * time.Hour)},
		Spec:       druidv1alpha1.EtcdSpec{Replicas: replicas, Labels: map[string]string{}},
	}
	e.Spec.Backup.Store = &druidv1alpha1.StoreSpec{Container: ptr("backups"), Prefix: "p", Provider: ptr(druidv1alpha1.StorageProvider("aws"))}
	e.SetDefaults()
	for _, c := range change {
		c(e)
	}
	return e
}

// empty is what is seen of an Etcd of which nothing exists.
func empty(e *druidv1alpha1.Etcd) *Observed {
	return &Observed{Observation: health.Observation{Etcd: e}, Live: map[Key]client.Object{}, NewToken: []byte("token"), ClusterUID: "k8s"}
}

// running is what is seen of a cluster of n members of which nothing is wrong, applied by testSettings.
// The last member leads. changes come last.
func running(t testing.TB, n int32, change ...func(*Observed)) *Observed {
	t.Helper()
	e := newEtcd(n)
	o := empty(e)
	p := mustDecide(t, o, testSettings)
	o.NewToken = nil
	for _, object := range p.Objects {
		object.SetResourceVersion("1")
		object.SetUID(types.UID(object.GetName()))
		object.SetCreationTimestamp(ago(23 * time.Hour))
		object.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: kube.FieldManager, Operation: metav1.ManagedFieldsOperationApply, Time: ptr(ago(23 * time.Hour))}})
		switch object := object.(type) {
		case *appsv1.StatefulSet:
			object.Generation = 1
			object.Status = appsv1.StatefulSetStatus{ObservedGeneration: 1, Replicas: n, ReadyReplicas: n, UpdateRevision: "new"}
			o.StatefulSet = object
		case *corev1.ConfigMap:
			o.ConfigMap = object
		case *corev1.Secret:
			continue
		}
		o.Live[keyOf(object)] = object
	}
	o.Sidecars = map[int]agentapi.Member{}
	for i := range int(n) {
		o.join(i, i == int(n)-1)
	}
	e.Status.ObservedGeneration = ptr(int64(1))
	for _, c := range change {
		c(o)
	}
	return o
}

// id of a member, as etcd writes it.
func id(i int) string { return fmt.Sprintf("%016x", 0xa0+i) }

// join adds a member that works, with its pod, claim, Lease, EtcdMember and sidecar.
func (o *Observed) join(i int, leader bool) {
	e, role, sub := o.Etcd, druidv1alpha1.EtcdRoleMember, druidv1alpha1.MemberFollower
	if leader {
		role, sub = druidv1alpha1.EtcdRoleLeader, druidv1alpha1.MemberLeader
	}
	holder := health.Identity{ID: id(i), ClusterID: "c1", Role: role}.String()
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: e.MemberLeaseName(i), Namespace: e.Namespace, OwnerReferences: []metav1.OwnerReference{e.OwnerReference()}},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &metav1.MicroTime{Time: testNow.Add(-5 * time.Second)}}}
	m := &druidv1alpha1.EtcdMember{ObjectMeta: metav1.ObjectMeta{Name: e.MemberName(i), Namespace: e.Namespace, CreationTimestamp: ago(23 * time.Hour), OwnerReferences: []metav1.OwnerReference{e.OwnerReference()}}}
	m.Status = druidv1alpha1.MemberReport{ID: ptr(id(i)), ClusterID: ptr("00000000000000c1"), State: druidv1alpha1.MemberStarted, SubState: sub, Revision: 1000, PeerTLSEnabled: ptr(false),
		Transitions: []druidv1alpha1.MemberTransition{{State: druidv1alpha1.MemberStarted, SubState: sub, TransitionTime: ago(20 * time.Hour)}}}
	if leader {
		m.Status.BackupLeader = true
		m.Status.Snapshots = &druidv1alpha1.MemberSnapshots{LastFull: &druidv1alpha1.MemberSnapshot{Timestamp: ago(3 * time.Hour), Name: "Full", EndRevision: 900}, NothingNew: ptr(ago(10 * time.Second))}
	}
	o.Live[Key{"Lease", l.Name}], o.Live[Key{druidv1alpha1.KindEtcdMember, m.Name}] = l, m
	o.Leases, o.Members = append(o.Leases, *l), append(o.Members, *m)
	o.Pods = append(o.Pods, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: e.PodName(i), Namespace: e.Namespace, UID: types.UID(fmt.Sprintf("pod-%d", i)), CreationTimestamp: ago(22 * time.Hour), Labels: map[string]string{appsv1.ControllerRevisionHashLabelKey: "new"},
			Annotations: maps.Clone(o.StatefulSet.Spec.Template.Annotations)},
		Spec: corev1.PodSpec{Containers: o.StatefulSet.Spec.Template.Spec.Containers, Volumes: o.StatefulSet.Spec.Template.Spec.Volumes},
		Status: corev1.PodStatus{PodIP: fmt.Sprintf("10.0.0.%d", i), Conditions: []corev1.PodCondition{
			{Type: corev1.ContainersReady, Status: corev1.ConditionTrue}, {Type: corev1.PodReady, Status: corev1.ConditionTrue},
		}, ContainerStatuses: []corev1.ContainerStatus{{Name: desired.ContainerEtcd, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}},
	})
	o.Claims = append(o.Claims, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: e.VolumeClaimName(i), CreationTimestamp: ago(22 * time.Hour)},
		Spec:       corev1.PersistentVolumeClaimSpec{Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("16Gi")}}},
		Status:     corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
	})
	o.Sidecars[i] = agentapi.Member{Name: e.MemberName(i), ID: id(i), ClusterID: "00000000000000c1", Refusal: &agentapi.Refusal{}, Etcd: &agentapi.Etcd{Version: "3.6.16", Revision: 1000}}
	o.elect()
}

// elect has all sidecars agree on the members that have one, and on the last as the leader.
func (o *Observed) elect() {
	var listed []agentapi.Listed
	last := -1
	for i := range 100 {
		if m, ok := o.Sidecars[i]; ok {
			listed = append(listed, agentapi.Listed{ID: id(i), Name: m.Name, PeerURLs: []string{"http://" + o.Etcd.PeerHost(i) + ":2380"}})
			last = i
		}
	}
	for i, m := range o.Sidecars {
		etcd := *m.Etcd
		etcd.Leader, etcd.Members = id(last), listed
		m.Etcd = &etcd
		o.Sidecars[i] = m
	}
	o.Asked = true
}

// silent: the Lease of a member was not renewed for so long.
func silent(i int, d time.Duration) func(*Observed) {
	return func(o *Observed) { o.Leases[i].Spec.RenewTime = &metav1.MicroTime{Time: testNow.Add(-d)} }
}

// down: the containers of a member's pod do not run.
func down(i int) func(*Observed) {
	return func(o *Observed) {
		for j := range o.Pods[i].Status.Conditions {
			o.Pods[i].Status.Conditions[j].Status = corev1.ConditionFalse
			o.Pods[i].Status.Conditions[j].LastTransitionTime = ago(10 * time.Minute)
		}
		o.Pods[i].Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
		delete(o.Sidecars, i)
	}
}

// was: a condition had this status before.
func was(of druidv1alpha1.ConditionType, status druidv1alpha1.ConditionStatus) func(*Observed) {
	return func(o *Observed) {
		o.Etcd.Status.Conditions = druidv1alpha1.SetCondition(o.Etcd.Status.Conditions, druidv1alpha1.Condition{Type: of, Status: status, Reason: "Before", Message: "before"}, ago(time.Hour))
	}
}

// wants changes the number of members that are wanted.
func wants(n int32) func(*Observed) {
	return func(o *Observed) { o.Etcd.Spec.Replicas = n; o.Etcd.Generation++ }
}

func former(i int) func(*Observed) {
	return func(o *Observed) { o.Pods[i].Labels[appsv1.ControllerRevisionHashLabelKey] = "old" }
}

func mustDecide(t testing.TB, o *Observed, s Settings) Plan {
	t.Helper()
	p, err := Decide(o, s, testNow)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// changes are the objects of a plan that are not as they are seen, and what is removed.
func changes(o *Observed, p Plan) (all []string) {
	if o == nil {
		o = &Observed{}
	}
	for _, object := range p.Objects {
		live, there := o.Live[keyOf(object)]
		switch {
		case !there:
			all = append(all, "make "+keyOf(object).String())
		case differs(object, live):
			all = append(all, "change "+keyOf(object).String())
		}
	}
	for _, r := range p.Remove {
		all = append(all, "remove "+r.Kind+" "+r.Object.GetName())
	}
	if p.Pod.Pod != "" {
		all = append(all, string(p.Pod.Kind)+" pod "+p.Pod.Pod)
	}
	return all
}
