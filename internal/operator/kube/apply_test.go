package kube

import (
	"errors"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// What was decided from a version is applied to that one, and to no later one that a cache does not hold yet.
func TestAVersionThatIsNamedIsTheOneThatIsChanged(t *testing.T) {
	set := func(replicas int32) *appsv1.StatefulSet {
		return &appsv1.StatefulSet{
			TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"},
			ObjectMeta: metav1.ObjectMeta{Name: "main", Namespace: "shop"}, Spec: appsv1.StatefulSetSpec{Replicas: &replicas},
		}
	}
	c := fake.NewClientBuilder().Build()
	a := NewApplier(c, c)
	live := func() *appsv1.StatefulSet {
		var s appsv1.StatefulSet
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "main"}, &s); err != nil {
			t.Fatal(err)
		}
		return &s
	}
	apply := func(replicas int32, version string, have *appsv1.StatefulSet) error {
		want := set(replicas)
		want.ResourceVersion = version
		_, err := a.Apply(t.Context(), want, have)
		return err
	}
	if err := apply(0, "", &appsv1.StatefulSet{}); err != nil {
		t.Fatal(err)
	}
	stale := live()
	if err := apply(3, "", stale); err != nil {
		t.Fatal(err)
	}
	// The cache holds the version from before; so would one that is read while another writes.
	if err := apply(1, stale.ResourceVersion, stale); !errors.Is(err, ErrChanged) {
		t.Errorf("a version from before: %v", err)
	}
	if err := apply(1, stale.ResourceVersion, live()); !errors.Is(err, ErrChanged) {
		t.Errorf("a version from before what the cache holds: %v", err)
	}
	if got := *live().Spec.Replicas; got != 3 {
		t.Errorf("it has %d replicas, want 3", got)
	}
	now := live()
	if err := apply(0, now.ResourceVersion, now); err != nil {
		t.Error(err)
	}
	if got := *live().Spec.Replicas; got != 0 {
		t.Errorf("it has %d replicas, want 0", got)
	}
}
