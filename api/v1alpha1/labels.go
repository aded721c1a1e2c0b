package v1alpha1

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Labels of objects.
const (
	LabelManagedBy = "app.kubernetes.io/managed-by" // always etcd-druid
	LabelPartOf    = "app.kubernetes.io/part-of"    // the name of the Etcd
	LabelName      = "app.kubernetes.io/name"       // the name of the object, as far as a label can hold it
	LabelComponent = "app.kubernetes.io/component"  // what the object is for: see below
	LabelOwnedBy   = "gardener.cloud/owned-by"      // of an EtcdMember, and of the Job of an exclusion and its pods: the name of its Etcd
)

// Values of the label app.kubernetes.io/managed-by.
const (
	ManagedBy = "etcd-druid" // everything that the operator makes
)

// Values of the label app.kubernetes.io/component.
const (
	ComponentClientService       = "etcd-client-service"          // Service for clients
	ComponentPeerService         = "etcd-peer-service"            // Service by which members find each other
	ComponentConfigMap           = "etcd-configmap"               // configuration of etcd
	ComponentMember              = "etcd-member"                  // EtcdMember
	ComponentMemberLease         = "etcd-member-lease"            // heartbeat of a member
	ComponentSnapshotLease       = "etcd-snapshot-lease"          // of the original: removed when a cluster is taken over
	ComponentPodDisruptionBudget = "etcd-pdb"                     // PodDisruptionBudget
	ComponentRole                = "etcd-role"                    // Role of the pods
	ComponentRoleBinding         = "etcd-role-binding"            // RoleBinding of the pods
	ComponentServiceAccount      = "etcd-service-account"         // ServiceAccount of the pods
	ComponentSidecarToken        = "etcd-sidecar-token"           // Secret with the token of the sidecars' HTTP API
	ComponentStatefulSet         = "etcd-statefulset"             // StatefulSet of the members, and their pods
	ComponentCompactionJob       = "etcd-snapshot-compaction-job" // Job that merges deltas; never set: this operator compacts no backups
	ComponentCopyBackupsJob      = "etcd-copy-backups-job"        // Job of an EtcdCopyBackupsTask
	ComponentExtensionJob        = "etcd-extend-immutability-job" // CronJob of an EtcdOperatorTask that keeps a full locked, and its Jobs
	ComponentCollectionJob       = "etcd-collect-backups-job"     // CronJob of an EtcdOperatorTask that deletes backups, and its Jobs
	ComponentExclusionJob        = "etcd-exclude-snapshots-job"   // Job of an EtcdOperatorTask that leaves snapshots out of restores
	ComponentHibernationTask     = "etcd-hibernation-task"        // EtcdOperatorTask that keeps the newest backup of a hibernated Etcd locked
	ComponentCollectionTask      = "etcd-collection-task"         // EtcdOperatorTask that deletes backups with credentials of its own
)

// SelectorLabels are on every object of the Etcd. The StatefulSet selects by them, which cannot be
// changed; whoever wants the members' pods alone adds LabelComponent: ComponentStatefulSet.
func (e *Etcd) SelectorLabels() map[string]string {
	return map[string]string{LabelManagedBy: ManagedBy, LabelPartOf: e.Name}
}

// MemberPodLabels select the pods of the members and no others, such as those of Jobs.
func (e *Etcd) MemberPodLabels() map[string]string {
	labels := e.SelectorLabels()
	labels[LabelComponent] = ComponentStatefulSet
	return labels
}

// ObjectLabels are the labels of an object of the Etcd.
func (e *Etcd) ObjectLabels(component, name string) map[string]string {
	labels := e.SelectorLabels()
	labels[LabelComponent] = component
	labels[LabelName] = LabelValue(name)
	return labels
}

// PodLabels are the labels of the members' pods: those of the specification, and ours, which win.
func (e *Etcd) PodLabels() map[string]string {
	labels := map[string]string{}
	if s := e.Spec.Selector; s != nil {
		for k, v := range s.MatchLabels {
			labels[k] = v
		}
	}
	for k, v := range e.Spec.Labels {
		labels[k] = v
	}
	for k, v := range e.ObjectLabels(ComponentStatefulSet, e.StatefulSetName()) {
		labels[k] = v
	}
	return labels
}

// MemberLabels are the labels of an EtcdMember.
func (e *Etcd) MemberLabels(ordinal int) map[string]string {
	labels := e.ObjectLabels(ComponentMember, e.MemberName(ordinal))
	labels[LabelOwnedBy] = e.Name
	return labels
}

// JobLabels are the labels of the Job of a task, and of its pods.
func (t *EtcdCopyBackupsTask) JobLabels() map[string]string {
	return map[string]string{
		LabelManagedBy: ManagedBy, LabelPartOf: t.Name, LabelComponent: ComponentCopyBackupsJob, LabelName: t.JobName(),
	}
}

// JobPodLabels are the labels of the pods: those of the specification, and ours, which win.
func (t *EtcdCopyBackupsTask) JobPodLabels() map[string]string {
	labels := map[string]string{}
	for k, v := range t.Spec.PodLabels {
		labels[k] = v
	}
	for k, v := range t.JobLabels() {
		labels[k] = v
	}
	return labels
}

// JobLabels are the labels of the CronJob of a standing task, of its Jobs and of their pods.
func (t *EtcdOperatorTask) JobLabels(component string) map[string]string {
	return map[string]string{
		LabelManagedBy: ManagedBy, LabelPartOf: LabelValue(t.Name), LabelComponent: component, LabelName: LabelValue(t.CronJobName()),
	}
}

// OnceLabels are the labels of the Job of a task that is done once, and of its pods.
func (t *EtcdOperatorTask) OnceLabels(component string) map[string]string {
	labels := t.JobLabels(component)
	labels[LabelName] = t.JobName()
	return labels
}

// maxLabelValue is how long the value of a label may be.
const maxLabelValue = 63

// LabelValue is the name of an object as the value of a label: a colon, which names of Roles have,
// becomes a hyphen, and what is too long ends with ten digits of its digest instead.
func LabelValue(name string) string {
	if len(name) <= maxLabelValue {
		return strings.ReplaceAll(name, ":", "-")
	}
	return strings.ReplaceAll(shortened(name, maxLabelValue), ":", "-")
}

// shortened is a name of at most so many characters: one that is too long ends with ten digits of its
// digest instead.
func shortened(name string, most int) string {
	if len(name) <= most {
		return name
	}
	return strings.TrimRight(name[:most-1-digits], "-._:") + "-" + digest(name)
}

// digits are so many of a digest.
const digits = 10

// digest is the beginning of a text's digest.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])[:digits]
}
