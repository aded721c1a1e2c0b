package cluster

import (
	"context"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubernetes "k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/operator/health"
	"druid.internal/druid/internal/operator/kube"
	"druid.internal/druid/internal/operator/metrics"
	"druid.internal/druid/internal/operator/rollout"
)

// newReconciler is one with testSettings at testNow, for which nothing is there but the objects.
func newReconciler(t testing.TB, objects ...client.Object) (*Reconciler, client.Client) {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{kubernetes.AddToScheme, druidv1alpha1.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	b := fake.NewClientBuilder().WithScheme(s).WithStatusSubresource(&druidv1alpha1.Etcd{}).WithObjects(objects...).
		WithIndex(&corev1.PersistentVolumeClaim{}, "metadata.name", func(o client.Object) []string { return []string{o.GetName()} }) // as the API server has it
	c, log, now := b.Build(), slog.New(slog.DiscardHandler), func() time.Time { return testNow }
	r := &Reconciler{
		settings: testSettings, syncPeriod: 15 * time.Second, now: now,
		client: c, live: c, stores: storesOf(t, c), cluster: kube.NewCluster(c), applier: kube.NewApplier(c, c),
		recorder: events.NewFakeRecorder(100), metrics: metrics.New(), configs: newConfigurations(), logger: log,
		heartbeats: newHeartbeats(c, time.Minute, now, log), asking: newAsking(httpAsker{secrets: c, log: log}, now, log),
		tokens: map[types.UID]time.Time{}, claims: map[types.UID]claimNews{}, quiet: map[types.UID]Quiet{}, writes: map[types.UID]wroteSet{}, undone: map[types.UID][]string{}, restored: map[types.UID]map[string]time.Time{},
	}
	r.snapshots = newSnapshots(httpAsker{secrets: c, log: log}, now, log, r.metrics)
	return r, c
}

// storesOf read what a client does.
func storesOf(t testing.TB, c client.Client) stores {
	all := stores{}
	for one, list := range map[client.Object]client.ObjectList{
		&druidv1alpha1.Etcd{}: &druidv1alpha1.EtcdList{}, &appsv1.StatefulSet{}: &appsv1.StatefulSetList{}, &corev1.ConfigMap{}: &corev1.ConfigMapList{}, &policyv1.PodDisruptionBudget{}: &policyv1.PodDisruptionBudgetList{},
		&corev1.Service{}: &corev1.ServiceList{}, &corev1.ServiceAccount{}: &corev1.ServiceAccountList{}, &rbacv1.Role{}: &rbacv1.RoleList{}, &rbacv1.RoleBinding{}: &rbacv1.RoleBindingList{},
		&druidv1alpha1.EtcdOperatorTask{}: &druidv1alpha1.EtcdOperatorTaskList{}, &druidv1alpha1.EtcdMember{}: &druidv1alpha1.EtcdMemberList{},
		&corev1.Pod{}: &corev1.PodList{}, &corev1.PersistentVolumeClaim{}: &corev1.PersistentVolumeClaimList{},
	} {
		all[reflect.TypeOf(one)] = clientStore{t, c, one, list}
	}
	return all
}

// clientStore reads objects of a type by a client.
type clientStore struct {
	t    testing.TB
	c    client.Client
	one  client.Object
	list client.ObjectList
}

func (s clientStore) GetByKey(key string) (any, bool, error) {
	namespace, name, _ := strings.Cut(key, "/")
	o := s.one.DeepCopyObject().(client.Object)
	err := s.c.Get(s.t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, o)
	return o, err == nil, client.IgnoreNotFound(err)
}

func (s clientStore) ByIndex(index, value string) (found []any, err error) {
	list := s.list.DeepCopyObject().(client.ObjectList)
	if err := s.c.List(s.t.Context(), list); err != nil {
		return nil, err
	}
	err = meta.EachListItem(list, func(o runtime.Object) error {
		parts, err := byPart(o)
		if index == partOf && slices.Contains(parts, value) || index == toolscache.NamespaceIndex && o.(client.Object).GetNamespace() == value {
			found = append(found, o)
		}
		return err
	})
	return found, err
}

// reread is an object as it is now.
func reread[T client.Object](t testing.TB, c client.Client, object T) (T, error) {
	t.Helper()
	now := object.DeepCopyObject().(T)
	return now, c.Get(context.Background(), client.ObjectKeyFromObject(object), now)
}

// What is done was read a moment ago. Who applies another specification with the same annotation meanwhile asks for that.
func TestARequestForANewerSpecificationStaysWhenTheOlderOneIsDone(t *testing.T) {
	e := newEtcd(1)
	e.Annotations = map[string]string{druidv1alpha1.AnnotationOperation: druidv1alpha1.OperationReconcile}
	r, c := newReconciler(t, e)
	done := Plan{Mode: ModeApply, Size: rollout.ScaleStep{Done: true}}
	seen, err := reread(t, c, e)
	if err != nil {
		t.Fatal(err)
	}
	newer := seen.DeepCopy()
	newer.Spec.Etcd.Metrics = ptr(druidv1alpha1.MetricsExtensive)
	newer.Generation++
	if err := c.Update(context.Background(), newer); err != nil {
		t.Fatal(err)
	}
	if err := r.finish(context.Background(), &Observed{Observation: health.Observation{Etcd: seen}}, done, outcome{}); err == nil {
		t.Error("the end of what was seen was no error, after which is looked again")
	}
	now, err := reread(t, c, e)
	if err != nil || now.ReconcileRequested() == "" {
		t.Errorf("annotations %v (%v): the request to apply the newer specification went unseen", now.Annotations, err)
	}
	if err := r.finish(context.Background(), &Observed{Observation: health.Observation{Etcd: now}}, done, outcome{}); err != nil {
		t.Fatal(err)
	}
	if now, err = reread(t, c, e); err != nil || now.ReconcileRequested() != "" {
		t.Errorf("annotations %v (%v), want the request to be gone with what it asked for", now.Annotations, err)
	}
}

// Conditions tell by thresholds of time, whatever fails meanwhile.
func TestAnEtcdOfWhichSomethingFailsIsLookedAtAsOftenAsOthers(t *testing.T) {
	for period, want := range map[time.Duration]time.Duration{5 * time.Second: 15 * time.Second, time.Minute: time.Minute} {
		again := (&Reconciler{syncPeriod: period}).again()
		var last time.Duration
		for range 100 {
			last = again.When(reconcile.Request{})
		}
		if last != want {
			t.Errorf("with a period of %s the hundredth attempt comes after %s, want %s", period, last, want)
		}
	}
}

// What cannot be read is told, as nothing is decided then.
func TestALookThatCannotReadSaysSo(t *testing.T) {
	e := newEtcd(3, func(e *druidv1alpha1.Etcd) { e.Finalizers = []string{druidv1alpha1.Finalizer} })
	r, c := newReconciler(t, e) // without the namespace by whose uid a cluster is known
	for range 2 {
		if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(e)}); err == nil {
			t.Fatal("nothing failed")
		}
	}
	now, err := reread(t, c, e)
	if err != nil {
		t.Fatal(err)
	}
	if len(now.Status.LastErrors) != 1 || now.Status.LastErrors[0].Code != codeObserve || !strings.Contains(now.Status.LastErrors[0].Description, "kube-system") {
		t.Errorf("the last errors are %+v, want one of %s about kube-system", now.Status.LastErrors, codeObserve)
	}
}

// Somebody may ask for it while the Etcd sleeps, together with another prefix. What is told of backups then is of before.
func TestBackupsAreTakenOverByMembersAlone(t *testing.T) {
	for phrase, c := range map[string]struct {
		replicas int32
		told     bool
		want     bool
	}{
		"it sleeps":                  {0, true, true},
		"all pods were told":         {3, true, false},
		"a pod has another template": {3, false, true},
	} {
		e := newEtcd(c.replicas, func(e *druidv1alpha1.Etcd) {
			e.Annotations = map[string]string{druidv1alpha1.AnnotationTakeOverBackups: "true"}
		})
		r, api := newReconciler(t, e)
		seen, err := reread(t, api, e)
		if err != nil {
			t.Fatal(err)
		}
		p := Plan{Mode: ModeApply, Size: rollout.ScaleStep{Done: true}, Conditions: []druidv1alpha1.Condition{{Type: druidv1alpha1.ConditionBackupReady, Status: druidv1alpha1.ConditionTrue}}}
		o := &Observed{Observation: health.Observation{Etcd: seen}}
		if c.replicas > 0 {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: e.PodName(0), Annotations: map[string]string{druidv1alpha1.AnnotationBackupChecksum: "of before"}}}
			if c.told {
				pod.Annotations[druidv1alpha1.AnnotationBackupChecksum] = backupChecksum(seen, ownerOf(o))
			}
			o.Pods = []*corev1.Pod{pod}
		}
		if err := r.finish(t.Context(), o, p, outcome{}); err != nil {
			t.Fatal(err)
		}
		now, err := reread(t, api, e)
		if err != nil {
			t.Fatal(err)
		}
		if got := now.TakesOverBackups(); got != c.want {
			t.Errorf("%s: it is still asked for: %t, want %t", phrase, got, c.want)
		}
	}
}

// TestVolumesStayIfTheClusterWokeSince: the cache of an operator that leads no more may be of before.
func TestVolumesStayIfTheClusterWokeSince(t *testing.T) {
	for phrase, c := range map[string]struct {
		change func(e *druidv1alpha1.Etcd, s *appsv1.StatefulSet)
		goes   bool
	}{
		"it sleeps":                   {func(*druidv1alpha1.Etcd, *appsv1.StatefulSet) {}, true},
		"another specification":       {func(e *druidv1alpha1.Etcd, _ *appsv1.StatefulSet) { e.Generation++ }, false},
		"the annotation is gone":      {func(e *druidv1alpha1.Etcd, _ *appsv1.StatefulSet) { e.Spec.Replicas = 3 }, false},
		"the same Etcd, made anew":    {func(e *druidv1alpha1.Etcd, _ *appsv1.StatefulSet) { e.UID = "another" }, false},
		"the StatefulSet has pods":    {func(_ *druidv1alpha1.Etcd, s *appsv1.StatefulSet) { s.Spec.Replicas = ptr(int32(3)) }, false},
		"members were wanted before":  {func(e *druidv1alpha1.Etcd, _ *appsv1.StatefulSet) { e.Spec.Replicas = 3 }, true},
		"the StatefulSet has default": {func(_ *druidv1alpha1.Etcd, s *appsv1.StatefulSet) { s.Spec.Replicas = nil }, false},
	} {
		e := newEtcd(0)
		s := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: e.StatefulSetName(), Namespace: e.Namespace, UID: "set"}, Spec: appsv1.StatefulSetSpec{Replicas: ptr(int32(0))}}
		o := &Observed{Observation: health.Observation{Etcd: e.DeepCopy()}}
		if c.change(e, s); phrase == "members were wanted before" {
			o.Etcd = e.DeepCopy()
		}
		r, _ := newReconciler(t, e, s)
		if err := r.sleeps(t.Context(), o); (err == nil) != c.goes {
			t.Errorf("%s: %v, want volumes to go: %t", phrase, err, c.goes)
		}
	}
}

// Members are wanted again while some volumes have gone, and the operator that had begun with that died.
func TestTheVolumesThatAreLeftGoBeforeTheClusterWakesUp(t *testing.T) {
	o := running(t, 3, wants(0), volumesGo, recorded(2, func(h *druidv1alpha1.HibernationStatus) { h.VolumesGoSince = ptr(ago(time.Minute)) }), gone, wants(3))
	e, claim := o.Etcd, o.Claims[2]
	e.Finalizers = []string{druidv1alpha1.Finalizer}
	claim.Namespace, claim.UID, claim.Labels = e.Namespace, "claim-2", e.MemberPodLabels()
	objects := []client.Object{e, claim}
	for key, object := range o.Live {
		if key.Kind != kindLease && key != keyOf(claim) {
			object.SetManagedFields(nil)
			objects = append(objects, object)
		}
	}
	r, api := newReconciler(t, append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "k8s"}})...)
	var claims corev1.PersistentVolumeClaimList
	for range 3 {
		if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(e)}); err != nil {
			t.Fatal(err)
		}
		if err := api.List(t.Context(), &claims); err != nil {
			t.Fatal(err)
		}
		if len(claims.Items) == 0 {
			return
		}
	}
	t.Errorf("after three looks volumes are left, and no member can start: %+v", claims.Items)
}
