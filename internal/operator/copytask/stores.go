package copytask

import (
	"fmt"
	"strings"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/operator/desired"
)

// wrong says what is wrong with the stores of a task, so that nothing can be copied between them, and
// what to do; "" if nothing is. The schema refuses most of it, but not that of a former version.
func wrong(t *druidv1alpha1.EtcdCopyBackupsTask) string {
	from, to := &t.Spec.SourceStore, &t.Spec.TargetStore
	for _, s := range []struct {
		field string
		store *druidv1alpha1.StoreSpec
	}{{"spec.sourceStore", from}, {"spec.targetStore", to}} {
		if why := wrongStore(s.field, s.store, t.Namespace); why != "" {
			return why
		}
	}
	if same(from, to) {
		return "spec.targetStore is the same place as spec.sourceStore: name another container or prefix"
	}
	return ""
}

func wrongStore(field string, s *druidv1alpha1.StoreSpec, namespace string) string {
	switch secret := s.SecretRef; {
	case s.Provider == nil || *s.Provider == "":
		return field + ".provider is missing: name whose object store it is, such as aws"
	case !desired.KnowsProvider(*s.Provider):
		return fmt.Sprintf("%s.provider %q is not known: use aws, azure, gcp, openstack, alicloud, dell, openshift, stackit or local", field, *s.Provider)
	case wrongPrefix(s) != nil:
		return fmt.Sprintf("%s.prefix: %v", field, wrongPrefix(s))
	case text(s.Container) == "" && desired.Provider(*s.Provider) != local:
		return field + ".container is missing: name the bucket"
	case secret != nil && secret.Namespace != "" && secret.Namespace != namespace:
		return fmt.Sprintf("%s.secretRef names the namespace %s, from which pods cannot have Secrets: copy %s into %s", field, secret.Namespace, secret.Name, namespace)
	}
	return ""
}

// local is the provider whose stores are directories of the node: they need no Secret.
var local = desired.Provider("local")

// same: both stores are the same place, however they are written. Different Secrets may be those of
// different accounts, in which buckets of one name are different ones.
func same(a, b *druidv1alpha1.StoreSpec) bool {
	provider := desired.Provider(*a.Provider)
	if provider != desired.Provider(*b.Provider) || text(a.Container) != text(b.Container) || place(a) != place(b) {
		return false
	}
	if provider == local {
		return true
	}
	if strings.TrimRight(text(a.EndpointOverride), "/") != strings.TrimRight(text(b.EndpointOverride), "/") {
		return false
	}
	return a.SecretRef == nil || b.SecretRef == nil || a.SecretRef.Name == "" || b.SecretRef.Name == "" || a.SecretRef.Name == b.SecretRef.Name
}

func wrongPrefix(s *druidv1alpha1.StoreSpec) error {
	_, err := snapshot.NewPrefix(s.Prefix)
	return err
}

// place returns the path of s in its bucket. A directory has no paths that begin with a slash.
func place(s *druidv1alpha1.StoreSpec) string {
	p, err := snapshot.NewPrefix(s.Prefix)
	if err != nil {
		return s.Prefix
	}
	if desired.Provider(*s.Provider) == local {
		return strings.TrimPrefix(p.String(), "/")
	}
	return p.String()
}

func text(p *string) string {
	if p == nil {
		return ""
	}
	return *p
}
