package cluster

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

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

// What somebody has to do is told, and only what does not end by itself.
func TestADeletionThatHangsSaysWhatItWaitsFor(t *testing.T) {
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "main", UID: "set"}}
	for phrase, c := range map[string]struct {
		age  time.Duration
		want string
	}{
		"a pod on a node that is lost": {time.Minute, "what does not end: ConfigMap main-config, which waits for whoever takes the finalizers somebody.example/waits off; " +
			"pod main-0; if its node is lost for good, remove the node, or delete the pod by force"},
		"one that is ending": {stuckAfter, ""},
	} {
		t.Run(phrase, func(t *testing.T) {
			e, objects := beingDeleted(metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("StatefulSet")))
			held := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
				Name: "main-config", Namespace: e.Namespace, Labels: e.Labels, Finalizers: []string{"somebody.example/waits"},
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(e, druidv1alpha1.GroupVersion().WithKind(druidv1alpha1.KindEtcd))},
			}}
			for _, o := range []client.Object{objects[1], held} { // the first pod
				o.SetDeletionTimestamp(ptr(ago(c.age)))
				o.SetFinalizers([]string{"somebody.example/waits"})
			}
			r, cl := newReconciler(t, append(objects, held)...)
			seen, err := reread(t, cl, e)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := r.delete(context.Background(), seen); err != nil {
				t.Fatal(err)
			}
			now, err := reread(t, cl, e)
			if err != nil {
				t.Fatal(err)
			}
			want := "the objects of the Etcd are deleted; its volumes and backups stay"
			if c.want != "" {
				want += "; " + c.want
			}
			if got := now.Status.LastOperation.Description; got != want {
				t.Errorf("it says %q, want %q", got, want)
			}
		})
	}
}
