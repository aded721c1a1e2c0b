package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// EtcdCopyBackupsTask copies the backups of a cluster from one store to another, once, by a Job
// <name>-worker. What is in the target already is not copied again and nothing is deleted. Once it has
// succeeded or failed nothing is done any more: another copy is another task.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=etcdcopybackupstasks,singular=etcdcopybackupstask,scope=Namespaced
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Succeeded",type=string,JSONPath=`.status.conditions[?(@.type=="Succeeded")].status`
// +kubebuilder:printcolumn:name="Failed",type=string,JSONPath=`.status.conditions[?(@.type=="Failed")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:optionalOldSelf=true,rule="oldSelf.hasValue() || self.metadata.name.size() <= 56",message="metadata.name: at most 56 characters, because the Job is named after it with -worker at the end, and its pods carry that as a label, which has at most 63: choose a shorter name"
type EtcdCopyBackupsTask struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What shall be copied.
	// +required
	Spec EtcdCopyBackupsTaskSpec `json:"spec"`
	// How far it is.
	// +optional
	Status EtcdCopyBackupsTaskStatus `json:"status,omitempty"`
}

// EtcdCopyBackupsTaskList is a list of EtcdCopyBackupsTasks.
//
// +kubebuilder:object:root=true
type EtcdCopyBackupsTaskList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []EtcdCopyBackupsTask `json:"items"`
}

// EtcdCopyBackupsTaskSpec is what shall be copied.
//
// +kubebuilder:validation:XValidation:rule="self.sourceStore.prefix != self.targetStore.prefix || has(self.sourceStore.container) != has(self.targetStore.container) || (has(self.sourceStore.container) && self.sourceStore.container != self.targetStore.container) || has(self.sourceStore.provider) != has(self.targetStore.provider) || (has(self.sourceStore.provider) && self.sourceStore.provider != self.targetStore.provider) || has(self.sourceStore.endpointOverride) != has(self.targetStore.endpointOverride) || (has(self.sourceStore.endpointOverride) && self.sourceStore.endpointOverride != self.targetStore.endpointOverride) || (has(self.sourceStore.secretRef) && has(self.targetStore.secretRef) && has(self.sourceStore.secretRef.name) && has(self.targetStore.secretRef.name) && self.sourceStore.secretRef.name != self.targetStore.secretRef.name)",fieldPath=".targetStore",message="is the same as sourceStore: name another container or prefix"
// +kubebuilder:validation:XValidation:rule="!has(self.sourceStore.roles)",fieldPath=".sourceStore.roles",message="belongs to the store of an Etcd: a copy only reads here; remove it"
// +kubebuilder:validation:XValidation:rule="!has(self.targetStore.roles)",fieldPath=".targetStore.roles",message="belongs to the store of an Etcd: a copy deletes and extends nothing; remove it"
type EtcdCopyBackupsTaskSpec struct {
	// Labels of the Job's pods besides those that the operator sets, which win. Default: none.
	// +kubebuilder:validation:MaxProperties=256
	// +optional
	PodLabels map[string]string `json:"podLabels,omitempty"`
	// Where the backups are.
	// +required
	SourceStore StoreSpec `json:"sourceStore"`
	// Where they shall be.
	// +required
	TargetStore StoreSpec `json:"targetStore"`
	// How old a full snapshot may be, in days, to be copied with its deltas. Default: any age.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	// +optional
	MaxBackupAge *uint32 `json:"maxBackupAge,omitempty"`
	// How many full snapshots are copied with their deltas, the newest first. Default: all.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	// +optional
	MaxBackups *uint32 `json:"maxBackups,omitempty"`
	// Wait until the last full snapshot before a planned stop is there. Default: do not wait.
	// +optional
	WaitForFinalSnapshot *WaitForFinalSnapshotSpec `json:"waitForFinalSnapshot,omitempty"`
}

// WaitForFinalSnapshotSpec says whether and how long to wait for the final full snapshot.
type WaitForFinalSnapshotSpec struct {
	// Whether to wait.
	// +required
	Enabled bool `json:"enabled"`
	// How long to wait, such as 10m; then what is there is copied. Default, and 0: for ever.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self == '0' || (self.matches('^([0-9]+([.][0-9]+)?(ns|us|µs|ms|s|m|h))+$') && duration(self) >= duration('0s'))",message="must be 0 or a duration such as 20s, 5m or 1h30m"
	// +optional
	Timeout *metav1.Duration `json:"timeout,omitempty"`
}

// EtcdCopyBackupsTaskStatus is how far a task is.
type EtcdCopyBackupsTaskStatus struct {
	// Succeeded, which says what it waits for until then, and Failed if it gave up.
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []Condition `json:"conditions,omitempty"`
	// The generation of the specification that was acted on.
	// +optional
	ObservedGeneration *int64 `json:"observedGeneration,omitempty"`
	// Why it does not get on, or failed.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	LastError *string `json:"lastError,omitempty"`
}
