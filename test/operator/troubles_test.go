package operator_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// What pods and sidecars tell is written by the test: there are no nodes.
func TestTroublesAreToldWithinAMinute(t *testing.T) {
	together(t, light)
	s := newSite(t)
	s.grant(t)
	s.namespace(t, "shop")
	p := s.operate(t, "operator", "controllers: {etcd: {enableEtcdSpecAutoReconcile: true}}")
	s.apply(t, `
apiVersion: druid.gardener.cloud/v1alpha1
kind: Etcd
metadata: {name: main, namespace: shop}
spec: {labels: {}, replicas: 1, etcd: {}, backup: {store: {provider: aws, container: backups, prefix: p, secretRef: {name: keys}}}}
`)
	p.await(t, s.has("shop", "main", objectsOf("main", 1)))

	tells := func(status map[string]any) func(*testing.T) {
		return func(t *testing.T) {
			t.Helper()
			patch, err := json.Marshal(map[string]any{"status": status})
			if err != nil {
				t.Fatal(err)
			}
			members := s.objects.Resource(resources["EtcdMember"]).Namespace("shop")
			if _, err := members.Patch(t.Context(), "main-0", types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
				t.Fatal(err)
			}
		}
	}
	refused := func(reason, message string) func(*testing.T) {
		return tells(map[string]any{"snapshots": map[string]any{"failure": map[string]any{"since": time.Now().UTC().Format(time.RFC3339), "reason": reason, "message": message}}})
	}
	unscheduled := func(t *testing.T) {
		t.Helper()
		status := corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "0/3 nodes are available: 3 Insufficient memory."}}}
		patch, err := json.Marshal(map[string]any{"status": status})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Client.CoreV1().Pods("shop").Patch(t.Context(), "main-0", types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
			t.Fatal(err)
		}
	}
	// In this order: each begins where the one before has ended.
	for _, c := range []struct {
		name                               string
		trouble                            func(*testing.T)
		condition, status, reason, message string
	}{
		{"no node takes a pod", unscheduled,
			"AllMembersReady", "False", "PodUnschedulable", "main-0: it never reported, its pod cannot be scheduled (0/3 nodes are available: 3 Insufficient memory.)"},
		{"the store refuses the credentials", refused("StoreAccessDenied", "403 Forbidden"),
			"BackupReady", "False", "StoreAccessDenied", "403 Forbidden; correct the credentials in the Secret keys (spec.backup.store.secretRef)"},
		{"the bucket is missing", refused("StoreContainerMissing", "404 NoSuchBucket"),
			"BackupReady", "False", "StoreContainerMissing", "404 NoSuchBucket; make the bucket backups, or correct spec.backup.store.container"},
		{"a volume is full", tells(map[string]any{"volumeFull": "nothing is free"}),
			"DataVolumesReady", "False", "VolumeFull", "main-0, claim main-main-0: nothing is free; raise spec.storageCapacity"},
		{"the volume has room again", tells(map[string]any{"volumeFull": nil}),
			"DataVolumesReady", "True", "DataVolumesReady", "1 of 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.trouble(t)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := p.Await(ctx, s.condition("shop", "main", c.condition, c.status, c.reason, c.message)); err != nil {
				t.Fatal(err)
			}
		})
	}
}
