package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EtcdStatus is what the operator last saw of a cluster.
type EtcdStatus struct {
	// The generation of the specification that was applied last.
	// +optional
	ObservedGeneration *int64 `json:"observedGeneration,omitempty"`
	// The StatefulSet of the members.
	// +optional
	Etcd *CrossVersionObjectReference `json:"etcd,omitempty"`
	// What is true of the cluster, one entry per type. The types and reasons are documented.
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []Condition `json:"conditions,omitempty"`
	// Errors of the last operation; none if it succeeded.
	// +kubebuilder:validation:MaxItems=32
	// +listType=atomic
	// +optional
	LastErrors []LastError `json:"lastErrors,omitempty"`
	// What the operator did last or is doing.
	// +optional
	LastOperation *LastOperation `json:"lastOperation,omitempty"`
	// Deprecated: the first of lastErrors as one sentence, for readers of the old name.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	LastError *string `json:"lastError,omitempty"`
	// Deprecated: it is the name of the Etcd with -client. Name of the Service of clients.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	ServiceName *string `json:"serviceName,omitempty"`
	// Deprecated: use spec.replicas. Number of members that the cluster shall have.
	// +optional
	ClusterSize *int32 `json:"clusterSize,omitempty"`
	// The same as updatedReplicas: a StatefulSet that replaces no pods by itself counts none as current.
	// +optional
	CurrentReplicas int32 `json:"currentReplicas,omitempty"`
	// Number of pods there are. The subresource scale shows it.
	// +optional
	Replicas int32 `json:"replicas,omitempty"`
	// Number of pods that are ready.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas,omitempty"`
	// Number of pods that are as the specification wants them. Deprecated: use the condition
	// AllMembersUpdated.
	// +optional
	UpdatedReplicas int32 `json:"updatedReplicas,omitempty"`
	// Whether all members are ready: the condition AllMembersReady as a boolean.
	// +optional
	Ready *bool `json:"ready,omitempty"`
	// Deprecated: use selector.
	// +optional
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`
	// Selector of the pods, as text. The subresource scale shows it.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Selector *string `json:"selector,omitempty"`
	// Deprecated: use the EtcdMembers in memberRefs. The members as their Leases show them.
	// +kubebuilder:validation:MaxItems=128
	// +listType=map
	// +listMapKey=name
	// +optional
	Members []EtcdMemberStatus `json:"members,omitempty"`
	// The EtcdMembers of this cluster.
	// +kubebuilder:validation:MaxItems=128
	// +listType=map
	// +listMapKey=name
	// +optional
	MemberRefs []CrossVersionObjectReference `json:"memberRefs,omitempty"`
	// Whether all members have TLS between each other at the moment.
	// +optional
	PeerUrlTLSEnabled *bool `json:"peerUrlTLSEnabled,omitempty"`
	// What can be restored from the bucket, and how well that is protected, as the backup leader found it last.
	// Absent without a store, and before the first look.
	// +optional
	Backup *EtcdBackupStatus `json:"backup,omitempty"`
	// The last full snapshot that a backup leader took, and where. It stays when spec.backup.store is changed, until there is one in
	// the new place: members without data begin there neither from less nor from nothing, unless spec.hibernation.allowUnprotected
	// accepts that. Absent before the first one.
	// +optional
	LastBackup *LastBackup `json:"lastBackup,omitempty"`
	// What is known of the hibernation: while the cluster falls asleep, sleeps, and wakes up.
	// +optional
	Hibernation *HibernationStatus `json:"hibernation,omitempty"`
	// The highest revision that any member of this cluster was ever seen at. It never falls, also
	// when everything is lost, so that a restore can go beyond every revision that a client may have
	// seen. Written before anything is destroyed; while the cluster runs it may be up to 10000 behind
	// what the EtcdMembers tell, which counts as well.
	// +optional
	LastKnownRevision *int64 `json:"lastKnownRevision,omitempty"`
	// The cluster that the members joined, once they have.
	// +optional
	BootstrapWithExistingCluster *BootstrapWithExistingClusterStatus `json:"bootstrapWithExistingCluster,omitempty"`
}

// LastBackup is a full snapshot that was taken.
type LastBackup struct {
	// Where it is: provider, container, prefix, and the endpoint if another than the provider's is named.
	// +kubebuilder:validation:MaxLength=2048
	// +required
	Store string `json:"store"`
	// Name of the object in the bucket, without its directory.
	// +kubebuilder:validation:MaxLength=256
	// +required
	Name string `json:"name"`
	// The revision up to which it certainly has everything.
	// +required
	Revision int64 `json:"revision"`
}

// CrossVersionObjectReference names another object in the same namespace.
type CrossVersionObjectReference struct {
	// Kind of the object.
	// +kubebuilder:validation:MaxLength=256
	// +required
	Kind string `json:"kind"`
	// Name of the object.
	// +kubebuilder:validation:MaxLength=256
	// +required
	Name string `json:"name"`
	// Its API version, such as apps/v1.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	APIVersion string `json:"apiVersion,omitempty"`
}

// LastError is an error of the last operation.
type LastError struct {
	// What failed, as one word.
	// +required
	Code ErrorCode `json:"code"`
	// What failed, where, and what can be done.
	// +kubebuilder:validation:MaxLength=4096
	// +required
	Description string `json:"description"`
	// When it was seen.
	// +required
	ObservedAt metav1.Time `json:"observedAt"`
}

// ErrorCode is an error as one word, such as ERR_SYNC_STATEFULSET.
//
// +kubebuilder:validation:MaxLength=128
type ErrorCode string

// LastOperation is what the operator did last or is doing.
type LastOperation struct {
	// Create, Reconcile or Delete.
	// +required
	Type LastOperationType `json:"type"`
	// Processing, Succeeded, Error, or Requeue, which waits for something and will go on.
	// +required
	State LastOperationState `json:"state"`
	// What was done, or what is waited for.
	// +kubebuilder:validation:MaxLength=4096
	// +required
	Description string `json:"description"`
	// Identifies the run in the operator's log.
	// +kubebuilder:validation:MaxLength=64
	// +required
	RunID string `json:"runID"`
	// When this was written. What fails, waits or goes on in the same way at later looks is not written again.
	// +required
	LastUpdateTime metav1.Time `json:"lastUpdateTime"`
}

// LastOperationType is what an operation is for.
//
// +kubebuilder:validation:MaxLength=64
type LastOperationType string

// The types of operations.
const (
	LastOperationCreate    LastOperationType = "Create"
	LastOperationReconcile LastOperationType = "Reconcile"
	LastOperationDelete    LastOperationType = "Delete"
)

// LastOperationState is how far an operation is.
//
// +kubebuilder:validation:MaxLength=64
type LastOperationState string

// The states of operations.
const (
	LastOperationProcessing LastOperationState = "Processing"
	LastOperationSucceeded  LastOperationState = "Succeeded"
	LastOperationError      LastOperationState = "Error"
	LastOperationRequeue    LastOperationState = "Requeue"
)

// EtcdMemberStatus is a member as its Lease shows it.
type EtcdMemberStatus struct {
	// Name of the member.
	// +kubebuilder:validation:MaxLength=256
	// +required
	Name string `json:"name"`
	// Its id in etcd, as hexadecimal digits.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	ID *string `json:"id,omitempty"`
	// Leader or Member.
	// +optional
	Role *EtcdRole `json:"role,omitempty"`
	// Ready, NotReady or Unknown.
	// +required
	Status EtcdMemberConditionStatus `json:"status"`
	// Why, as one word.
	// +kubebuilder:validation:MaxLength=64
	// +required
	Reason string `json:"reason"`
	// When status changed last.
	// +required
	LastTransitionTime metav1.Time `json:"lastTransitionTime"`
}

// EtcdRole is the part that a member plays.
//
// +kubebuilder:validation:MaxLength=64
type EtcdRole string

// The roles.
const (
	EtcdRoleLeader EtcdRole = "Leader"
	EtcdRoleMember EtcdRole = "Member"
)

// EtcdMemberConditionStatus is whether a member works.
//
// +kubebuilder:validation:MaxLength=64
type EtcdMemberConditionStatus string

// The states of a member as its Lease shows them.
const (
	EtcdMemberStatusReady    EtcdMemberConditionStatus = "Ready"
	EtcdMemberStatusNotReady EtcdMemberConditionStatus = "NotReady"
	EtcdMemberStatusUnknown  EtcdMemberConditionStatus = "Unknown"
)

// BootstrapWithExistingClusterStatus is the cluster that the members joined.
type BootstrapWithExistingClusterStatus struct {
	// When all members had joined.
	// +required
	JoinedAt metav1.Time `json:"joinedAt"`
	// The members that the cluster had before.
	// +kubebuilder:validation:MaxItems=10
	// +listType=map
	// +listMapKey=name
	// +optional
	Members []ExistingMember `json:"members,omitempty"`
}
