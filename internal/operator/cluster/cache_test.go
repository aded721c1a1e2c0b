package cluster

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
