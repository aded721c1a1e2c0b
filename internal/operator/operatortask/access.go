package operatortask

import (
	batchv1 "k8s.io/api/batch/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

// Access is what the controller must be allowed to do, besides what those of Etcds and of copies may as
// well: to read Etcds, single Secrets and pods, and to make Jobs.
func Access() []rbacv1.PolicyRule {
	rule := func(group string, resources []string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: verbs}
	}
	return []rbacv1.PolicyRule{
		// The Etcd as the owner; deleted some time after the end.
		rule(druidv1alpha1.Group, []string{"etcdoperatortasks", "etcdopstasks"}, "list", "watch", "patch", "delete"),
		rule(druidv1alpha1.Group, []string{"etcdoperatortasks/status", "etcdopstasks/status"}, "patch"),
		// Of owners that block their objects' deletion, where the API server checks that.
		rule(druidv1alpha1.Group, []string{"etcdoperatortasks/finalizers"}, "update"),
		rule(batchv1.GroupName, []string{"cronjobs"}, "get", "list", "watch", "create", "patch", "delete"),
	}
}
