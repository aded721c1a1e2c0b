package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// EtcdOpsTask is what the original made of EtcdOperatorTask, and is served by the same code: a task that
// is done once. New ones are better written as EtcdOperatorTask, which has all types.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=etcdopstasks,singular=etcdopstask,shortName=eot,scope=Namespaced
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Etcd",type=string,JSONPath=`.spec.etcdName`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.lastOperation.type`,priority=1
// +kubebuilder:printcolumn:name="TTL",type=integer,JSONPath=`.spec.ttlSecondsAfterFinished`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.lastOperation.description`,priority=1
type EtcdOpsTask struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What shall be done.
	// +required
	Spec EtcdOpsTaskSpec `json:"spec"`
	// How far it is.
	// +optional
	Status EtcdOpsTaskStatus `json:"status,omitempty"`
}

// EtcdOpsTaskList is a list of EtcdOpsTasks.
//
// +kubebuilder:object:root=true
type EtcdOpsTaskList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []EtcdOpsTask `json:"items"`
}

// EtcdOpsTaskSpec is what shall be done.
//
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cannot be changed: make another task"
type EtcdOpsTaskSpec struct {
	// Exactly one kind of work.
	// +required
	Config EtcdOpsTaskConfig `json:"config"`
	// For how long the task stays after its end, in seconds. Default: 3600.
	// +kubebuilder:default=3600
	// +kubebuilder:validation:Minimum=1
	// +optional
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
	// The Etcd that the task is for, in the namespace of the task. A task without is rejected.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	EtcdName *string `json:"etcdName,omitempty"`
}

// EtcdOpsTaskConfig is one kind of work.
//
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:MaxProperties=1
type EtcdOpsTaskConfig struct {
	// A full or delta snapshot now.
	// +optional
	OnDemandSnapshot *OnDemandSnapshotConfig `json:"onDemandSnapshot,omitempty"`
}

// EtcdOpsTaskStatus is how far a task is.
type EtcdOpsTaskStatus struct {
	// Pending, InProgress, Succeeded, Failed or Rejected. The last three are the end.
	// +optional
	State TaskState `json:"state,omitempty"`
	// When state changed last.
	// +optional
	LastTransitionTime *metav1.Time `json:"lastTransitionTime,omitempty"`
	// When it stopped being Pending.
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`
	// Why it does not get on, failed or was rejected; the last ones.
	// +kubebuilder:validation:MaxItems=10
	// +listType=atomic
	// +optional
	LastErrors []LastError `json:"lastErrors,omitempty"`
	// What was done last, or is being done.
	// +optional
	LastOperation *OpsTaskOperation `json:"lastOperation,omitempty"`
	// What came of it.
	// +optional
	Result *TaskResult `json:"result,omitempty"`
}

// OpsTaskOperation is a step of an EtcdOpsTask.
type OpsTaskOperation struct {
	// Admit or Execution.
	// +kubebuilder:validation:MaxLength=64
	// +required
	Type string `json:"type"`
	// InProgress, Completed or Failed.
	// +required
	State OperationState `json:"state"`
	// What was done, or is waited for.
	// +kubebuilder:validation:MaxLength=4096
	// +required
	Description string `json:"description"`
	// Identifies the run in the operator's log.
	// +kubebuilder:validation:MaxLength=64
	// +required
	RunID string `json:"runID"`
	// When this was written.
	// +required
	LastUpdateTime metav1.Time `json:"lastUpdateTime"`
}
