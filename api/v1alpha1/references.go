package v1alpha1

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// BackupsEnabled: the Etcd has a store, so backups are made.
func (e *Etcd) BackupsEnabled() bool { return e.Spec.Backup.Store.enabled() }

// EffectiveCompactionResources are the resources of the Job that merges deltas, under either name of the
// field; nil: the defaults.
func (b *BackupSpec) EffectiveCompactionResources() *corev1.ResourceRequirements {
	if c := b.SnapshotCompaction; c != nil && c.Resources != nil {
		return c.Resources
	}
	return b.CompactionResources
}

// SecretUse is a Secret that a resource names, and where.
//
// +kubebuilder:object:generate=false
type SecretUse struct {
	Name      string
	Namespace string // as it is written; empty: the resource's own
	Field     string // such as spec.backup.store.secretRef
}

// Secrets are the Secrets that the Etcd needs, by the fields that name them. The same Secret may be
// there more than once.
func (e *Etcd) Secrets() []SecretUse {
	var uses uses
	uses.tls("spec.etcd.clientUrlTls", e.Spec.Etcd.ClientUrlTLS)
	if peer := e.Spec.Etcd.PeerUrlTLS; peer != nil {
		uses.tls("spec.etcd.peerUrlTls", &peer.TLSConfig)
	}
	uses.add("spec.etcd.authSecretRef", e.Spec.Etcd.AuthSecretRef)
	uses.tls("spec.backup.tls", e.Spec.Backup.TLS)
	uses.store("spec.backup.store", e.Spec.Backup.Store)
	return uses
}

// Secrets are the Secrets that the task needs, by the fields that name them.
func (t *EtcdCopyBackupsTask) Secrets() []SecretUse {
	var uses uses
	uses.store("spec.sourceStore", &t.Spec.SourceStore)
	uses.store("spec.targetStore", &t.Spec.TargetStore)
	return uses
}

// SecretNames are the names in uses, each once and in order.
func SecretNames(uses []SecretUse) []string {
	names := make([]string, 0, len(uses))
	for _, u := range uses {
		names = append(names, u.Name)
	}
	slices.SortFunc(names, cmp.Compare)
	return slices.Compact(names)
}

// +kubebuilder:object:generate=false
type uses []SecretUse

func (u *uses) add(field string, ref *corev1.SecretReference) {
	if ref != nil && ref.Name != "" {
		*u = append(*u, SecretUse{Name: ref.Name, Namespace: ref.Namespace, Field: field})
	}
}

func (u *uses) tls(field string, tls *TLSConfig) {
	if tls == nil {
		return
	}
	u.add(field+".tlsCASecretRef", &tls.TLSCASecretRef.SecretReference)
	u.add(field+".serverTLSSecretRef", &tls.ServerTLSSecretRef)
	u.add(field+".clientTLSSecretRef", tls.ClientTLSSecretRef)
}

func (u *uses) store(field string, store *StoreSpec) {
	if store.enabled() {
		u.add(field+".secretRef", store.SecretRef)
	}
}

func (s *StoreSpec) enabled() bool {
	return s != nil && s.Provider != nil && *s.Provider != ""
}
