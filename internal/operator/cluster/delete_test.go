package cluster

import (
	"context"
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

// beingDeleted is an Etcd that somebody deletes, with pods that owner controls; nil: nobody does.
func beingDeleted(owner *metav1.OwnerReference) (*druidv1alpha1.Etcd, []client.Object) {
	e := newEtcd(3, func(e *druidv1alpha1.Etcd) {
		e.Finalizers = []string{druidv1alpha1.Finalizer}
		e.DeletionTimestamp = ptr(metav1.NewTime(testNow))
	})
	objects := []client.Object{e}
	for i := range 3 {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: e.PodName(i), Namespace: e.Namespace, UID: types.UID(fmt.Sprint("pod-", i)), Labels: e.PodLabels()}}
		if owner != nil {
			p.OwnerReferences = []metav1.OwnerReference{*owner}
		}
		objects = append(objects, p)
	}
	return e, objects
}

// A StatefulSet is orphaned while it is made anew around its pods, and by hand.
func TestAnEtcdThatIsDeletedTakesPodsAlongThatHaveNoStatefulSet(t *testing.T) {
	e, objects := beingDeleted(nil)
	r, c := newReconciler(t, objects...)
	for range 3 {
		seen, err := reread(t, c, e)
		if apierrors.IsNotFound(err) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.delete(context.Background(), seen); err != nil {
			t.Fatal(err)
		}
	}
	var pods corev1.PodList
	if err := c.List(context.Background(), &pods); err != nil {
		t.Fatal(err)
	}
	t.Errorf("after three looks the Etcd is still there, with %d pods that nobody deletes", len(pods.Items))
}

// They end as it says, and who deletes them would have it make them anew.
func TestPodsOfAStatefulSetAreLeftToItWhenAnEtcdIsDeleted(t *testing.T) {
	s := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "main", UID: "set"}}
	e, objects := beingDeleted(metav1.NewControllerRef(s, appsv1.SchemeGroupVersion.WithKind("StatefulSet")))
	r, c := newReconciler(t, objects...)
	seen, err := reread(t, c, e)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.delete(context.Background(), seen); err != nil {
		t.Fatal(err)
	}
	var pods corev1.PodList
	if err := c.List(context.Background(), &pods); err != nil {
		t.Fatal(err)
	}
	if len(pods.Items) != 3 {
		t.Errorf("pods that are left: %d, want all three", len(pods.Items))
	}
	if now, err := reread(t, c, e); err != nil || !slices.Contains(now.Finalizers, druidv1alpha1.Finalizer) {
		t.Errorf("the Etcd went before its pods: %v", err)
	}
}
