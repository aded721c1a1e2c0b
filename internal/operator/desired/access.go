package desired

import (
	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

func serviceAccount(in Input) *corev1.ServiceAccount {
	e := in.Etcd
	automount := !in.DisableServiceAccountAutomount
	return &corev1.ServiceAccount{
		TypeMeta:                     typeMeta("v1", "ServiceAccount"),
		ObjectMeta:                   meta(e, druidv1alpha1.ComponentServiceAccount, e.ServiceAccountName()),
		AutomountServiceAccountToken: &automount,
	}
}

// role lets the sidecars write their heartbeats and what they know of their members, by name, and
// nothing else. That each writes its own only is the business of an admission policy: all pods have
// the same ServiceAccount.
func role(in Input) *rbacv1.Role {
	e := in.Etcd
	var names []string
	for i := range int(max(in.Members, in.Replicas, 1)) {
		names = append(names, e.MemberName(i))
	}
	rule := func(group, resource string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, ResourceNames: names, Verbs: verbs}
	}
	rules := []rbacv1.PolicyRule{
		rule("coordination.k8s.io", "leases", "patch"),
		rule(druidv1alpha1.Group, "etcdmembers", "get", "patch"),
		rule(druidv1alpha1.Group, "etcdmembers/status", "patch"),
	}
	if in.Original {
		rules = append(rules, ofOriginal()...)
	}
	return &rbacv1.Role{
		TypeMeta:   typeMeta("rbac.authorization.k8s.io/v1", "Role"),
		ObjectMeta: meta(e, druidv1alpha1.ComponentRole, e.RoleName()),
		Rules:      rules,
	}
}

// ofOriginal is what the original's sidecars are used to, without which they would fail before their pods
// are replaced.
func ofOriginal() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"get", "list", "patch", "update", "watch"}},
		{APIGroups: []string{"apps"}, Resources: []string{"statefulsets"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list", "watch"}},
	}
}

func roleBinding(in Input) *rbacv1.RoleBinding {
	e := in.Etcd
	return &rbacv1.RoleBinding{
		TypeMeta:   typeMeta("rbac.authorization.k8s.io/v1", "RoleBinding"),
		ObjectMeta: meta(e, druidv1alpha1.ComponentRoleBinding, e.RoleBindingName()),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: e.RoleName()},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: e.ServiceAccountName(), Namespace: e.Namespace}},
	}
}

// TokenKey is the key of the Secret under which the token of the sidecars' HTTP API stands.
const TokenKey = "token"

func tokenSecret(in Input) *corev1.Secret {
	e := in.Etcd
	return &corev1.Secret{
		TypeMeta:   typeMeta("v1", "Secret"),
		ObjectMeta: meta(e, druidv1alpha1.ComponentSidecarToken, e.TokenSecretName()),
		Type:       corev1.SecretTypeOpaque,
		Data:       map[string][]byte{TokenKey: in.Token},
	}
}
