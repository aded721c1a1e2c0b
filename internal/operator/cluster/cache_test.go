package cluster

import (
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"druid.internal/druid/internal/operator/kube"
)

func TestTheCacheKeepsThatWeWroteAndWhenButNotWhat(t *testing.T) {
	fields := metav1.NewFieldsV1(`{"f:data":{}}`)
	entry := func(manager, subresource string, f *metav1.FieldsV1) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationApply, Subresource: subresource, Time: &metav1.Time{Time: testNow}, FieldsV1: f}
	}
	c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{
		entry("kubectl", "", fields), entry(kube.FieldManager, "", fields), entry(kube.FieldManager, "status", fields),
	}}}
	got, err := strip(c)
	if err != nil {
		t.Fatal(err)
	}
	want := []metav1.ManagedFieldsEntry{entry(kube.FieldManager, "", nil)}
	if d := cmp.Diff(want, got.(*corev1.ConfigMap).ManagedFields); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

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
		if _, err := strip(p); err != nil {
			t.Fatal(err)
		}
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
