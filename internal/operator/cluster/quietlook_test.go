package cluster

import (
	"context"
	"errors"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

// quietReconciler has made a cluster of three members, and looked at it until there was nothing to do. What is there is in
// indexers, as it is in an operator.
func quietReconciler(t testing.TB) (*Reconciler, reconcile.Request) {
	t.Helper()
	o := running(t, 3)
	e := newEtcd(3)
	r, c := newReconciler(t, e, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: "k8s"}})
	ctx, request := context.Background(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(e)}
	if _, err := r.Reconcile(ctx, request); err != nil {
		t.Fatal(err)
	}
	for i := range o.Pods {
		label := map[string]string{druidv1alpha1.LabelManagedBy: druidv1alpha1.ManagedBy, druidv1alpha1.LabelPartOf: e.Name}
		for k, v := range e.MemberPodLabels() {
			o.Pods[i].Labels[k] = v
		}
		o.Pods[i].Spec.NodeName = "node"
		claim := o.Claims[i]
		claim.Namespace, claim.Labels, claim.Status.Capacity = e.Namespace, label, claim.Spec.Resources.Requests
		if err := errors.Join(c.Create(ctx, o.Pods[i]), c.Create(ctx, claim)); err != nil {
			t.Fatal(err)
		}
	}
	fill(t, c, &coordinationv1.LeaseList{}, func(l *coordinationv1.Lease) {
		l.Spec = o.Live[Key{kindLease, l.Name}].(*coordinationv1.Lease).Spec
	})
	fill(t, c, &druidv1alpha1.EtcdMemberList{}, func(m *druidv1alpha1.EtcdMember) {
		m.Status = o.Live[Key{druidv1alpha1.KindEtcdMember, m.Name}].(*druidv1alpha1.EtcdMember).Status
	})
	fill(t, c, &appsv1.StatefulSetList{}, func(s *appsv1.StatefulSet) { s.Status = o.StatefulSet.Status })
	for range 5 {
		if _, err := r.Reconcile(ctx, request); err != nil {
			t.Fatal(err)
		}
	}
	for of, s := range r.stores {
		kept := toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{partOf: byPart, toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc})
		all, err := s.ByIndex(toolscache.NamespaceIndex, e.Namespace)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range all {
			if err := kept.Add(one); err != nil {
				t.Fatal(err)
			}
		}
		r.stores[of] = kept
	}
	return r, request
}

// fill changes every object of a kind.
func fill[T client.Object](t testing.TB, c client.Client, all client.ObjectList, change func(T)) {
	t.Helper()
	if err := c.List(context.Background(), all); err != nil {
		t.Fatal(err)
	}
	if err := meta.EachListItem(all, func(o runtime.Object) error {
		change(o.(T))
		return c.Update(context.Background(), o.(T))
	}); err != nil {
		t.Fatal(err)
	}
}

// nobody is a client that must not be asked.
type nobody struct{ client.Client }

func TestALookAtAQuietEtcdAsksNobody(t *testing.T) {
	r, request := quietReconciler(t)
	r.client, r.live = nobody{}, nobody{} // each request would be one of nil
	for range 2 {
		if _, err := r.Reconcile(context.Background(), request); err != nil {
			t.Fatal(err)
		}
	}
	e, _, err := named[*druidv1alpha1.Etcd](r.stores, request.Namespace, request.Name)
	if err != nil || !holds(e.Status.Conditions, druidv1alpha1.ConditionReady) {
		t.Errorf("the Etcd of the test is not ready: %+v (%v)", e.Status.Conditions, err)
	}
}

func TestASteadyEtcdIsLookedAtMoreRarely(t *testing.T) {
	r, request := quietReconciler(t)
	got, err := r.Reconcile(context.Background(), request)
	if err != nil || got.RequeueAfter <= r.syncPeriod || got.RequeueAfter > steadyPeriods*r.syncPeriod {
		t.Errorf("the next look is in %s (%v), want it after %s", got.RequeueAfter, err, steadyPeriods*r.syncPeriod)
	}
}

// The API server may be slower to tell what was made than something else is to have the Etcd looked at again.
func TestWhatWasMadeAMomentAgoIsNotMadeAgain(t *testing.T) {
	e := newEtcd(3)
	r, c := newReconciler(t, e, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: "k8s"}})
	ctx, request := context.Background(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(e)}
	if _, err := r.Reconcile(ctx, request); err != nil {
		t.Fatal(err)
	}
	var set appsv1.StatefulSet
	if err := c.Get(ctx, client.ObjectKeyFromObject(e), &set); err != nil {
		t.Fatal(err)
	}
	uid := set.UID
	if err := c.Delete(ctx, &set); err != nil { // as if nobody had told of it yet
		t.Fatal(err)
	}
	look := func() (made bool) {
		t.Helper()
		if _, err := r.Reconcile(ctx, request); err != nil {
			t.Fatal(err)
		}
		err := c.Get(ctx, client.ObjectKeyFromObject(e), &set)
		if client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
		return err == nil
	}
	if look() {
		t.Errorf("the StatefulSet %s was made again at once", uid)
	}
	start := r.now()
	r.now = func() time.Time { return start.Add(fillsWithin) }
	if !look() {
		t.Error("it is gone, and was not made again")
	}
}

// To tell of a cluster before its pods are there, and a moment later of them, would be two requests and two events for each.
func TestANewClusterIsToldOfWithItsPods(t *testing.T) {
	e := newEtcd(3)
	r, c := newReconciler(t, e, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: "k8s"}})
	ctx, request := context.Background(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(e)}
	told := func() *druidv1alpha1.LastOperation {
		t.Helper()
		now, err := reread(t, c, e)
		if err != nil {
			t.Fatal(err)
		}
		return now.Status.LastOperation
	}
	again, err := r.Reconcile(ctx, request)
	if err != nil || again.RequeueAfter > soon {
		t.Fatalf("the next look is in %s (%v)", again.RequeueAfter, err)
	}
	if op := told(); op != nil {
		t.Errorf("it was told of a cluster without pods: %+v", op)
	}
	fill(t, c, &appsv1.StatefulSetList{}, func(s *appsv1.StatefulSet) { s.CreationTimestamp = ago(fillsWithin) })
	if _, err := r.Reconcile(ctx, request); err != nil {
		t.Fatal(err)
	}
	if op := told(); op == nil || op.Type != druidv1alpha1.LastOperationCreate {
		t.Errorf("with the second look it was told of %+v, want a Create", op)
	}
}

// What an operator of many Etcds spends most of its time on.
func BenchmarkQuietLook(b *testing.B) {
	r, request := quietReconciler(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Reconcile(context.Background(), request); err != nil {
			b.Fatal(err)
		}
	}
}
