package cluster

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

// Access is what the controller must be allowed to do, in all namespaces with Etcds.
//
// Nobody can grant what he has not got, so the rights on Leases, pods and EtcdMembers include those of the
// Role that each cluster's sidecars get, those of the original too.
func Access() []rbacv1.PolicyRule {
	rule := func(group string, resources []string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: verbs}
	}
	made := []string{"get", "list", "watch", "create", "patch", "delete"}
	return []rbacv1.PolicyRule{
		// The finalizer, and the annotation that asks for a reconciliation.
		rule(druidv1alpha1.Group, []string{"etcds"}, "get", "list", "watch", "patch"),
		rule(druidv1alpha1.Group, []string{"etcds/status"}, "patch"),
		// Of owners that block their objects' deletion, where the API server checks that.
		rule(druidv1alpha1.Group, []string{"etcds/finalizers"}, "update"),
		rule(druidv1alpha1.Group, []string{"etcdmembers"}, made...),
		// The task that keeps the newest backup of a hibernated Etcd locked.
		rule(druidv1alpha1.Group, []string{"etcdoperatortasks"}, made...),
		rule(druidv1alpha1.Group, []string{"etcdmembers/status"}, "patch"),
		rule(coordinationv1.GroupName, []string{"leases"}, append(made, "update")...),
		rule("", []string{"configmaps", "services", "serviceaccounts"}, made...),
		rule("apps", []string{"statefulsets"}, made...),
		rule(policyv1.GroupName, []string{"poddisruptionbudgets"}, made...),
		rule(rbacv1.GroupName, []string{"roles", "rolebindings"}, made...),
		// Pods are replaced, and annotated so that they mount a changed ConfigMap at once.
		rule("", []string{"pods"}, "get", "list", "watch", "patch", "delete"),
		// Those of the original may lack the labels by which claims are found; volumes grow; one that is
		// read-only, or too small and cannot grow, is made anew while the other members have the data.
		rule("", []string{"persistentvolumeclaims"}, "list", "watch", "patch", "delete"),
		rule(storagev1.GroupName, []string{"storageclasses"}, "get"),
		// The token of the sidecars is made once and goes with its owner; it, and the authority of the
		// sidecars' certificates, are read to ask them.
		rule("", []string{"secrets"}, "get", "create"),
		// Of volume claims in trouble.
		rule("", []string{"events"}, "list"),
		rule("events.k8s.io", []string{"events"}, "create", "patch"),
		{APIGroups: []string{""}, Resources: []string{"namespaces"}, ResourceNames: []string{"kube-system"}, Verbs: []string{"get"}},
	}
}
