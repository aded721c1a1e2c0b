package v1alpha1

import (
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The objects of an Etcd are found by their names, so that a lost status changes nothing. Running
// clusters have volumes and members under these names: they can never change.

// StatefulSetName is the name of the StatefulSet.
func (e *Etcd) StatefulSetName() string { return e.Name }

// ServiceAccountName is the name of the ServiceAccount of the pods.
func (e *Etcd) ServiceAccountName() string { return e.Name }

// PodDisruptionBudgetName is the name of the PodDisruptionBudget.
func (e *Etcd) PodDisruptionBudgetName() string { return e.Name }

// PeerServiceName is the name of the headless Service by which members find each other.
func (e *Etcd) PeerServiceName() string { return e.Name + "-peer" }

// ClientServiceName is the name of the Service for clients.
func (e *Etcd) ClientServiceName() string { return e.Name + "-client" }

// ConfigMapName is the name of the ConfigMap with the configuration of etcd.
func (e *Etcd) ConfigMapName() string { return e.Name + "-config" }

// TokenSecretName is the name of the Secret with the token of the sidecars' HTTP API.
func (e *Etcd) TokenSecretName() string { return e.Name + "-sidecar-token" }

// RoleName is the name of the Role of the pods.
func (e *Etcd) RoleName() string { return Group + ":etcd:" + e.Name }

// RoleBindingName is the name of the RoleBinding of the pods.
func (e *Etcd) RoleBindingName() string { return e.RoleName() }

// FullSnapshotLeaseName is the name of a Lease that the original makes and we do not: it goes when
// a cluster is taken over.
func (e *Etcd) FullSnapshotLeaseName() string { return e.Name + "-full-snap" }

// DeltaSnapshotLeaseName is like FullSnapshotLeaseName.
func (e *Etcd) DeltaSnapshotLeaseName() string { return e.Name + "-delta-snap" }

// LocalHostName is the name that stands for the pod itself in its own hosts file: server
// certificates must hold it.
func (e *Etcd) LocalHostName() string { return e.Name + "-local" }

// PodName is the name of a pod, ordinal from 0.
func (e *Etcd) PodName(ordinal int) string { return e.Name + "-" + strconv.Itoa(ordinal) }

// PodOrdinal is the ordinal of a pod by its name, and whether it can be a pod of this Etcd.
func (e *Etcd) PodOrdinal(pod string) (int, bool) { return ordinal(pod, e.Name) }

// MemberName is the name of a member in etcd and of its EtcdMember: the pod's with the prefix of
// the specification.
func (e *Etcd) MemberName(ordinal int) string { return e.memberPrefix() + e.PodName(ordinal) }

// MemberOrdinal is the ordinal of a member by its name, and whether it can be a member of this
// Etcd.
func (e *Etcd) MemberOrdinal(member string) (int, bool) {
	return ordinal(member, e.memberPrefix()+e.Name)
}

// MemberLeaseName is the name of a member's Lease.
func (e *Etcd) MemberLeaseName(ordinal int) string { return e.MemberName(ordinal) }

// VolumeClaimTemplateName is the name of the template of the volume claims.
func (e *Etcd) VolumeClaimTemplateName() string {
	if t := e.Spec.VolumeClaimTemplate; t != nil && *t != "" {
		return *t
	}
	return e.Name
}

// VolumeClaimName is the name of a pod's volume claim.
func (e *Etcd) VolumeClaimName(ordinal int) string {
	return e.VolumeClaimTemplateName() + "-" + e.PodName(ordinal)
}

// PeerHost is the name under which a pod is found by other members.
func (e *Etcd) PeerHost(ordinal int) string {
	return e.PodName(ordinal) + "." + e.PeerServiceName() + "." + e.Namespace + ".svc"
}

// OwnerReference makes an object the Etcd's: it goes with it, and says whose it is.
func (e *Etcd) OwnerReference() metav1.OwnerReference {
	return *metav1.NewControllerRef(e, Kind(KindEtcd))
}

// HibernationTaskName is the name of the EtcdOperatorTask that keeps the newest backup locked while the Etcd is
// hibernated.
func (e *Etcd) HibernationTaskName() string { return e.Name + "-hibernation" }

// CollectionTaskName is the name of the EtcdOperatorTask that deletes backups with the credentials of the collector.
func (e *Etcd) CollectionTaskName() string { return e.Name + "-collection" }

// JobName is the name of the Job of a task.
func (t *EtcdCopyBackupsTask) JobName() string { return t.Name + "-worker" }

// OwnerReference makes an object the task's.
func (t *EtcdCopyBackupsTask) OwnerReference() metav1.OwnerReference {
	return *metav1.NewControllerRef(t, Kind(KindEtcdCopyBackupsTask))
}

// maxCronJobName is how long the name of a CronJob may be: its Jobs have eleven characters more.
const maxCronJobName = 52

// CronJobName is the name of the CronJob of a standing task: the task's, shortened with ten digits of its
// digest where it is too long.
func (t *EtcdOperatorTask) CronJobName() string { return shortened(t.Name, maxCronJobName) }

// JobName is the name of the Job of a task that is done once. It ends with ten digits of the digest of the task's uid, so
// that a later task of the same name has a Job of its own.
func (t *EtcdOperatorTask) JobName() string { return t.CronJobName() + "-" + digest(string(t.UID)) }

// OwnerReference makes an object the task's.
func (t *EtcdOperatorTask) OwnerReference() metav1.OwnerReference {
	return *metav1.NewControllerRef(t, Kind(KindEtcdOperatorTask))
}

func (e *Etcd) memberPrefix() string {
	if p := e.Spec.MemberNamePrefix; p != nil && *p != "" {
		return *p + "-"
	}
	return ""
}

// ordinal is the number after base and a hyphen. Only the way in which we write a number counts:
// etcd-main-01 is no pod of etcd-main.
func ordinal(name, base string) (int, bool) {
	digits, ok := strings.CutPrefix(name, base+"-")
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(digits)
	if err != nil || n < 0 || strconv.Itoa(n) != digits {
		return 0, false
	}
	return n, true
}
