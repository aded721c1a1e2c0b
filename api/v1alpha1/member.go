package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EtcdMember is a member of a cluster, as it describes itself. The operator makes it before the
// member's pod and deletes it with the member, and whenever the cluster has no pods. Its name is
// the member's; the label gardener.cloud/owned-by names the Etcd. It has no specification.
//
// Only the sidecar of the member writes the status. What it says is as old as its newest time: a
// member that cannot write leaves the last words standing, so nobody may act twice on the same
// observation.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=etcdmembers,singular=etcdmember,scope=Namespaced
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Etcd",type=string,JSONPath=`.metadata.labels.gardener\.cloud/owned-by`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Sub State",type=string,JSONPath=`.status.subState`
// +kubebuilder:printcolumn:name="Revision",type=integer,JSONPath=`.status.revision`
// +kubebuilder:printcolumn:name="DB Size",type=string,JSONPath=`.status.dbSize`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Waiting",type=string,JSONPath=`.status.waiting`,priority=1
// +kubebuilder:printcolumn:name="ID",type=string,JSONPath=`.status.id`,priority=1
// +kubebuilder:printcolumn:name="Cluster ID",type=string,JSONPath=`.status.clusterID`,priority=1
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.version`,priority=1
// +kubebuilder:printcolumn:name="Last Full",type=date,JSONPath=`.status.snapshots.lastFull.timestamp`,priority=1
// +kubebuilder:printcolumn:name="Last Delta",type=date,JSONPath=`.status.snapshots.lastDelta.timestamp`,priority=1
type EtcdMember struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What the member says of itself.
	// +optional
	Status MemberReport `json:"status,omitempty"`
}

// EtcdMemberList is a list of EtcdMembers.
//
// +kubebuilder:object:root=true
type EtcdMemberList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []EtcdMember `json:"items"`
}

// MemberReport is what a member's sidecar says of it.
type MemberReport struct {
	// Id of the member in etcd, sixteen hexadecimal digits. Absent while its etcd never ran.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	ID *string `json:"id,omitempty"`
	// Id of the cluster that it is a member of, sixteen hexadecimal digits.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	ClusterID *string `json:"clusterID,omitempty"`
	// Whether its etcd was started with TLS to other members.
	// +optional
	PeerTLSEnabled *bool `json:"peerTLSEnabled,omitempty"`
	// The peer URLs with which its etcd was started.
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=512
	// +listType=atomic
	// +optional
	PeerURLs []string `json:"peerURLs,omitempty"`
	// Where the member is in its life: the state of the newest transition. New, Initializing,
	// Starting or Started.
	// +optional
	State MemberState `json:"state,omitempty"`
	// More about state: DBValidationSanity, DBValidationFull, Restoration, PendingLearner, Learner,
	// Follower or Leader.
	// +optional
	SubState MemberSubState `json:"subState,omitempty"`
	// Version of its etcd. Absent while etcd does not answer, like the next four.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Version string `json:"version,omitempty"`
	// The revision that its etcd was at when this was written.
	// +optional
	Revision int64 `json:"revision,omitempty"`
	// Alarms of its etcd: NOSPACE, CORRUPT.
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=256
	// +listType=set
	// +optional
	Alarms []string `json:"alarms,omitempty"`
	// Size of the database file.
	// +kubebuilder:validation:XValidation:rule="string(self).matches('^[0-9]{1,18}([kMGTPE]i?)?$')",message="must be a number of bytes such as 6442450944 or 6Gi"
	// +optional
	DBSize *resource.Quantity `json:"dbSize,omitempty"`
	// How much of that is in use; the rest can be won back by defragmentation.
	// +kubebuilder:validation:XValidation:rule="string(self).matches('^[0-9]{1,18}([kMGTPE]i?)?$')",message="must be a number of bytes such as 6442450944 or 6Gi"
	// +optional
	DBSizeInUse *resource.Quantity `json:"dbSizeInUse,omitempty"`
	// What the member waits for or refuses to do, and what can be done, in one sentence.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Waiting string `json:"waiting,omitempty"`
	// That the volume is full, in one sentence. Absent while etcd's log has room to grow.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	VolumeFull string `json:"volumeFull,omitempty"`
	// Whether the sidecar of this member makes the backups.
	// +optional
	BackupLeader bool `json:"backupLeader,omitempty"`
	// The backups, as the backup leader knows them; of others, what they uploaded while they were it.
	// +optional
	Snapshots *MemberSnapshots `json:"snapshots,omitempty"`
	// How the data came to this member last.
	// +optional
	LastRestoration *Restoration `json:"lastRestoration,omitempty"`
	// The last defragmentation of this member by its own sidecar. That of the backup leader defragments all members, and its metric
	// etcdbr_defragmentation_duration_seconds tells of them.
	// +optional
	LastDefragmentation *Defragmentation `json:"lastDefragmentation,omitempty"`
	// Volumes that were mounted here and are somebody else's, or hold the data of somebody else, one entry per owner.
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=volumeID
	// +optional
	VolumeMismatches []VolumeMismatch `json:"volumeMismatches,omitempty"`
	// The changes of the member's state, the newest last. The older ones are forgotten.
	// +kubebuilder:validation:MaxItems=32
	// +listType=atomic
	// +optional
	Transitions []MemberTransition `json:"transitions,omitempty"`
}

// MemberSnapshots are the backups as a member knows them.
type MemberSnapshots struct {
	// The last full snapshot.
	// +optional
	LastFull *MemberSnapshot `json:"lastFull,omitempty"`
	// The last delta after it.
	// +optional
	LastDelta *MemberSnapshot `json:"lastDelta,omitempty"`
	// Size of all deltas since the last full snapshot, as they are in the bucket.
	// +kubebuilder:validation:XValidation:rule="string(self).matches('^[0-9]{1,18}([kMGTPE]i?)?$')",message="must be a number of bytes such as 6442450944 or 6Gi"
	// +optional
	AccumulatedDeltaSize *resource.Quantity `json:"accumulatedDeltaSize,omitempty"`
	// When the backup leader last looked and found nothing new to upload: the backups are complete up
	// to this time, however old the last of them is.
	// +optional
	NothingNew *metav1.Time `json:"nothingNew,omitempty"`
	// Why the last attempt to upload failed. Absent after one that succeeded.
	// +optional
	Failure *SnapshotFailure `json:"failure,omitempty"`
	// The last proof that the newest chain of snapshots can be restored. Absent before there was one.
	// +optional
	Proof *SnapshotProof `json:"proof,omitempty"`
	// What was found when the bucket was looked through last, every ten minutes.
	// +optional
	Bucket *BackupStatus `json:"bucket,omitempty"`
}

// SnapshotProof is how a proof ended: the newest chain of snapshots is restored into a directory that is thrown away, once a day
// as a rule.
type SnapshotProof struct {
	// When it ended.
	// +required
	EndedAt metav1.Time `json:"endedAt"`
	// Proven: the chain can be restored. Broken: it cannot, and a new full is taken. Unknown: the store did not answer, or there
	// was no room.
	// +required
	Result SnapshotProofResult `json:"result"`
	// Name of the full that was the newest then.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Base string `json:"base,omitempty"`
	// The last revision that was restored.
	// +optional
	EndRevision int64 `json:"endRevision,omitempty"`
	// How long the restore took.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Took *metav1.Duration `json:"took,omitempty"`
	// Why it is not Proven, for people.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Message string `json:"message,omitempty"`
}

// SnapshotProofResult is what a proof showed.
//
// +kubebuilder:validation:Enum=Proven;Broken;Unknown
type SnapshotProofResult string

// The results of proofs.
const (
	ProofProven  SnapshotProofResult = "Proven"
	ProofBroken  SnapshotProofResult = "Broken"
	ProofUnknown SnapshotProofResult = "Unknown"
)

// BackupStatus is what a look through the bucket found.
type BackupStatus struct {
	// When the bucket was looked through.
	// +required
	LookedAt metav1.Time `json:"lookedAt"`
	// The oldest state of the cluster to which one can restore. Absent: there is none.
	// +optional
	FirstRestorable *RestorableState `json:"firstRestorable,omitempty"`
	// The newest state of the cluster to which one could restore then.
	// +optional
	LastRestorable *RestorableState `json:"lastRestorable,omitempty"`
	// How well the newest chain of snapshots is protected: as its weakest object is. none: somebody with the
	// right to delete can. unknown: the store does not tell. advisory: this project alone refuses.
	// governance: identities with a special right can lift it. compliance: nobody can before its end.
	// +kubebuilder:validation:Enum=none;unknown;advisory;governance;compliance
	// +required
	ProtectionLevel string `json:"protectionLevel"`
	// The earliest end among the locks of the newest chain. Absent without locks.
	// +optional
	ProtectedUntil *metav1.Time `json:"protectedUntil,omitempty"`
	// Whether the end of some of these locks was computed from the bucket's policy, because the store tells no
	// date for objects. What is inferred is likely, and not proven.
	// +optional
	ProtectionInferred bool `json:"protectionInferred,omitempty"`
	// How long the newest of the chain's objects was locked from its upload, and so how long the next one will
	// be, as far as the store tells. Absent: it does not, or there is no lock.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=256
	// +optional
	RetentionPeriod *metav1.Duration `json:"retentionPeriod,omitempty"`
	// The protection in one phrase.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Protection string `json:"protection,omitempty"`
	// What somebody may have done to the bucket, the gravest first: several versions of an object, delete
	// markers, foreign, missing or changed objects. At most ten are listed.
	// +kubebuilder:validation:MaxItems=10
	// +listType=atomic
	// +optional
	TamperFindings []TamperFinding `json:"tamperFindings,omitempty"`
	// How many such findings there are.
	// +optional
	TamperFindingsCount int32 `json:"tamperFindingsCount,omitempty"`
	// Names of snapshots that somebody excluded from restores. At most ten are listed.
	// +kubebuilder:validation:MaxItems=10
	// +kubebuilder:validation:items:MaxLength=1024
	// +listType=atomic
	// +optional
	ExcludedSnapshots []string `json:"excludedSnapshots,omitempty"`
	// How many such snapshots there are.
	// +optional
	ExcludedSnapshotsCount int32 `json:"excludedSnapshotsCount,omitempty"`
}

// EtcdBackupStatus is what is known of the backups of an Etcd: what the newest look through the bucket found, and who
// does what there.
type EtcdBackupStatus struct {
	BackupStatus `json:",inline"`
	// The last proof that the newest chain of snapshots can be restored, by whichever member made it. Absent before there was one.
	// +optional
	Proof *SnapshotProof `json:"proof,omitempty"`
	// Whose credentials delete backups, prolong their locks and leave them out of restores. shared: the members' own do
	// everything. partly: some of the roles in spec.backup.store.roles are other identities. separate: each role is.
	// +optional
	Identities BackupIdentities `json:"identities,omitempty"`
}

// BackupIdentities is how far what is done with backups is done by different identities.
//
// +kubebuilder:validation:Enum=shared;partly;separate
type BackupIdentities string

// How far identities are apart.
const (
	IdentitiesShared   BackupIdentities = "shared"   // the members' credentials do everything
	IdentitiesPartly   BackupIdentities = "partly"   // some roles have credentials of their own
	IdentitiesSeparate BackupIdentities = "separate" // each role has credentials of its own
)

// RestorableState is a state of a cluster to which one can restore.
type RestorableState struct {
	// When it was.
	// +required
	Time metav1.Time `json:"time"`
	// Its revision.
	// +required
	Revision int64 `json:"revision"`
}

// TamperFinding is something that neither a store nor this project does by itself, or that looks like it: rolled-back also follows volumes
// that were brought back from older copies.
type TamperFinding struct {
	// Code of the finding, as "etcdbrctl list" and "etcdbrctl verify" use it: versions, marker, hidden,
	// gone, foreign, empty, flood, digest-mismatch, header-mismatch, hash-mismatch,
	// missing-snapshot, bad-manifest, many-manifests, bad-owner, stranger or rolled-back.
	// +kubebuilder:validation:MaxLength=256
	// +required
	Code string `json:"code"`
	// What it is about, for people.
	// +kubebuilder:validation:MaxLength=1024
	// +required
	Message string `json:"message"`
}

// MemberSnapshot is a snapshot in the bucket.
type MemberSnapshot struct {
	// When it was made.
	// +required
	Timestamp metav1.Time `json:"timestamp"`
	// Name of the object, without the prefix.
	// +kubebuilder:validation:MaxLength=256
	// +required
	Name string `json:"name"`
	// Its size before compression.
	// +kubebuilder:validation:XValidation:rule="string(self).matches('^[0-9]{1,18}([kMGTPE]i?)?$')",message="must be a number of bytes such as 6442450944 or 6Gi"
	// +optional
	Size *resource.Quantity `json:"size,omitempty"`
	// The first revision in it; 0 in a full snapshot.
	// +optional
	StartRevision int64 `json:"startRevision,omitempty"`
	// The last revision in it.
	// +required
	EndRevision int64 `json:"endRevision"`
	// Whether the sidecar that tells of it took it, since it was started. Absent: it found it in the bucket.
	// +optional
	Taken bool `json:"taken,omitempty"`
}

// SnapshotFailure is why an upload failed.
type SnapshotFailure struct {
	// When it failed first since the last success.
	// +required
	Since metav1.Time `json:"since"`
	// Why, as one word: a reason of the condition BackupReady.
	// +kubebuilder:validation:MaxLength=256
	// +required
	Reason string `json:"reason"`
	// Why, for people.
	// +kubebuilder:validation:MaxLength=1024
	// +required
	Message string `json:"message"`
}

// Restoration is how data came to a member.
type Restoration struct {
	// FromSnapshot: out of the bucket. FromLeader: from the other members.
	// +required
	Type RestorationType `json:"type"`
	// In-Progress, Success or Failed.
	// +required
	Status OperationOutcome `json:"status"`
	// Why, for people.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Message string `json:"message,omitempty"`
	// When it began.
	// +required
	StartTime metav1.Time `json:"startTime"`
	// When it ended.
	// +optional
	EndTime *metav1.Time `json:"endTime,omitempty"`
}

// RestorationType says where data came from.
//
// +kubebuilder:validation:MaxLength=256
type RestorationType string

// Where data come from.
const (
	RestorationFromSnapshot RestorationType = "FromSnapshot"
	RestorationFromLeader   RestorationType = "FromLeader"
)

// OperationOutcome is how a long operation of a member ended.
//
// +kubebuilder:validation:MaxLength=256
type OperationOutcome string

// The outcomes.
const (
	OutcomeInProgress OperationOutcome = "In-Progress"
	OutcomeSuccess    OperationOutcome = "Success"
	OutcomeFailed     OperationOutcome = "Failed"
)

// Defragmentation is a defragmentation of a member.
type Defragmentation struct {
	// When it began.
	// +required
	StartTime metav1.Time `json:"startTime"`
	// When it ended.
	// +optional
	EndTime *metav1.Time `json:"endTime,omitempty"`
	// In-Progress, Success or Failed.
	// +required
	Status OperationOutcome `json:"status"`
	// What it was for: schedule, threshold, request or alarm.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Reason string `json:"reason,omitempty"`
	// How it ended, for people.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Message string `json:"message,omitempty"`
	// Size of the database before.
	// +kubebuilder:validation:XValidation:rule="string(self).matches('^[0-9]{1,18}([kMGTPE]i?)?$')",message="must be a number of bytes such as 6442450944 or 6Gi"
	// +optional
	InitialDBSize *resource.Quantity `json:"initialDBSize,omitempty"`
	// Size of the database after.
	// +kubebuilder:validation:XValidation:rule="string(self).matches('^[0-9]{1,18}([kMGTPE]i?)?$')",message="must be a number of bytes such as 6442450944 or 6Gi"
	// +optional
	FinalDBSize *resource.Quantity `json:"finalDBSize,omitempty"`
}

// VolumeMismatch is a volume that was mounted where it does not belong.
type VolumeMismatch struct {
	// When it was noticed.
	// +required
	IdentifiedAt metav1.Time `json:"identifiedAt"`
	// When the right volume was there again.
	// +optional
	FixedAt *metav1.Time `json:"fixedAt,omitempty"`
	// Whose volume it is, as the file safe_guard on it or the data say. A member sees no other name of a volume.
	// +kubebuilder:validation:MaxLength=1024
	// +required
	VolumeID string `json:"volumeID"`
	// How often the member started with it.
	// +optional
	NumRestarts int32 `json:"numRestarts,omitempty"`
}

// MemberTransition is a change of a member's state.
type MemberTransition struct {
	// The state since then.
	// +required
	State MemberState `json:"state"`
	// More about it.
	// +optional
	SubState MemberSubState `json:"subState,omitempty"`
	// Why, as one word.
	// +required
	Reason MemberReason `json:"reason"`
	// When it changed.
	// +required
	TransitionTime metav1.Time `json:"transitionTime"`
	// Why, for people.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Message string `json:"message,omitempty"`
}

// MemberState is where a member is in its life.
//
// +kubebuilder:validation:MaxLength=256
type MemberState string

// The states of a member.
const (
	MemberNew          MemberState = "New"          // nothing was done yet, or the data were given up
	MemberInitializing MemberState = "Initializing" // the data are examined or restored; etcd does not run
	MemberStarting     MemberState = "Starting"     // etcd is about to be, or is, a learner
	MemberStarted      MemberState = "Started"      // etcd is a voting member
)

// MemberSubState tells more about a MemberState.
//
// +kubebuilder:validation:MaxLength=256
type MemberSubState string

// The sub-states, each of one state; New has none.
const (
	MemberDBValidationSanity MemberSubState = "DBValidationSanity" // of Initializing
	MemberDBValidationFull   MemberSubState = "DBValidationFull"   // of Initializing
	MemberRestoration        MemberSubState = "Restoration"        // of Initializing
	MemberPendingLearner     MemberSubState = "PendingLearner"     // of Starting
	MemberLearner            MemberSubState = "Learner"            // of Starting
	MemberFollower           MemberSubState = "Follower"           // of Started
	MemberLeader             MemberSubState = "Leader"             // of Started
)

// MemberReason says why a member changed its state.
//
// +kubebuilder:validation:MaxLength=256
type MemberReason string

// The reasons of transitions.
const (
	MemberReasonClusterScaledUp             MemberReason = "ClusterScaledUp"
	MemberReasonNewSingleNodeClusterCreated MemberReason = "NewSingleNodeClusterCreated"
	MemberReasonNewClusterCreated           MemberReason = "NewClusterCreated" // of several members at once
	MemberReasonDetectedPreviousCleanExit   MemberReason = "DetectedPreviousCleanExit"
	MemberReasonDetectedPreviousUncleanExit MemberReason = "DetectedPreviousUncleanExit"
	MemberReasonDBValidationFailed          MemberReason = "DBValidationFailed"
	MemberReasonDBValidationSucceeded       MemberReason = "DBValidationSucceeded"
	MemberReasonDBCorruptionDetected        MemberReason = "DBCorruptionDetected"
	MemberReasonRestorationSucceeded        MemberReason = "RestorationSucceeded"
	MemberReasonRestorationFailed           MemberReason = "RestorationFailed"
	MemberReasonWaitingToJoinAsLearner      MemberReason = "WaitingToJoinAsLearner"
	MemberReasonJoinedAsLearner             MemberReason = "JoinedAsLearner"
	MemberReasonPromotedAsVotingMember      MemberReason = "PromotedAsVotingMember"
	MemberReasonGainedClusterLeadership     MemberReason = "GainedClusterLeadership"
	MemberReasonLostClusterLeadership       MemberReason = "LostClusterLeadership"
	MemberReasonWaitingForCluster           MemberReason = "WaitingForCluster" // nothing may be done until others answer
	MemberReasonWaitingForStore             MemberReason = "WaitingForStore"   // the bucket does not answer, or is another's
	MemberReasonQuorumLost                  MemberReason = "QuorumLost"        // a majority lost its data: a person decides
	MemberReasonOtherLineage                MemberReason = "OtherLineage"      // the data are not of the history in the bucket
	MemberReasonVolumeMismatch              MemberReason = "VolumeMismatch"    // the volume is another member's
	MemberReasonVolumeReadOnly              MemberReason = "VolumeReadOnly"
	MemberReasonQuarantined                 MemberReason = "Quarantined" // etcd raised CORRUPT
)
