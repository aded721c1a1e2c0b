package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Condition is one thing that is true, false or not known of an object.
type Condition struct {
	// What it is about.
	// +kubebuilder:validation:MaxLength=128
	// +required
	Type ConditionType `json:"type"`
	// True, False or Unknown.
	// +kubebuilder:validation:MaxLength=32
	// +required
	Status ConditionStatus `json:"status"`
	// When status changed last.
	// +required
	LastTransitionTime metav1.Time `json:"lastTransitionTime"`
	// When the condition was looked at last with a different outcome, or message.
	// +required
	LastUpdateTime metav1.Time `json:"lastUpdateTime"`
	// Why, as one word.
	// +kubebuilder:validation:MaxLength=256
	// +required
	Reason string `json:"reason"`
	// Why, for people: what is wrong, where, and what can be done.
	// +kubebuilder:validation:MaxLength=4096
	// +required
	Message string `json:"message"`
}

// ConditionType is what a condition is about.
type ConditionType string

// The conditions of an Etcd.
const (
	// ConditionReady: enough members work that the cluster has a quorum.
	ConditionReady ConditionType = "Ready"
	// ConditionAllMembersReady: all members work.
	ConditionAllMembersReady ConditionType = "AllMembersReady"
	// ConditionAllMembersUpdated: all pods are as the specification wants them.
	ConditionAllMembersUpdated ConditionType = "AllMembersUpdated"
	// ConditionBackupReady: the backups are as recent as their schedule promises. Absent without a
	// store.
	ConditionBackupReady ConditionType = "BackupReady"
	// ConditionBackupsProtected: the newest backups are locked in the bucket, and stay so until newer ones are
	// there. Absent unless spec.backup.store.immutability asks for it; when that is removed, it stays until the
	// last lock has ended.
	ConditionBackupsProtected ConditionType = "BackupsProtected"
	// ConditionHibernated: the cluster has no members any more. False while it falls asleep or wakes up; the
	// reason is the step. Absent of a cluster that is awake.
	ConditionHibernated ConditionType = "Hibernated"
	// ConditionHibernationBackupProtected: the final full snapshot of a hibernated cluster is locked, and stays
	// so until its lock is prolonged; the message has the date. Absent unless the cluster is hibernated, with a
	// store, and spec.backup.store.immutability asks for locks, or something is held that nobody releases.
	ConditionHibernationBackupProtected ConditionType = "HibernationBackupProtected"
	// ConditionDataVolumesReady: no volume of a member has a problem.
	ConditionDataVolumesReady ConditionType = "DataVolumesReady"
	// ConditionClusterIDMismatch: members are of different clusters. True is bad.
	ConditionClusterIDMismatch ConditionType = "ClusterIDMismatch"
	// ConditionQuorumLost: so many members are away for longer than the thresholds allow that there is no
	// majority. It comes back by itself with their nodes and volumes; if these are lost a person must help. True is bad.
	ConditionQuorumLost ConditionType = "QuorumLost"
	// ConditionBootstrappedWithExistingCluster: every member has joined the cluster in
	// bootstrapWithExistingCluster, votes and is healthy, or once was. Absent without that.
	ConditionBootstrappedWithExistingCluster ConditionType = "BootstrappedWithExistingCluster"
	// ConditionLastSnapshotCompactionSucceeded: the last Job that merged deltas succeeded. Never set: this
	// operator compacts no backups.
	ConditionLastSnapshotCompactionSucceeded ConditionType = "LastSnapshotCompactionSucceeded"
	// ConditionSchedulesValid: all schedules of the specification can be read.
	ConditionSchedulesValid ConditionType = "SchedulesValid"
	// ConditionImagesReplaced: the specification names images of the original project, and the
	// operator takes its own instead. Absent if it names none.
	ConditionImagesReplaced ConditionType = "ImagesReplaced"
	// ConditionFieldsWithoutEffect: the specification sets fields that count for nothing, or for nothing yet: the
	// reason says which, and the message names them. Absent if it sets none.
	ConditionFieldsWithoutEffect ConditionType = "FieldsWithoutEffect"
	// ConditionReconcileHeld: the specification, or what a newer operator makes of it, is not applied until
	// somebody asks for it; the message says how. Absent while it is applied.
	ConditionReconcileHeld ConditionType = "ReconcileHeld"
)

// The conditions of an EtcdCopyBackupsTask.
const (
	ConditionSucceeded ConditionType = "Succeeded" // the Job copied everything
	ConditionFailed    ConditionType = "Failed"    // the Job gave up; the message says why
)

// ConditionStatus is whether a condition holds.
type ConditionStatus string

// The states of a condition.
const (
	ConditionTrue    ConditionStatus = "True"    // it holds
	ConditionFalse   ConditionStatus = "False"   // it does not
	ConditionUnknown ConditionStatus = "Unknown" // it cannot be said; the message says why
)

// FindCondition is the condition of a type, or nil. It may be changed through the pointer.
func FindCondition(conditions []Condition, of ConditionType) *Condition {
	for i := range conditions {
		if conditions[i].Type == of {
			return &conditions[i]
		}
	}
	return nil
}

// SetCondition puts a condition in its place, or at the end, and returns the list. The time of the
// transition stays if the status is the same, and the time of the update if nothing changed, so
// that writing the same again changes nothing. Both times are now if the condition has none.
func SetCondition(conditions []Condition, c Condition, now metav1.Time) []Condition {
	old := FindCondition(conditions, c.Type)
	c = c.After(old, now)
	if old == nil {
		return append(conditions, c)
	}
	*old = c
	return conditions
}

// After is the condition, its message within the limit, with the times that it has after a former one of its type; nil: there was none.
func (c Condition) After(former *Condition, now metav1.Time) Condition {
	c.LastTransitionTime, c.LastUpdateTime, c.Message = now, now, Cut(c.Message, MaxMessage)
	if former == nil || former.Status != c.Status {
		return c
	}
	c.LastTransitionTime = former.LastTransitionTime
	if former.Reason == c.Reason && former.Message == c.Message {
		c.LastUpdateTime = former.LastUpdateTime
	}
	return c
}
