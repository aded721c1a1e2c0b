package cluster

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
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
// label alone, and of who wrote what no more than counts. Leases are kept by [heartbeats].
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

// strip takes out of an object what nobody reads, and keeps of what is not ours the head alone.
func strip(object any) (any, error) {
	o, ok := object.(client.Object)
	if !ok {
		return object, nil // the last state of one that was deleted unseen
	}
	abridge(o)
	o = bounded(o)
	share(o)
	return o, nil
}

// abridge takes out of an object what nobody reads.
func abridge(object client.Object) {
	kept := kube.Writers(object)
	for i, m := range kept {
		if m.Manager == kube.FieldManager {
			kept[i].Manager, kept[i].APIVersion, kept[i].FieldsType = kube.FieldManager, shared(m.APIVersion), shared(m.FieldsType)
		}
	}
	object.SetManagedFields(kept)
	switch o := object.(type) {
	case *corev1.Pod:
		o.Spec = desired.Abridge(o.Spec)
	case *druidv1alpha1.EtcdMember:
		// The member's own token writes it, and what stands there is copied into the status of the Etcd.
		kube.StatusLimits("etcdmembers").Clip(&o.Status)
	}
}
