package cluster

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"druid.internal/druid/internal/operator/kube"
)

func TestTheCacheKeepsThatWeWroteAndWhenButNotWhatAndWhatOthersWroteWhereAllIsOurs(t *testing.T) {
	entry := func(manager, subresource, fields string) metav1.ManagedFieldsEntry {
		m := metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationApply, Subresource: subresource, Time: &metav1.Time{Time: testNow}}
		if fields != "" {
			m.FieldsV1 = metav1.NewFieldsV1(fields)
		}
		return m
	}
	const ours, theirs = `{"f:data":{"f:a":{}}}`, `{"f:data":{"f:b":{}},"f:metadata":{"f:labels":{"f:b":{}}}}`
	c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{
		entry("kubectl", "", theirs), entry(kube.FieldManager, "", ours), entry(kube.FieldManager, "status", ours),
		entry("labeller", "", `{"f:metadata":{"f:labels":{"f:c":{}}}}`), entry("scaler", "scale", theirs), entry("odd", "", `{"f:da`),
	}}}
	got, err := strip(c)
	if err != nil {
		t.Fatal(err)
	}
	want := []metav1.ManagedFieldsEntry{entry("kubectl", "", theirs), entry(kube.FieldManager, "", "")}
	if d := cmp.Diff(want, got.(*corev1.ConfigMap).ManagedFields); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}
