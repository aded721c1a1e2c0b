package cluster

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

// Event is a kind of event about an Etcd.
type Event struct {
	Reason  string
	Type    string // Normal or Warning
	Action  string // what the operator did
	Meaning string // for the documentation
}

// The events.
var (
	Applied         = Event{"Applied", corev1.EventTypeNormal, "Apply", "everything that the specification wants was carried out"}
	ApplyFailed     = Event{"ApplyFailed", corev1.EventTypeWarning, "Apply", "an object could not be made as the specification wants it; status.lastErrors has all"}
	Refused         = Event{"Refused", corev1.EventTypeWarning, "Apply", "something that the specification wants is not done; the message says why, and what to do"}
	ChangeUndone    = Event{"ChangeUndone", corev1.EventTypeWarning, "Apply", "somebody else had changed an object of the Etcd, and it was set back"}
	ImagesReplaced  = Event{"ImagesReplaced", corev1.EventTypeWarning, "Apply", "the specification names images of the original project, and the operator's own are taken instead"}
	ScheduleInvalid = Event{"ScheduleInvalid", corev1.EventTypeWarning, "Apply", "a schedule cannot be read, and the one before stays in force"}
	Scaling         = Event{"Scaling", corev1.EventTypeNormal, "Scale", "the number of members changes, or how they reach each other; the message says to what"}
	PodReplaced     = Event{"PodReplaced", corev1.EventTypeNormal, "Replace", "a pod with a former template was deleted, so that it comes back with the newest"}
	VolumesGrow     = Event{"VolumesGrow", corev1.EventTypeNormal, "Grow", "volumes were asked to grow to storageCapacity, or the StatefulSet is made anew around its pods for that"}
	VolumeReplaced  = Event{"VolumeReplaced", corev1.EventTypeWarning, "Replace", "the volume claim of a member was deleted, so that it comes back with a new volume: the former one was read-only, or cannot grow"}
	PodRestarted    = Event{"PodRestarted", corev1.EventTypeWarning, "Replace", "a pod was deleted because of its volume: another shall be mounted, or made"}
	TakingOver      = Event{"TakingOver", corev1.EventTypeNormal, "Apply", "the objects of a cluster of the original are changed into ours; its pods follow one at a time"}
	SecretsKept     = Event{"SecretsKept", corev1.EventTypeWarning, "Delete", "Secrets that no Etcd needs any more keep the finalizer of the original; the message names them"}
	// These four tell of conditions that were found, and so does BackupsUnprotected.
	BackupFailing     = Event{"BackupFailing", corev1.EventTypeWarning, "Observe", "BackupReady became False, or for another reason: backups are not made, or are late; the message says why, and what to do"}
	QuorumLost        = Event{"QuorumLost", corev1.EventTypeWarning, "Observe", "too many members are gone to bring the cluster back without a person; the message says which"}
	ClusterIDMismatch = Event{"ClusterIDMismatch", corev1.EventTypeWarning, "Observe", "members are of different clusters; the message says which"}
	VolumesNotReady   = Event{"VolumesNotReady", corev1.EventTypeWarning, "Observe", "DataVolumesReady became False, or for another reason; the message says which volumes, and why"}
	BackupTampered    = Event{"BackupTampered", corev1.EventTypeWarning, "Observe", "somebody may have changed, hidden or deleted something in the bucket, or all members went on from older volumes; the message says what"}
	// While members run; of the final snapshot of those that sleep ProtectionEnds tells.
	BackupsUnprotected = Event{"BackupsUnprotected", corev1.EventTypeWarning, "Observe", "the newest backups are not locked as spec.backup.store.immutability asks for, or that asks for nothing any more; the message says what to do, or when the locks end"}
	// Snapshots are excluded, and included again, by etcdbrctl.
	SnapshotExcluded = Event{"SnapshotExcluded", corev1.EventTypeWarning, "Observe", "restores leave a snapshot out, because somebody excluded it"}
	SnapshotIncluded = Event{"SnapshotIncluded", corev1.EventTypeNormal, "Observe", "a snapshot that was excluded is used again, or is gone"}
	Hibernating      = Event{"Hibernating", corev1.EventTypeNormal, "Hibernate", "a step of a hibernation, or of waking up; the message says which"}
	HibernationHeld  = Event{"HibernationHeld", corev1.EventTypeWarning, "Hibernate", "the members go on although none is wanted: what they have is not safe yet; the message says what to do"}
	HoldsStay        = Event{"HoldsStay", corev1.EventTypeWarning, "Observe", "backups that runs of the extension hold stay held, as there is no new full snapshot where they are, or no run releases them; the message says where or why, and what to do"}
	ProtectionEnds   = Event{"ProtectionEnds", corev1.EventTypeWarning, "Observe", "the final snapshot of a hibernated Etcd is not protected, or soon will not be; the message says until when and why"}
	MemberRestored   = Event{"MemberRestored", corev1.EventTypeWarning, "Observe", "a member's data were made from the backup; the message says why, and where data that were kept are: they alone have what the backup lacks"}
	Deleting         = Event{"Deleting", corev1.EventTypeNormal, "Delete", "the objects of the Etcd are deleted; its volumes and backups stay"}
)

// Events are all of them, for the documentation.
func Events() []Event {
	return []Event{
		Applied, ApplyFailed, Refused, ChangeUndone, ImagesReplaced, ScheduleInvalid, Scaling, PodReplaced, VolumesGrow, VolumeReplaced, PodRestarted, TakingOver, SecretsKept,
		BackupFailing, QuorumLost, ClusterIDMismatch, VolumesNotReady, BackupTampered, BackupsUnprotected,
		SnapshotExcluded, SnapshotIncluded, Hibernating, HibernationHeld, HoldsStay, ProtectionEnds, MemberRestored, Deleting,
	}
}

// maxNote is how long the note of an event may be, in bytes.
const maxNote = 1000

func (r *Reconciler) event(e *druidv1alpha1.Etcd, kind Event, note string) {
	if len(note) > maxNote {
		note = strings.ToValidUTF8(note[:maxNote], "") + "..."
	}
	r.recorder.Eventf(e, nil, kind.Type, kind.Reason, kind.Action, "%s", note)
}
