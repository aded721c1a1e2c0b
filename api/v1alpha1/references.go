package v1alpha1

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// BackupsEnabled: the Etcd has a store, so backups are made.
func (e *Etcd) BackupsEnabled() bool { return e.Spec.Backup.Store.enabled() }

// SecretUse is a Secret that a resource names, and where.
//
// +kubebuilder:object:generate=false
type SecretUse struct {
	Name      string
	Namespace string // as it is written; empty: the resource's own
	Field     string // such as spec.backup.store.secretRef
}

// The fields that name the Secrets of a store and of its roles, and one that nobody reads.
const (
	FieldPeerClientSecret = "spec.etcd.peerUrlTls.clientTLSSecretRef"

	FieldStoreSecret     = "spec.backup.store.secretRef"
	FieldCollectorSecret = "spec.backup.store.roles.collectorSecretRef"
	FieldExtenderSecret  = "spec.backup.store.roles.extenderSecretRef"
	FieldExcluderSecret  = "spec.backup.store.roles.excluderSecretRef"
)

// Secrets are the Secrets that the Etcd needs, by the fields that name them. The same Secret may be
// there more than once.
func (e *Etcd) Secrets() []SecretUse {
	uses := uses(e.MemberSecrets())
	if e.BackupsEnabled() && e.Spec.Backup.Store.Roles != nil {
		uses.add(FieldCollectorSecret, e.Spec.Backup.Store.Roles.CollectorSecretRef)
		uses.add(FieldExtenderSecret, e.Spec.Backup.Store.Roles.ExtenderSecretRef)
		uses.add(FieldExcluderSecret, e.Spec.Backup.Store.Roles.ExcluderSecretRef)
	}
	return uses
}

// StoreSecret is the Secret of the store itself, which the sidecars have; false: none is named.
func (e *Etcd) StoreSecret() (SecretUse, bool) { return e.secretOf(FieldStoreSecret) }

// CollectorSecret is the Secret of who deletes backups; false: the sidecars do.
func (e *Etcd) CollectorSecret() (SecretUse, bool) { return e.secretOf(FieldCollectorSecret) }

// ExtenderSecret is the Secret of who prolongs locks; false: that is done with the store's own.
func (e *Etcd) ExtenderSecret() (SecretUse, bool) { return e.secretOf(FieldExtenderSecret) }

// ExcluderSecret is the Secret of who leaves snapshots out of restores; false: that is done with the store's own.
func (e *Etcd) ExcluderSecret() (SecretUse, bool) { return e.secretOf(FieldExcluderSecret) }

func (e *Etcd) secretOf(field string) (SecretUse, bool) {
	all := e.Secrets()
	if i := slices.IndexFunc(all, func(u SecretUse) bool { return u.Field == field }); i >= 0 {
		return all[i], true
	}
	return SecretUse{}, false
}

// CollectionPeriod is how often backups are to be deleted that retention lets go, by whoever does; 0: never by
// itself.
func (e *Etcd) CollectionPeriod() time.Duration {
	if p := e.Spec.Backup.GarbageCollectionPeriod; p != nil && p.Duration > time.Second {
		return p.Duration
	}
	return 0
}

// Identities says how far what is done with the backups is done by different identities.
func (e *Etcd) Identities() BackupIdentities {
	_, collector := e.CollectorSecret()
	_, extender := e.ExtenderSecret()
	_, excluder := e.ExcluderSecret()
	switch {
	case collector && extender && excluder:
		return IdentitiesSeparate
	case collector || extender || excluder:
		return IdentitiesPartly
	}
	return IdentitiesShared
}

// MemberSecrets are those of the Secrets without which no member starts.
func (e *Etcd) MemberSecrets() []SecretUse {
	var uses uses
	uses.tls("spec.etcd.clientUrlTls", e.Spec.Etcd.ClientUrlTLS)
	if peer := e.Spec.Etcd.PeerUrlTLS; peer != nil {
		asServer := peer.TLSConfig
		asServer.ClientTLSSecretRef = nil // members show each other the one certificate
		uses.tls("spec.etcd.peerUrlTls", &asServer)
	}
	uses.add("spec.etcd.authSecretRef", e.Spec.Etcd.AuthSecretRef)
	uses.tls("spec.backup.tls", e.Spec.Backup.TLS)
	uses.store("spec.backup.store", e.Spec.Backup.Store)
	return uses
}

// UnusedSecrets are Secrets that the Etcd names and nobody reads.
func (e *Etcd) UnusedSecrets() []SecretUse {
	var uses uses
	if peer := e.Spec.Etcd.PeerUrlTLS; peer != nil {
		uses.add(FieldPeerClientSecret, peer.ClientTLSSecretRef)
	}
	if s := e.Spec.Backup.Store; s.local() {
		uses.add(FieldStoreSecret, s.SecretRef)
	}
	return uses
}

// Secrets are the Secrets that the task needs, by the fields that name them.
func (t *EtcdCopyBackupsTask) Secrets() []SecretUse {
	var uses uses
	uses.store("spec.sourceStore", &t.Spec.SourceStore)
	uses.store("spec.targetStore", &t.Spec.TargetStore)
	return uses
}

// UnusedSecrets are Secrets that the task names and nobody reads.
func (t *EtcdCopyBackupsTask) UnusedSecrets() []SecretUse {
	var uses uses
	if s := &t.Spec.SourceStore; s.local() {
		uses.add("spec.sourceStore.secretRef", s.SecretRef)
	}
	if s := &t.Spec.TargetStore; s.local() {
		uses.add("spec.targetStore.secretRef", s.SecretRef)
	}
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

// ClientSecret is the name of the Secret with a client's certificate; empty: there is none.
func (t *TLSConfig) ClientSecret() string {
	if t.ClientTLSSecretRef == nil {
		return ""
	}
	return t.ClientTLSSecretRef.Name
}

func (u *uses) store(field string, store *StoreSpec) {
	if store.enabled() && !store.local() {
		u.add(field+".secretRef", store.SecretRef)
	}
}

func (s *StoreSpec) enabled() bool {
	return s != nil && s.Provider != nil && *s.Provider != ""
}

// local: it is a directory of the node, for which nobody needs credentials.
func (s *StoreSpec) local() bool {
	return s.enabled() && strings.EqualFold(string(*s.Provider), "local")
}
