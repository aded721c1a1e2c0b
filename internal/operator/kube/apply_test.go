package kube

import (
	"errors"
	"maps"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
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
	var out Outcome
	apply := func(replicas int32, version string, have *appsv1.StatefulSet) (err error) {
		want := set(replicas)
		want.ResourceVersion = version
		out, err = a.Apply(t.Context(), want, have)
		return err
	}
	if err := apply(0, "", &appsv1.StatefulSet{}); err != nil {
		t.Fatal(err)
	}
	stale := live()
	if err := apply(3, "", stale); err != nil {
		t.Fatal(err)
	}
	if got := live(); !out.Changed || out.Object == nil || out.Object.GetUID() != got.UID || out.Object.GetResourceVersion() != got.ResourceVersion || out.Object.GetGeneration() != got.Generation {
		t.Errorf("what was changed is told as %+v, and is %s in version %s", out, got.UID, got.ResourceVersion)
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

// To take what was created over as applied is a version as well, and the operator's own.
func TestWhatWasCreatedIsChangedInTheVersionThatIsNamed(t *testing.T) {
	for phrase, somebody := range map[string]bool{"nobody changed it": false, "somebody changed it since": true} {
		c := fake.NewClientBuilder().WithReturnManagedFields().Build()
		a := NewApplier(c, c)
		set := func(replicas int32, version string) *appsv1.StatefulSet {
			return &appsv1.StatefulSet{
				TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"},
				ObjectMeta: metav1.ObjectMeta{Name: "main", Namespace: "shop", ResourceVersion: version}, Spec: appsv1.StatefulSetSpec{Replicas: &replicas},
			}
		}
		if _, err := a.Apply(t.Context(), set(3, ""), nil); err != nil {
			t.Fatal(err)
		}
		var have, now appsv1.StatefulSet
		read := func(into *appsv1.StatefulSet) {
			t.Helper()
			if err := c.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "main"}, into); err != nil {
				t.Fatal(err)
			}
		}
		read(&have)
		want := int32(0)
		if somebody {
			want = 3
			other := have.DeepCopy()
			other.Labels = map[string]string{"a": "b"}
			if err := c.Update(t.Context(), other, client.FieldOwner("somebody")); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := a.Apply(t.Context(), set(0, have.ResourceVersion), &have); errors.Is(err, ErrChanged) != somebody || !somebody && err != nil {
			t.Errorf("%s: %v", phrase, err)
		}
		if read(&now); *now.Spec.Replicas != want {
			t.Errorf("%s: it has %d replicas, want %d", phrase, *now.Spec.Replicas, want)
		}
	}
}

// Controllers write the status of a StatefulSet all the time: that is no reason to compare everything, and an edit is.
func TestOnlyAChangeBesidesTheStatusIsLookedAt(t *testing.T) {
	for phrase, c := range map[string]struct {
		change func(*appsv1.StatefulSet)
		same   bool
	}{
		"nothing":             {func(*appsv1.StatefulSet) {}, true},
		"the status":          {func(s *appsv1.StatefulSet) { s.ResourceVersion, s.Status.Replicas = "9", 3 }, true},
		"the specification":   {func(s *appsv1.StatefulSet) { s.ResourceVersion, s.Generation = "9", 3 }, false},
		"a label":             {func(s *appsv1.StatefulSet) { s.ResourceVersion, s.Labels = "9", map[string]string{"a": "c"} }, false},
		"an annotation":       {func(s *appsv1.StatefulSet) { s.ResourceVersion, s.Annotations = "9", map[string]string{"x": ""} }, false},
		"an owner":            {func(s *appsv1.StatefulSet) { s.ResourceVersion, s.OwnerReferences = "9", nil }, false},
		"a finalizer":         {func(s *appsv1.StatefulSet) { s.ResourceVersion, s.Finalizers = "9", []string{"f"} }, false},
		"label to annotation": {func(s *appsv1.StatefulSet) { s.ResourceVersion, s.Labels, s.Annotations = "9", nil, s.Labels }, false},
	} {
		s := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{
			UID: "u", Generation: 2, ResourceVersion: "1", Labels: map[string]string{"a": "b"}, OwnerReferences: []metav1.OwnerReference{{UID: "e", Kind: "Etcd", Name: "main"}},
		}}
		a := NewApplier(nil, nil)
		a.remember(s, "digest")
		c.change(s)
		if got := a.asSeen("digest", s); got != c.same {
			t.Errorf("after a change of %s it is as it was: %t, want %t", phrase, got, c.same)
		}
		if a.asSeen("another", s) {
			t.Errorf("after a change of %s it is as another would be", phrase)
		}
	}
	// What does not count its changes is as it was only if nobody wrote it.
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{UID: "u", ResourceVersion: "1"}}
	a := NewApplier(nil, nil)
	a.remember(m, "digest")
	if m.ResourceVersion = "2"; a.asSeen("digest", m) {
		t.Error("a ConfigMap that somebody wrote is as it was")
	}
}

func TestTheDigestTellsKindsAndContentsApart(t *testing.T) {
	typed := func(kind string, labels map[string]string) *corev1.ConfigMap {
		return &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: kind}, ObjectMeta: metav1.ObjectMeta{Labels: labels}}
	}
	many := map[string]string{}
	for _, k := range strings.Split("a b c d e f g h i j k l m n", " ") {
		many[k] = k
	}
	first, err := digestOf(typed("ConfigMap", many))
	if err != nil {
		t.Fatal(err)
	}
	for range 20 { // maps have another order each time
		if again, _ := digestOf(typed("ConfigMap", maps.Clone(many))); again != first {
			t.Fatal("the same object has two digests")
		}
	}
	kind, _ := digestOf(typed("Other", many))
	content, _ := digestOf(typed("ConfigMap", nil))
	if kind == first || content == first {
		t.Error("different objects have the same digest")
	}
}
