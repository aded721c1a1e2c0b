package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// EtcdOperatorTask is a piece of work on a cluster: done once, such as a snapshot on demand, or standing for as long
// as its Etcd needs it, such as while that is hibernated. Tasks of one Etcd are done one
// after the other in the order in which they were made; standing ones wait for nobody and nobody for them.
// A task cannot be changed: another one is another task. Some time after its end it is deleted.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=etcdoperatortasks,singular=etcdoperatortask,scope=Namespaced
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.type`
// +kubebuilder:printcolumn:name="Etcd",type=string,JSONPath=`.spec.ownerEtcdReference.name`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Since",type=date,JSONPath=`.status.lastOperation.lastTransitionTime`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.lastOperation.reason`,priority=1
type EtcdOperatorTask struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What shall be done.
	// +required
	Spec EtcdOperatorTaskSpec `json:"spec"`
	// How far it is.
	// +optional
	Status EtcdOperatorTaskStatus `json:"status,omitempty"`
}

// EtcdOperatorTaskList is a list of EtcdOperatorTasks.
//
// +kubebuilder:object:root=true
type EtcdOperatorTaskList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []EtcdOperatorTask `json:"items"`
}

// EtcdOperatorTaskSpec is what shall be done.
//
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cannot be changed: make another task"
// +kubebuilder:validation:XValidation:rule="!has(self.ownerEtcdRefrence)",fieldPath=".ownerEtcdRefrence",message="is misspelt: write ownerEtcdReference: {name: NAME-OF-THE-ETCD}"
// +kubebuilder:validation:XValidation:rule="has(self.ownerEtcdReference) || has(self.ownerEtcdRefrence)",fieldPath=".ownerEtcdReference",message="is missing: write ownerEtcdReference: {name: NAME-OF-THE-ETCD}"
// +kubebuilder:validation:XValidation:rule="!self.type.startsWith('OnDemandSnapshot') || (has(self.config) && has(self.config.onDemandSnapshot))",fieldPath=".config",message="is missing what snapshot to take: write config: {onDemandSnapshot: {type: full}}"
// +kubebuilder:validation:XValidation:rule="self.type.startsWith('OnDemandSnapshot') || !has(self.config) || !has(self.config.onDemandSnapshot)",fieldPath=".config.onDemandSnapshot",message="does not belong to this type: remove it, or write type: OnDemandSnapshot"
// +kubebuilder:validation:XValidation:rule="self.type.startsWith('ExtendFullSnapshotImmutability') || !has(self.config) || (!has(self.config.extendFullSnapshotImmutability) && !has(self.config.schedule))",fieldPath=".config",message="extendFullSnapshotImmutability and schedule do not belong to this type: remove them, or write type: ExtendFullSnapshotImmutability"
// +kubebuilder:validation:XValidation:rule="!has(self.config) || !has(self.config.schedule) || !has(self.config.extendFullSnapshotImmutability)",fieldPath=".config.schedule",message="stands twice: write it in extendFullSnapshotImmutability alone"
// +kubebuilder:validation:XValidation:rule="self.type.startsWith('CollectBackups') || !has(self.config) || !has(self.config.collectBackups)",fieldPath=".config.collectBackups",message="does not belong to this type: remove it, or write type: CollectBackups"
// +kubebuilder:validation:XValidation:rule="!self.type.startsWith('ExcludeSnapshots') || (has(self.config) && has(self.config.excludeSnapshots))",fieldPath=".config",message="is missing which snapshots to exclude: write config: {excludeSnapshots: {names: [NAME-OF-A-SNAPSHOT]}}"
// +kubebuilder:validation:XValidation:rule="self.type.startsWith('ExcludeSnapshots') || !has(self.config) || !has(self.config.excludeSnapshots)",fieldPath=".config.excludeSnapshots",message="does not belong to this type: remove it, or write type: ExcludeSnapshots"
type EtcdOperatorTaskSpec struct {
	// What kind of work it is: OnDemandSnapshot, ExtendFullSnapshotImmutability, CollectBackups or ExcludeSnapshots,
	// each also with Task at the end.
	// +kubebuilder:validation:Enum=OnDemandSnapshot;OnDemandSnapshotTask;ExtendFullSnapshotImmutability;ExtendFullSnapshotImmutabilityTask;CollectBackups;CollectBackupsTask;ExcludeSnapshots;ExcludeSnapshotsTask
	// +required
	Type TaskType `json:"type"`
	// What belongs to the type, under the name of the type.
	// +optional
	Config *EtcdOperatorTaskConfig `json:"config,omitempty"`
	// For how long the task stays after its end, in seconds; 0: it is deleted at once. Default: 3600.
	// +kubebuilder:default=3600
	// +kubebuilder:validation:Minimum=0
	// +optional
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
	// The Etcd that the task is for, in the namespace of the task. The task goes with it.
	// +optional
	OwnerEtcdReference *OwnerEtcdReference `json:"ownerEtcdReference,omitempty"`
	// The name under which a design of the original has ownerEtcdReference. Refused, whatever stands in it, so
	// that the message names the right one.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	OwnerEtcdRefrence *runtime.RawExtension `json:"ownerEtcdRefrence,omitempty"`
}

// TaskType is a kind of work.
type TaskType string

// The types of tasks. Each may also be written with Task at the end.
const (
	TaskOnDemandSnapshot               TaskType = "OnDemandSnapshot"               // a full or delta snapshot now
	TaskExtendFullSnapshotImmutability TaskType = "ExtendFullSnapshotImmutability" // the newest full of a hibernated Etcd is kept locked
	TaskCollectBackups                 TaskType = "CollectBackups"                 // backups that retention lets go are deleted with credentials of their own
	TaskExcludeSnapshots               TaskType = "ExcludeSnapshots"               // snapshots are left out of restores, or that is taken back
)

// OwnerEtcdReference names an Etcd.
type OwnerEtcdReference struct {
	// Name of the Etcd.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`
	// Its namespace, which must be that of the task. Default: that of the task.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Namespace string `json:"namespace,omitempty"`
}

// EtcdOperatorTaskConfig is what belongs to each type.
type EtcdOperatorTaskConfig struct {
	// For type OnDemandSnapshot.
	// +optional
	OnDemandSnapshot *OnDemandSnapshotConfig `json:"onDemandSnapshot,omitempty"`
	// For type ExtendFullSnapshotImmutability.
	// +optional
	ExtendFullSnapshotImmutability *ExtendFullSnapshotImmutabilityConfig `json:"extendFullSnapshotImmutability,omitempty"`
	// For type CollectBackups.
	// +optional
	CollectBackups *CollectBackupsConfig `json:"collectBackups,omitempty"`
	// For type ExcludeSnapshots.
	// +optional
	ExcludeSnapshots *ExcludeSnapshotsConfig `json:"excludeSnapshots,omitempty"`
	// The same as extendFullSnapshotImmutability.schedule, as a design of the original has it.
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.matches('^[ ]*((CRON_)?TZ=[^ ]+[ ]+)?(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|@every[ ]+[^ ]+|[-0-9A-Za-z*?,/]+([ ]+[-0-9A-Za-z*?,/]+){4})[ ]*$')",message="must be a schedule of cron: five fields (minute, hour, day of month, month, day of week) such as 30 2 * * *, or a word such as @daily"
	// +optional
	Schedule *string `json:"schedule,omitempty"`
}

// ExtensionSchedule is when a task prolongs locks, by itself; nil: as its Etcd has it.
func (t *EtcdOperatorTask) ExtensionSchedule() *string {
	c := t.Spec.Config
	switch {
	case c == nil:
		return nil
	case c.ExtendFullSnapshotImmutability != nil:
		return c.ExtendFullSnapshotImmutability.Schedule
	}
	return c.Schedule
}

// OnDemandSnapshotConfig is what snapshot to take.
//
// +kubebuilder:validation:XValidation:rule="self.type == 'full' || !has(self.isFinal) || !self.isFinal",fieldPath=".isFinal",message="only a full snapshot can be the last one: write type: full, or leave isFinal out"
type OnDemandSnapshotConfig struct {
	// full: the whole database; delta: what is not in the bucket yet.
	// +kubebuilder:validation:Enum=full;delta
	// +required
	Type SnapshotType `json:"type"`
	// Marks a full snapshot as the last one before a planned stop. Default: false.
	// +optional
	IsFinal *bool `json:"isFinal,omitempty"`
	// For how long a full snapshot is tried, in seconds. Default: 900.
	// +kubebuilder:default=900
	// +kubebuilder:validation:Minimum=120
	// +optional
	TimeoutSecondsFull *int32 `json:"timeoutSecondsFull,omitempty"`
	// For how long a delta snapshot is tried, in seconds. Default: 60.
	// +kubebuilder:default=60
	// +kubebuilder:validation:Minimum=10
	// +optional
	TimeoutSecondsDelta *int32 `json:"timeoutSecondsDelta,omitempty"`
}

// SnapshotType is what a snapshot holds.
type SnapshotType string

// The types of snapshots.
const (
	SnapshotFull  SnapshotType = "full"  // the whole database
	SnapshotDelta SnapshotType = "delta" // what is not in the bucket yet
)

// ExtendFullSnapshotImmutabilityConfig is when the newest full snapshot is locked anew.
type ExtendFullSnapshotImmutabilityConfig struct {
	// Schedule of the runs, written as spec.backup.fullSnapshotSchedule of the Etcd. A CronJob makes
	// the runs: where clocks change, it skips a run whose local time is skipped and repeats one whose
	// local time comes twice. Default: the schedule of the Etcd.
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.matches('^[ ]*((CRON_)?TZ=[^ ]+[ ]+)?(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|@every[ ]+[^ ]+|[-0-9A-Za-z*?,/]+([ ]+[-0-9A-Za-z*?,/]+){4})[ ]*$')",message="must be a schedule of cron: five fields (minute, hour, day of month, month, day of week) such as 30 2 * * *, or a word such as @daily"
	// +optional
	Schedule *string `json:"schedule,omitempty"`
}

// CollectBackupsConfig is when backups are deleted.
type CollectBackupsConfig struct {
	// Schedule of the runs, written as spec.backup.fullSnapshotSchedule of the Etcd, with the clock
	// changes of a CronJob (see extendFullSnapshotImmutability). Default: as often as
	// spec.backup.garbageCollectionPeriod of the Etcd says or somewhat more often, at a minute of its own; every
	// 12 hours where that says never.
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.matches('^[ ]*((CRON_)?TZ=[^ ]+[ ]+)?(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|@every[ ]+[^ ]+|[-0-9A-Za-z*?,/]+([ ]+[-0-9A-Za-z*?,/]+){4})[ ]*$')",message="must be a schedule of cron: five fields (minute, hour, day of month, month, day of week) such as 30 2 * * *, or a word such as @daily"
	// +optional
	Schedule *string `json:"schedule,omitempty"`
}

// ExcludeSnapshotsConfig is which snapshots are left out of restores.
//
// +kubebuilder:validation:XValidation:rule="!has(self.include) || !self.include || !has(self.reason)",fieldPath=".reason",message="does not go with include: true, which tells nobody why; leave it out"
// +kubebuilder:validation:XValidation:rule="!has(self.include) || !self.include || !has(self.leaveNothing) || !self.leaveNothing",fieldPath=".leaveNothing",message="does not go with include: true, after which there is more to restore from; leave it out"
type ExcludeSnapshotsConfig struct {
	// The names of the snapshots in the bucket, without their directory, as etcdbrctl list --all shows them.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +listType=set
	// +required
	Names []SnapshotName `json:"names"`
	// Takes it back: restores use the snapshots again. Default: false.
	// +optional
	Include *bool `json:"include,omitempty"`
	// Why, for people. Kept only in buckets without tags, where a small object tells that a snapshot is excluded.
	// One line.
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="!self.matches(r'\\p{Cc}')",message="must be one line of text without control characters"
	// +optional
	Reason *string `json:"reason,omitempty"`
	// Excludes also the last chain of snapshots that can be restored from, and the final snapshot of an Etcd that sleeps.
	// Default: false, with which both are refused.
	// +optional
	LeaveNothing *bool `json:"leaveNothing,omitempty"`
}

// SnapshotName is the name of a snapshot in the bucket, without its directory.
//
// +kubebuilder:validation:MaxLength=253
// +kubebuilder:validation:XValidation:rule="self.matches('^(Full|Incr)-[0-9]{8,19}-[0-9]{8,19}-[0-9]{1,19}([.][0-9A-Za-z]+)?([.]final)?$')",message="must be the name of a snapshot without its directory, such as Full-00000000-00009002-1565021494.zst; etcdbrctl list --all shows the names"
type SnapshotName string

// EtcdOperatorTaskStatus is how far a task is.
type EtcdOperatorTaskStatus struct {
	// The generation of the specification that was acted on.
	// +optional
	ObservedGeneration *int64 `json:"observedGeneration,omitempty"`
	// Pending, InProgress, Succeeded, Failed or Rejected. The last three are the end.
	// +optional
	State TaskState `json:"state,omitempty"`
	// When it stopped being Pending.
	// +optional
	InitiatedAt *metav1.Time `json:"initiatedAt,omitempty"`
	// Why it does not get on, failed or was rejected; the last ones.
	// +kubebuilder:validation:MaxItems=10
	// +listType=atomic
	// +optional
	LastErrors []LastError `json:"lastErrors,omitempty"`
	// What was done last, or is being done.
	// +optional
	LastOperation *TaskOperation `json:"lastOperation,omitempty"`
	// What came of it.
	// +optional
	Result *TaskResult `json:"result,omitempty"`
}

// TaskState is how far a task is.
//
// +kubebuilder:validation:MaxLength=64
type TaskState string

// The states of a task.
const (
	TaskPending    TaskState = "Pending"    // it waits for its turn
	TaskInProgress TaskState = "InProgress" // it is being done, or stands
	TaskSucceeded  TaskState = "Succeeded"  // it was done
	TaskFailed     TaskState = "Failed"     // it was begun, and given up
	TaskRejected   TaskState = "Rejected"   // it was not begun: a precondition does not hold
)

// Ended: nothing is done any more.
func (s TaskState) Ended() bool {
	return s == TaskSucceeded || s == TaskFailed || s == TaskRejected
}

// TaskOperation is a step of a task.
type TaskOperation struct {
	// Admit, Snapshot, Extension, Collection or Exclusion.
	// +kubebuilder:validation:MaxLength=64
	// +required
	Name string `json:"name"`
	// Pending, InProgress, Completed or Failed.
	// +required
	State OperationState `json:"state"`
	// When it came to be in this state.
	// +required
	LastTransitionTime metav1.Time `json:"lastTransitionTime"`
	// What was done, or is waited for.
	// +kubebuilder:validation:MaxLength=4096
	// +required
	Reason string `json:"reason"`
}

// OperationState is how far a step of a task is.
//
// +kubebuilder:validation:MaxLength=64
type OperationState string

// The states of steps.
const (
	OperationPending    OperationState = "Pending"    // it waits
	OperationInProgress OperationState = "InProgress" // it goes on
	OperationCompleted  OperationState = "Completed"  // it was done
	OperationFailed     OperationState = "Failed"     // it was not done
)

// TaskResult is what came of a task.
type TaskResult struct {
	// The snapshots that were taken. None: everything was in the bucket already.
	// +kubebuilder:validation:MaxItems=100
	// +listType=atomic
	// +optional
	Snapshots []TakenSnapshot `json:"snapshots,omitempty"`
}

// TakenSnapshot is a snapshot that a task took.
type TakenSnapshot struct {
	// Name of the object in the bucket, without its directory.
	// +kubebuilder:validation:MaxLength=256
	// +required
	Name string `json:"name"`
	// The last revision in it.
	// +required
	Revision int64 `json:"revision"`
	// Its size in the bucket, in bytes. Absent: the store did not tell.
	// +optional
	Bytes int64 `json:"bytes,omitempty"`
	// Until when it can be neither changed nor deleted. Absent: it is not known to be locked.
	// +optional
	RetainUntil *metav1.Time `json:"retainUntil,omitempty"`
}
