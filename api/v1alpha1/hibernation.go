package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// HibernationSpec is what happens when replicas becomes 0.
type HibernationSpec struct {
	// Stop the members also if the final full snapshot cannot be taken, proven or locked, or not every member
	// stands at its last revision. It is tried once. What is on volumes alone then is lost with them. And wake up from
	// the bucket also if it has less than that snapshot had, or nothing. Default: false: the members go on until
	// the snapshot is good, and do not begin with less.
	// +kubebuilder:default=false
	// +optional
	AllowUnprotected *bool `json:"allowUnprotected,omitempty"`
	// Keep, or Delete: what becomes of the volumes once all members have stopped. Delete removes their claims,
	// but only if a final full snapshot of this hibernation was proven and, with spec.backup.store.immutability, an
	// extension has read it as well, minutes later; the cluster then wakes up from the bucket alone, which takes as
	// long as a restore. Default: Keep.
	// +kubebuilder:default=Keep
	// +optional
	Volumes *HibernationVolumes `json:"volumes,omitempty"`
}

// HibernationVolumes says what becomes of the volumes of a hibernated cluster.
//
// +kubebuilder:validation:Enum=Keep;Delete
type HibernationVolumes string

// What becomes of the volumes.
const (
	HibernationKeepsVolumes   HibernationVolumes = "Keep"
	HibernationDeletesVolumes HibernationVolumes = "Delete"
)

// HibernationStatus is what is known of a hibernation. The operator writes it before the step that depends on
// it, and removes it when the cluster has woken up and a new full snapshot is in the bucket.
type HibernationStatus struct {
	// The uid of the Etcd that was hibernated. What stands here of another one does not count.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +required
	EtcdUID types.UID `json:"etcdUID"`
	// The generation of the specification that asked for it.
	// +required
	Generation int64 `json:"generation"`
	// The last full snapshot before the members stopped. Absent: they stopped without one.
	// +optional
	FinalSnapshot *FinalSnapshot `json:"finalSnapshot,omitempty"`
	// Since when the volumes go, if they do. Those that are left then are no cluster any more.
	// +optional
	VolumesGoSince *metav1.Time `json:"volumesGoSince,omitempty"`
	// Since when the cluster wakes up. Absent: it does not.
	// +optional
	AwakeSince *metav1.Time `json:"awakeSince,omitempty"`
	// Name of the first full snapshot that a member took since the cluster wakes up, as its sidecar told. Absent: none did.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	NewFull string `json:"newFull,omitempty"`
	// Whether runs of the extension hold backups, of this or an earlier hibernation, that none has released since. They are
	// released once a member has taken a new full snapshot.
	// +optional
	HoldsLeft bool `json:"holdsLeft,omitempty"`
	// What the tasks go by that prolong locks, and delete copies, until the cluster is awake. Absent: an operator before this
	// one wrote the rest, and they go by the specification.
	// +optional
	Applied *AppliedBackup `json:"applied,omitempty"`
}

// Holds: something is held until it is released.
func (h *HibernationStatus) Holds() bool {
	return h.HoldsLeft || h.FinalSnapshot != nil && h.FinalSnapshot.Held
}

// AppliedBackup is what of a specification was applied last. What is refused, or not applied yet, is not in it.
type AppliedBackup struct {
	// As spec.backup.store, but for another place than that of the final snapshot: that one has to be kept until the cluster has
	// woken up. Absent: there is none.
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Store *StoreSpec `json:"store,omitempty"`
	// As spec.backup.fullSnapshotSchedule.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	FullSnapshotSchedule *string `json:"fullSnapshotSchedule,omitempty"`
}

// AsApplied is the Etcd as the tasks go by it that look after its backups while it sleeps. It is the Etcd itself if nothing was
// recorded.
func (e *Etcd) AsApplied() *Etcd {
	h := e.Status.Hibernation
	if h == nil || h.EtcdUID != e.UID || h.Applied == nil {
		return e
	}
	applied := e.DeepCopy()
	applied.Spec.Backup.Store, applied.Spec.Backup.FullSnapshotSchedule = h.Applied.Store.DeepCopy(), h.Applied.FullSnapshotSchedule
	return applied
}

// FinalSnapshot is the last full snapshot before a hibernation.
type FinalSnapshot struct {
	// Name of the object in the bucket, without its directory.
	// +kubebuilder:validation:MaxLength=256
	// +required
	Name string `json:"name"`
	// The SHA-256 of the object, in hexadecimal, by which extensions tell it, and copies of it, from what somebody else wrote in
	// its name. Absent: the sidecar that took it did not tell.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	Digest string `json:"digest,omitempty"`
	// Where it is: provider, container, prefix, and the endpoint if another than the provider's is named. The cluster wakes up
	// from there, or from its volumes.
	// +kubebuilder:validation:MaxLength=2048
	// +required
	Store string `json:"store"`
	// The last revision in it, which was that of every member when they stopped.
	// +required
	Revision int64 `json:"revision"`
	// When it was found that it can be restored.
	// +required
	VerifiedAt metav1.Time `json:"verifiedAt"`
	// Until when nobody can delete it, or the copy that is kept in its place, as the store told last. Absent: that is not known, or
	// it is held without an end.
	// +optional
	ProtectedUntil *metav1.Time `json:"protectedUntil,omitempty"`
	// How long it was locked from when it was taken. Extensions lock for that long where the bucket does not tell what it gives to
	// new objects, as on Azure without fields of the management API. Absent: not known.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +optional
	RetentionPeriod *metav1.Duration `json:"retentionPeriod,omitempty"`
	// Whether the end of the lock was computed from the bucket's policy, as the store tells no dates of objects: it is likely, and not proven.
	// +optional
	Inferred bool `json:"inferred,omitempty"`
	// Whether it is held until somebody releases it.
	// +optional
	Held bool `json:"held,omitempty"`
	// When the run of the extension began that told that last. Absent: none did yet, and it is what was told as the snapshot was taken.
	// +optional
	LookedAt *metav1.Time `json:"lookedAt,omitempty"`
	// When the run of an extension began that read it whole, and found its digests right and a database that has its last
	// revision. Absent: none did yet.
	// +optional
	ReadAt *metav1.Time `json:"readAt,omitempty"`
	// What the last extension found wrong with it, so that something else, if anything, is kept in its place. Absent: nothing.
	// +kubebuilder:validation:MaxLength=2048
	// +optional
	Damaged string `json:"damaged,omitempty"`
	// Why it may not be what the cluster agreed on, although it can be restored, as when too few members told the hash of their
	// data, or a run of the extension found less in it than the members had, or could not tell the last revision of its database.
	// The volumes stay then. Absent: it is.
	// +kubebuilder:validation:MaxLength=2048
	// +optional
	Suspect string `json:"suspect,omitempty"`
	// What the last extension found that is newer, or passes for that, although no member was there to write it. A restore of the
	// newest state uses it, or fails, until it is excluded. Absent: nothing.
	// +kubebuilder:validation:MaxLength=2048
	// +optional
	Newer string `json:"newer,omitempty"`
}

// Doubt is why a restore of the newest state may give another one than that of the final snapshot; empty: it does not, as far
// as is known.
func (f *FinalSnapshot) Doubt() string {
	switch {
	case f.Damaged != "":
		return f.Damaged
	case f.Newer != "":
		return "there is something newer that no member wrote: " + f.Newer
	case f.Suspect != "":
		return "it may not be what the cluster agreed on: " + f.Suspect
	}
	return ""
}

// KeepsVolumes: the volumes stay while the cluster is hibernated.
func (e *Etcd) KeepsVolumes() bool {
	h := e.Spec.Hibernation
	return h == nil || h.Volumes == nil || *h.Volumes != HibernationDeletesVolumes
}

// SkipsHibernationBackup is why no final full snapshot is taken; empty: one is.
func (e *Etcd) SkipsHibernationBackup() string {
	if e.Annotations[AnnotationSkipHibernationBackup] == "true" {
		return "the annotation " + AnnotationSkipHibernationBackup
	}
	return ""
}

// AllowsUnprotectedHibernation: the members stop whatever becomes of the final full snapshot.
func (e *Etcd) AllowsUnprotectedHibernation() bool {
	h := e.Spec.Hibernation
	return h != nil && h.AllowUnprotected != nil && *h.AllowUnprotected
}
