package copytask

import (
	batchv1 "k8s.io/api/batch/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

// Access is what the controller must be allowed to do, besides what that of Etcds may as well: to read
// single Secrets, and to watch pods.
func Access() []rbacv1.PolicyRule {
	rule := func(group string, resources []string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: verbs}
	}
	return []rbacv1.PolicyRule{
		// The finalizer.
		rule(druidv1alpha1.Group, []string{"etcdcopybackupstasks"}, "get", "list", "watch", "patch"),
		rule(druidv1alpha1.Group, []string{"etcdcopybackupstasks/status"}, "patch"),
		// Of owners that block their objects' deletion, where the API server checks that.
		rule(druidv1alpha1.Group, []string{"etcdcopybackupstasks/finalizers"}, "update"),
		rule(batchv1.GroupName, []string{"jobs"}, "get", "list", "watch", "create", "patch", "delete"),
	}
}
