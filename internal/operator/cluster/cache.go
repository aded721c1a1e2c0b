package cluster

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/operator/desired"
	"druid.internal/druid/internal/operator/kube"
)

// ours is the label of everything that the operator makes.
var ours = client.MatchingLabels{druidv1alpha1.LabelManagedBy: druidv1alpha1.ManagedBy}

// CacheOptions keep in memory what is looked at: of the kinds that everybody has, the objects with our
// label alone, and none of what others wrote about who wrote what. Leases are kept by [heartbeats].
func CacheOptions() cache.Options {
	label := labels.SelectorFromSet(labels.Set(ours))
	o := cache.Options{DefaultTransform: strip, ByObject: map[client.Object]cache.ByObject{}}
	for _, kind := range []client.Object{
		&appsv1.StatefulSet{}, &corev1.ConfigMap{}, &corev1.Service{}, &corev1.ServiceAccount{}, &corev1.Pod{}, &corev1.PersistentVolumeClaim{},
		&policyv1.PodDisruptionBudget{}, &rbacv1.Role{}, &rbacv1.RoleBinding{}, &druidv1alpha1.EtcdMember{}, &batchv1.Job{}, &batchv1.CronJob{},
	} {
		o.ByObject[kind] = cache.ByObject{Label: label}
	}
	return o
}

// strip takes out of an object what nobody reads.
func strip(object any) (any, error) {
	o, ok := object.(client.Object)
	if !ok {
		return object, nil // the last state of one that was deleted unseen
	}
	all := o.GetManagedFields()
	kept := make([]metav1.ManagedFieldsEntry, 0, 1)
	for _, m := range all {
		if m.Manager == kube.FieldManager && m.Subresource == "" {
			m.FieldsV1 = nil // who wrote what is read anew when it counts
			m.Manager, m.APIVersion, m.FieldsType = kube.FieldManager, shared(m.APIVersion), shared(m.FieldsType)
			kept = append(kept, m)
		}
	}
	o.SetManagedFields(kept)
	if p, ok := object.(*corev1.Pod); ok {
		p.Spec = desired.Abridge(p.Spec)
	}
	share(o)
	return object, nil
}
