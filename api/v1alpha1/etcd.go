package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Etcd is a cluster of etcd members with its backups. The operator makes it what the
// specification says and reports in the status how far it is.
//
// The name is the beginning of the names of all pods, Services and other objects of the cluster.
// It has at most 52 characters, so that a pod's label with the revision of its StatefulSet
// (name, hyphen, ten characters) stays within 63, and is a name that a Service may have:
// lower-case letters, digits and hyphens, a letter first.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=etcds,singular=etcd,scope=Namespaced
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.ready`
// +kubebuilder:printcolumn:name="Quorate",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="All Members Ready",type=string,JSONPath=`.status.conditions[?(@.type=="AllMembersReady")].status`
// +kubebuilder:printcolumn:name="Backup Ready",type=string,JSONPath=`.status.conditions[?(@.type=="BackupReady")].status`
// +kubebuilder:printcolumn:name="Cluster ID Mismatch",type=string,JSONPath=`.status.conditions[?(@.type=="ClusterIDMismatch")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Cluster Size",type=integer,JSONPath=`.spec.replicas`,priority=1
// +kubebuilder:printcolumn:name="Current Replicas",type=integer,JSONPath=`.status.currentReplicas`,priority=1
// +kubebuilder:printcolumn:name="Ready Replicas",type=integer,JSONPath=`.status.readyReplicas`,priority=1
// +kubebuilder:printcolumn:name="Up To Date",type=string,JSONPath=`.status.conditions[?(@.type=="AllMembersUpdated")].status`,priority=1
// +kubebuilder:printcolumn:name="Held",type=string,JSONPath=`.status.conditions[?(@.type=="ReconcileHeld")].reason`,priority=1
// +kubebuilder:printcolumn:name="Last Operation",type=string,JSONPath=`.status.lastOperation.state`,priority=1
// +kubebuilder:printcolumn:name="Revision",type=integer,JSONPath=`.status.lastKnownRevision`,priority=1
// +kubebuilder:printcolumn:name="Protection",type=string,JSONPath=`.status.backup.protectionLevel`,priority=1
// +kubebuilder:printcolumn:name="Protected Until",type=string,JSONPath=`.status.backup.protectedUntil`,priority=1
// +kubebuilder:printcolumn:name="Hibernated",type=string,JSONPath=`.status.conditions[?(@.type=="Hibernated")].reason`,priority=1
// +kubebuilder:validation:XValidation:optionalOldSelf=true,rule="oldSelf.hasValue() || self.metadata.name.size() <= 52",message="metadata.name: at most 52 characters, because pods carry a label of this name, a hyphen and ten more, and a label has at most 63: choose a shorter name"
// +kubebuilder:validation:XValidation:optionalOldSelf=true,rule="oldSelf.hasValue() || self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name: must begin with a letter and hold lower-case letters, digits and hyphens alone, because Services are named after it: choose such a name"
// +kubebuilder:validation:XValidation:optionalOldSelf=true,rule="oldSelf.hasValue() || !((has(self.spec.volumeClaimTemplate) && size(self.spec.volumeClaimTemplate) > 0 ? self.spec.volumeClaimTemplate : self.metadata.name) in ['etcd-config-file', 'sidecar-token', 'etcd-scratch', 'backup-restore-scratch', 'kube-api-access', 'etcd-ca', 'etcd-server-tls', 'etcd-client-tls', 'etcd-user', 'etcd-peer-ca', 'etcd-peer-server-tls', 'backup-restore-ca', 'backup-restore-server-tls', 'backup-restore-client-tls', 'etcd-backup-secret', 'local-backup'])",fieldPath=".spec.volumeClaimTemplate",message="the pods have another volume of the name that is set here, or else of the name of the Etcd: choose another one"
// +kubebuilder:validation:XValidation:optionalOldSelf=true,rule="oldSelf.hasValue() || !has(self.spec.etcd.additionalAdvertisePeerURLs) || self.spec.etcd.additionalAdvertisePeerURLs.all(m, m.memberName.matches('-(0|[1-9][0-9]{0,3})$') && (has(self.spec.memberNamePrefix) ? m.memberName.startsWith(self.spec.memberNamePrefix + '-') && m.memberName.lastIndexOf('-') > size(self.spec.memberNamePrefix) && m.memberName.substring(size(self.spec.memberNamePrefix) + 1, m.memberName.lastIndexOf('-')) == self.metadata.name : m.memberName.substring(0, m.memberName.lastIndexOf('-')) == self.metadata.name))",fieldPath=".spec.etcd.additionalAdvertisePeerURLs",message="each memberName must be the name of a member: [<memberNamePrefix>-]<name of the Etcd>-<index>, such as etcd-main-0"
// +kubebuilder:validation:XValidation:rule="(!has(self.spec.etcd.additionalAdvertisePeerURLs) || self.spec.etcd.additionalAdvertisePeerURLs.all(m, m.memberName.matches('-(0|[1-9][0-9]{0,3})$') && (has(self.spec.memberNamePrefix) ? m.memberName.startsWith(self.spec.memberNamePrefix + '-') && m.memberName.lastIndexOf('-') > size(self.spec.memberNamePrefix) && m.memberName.substring(size(self.spec.memberNamePrefix) + 1, m.memberName.lastIndexOf('-')) == self.metadata.name : m.memberName.substring(0, m.memberName.lastIndexOf('-')) == self.metadata.name))) || !(!has(oldSelf.spec.etcd.additionalAdvertisePeerURLs) || oldSelf.spec.etcd.additionalAdvertisePeerURLs.all(m, m.memberName.matches('-(0|[1-9][0-9]{0,3})$') && (has(oldSelf.spec.memberNamePrefix) ? m.memberName.startsWith(oldSelf.spec.memberNamePrefix + '-') && m.memberName.lastIndexOf('-') > size(oldSelf.spec.memberNamePrefix) && m.memberName.substring(size(oldSelf.spec.memberNamePrefix) + 1, m.memberName.lastIndexOf('-')) == oldSelf.metadata.name : m.memberName.substring(0, m.memberName.lastIndexOf('-')) == oldSelf.metadata.name)))",fieldPath=".spec.etcd.additionalAdvertisePeerURLs",message="each memberName must be the name of a member: [<memberNamePrefix>-]<name of the Etcd>-<index>, such as etcd-main-0"
// +kubebuilder:validation:XValidation:optionalOldSelf=true,rule="oldSelf.hasValue() || !has(self.spec.etcd.additionalAdvertisePeerURLs) || self.spec.replicas == 0 || self.spec.etcd.additionalAdvertisePeerURLs.all(m, !m.memberName.matches('-[0-9]{1,4}$') || int(m.memberName.substring(m.memberName.lastIndexOf('-') + 1)) < self.spec.replicas)",fieldPath=".spec.etcd.additionalAdvertisePeerURLs",message="the index at the end of each memberName must be lower than replicas: remove the entries of members that the cluster shall not have, or raise replicas"
// +kubebuilder:validation:XValidation:rule="(!has(self.spec.etcd.additionalAdvertisePeerURLs) || self.spec.replicas == 0 || self.spec.etcd.additionalAdvertisePeerURLs.all(m, !m.memberName.matches('-[0-9]{1,4}$') || int(m.memberName.substring(m.memberName.lastIndexOf('-') + 1)) < self.spec.replicas)) || !(!has(oldSelf.spec.etcd.additionalAdvertisePeerURLs) || oldSelf.spec.replicas == 0 || oldSelf.spec.etcd.additionalAdvertisePeerURLs.all(m, !m.memberName.matches('-[0-9]{1,4}$') || int(m.memberName.substring(m.memberName.lastIndexOf('-') + 1)) < oldSelf.spec.replicas))",fieldPath=".spec.etcd.additionalAdvertisePeerURLs",message="the index at the end of each memberName must be lower than replicas: remove the entries of members that the cluster shall not have, or raise replicas"
// +kubebuilder:validation:XValidation:optionalOldSelf=true,rule="oldSelf.hasValue() || !has(self.spec.etcd.bootstrapWithExistingCluster) || !self.spec.etcd.bootstrapWithExistingCluster.members.exists(m, m.name.matches('-[0-9]+$') && (has(self.spec.memberNamePrefix) ? m.name.startsWith(self.spec.memberNamePrefix + '-') && m.name.lastIndexOf('-') > size(self.spec.memberNamePrefix) && m.name.substring(size(self.spec.memberNamePrefix) + 1, m.name.lastIndexOf('-')) == self.metadata.name : m.name.substring(0, m.name.lastIndexOf('-')) == self.metadata.name))",fieldPath=".spec.etcd.bootstrapWithExistingCluster.members",message="a member of the existing cluster has the name that a member of this Etcd gets: set memberNamePrefix, or name the Etcd differently"
// +kubebuilder:validation:XValidation:rule="(!has(self.spec.etcd.bootstrapWithExistingCluster) || !self.spec.etcd.bootstrapWithExistingCluster.members.exists(m, m.name.matches('-[0-9]+$') && (has(self.spec.memberNamePrefix) ? m.name.startsWith(self.spec.memberNamePrefix + '-') && m.name.lastIndexOf('-') > size(self.spec.memberNamePrefix) && m.name.substring(size(self.spec.memberNamePrefix) + 1, m.name.lastIndexOf('-')) == self.metadata.name : m.name.substring(0, m.name.lastIndexOf('-')) == self.metadata.name))) || !(!has(oldSelf.spec.etcd.bootstrapWithExistingCluster) || !oldSelf.spec.etcd.bootstrapWithExistingCluster.members.exists(m, m.name.matches('-[0-9]+$') && (has(oldSelf.spec.memberNamePrefix) ? m.name.startsWith(oldSelf.spec.memberNamePrefix + '-') && m.name.lastIndexOf('-') > size(oldSelf.spec.memberNamePrefix) && m.name.substring(size(oldSelf.spec.memberNamePrefix) + 1, m.name.lastIndexOf('-')) == oldSelf.metadata.name : m.name.substring(0, m.name.lastIndexOf('-')) == oldSelf.metadata.name)))",fieldPath=".spec.etcd.bootstrapWithExistingCluster.members",message="a member of the existing cluster has the name that a member of this Etcd gets: set memberNamePrefix, or name the Etcd differently"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.conditions) || !oldSelf.status.conditions.exists(c, c.type == 'BootstrappedWithExistingCluster' && c.status == 'False') || (has(self.spec.etcd.bootstrapWithExistingCluster) == has(oldSelf.spec.etcd.bootstrapWithExistingCluster) && (!has(self.spec.etcd.bootstrapWithExistingCluster) || self.spec.etcd.bootstrapWithExistingCluster == oldSelf.spec.etcd.bootstrapWithExistingCluster))",fieldPath=".spec.etcd.bootstrapWithExistingCluster",message="cannot be changed while the members join the existing cluster: wait until the condition BootstrappedWithExistingCluster is True, or give the move up as docs/operations/moving-in.md says"
type Etcd struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What the cluster shall be.
	// +required
	Spec EtcdSpec `json:"spec"`
	// What the operator last saw of it. Only the operator writes it.
	// +optional
	Status EtcdStatus `json:"status,omitempty"`
}

// EtcdList is a list of Etcds.
//
// +kubebuilder:object:root=true
type EtcdList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Etcd `json:"items"`
}

// EtcdSpec is what a cluster shall be.
//
// +kubebuilder:validation:XValidation:rule="has(self.storageClass) == has(oldSelf.storageClass) && (!has(self.storageClass) || self.storageClass == oldSelf.storageClass)",fieldPath=".storageClass",message="cannot be changed, set or removed later, because a volume keeps the class it was made with: make a new Etcd with the wanted class and restore the backup into it"
// +kubebuilder:validation:XValidation:rule="has(self.volumeClaimTemplate) == has(oldSelf.volumeClaimTemplate) && (!has(self.volumeClaimTemplate) || self.volumeClaimTemplate == oldSelf.volumeClaimTemplate)",fieldPath=".volumeClaimTemplate",message="cannot be changed, set or removed later, because the volumes are found by it: make a new Etcd and restore the backup into it"
// +kubebuilder:validation:XValidation:rule="has(self.memberNamePrefix) == has(oldSelf.memberNamePrefix) && (!has(self.memberNamePrefix) || self.memberNamePrefix == oldSelf.memberNamePrefix)",fieldPath=".memberNamePrefix",message="cannot be changed, set or removed later, because members keep their names: make a new Etcd and restore the backup into it"
// +kubebuilder:validation:XValidation:rule="[self.etcd.?clientPort.orValue(2379), self.etcd.?serverPort.orValue(2380), self.etcd.?wrapperPort.orValue(9095)].all(p, p != self.backup.?port.orValue(8080)) && self.etcd.?clientPort.orValue(2379) != self.etcd.?serverPort.orValue(2380) && self.etcd.?clientPort.orValue(2379) != self.etcd.?wrapperPort.orValue(9095) && self.etcd.?serverPort.orValue(2380) != self.etcd.?wrapperPort.orValue(9095)",message="etcd.clientPort, etcd.serverPort, etcd.wrapperPort and backup.port are ports of one pod: give each another number"
// +kubebuilder:validation:XValidation:rule="!has(self.hibernation) || !has(self.hibernation.volumes) || self.hibernation.volumes != 'Delete' || has(self.backup.store)",fieldPath=".hibernation.volumes",message="can be Delete only with backups, because without volumes the cluster wakes up from the bucket: configure backup.store, or write Keep"
type EtcdSpec struct {
	// Put before the name of each member, with a hyphen: member <prefix>-<Etcd>-<index>. Pods,
	// volumes and Services keep their names. It keeps the names of members apart when clusters are
	// joined. At most 63 characters. Default: no prefix. Cannot be changed.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must hold lower-case letters, digits and hyphens alone, and begin and end with a letter or digit"
	// +optional
	MemberNamePrefix *string `json:"memberNamePrefix,omitempty"`
	// Deprecated: write the labels into labels. The pods carry the labels of matchLabels in
	// addition to those of labels, so that whoever selects with them finds the pods. The StatefulSet
	// selects by app.kubernetes.io/managed-by and app.kubernetes.io/part-of, the Services by app.kubernetes.io/component too.
	// matchExpressions is refused.
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.size() == 0",message="matchExpressions select nothing: write the labels that the pods shall carry into spec.labels"
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// Labels of the pods, besides those that the operator sets, which win: those that begin with
	// app.kubernetes.io/ and are listed in the documentation. May be empty: {}.
	// +kubebuilder:validation:MaxProperties=256
	// +required
	Labels map[string]string `json:"labels"`
	// Annotations of the pods, besides those that the operator sets. Default: none.
	// +kubebuilder:validation:MaxProperties=256
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
	// The etcd process. May be empty: {}.
	// +required
	Etcd EtcdConfig `json:"etcd"`
	// The sidecar and the backups. May be empty: {}, which makes no backups.
	// +required
	Backup BackupSpec `json:"backup"`
	// How etcd drops old revisions.
	// +kubebuilder:default={}
	// +optional
	SharedConfig *SharedConfig `json:"sharedConfig,omitempty"`
	// Where the pods may run. Default: by preference on different nodes and in different zones.
	// +optional
	SchedulingConstraints SchedulingConstraints `json:"schedulingConstraints,omitempty"`
	// How many members the cluster has: an odd number, because an even one survives no more
	// failures than the odd one below it and needs more members to agree; or 0, which has the cluster
	// fall asleep: clients are refused first, and all pods stop once a final full snapshot is proven to
	// hold everything, if there is a store. Everything needed to wake up is kept, the volumes too unless
	// hibernation.volumes says otherwise. More members join one after the other; fewer leave the cluster
	// before their pods go.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=99
	// +kubebuilder:validation:XValidation:rule="self == 0 || self % 2 == 1",message="must be 0 or odd: an even number of members survives no more failures than one member fewer, and needs more of them to agree; take one more or one fewer"
	// +required
	Replicas int32 `json:"replicas"`
	// Name of the PriorityClass of the pods. Default: that of the cluster.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	PriorityClassName *string `json:"priorityClassName,omitempty"`
	// Name of the StorageClass of the volumes. Default: that of the cluster. Cannot be changed.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	StorageClass *string `json:"storageClass,omitempty"`
	// Size of each volume, such as 25Gi, at least 256Mi. Default: 16Gi. It must hold the database (etcd.quota), its
	// log, and while a full snapshot is made or restored a copy of it. It may be raised: the volumes
	// grow where their class can, otherwise the members get new ones one after the other. It cannot
	// be lowered.
	// +kubebuilder:validation:XValidation:rule="string(self).matches('^[0-9]{1,15}([.][0-9]{1,9})?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|[eE][0-9]{1,2})?$') && quantity(string(self)).compareTo(quantity('256Mi')) >= 0",message="must be a quantity of at least 256Mi, such as 16Gi: etcd's empty log takes 128 MB"
	// +kubebuilder:validation:XValidation:rule="!string(self).matches('^[0-9]{1,15}([.][0-9]{1,9})?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|[eE][0-9]{1,2})?$') || quantity(string(self)).compareTo(quantity(string(oldSelf))) >= 0",message="cannot be lowered, because volumes cannot shrink: keep the value, or make a new Etcd with smaller volumes and restore the backup into it"
	// +kubebuilder:default="16Gi"
	// +optional
	StorageCapacity *resource.Quantity `json:"storageCapacity,omitempty"`
	// Name of the template of the volume claims: a claim is <this>-<Etcd>-<index>, and the volume in the pods
	// has this name. Default: the name of the Etcd. Cannot be changed.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.size() <= 63",message="at most 63 characters, because the volume in the pods has this name: choose a shorter name"
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must hold lower-case letters, digits and hyphens alone, and begin and end with a letter or digit, because the volume in the pods has this name: choose such a name"
	// +optional
	VolumeClaimTemplate *string `json:"volumeClaimTemplate,omitempty"`
	// Run the containers as root instead of user and group 65532, with the capabilities DAC_OVERRIDE and FOWNER alone, by which they can
	// use what that user left on the volumes. Needed only where a volume cannot be given to a group; the way back needs one that can,
	// as it is then of root. Default: false.
	// +kubebuilder:default=false
	// +optional
	RunAsRoot *bool `json:"runAsRoot,omitempty"`
	// What happens when replicas becomes 0. Default: the members stop when a final full snapshot is in the
	// bucket, proven and, where immutability asks for that, locked; the volumes stay.
	// +optional
	Hibernation *HibernationSpec `json:"hibernation,omitempty"`
}

// SharedConfig is how etcd drops old revisions.
//
// +kubebuilder:validation:XValidation:rule="!has(self.autoCompactionRetention) || self.autoCompactionRetention.matches('^[0-9]+$') || ((!has(self.autoCompactionMode) || self.autoCompactionMode == 'periodic') && self.autoCompactionRetention.matches('^([0-9]+([.][0-9]+)?(ns|us|µs|ms|s|m|h))+$'))",fieldPath=".autoCompactionRetention",message="must be a duration such as 30m or 8h with autoCompactionMode: periodic, and a number of revisions such as \"1000\" with autoCompactionMode: revision"
type SharedConfig struct {
	// Whether autoCompactionRetention is a time (periodic) or a number of revisions (revision).
	// Default: periodic.
	// +kubebuilder:default=periodic
	// +optional
	AutoCompactionMode *CompactionMode `json:"autoCompactionMode,omitempty"`
	// How far back etcd keeps old revisions: a duration such as 30m or 8h, a bare number being hours,
	// with periodic; a number of revisions with revision. "0" keeps all. Default: 30m.
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:default="30m"
	// +optional
	AutoCompactionRetention *string `json:"autoCompactionRetention,omitempty"`
}

// CompactionMode says what autoCompactionRetention counts.
//
// +kubebuilder:validation:Enum=periodic;revision
type CompactionMode string

// The modes of compaction.
const (
	CompactionPeriodic CompactionMode = "periodic"
	CompactionRevision CompactionMode = "revision"
)

// SchedulingConstraints say where the pods may run. With either of them the operator adds no
// preference of its own.
type SchedulingConstraints struct {
	// Copied to the pods as it is. Default: none.
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`
	// Copied to the pods as they are. Default: none.
	// +optional
	TopologySpreadConstraints []corev1.TopologySpreadConstraint `json:"topologySpreadConstraints,omitempty"`
}
