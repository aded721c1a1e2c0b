package operator

import (
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"druid.internal/druid/internal/operator/cluster"
	"druid.internal/druid/internal/operator/copytask"
	"druid.internal/druid/internal/operator/operatortask"
)

// Access is what the operator must be allowed to do in the whole cluster: the one list from which its
// ClusterRole is generated.
func Access() []rbacv1.PolicyRule {
	return slices.Concat(cluster.Access(), copytask.Access(), operatortask.Access())
}

// OwnAccess is what it must be allowed to do in its own namespace: to agree with others on who works.
func OwnAccess() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{coordinationv1.GroupName}, Resources: []string{"leases"}, Verbs: []string{"get", "create", "update"}},
		{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
	}
}
