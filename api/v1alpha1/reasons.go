package v1alpha1

// Reasons that several conditions have.
const (
	ReasonNotChecked    = "NotChecked"    // the cluster has no members (replicas: 0, or the annotation disable-etcd-runtime-component-creation), so what was true before was kept
	ReasonNotReconciled = "NotReconciled" // the operator has not acted on this Etcd yet
	ReasonSecretMissing = "SecretMissing" // a Secret that the specification names, or a key in it, is not there
	ReasonSecretInvalid = "SecretInvalid" // a Secret that the specification names holds no certificate, or one that ended
)

// Reasons of Ready and QuorumLost.
const (
	ReasonQuorate         = "Quorate"         // a majority of the members works
	ReasonQuorumLost      = "QuorumLost"      // a majority does not work
	ReasonQuorumMayReturn = "QuorumMayReturn" // a majority does not work, but not for long enough to be given up
	ReasonNoMembersYet    = "NoMembersYet"    // no member has reported yet
)

// Reasons of AllMembersReady.
const (
	ReasonAllMembersReady    = "AllMembersReady"    // every member works
	ReasonNotAllMembersReady = "NotAllMembersReady" // some member does not work; the message names it
	ReasonPodUnschedulable   = "PodUnschedulable"   // no node takes a pod; the message says why
	ReasonImagePullFailed    = "ImagePullFailed"    // the image of a pod cannot be had
	ReasonMemberWaiting      = "MemberWaiting"      // a member waits or refuses to start; the message says for what
)

// Reasons of AllMembersUpdated.
const (
	ReasonAllMembersUpdated    = "AllMembersUpdated"    // every pod is as the specification wants it
	ReasonNotAllMembersUpdated = "NotAllMembersUpdated" // some pod is not, and is going to be replaced
	ReasonRolloutWaiting       = "RolloutWaiting"       // some pod is not, and may not be replaced now; the message says why
)

// Reasons of BackupReady.
const (
	ReasonBackupSucceeded       = "BackupSucceeded"       // everything was uploaded as the schedules promise
	ReasonBackupFailed          = "BackupFailed"          // uploads fail; the message says why
	ReasonBackupOverdue         = "BackupOverdue"         // the last upload is too long ago
	ReasonBackupBroken          = "BackupBroken"          // the newest chain of snapshots cannot be restored
	ReasonNoBackupYet           = "NoBackupYet"           // there is no full snapshot yet
	ReasonBackupNotKnown        = "BackupNotKnown"        // nobody reports, because no sidecar leads the backups
	ReasonStoreNotReachable     = "StoreNotReachable"     // the store does not answer
	ReasonStoreAccessDenied     = "StoreAccessDenied"     // the store refuses the credentials
	ReasonStoreContainerMissing = "StoreContainerMissing" // there is no such bucket or container
	ReasonStoreOwnedByAnother   = "StoreOwnedByAnother"   // another Etcd writes under this prefix
)

// Reasons of BackupsProtected.
const (
	ReasonProtected           = "Protected"           // the store told a lock of each object of the newest chain
	ReasonProtectionInferred  = "ProtectionInferred"  // the bucket's policy locks them, as computed: the store tells no dates of objects
	ReasonProtectionNotKnown  = "ProtectionNotKnown"  // nobody looked yet, or the store does not tell
	ReasonNotProtected        = "NotProtected"        // something in the newest chain has no lock, or one that is weaker than asked for
	ReasonRetentionTooShort   = "RetentionTooShort"   // locks end before the next full snapshot is there; the message has the arithmetic
	ReasonImmutabilityRemoved = "ImmutabilityRemoved" // it is not asked for any more; the message says when the protection ends
)

// Reasons of Hibernated. The first group are steps, the second what a step waits for or is blocked by.
const (
	ReasonClosingToClients    = "ClosingToClients"    // members are asked to refuse clients, also over connections that they have
	ReasonTakingFinalSnapshot = "TakingFinalSnapshot" // the backup leader takes the final full snapshot, and proves it
	ReasonScalingToZero       = "ScalingToZero"       // everything is in the bucket, and the members stop
	ReasonDeletingVolumes     = "DeletingVolumes"     // the volumes go, as spec.hibernation.volumes says, or wait for a run of the extension to have read the final full
	ReasonHibernated          = "Hibernated"          // there are no members, and what wakes them is kept
	ReasonHibernatedUnproven  = "HibernatedUnproven"  // there are no members, and no final full snapshot was proven; the message says who allowed that
	ReasonWakingUp            = "WakingUp"            // members are wanted again, and no new full snapshot is in the bucket yet
	ReasonFinalSnapshotFailed = "FinalSnapshotFailed" // it cannot be taken or proven; blocked. The message says why, and it is tried again
	ReasonFinalSnapshotNoLock = "FinalSnapshotNoLock" // immutability is asked for, and it is not locked; blocked
	ReasonWritesAfterSnapshot = "WritesAfterSnapshot" // members have revisions that it has not; another one is taken
	ReasonRevisionsNotKnown   = "RevisionsNotKnown"   // some member does not tell its revision, or is behind; blocked
	ReasonStoreChanged        = "StoreChanged"        // the final full snapshot is not, or would not be, in the store from which the cluster would wake up; blocked
	ReasonSharedWithOthers    = "SharedWithOthers"    // members outside would lose their majority; blocked
)

// Reasons of HibernationBackupProtected.
const (
	ReasonFinalSnapshotProtected    = "FinalSnapshotProtected"    // locked beyond the next extension
	ReasonFinalSnapshotInferred     = "FinalSnapshotInferred"     // the same, as computed from the bucket's policy: the store tells no dates of objects
	ReasonFinalSnapshotHeld         = "FinalSnapshotHeld"         // held without an end
	ReasonFinalSnapshotMissing      = "FinalSnapshotMissing"      // the members stopped without one
	ReasonFinalSnapshotDamaged      = "FinalSnapshotDamaged"      // the last extension kept another backup than the final one, which is damaged or gone
	ReasonFinalSnapshotNotNewest    = "FinalSnapshotNotNewest"    // it is locked, and somebody wrote a newer one that a restore would use
	ReasonFinalSnapshotDateNotKnown = "FinalSnapshotDateNotKnown" // nobody told until when it is locked
	ReasonProtectionEnds            = "ProtectionEnds"            // its lock may end before the next extension is through
	ReasonProtectionEnded           = "ProtectionEnded"           // its lock has ended
	ReasonExtensionNotRunning       = "ExtensionNotRunning"       // nobody prolongs its lock; the message says why
	ReasonHoldNotReleased           = "HoldNotReleased"           // the cluster is awake and has taken a new full, and nobody releases what is held still; the message says why
)

// Reasons of DataVolumesReady.
const (
	ReasonDataVolumesReady      = "DataVolumesReady"      // no volume has a problem
	ReasonDataVolumesNotReady   = "DataVolumesNotReady"   // a claim has none, or warnings; the message repeats them
	ReasonDataVolumesUnknown    = "DataVolumesUnknown"    // there are volume claims to come; the message names them
	ReasonVolumeReadOnly        = "VolumeReadOnly"        // a volume cannot be written to
	ReasonVolumeMismatch        = "VolumeMismatch"        // the data on a volume are somebody else's
	ReasonVolumeFull            = "VolumeFull"            // a volume has no space left
	ReasonVolumeResizing        = "VolumeResizing"        // volumes are growing to storageCapacity
	ReasonVolumeCannotBeResized = "VolumeCannotBeResized" // volumes cannot grow, and members get no new ones now; the message says why
)

// Reasons of ClusterIDMismatch.
const (
	ReasonClusterIDsMatch    = "ClusterIDsMatch"    // all members are of one cluster
	ReasonClusterIDsDiffer   = "ClusterIDsDiffer"   // members are of different clusters; the message names them
	ReasonClusterIDsNotKnown = "ClusterIDsNotKnown" // no member has told its cluster
)

// Reasons of BootstrappedWithExistingCluster.
const (
	ReasonBootstrapCompleted  = "BootstrapCompleted"  // all members have joined; the message says what to do next
	ReasonBootstrapInProgress = "BootstrapInProgress" // members are joining; the message says which wait
)

// Reasons of LastSnapshotCompactionSucceeded, never set: this operator compacts no backups.
const (
	ReasonCompactionNone                  = "None"                          // the Job succeeded
	ReasonFullSnapshotTakenSuccessfully   = "FullSnapshotTakenSuccessfully" // a full snapshot was made instead
	ReasonDeadlineExceeded                = "DeadlineExceeded"              // the Job took too long
	ReasonErrorTriggeringFullSnapshot     = "ErrorTriggeringFullSnapshot"   // the full snapshot instead failed
	ReasonPreemptionByScheduler           = "PreemptionByScheduler"         // the pod had to make room
	ReasonDeletionByTaintManager          = "DeletionByTaintManager"        // the pod's node was tainted
	ReasonEvictionByEvictionAPI           = "EvictionByEvictionAPI"         // the pod was evicted
	ReasonTerminationByKubelet            = "TerminationByKubelet"          // the pod's node stopped it
	ReasonProcessFailure                  = "ProcessFailure"                // the program failed; the message repeats its error
	ReasonCompactionFailedForUnknownCause = "Unknown"                       // the Job failed and nobody knows why
)

// Reasons of SchedulesValid, ImagesReplaced and FieldsWithoutEffect.
const (
	ReasonSchedulesValid       = "SchedulesValid"       // every schedule can be read
	ReasonScheduleInvalid      = "ScheduleInvalid"      // a schedule cannot be read; the message names the field
	ReasonImagesOfOriginal     = "ImagesOfOriginal"     // images of the original project do not take our flags
	ReasonControllerNotPresent = "ControllerNotPresent" // this version of the operator has no controller for the fields, or for some of them
	ReasonFieldsNotUsed        = "FieldsNotUsed"        // fields count for nothing; the message says what does instead
)

// Reasons of ReconcileHeld.
const (
	ReasonSuspended       = "Suspended"       // by the annotation druid.gardener.cloud/suspend-etcd-spec-reconcile: nothing is changed at all
	ReasonNotTakenOver    = "NotTakenOver"    // the objects are the original's, and nothing of them is changed
	ReasonNotRequested    = "NotRequested"    // the specification has changed, and auto-reconcile is off
	ReasonOperatorChanged = "OperatorChanged" // the operator has changed, and auto-reconcile is off
)

// Reasons of Succeeded and Failed, besides SecretMissing, PodUnschedulable and ImagePullFailed.
const (
	ReasonCopying       = "Copying"       // the Job is at work, or about to be
	ReasonCopyRetried   = "CopyRetried"   // an attempt failed and another one follows; the message repeats its error
	ReasonPodNotStarted = "PodNotStarted" // the pod does not start; the message says why
	ReasonStoreInvalid  = "StoreInvalid"  // nothing can be copied between the stores of the specification; the message names the field
	ReasonJobNotMade    = "JobNotMade"    // the Job cannot be made or removed; the message says why
	ReasonJobReplaced   = "JobReplaced"   // the Job of a former specification is being removed
	ReasonCopySucceeded = "CopySucceeded" // the Job copied everything
	ReasonCopyFailed    = "CopyFailed"    // the Job gave up; the message repeats its last error
)

// Reasons of the members in the status of an Etcd.
const (
	ReasonLeaseSucceeded             = "LeaseSucceeded"             // the member renewed its Lease in time
	ReasonLeaseExpired               = "LeaseExpired"               // it did not, though its containers run
	ReasonContainersNotReady         = "ContainersNotReady"         // it did not, and its containers do not run, or nothing was heard of it since its pod was made, or it has none
	ReasonUnknownGracePeriodExceeded = "UnknownGracePeriodExceeded" // it did not for so long that it counts as gone
)
