package cluster

import (
	"reflect"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

func TestObjectsShareTheTextsThatAllHave(t *testing.T) {
	pod := func() *corev1.Pod {
		text := func(s string) string { return string([]byte(s)) } // each time another one
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: text("shop"), Name: "main-0", Labels: map[string]string{text("a"): text("b")}, Annotations: map[string]string{text("c"): text(strings.Repeat("d", 500))},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: text("v1"), Kind: text("K"), Name: text("main"), UID: types.UID(text("uid"))}},
		}}
	}
	one, other := pod(), pod()
	for _, p := range []*corev1.Pod{one, other} {
		abridge(p)
		share(p)
	}
	want := pod()
	want.ManagedFields = []metav1.ManagedFieldsEntry{}
	if d := cmp.Diff(want, one); d != "" {
		t.Errorf("it is another object: -want +got:\n%s", d)
	}
	texts := func(p *corev1.Pod) (all []string) {
		all = append(all, p.Namespace, p.OwnerReferences[0].APIVersion, string(p.OwnerReferences[0].UID))
		for k, v := range p.Labels {
			all = append(all, k, v)
		}
		for k := range p.Annotations {
			all = append(all, k)
		}
		return all
	}
	a, b := texts(one), texts(other)
	for i := range a {
		if unsafe.StringData(a[i]) != unsafe.StringData(b[i]) {
			t.Errorf("%q is there twice", a[i])
		}
	}
}

func TestStatefulSetsShareWhatIsTheSameInThem(t *testing.T) {
	set := func(name string) *appsv1.StatefulSet {
		o := empty(newEtcd(3, func(e *druidv1alpha1.Etcd) { e.Name = name }))
		for _, object := range mustDecide(t, o, testSettings).Objects {
			if s, is := object.(*appsv1.StatefulSet); is {
				return s.DeepCopy() // objects from an API server have nothing in common
			}
		}
		t.Fatal("there is no StatefulSet")
		return nil
	}
	one, other := set("main"), set("events")
	want := other.DeepCopy()
	share(one)
	share(other)
	if d := cmp.Diff(want, other); d != "" {
		t.Fatalf("it is another object: -want +got:\n%s", d)
	}
	a, b := one.Spec.Template.Spec, other.Spec.Template.Spec
	for i := range a.Containers {
		x, y := a.Containers[i], b.Containers[i]
		if x.LivenessProbe != y.LivenessProbe || x.SecurityContext != y.SecurityContext || &x.Ports[0] != &y.Ports[0] || len(x.Env) > 0 && &x.Env[0] != &y.Env[0] ||
			reflect.ValueOf(x.Resources.Requests).Pointer() != reflect.ValueOf(y.Resources.Requests).Pointer() {
			t.Errorf("the containers %s have little in common", x.Name)
		}
	}
	if a.ServiceAccountName == b.ServiceAccountName || &a.Volumes[0] == &b.Volumes[0] {
		t.Error("they have the same name")
	}
}

func TestEtcdsShareWhatIsTheSameInThem(t *testing.T) {
	etcd := func(name string) *druidv1alpha1.Etcd {
		o := running(t, 3)
		o.Etcd.Status = statusOf(o, mustDecide(t, o, testSettings), outcome{}, "run", testNow)
		e := o.Etcd.DeepCopy()
		e.Name = name
		for i := range e.Status.Conditions { // as they are read, each is another text
			e.Status.Conditions[i].Message = string([]byte(e.Status.Conditions[i].Message))
		}
		return e
	}
	one, other := etcd("main"), etcd("events")
	want := other.DeepCopy()
	share(one)
	share(other)
	if d := cmp.Diff(want, other); d != "" {
		t.Fatalf("it is another object: -want +got:\n%s", d)
	}
	a, b := one.Status.Conditions, other.Status.Conditions
	if one.Spec.Backup.Store.Provider != other.Spec.Backup.Store.Provider || len(a) == 0 || unsafe.StringData(a[0].Message) != unsafe.StringData(b[0].Message) {
		t.Errorf("they have little in common: %+v, %+v", a, b)
	}
}

func TestOnlyWhatIsTheSameIsShared(t *testing.T) {
	type inner struct {
		Text string
		List []int
		Map  map[string]string
		At   *metav1.Time
		Size resource.Quantity
	}
	type outer struct {
		Inner *inner
		All   []inner
		Any   any
	}
	whole := func() *outer {
		one := func() inner {
			return inner{"text", []int{1, 2}, map[string]string{"a": "b"}, &metav1.Time{Time: testNow}, resource.MustParse("1Gi")}
		}
		first := one()
		return &outer{&first, []inner{one(), one()}, 7}
	}
	for phrase, change := range map[string]func(*outer){
		"nothing":            func(*outer) {},
		"a text":             func(o *outer) { o.Inner.Text = "other" },
		"a number":           func(o *outer) { o.All[1].List[1] = 3 },
		"a length":           func(o *outer) { o.All = o.All[:1] },
		"nil and empty":      func(o *outer) { o.All[0].List = nil },
		"empty and nil":      func(o *outer) { o.All[0].List = []int{} },
		"a value of a map":   func(o *outer) { o.Inner.Map["a"] = "c" },
		"a time":             func(o *outer) { o.Inner.At = &metav1.Time{Time: testNow.Add(1)} },
		"no time":            func(o *outer) { o.Inner.At = nil },
		"a quantity":         func(o *outer) { o.Inner.Size = resource.MustParse("2Gi") },
		"nothing there":      func(o *outer) { o.Inner = nil },
		"whatever an any is": func(o *outer) { o.Any = "7" },
	} {
		last, now := whole(), whole()
		change(now)
		want := whole()
		change(want)
		same := alias(reflect.ValueOf(now).Elem(), reflect.ValueOf(last).Elem())
		if !reflect.DeepEqual(now, want) || !reflect.DeepEqual(last, whole()) {
			t.Errorf("%s: it is %+v, and the last one %+v", phrase, now, last)
		}
		if same != (phrase == "nothing") || same && now.Inner != last.Inner {
			t.Errorf("%s: they are the same: %t", phrase, same)
		}
	}
}
