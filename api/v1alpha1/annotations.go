package v1alpha1

// Finalizers.
const (
	// Finalizer on Etcds and EtcdCopyBackupsTasks. On Secrets it is the original's: we set none there and remove none.
	Finalizer = "druid.gardener.cloud/etcd-druid"
	// FinalizerOpsTask of the original on EtcdOpsTasks. We set none, and remove it from those that are deleted.
	FinalizerOpsTask = "druid.gardener.cloud/etcd-ops-task"
)

// Annotations of an Etcd. Those whose value is not named count by being there, whatever it is.
const (
	// AnnotationSuspendReconcile: the specification is not applied; the status is still written.
	AnnotationSuspendReconcile = "druid.gardener.cloud/suspend-etcd-spec-reconcile"
	// AnnotationDisableProtection: the webhook lets everybody change the objects of the Etcd.
	AnnotationDisableProtection = "druid.gardener.cloud/disable-etcd-component-protection"
	// AnnotationDisableProtectionOld: the old spelling of druid.gardener.cloud/disable-etcd-component-protection.
	AnnotationDisableProtectionOld = "druid.gardener.cloud/disable-resource-protection"
	// AnnotationDisableRuntimeComponents: only the ConfigMap and a StatefulSet without pods are made.
	AnnotationDisableRuntimeComponents = "druid.gardener.cloud/disable-etcd-runtime-component-creation"
	// AnnotationAllowUnhealthyPodEviction: pods that are not ready may be evicted in any case.
	AnnotationAllowUnhealthyPodEviction = "resources.druid.gardener.cloud/allow-unhealthy-pod-eviction"
	// AnnotationOperation: with the value reconcile, apply the specification once. The operator
	// removes it.
	AnnotationOperation = "druid.gardener.cloud/operation"
	// AnnotationOperationOld: the old spelling of druid.gardener.cloud/operation.
	AnnotationOperationOld = "gardener.cloud/operation"
	// AnnotationTakeOverBackups: write under the prefix of the store although another cluster did
	// until now. The operator removes it when the prefix is this cluster's.
	AnnotationTakeOverBackups = "druid.gardener.cloud/take-over-backups"
	// AnnotationSkipHibernationBackup: "true" has the members stop without a final full snapshot when replicas
	// becomes 0.
	AnnotationSkipHibernationBackup = "shoot.gardener.cloud/skip-hibernation-backup"
)

// Values of the annotation druid.gardener.cloud/operation.
const (
	OperationReconcile = "reconcile" // apply the specification once
)

// Annotations of other objects.
const (
	// AnnotationCreateAsLearner: of an EtcdMember, the member joins a cluster that runs, as the operator and people
	// are told by it. Its sidecar removes it when the member votes, and decides by what it finds, not by this.
	AnnotationCreateAsLearner = "druid.gardener.cloud/create-as-learner"
	// AnnotationVolumeActions: of an EtcdMember, what the operator did about the member's volume or is
	// about to do, so that it is done once. Without it, it may be done again.
	AnnotationVolumeActions = "druid.gardener.cloud/volume-actions"
	// AnnotationConfigMapChecksum: of a pod, the digest of the ConfigMap that it was made with.
	AnnotationConfigMapChecksum = "checksum/etcd-configmap"
	// AnnotationAppliedBy: of a StatefulSet, the digest of what the operator that applied it was
	// configured with: without being asked, another one does not change the pods' template.
	AnnotationAppliedBy = "druid.gardener.cloud/applied-by"
	// AnnotationClaimGone: of a StatefulSet, the uid of the volume claim that went last to be replaced. A
	// change of it has the StatefulSet's controller make the pod at once.
	AnnotationClaimGone = "druid.gardener.cloud/claim-gone"
	// AnnotationConfigMapRead: of a pod, the ConfigMap that it shall have mounted by now. A change of
	// it has the kubelet look at once.
	AnnotationConfigMapRead = "druid.gardener.cloud/etcd-configmap"
	// AnnotationBackupChecksum: of a pod, the digest of where its backups go.
	AnnotationBackupChecksum = "checksum/etcd-backup"
	// AnnotationBackupMeansChecksum: of a pod, the digest of what its backups are made with: image, resources, timeouts.
	AnnotationBackupMeansChecksum = "checksum/etcd-backup-means"
	// AnnotationJobChecksum: of the Job of a task, the digest of what it was made for: a Job that was
	// made for something else is replaced.
	AnnotationJobChecksum = "checksum/etcd-copy-backups-job"
	// AnnotationPeerTLSEnabled: of a member's Lease, true if its etcd has TLS to other members.
	AnnotationPeerTLSEnabled = "member.etcd.gardener.cloud/tls-enabled"
)

// Suspended: the specification is not to be applied.
func (e *Etcd) Suspended() bool { return e.hasAnnotation(AnnotationSuspendReconcile) }

// ProtectionDisabled: everybody may change the objects of the Etcd, as an annotation in either spelling says.
func (e *Etcd) ProtectionDisabled() bool {
	return e.hasAnnotation(AnnotationDisableProtection) || e.hasAnnotation(AnnotationDisableProtectionOld)
}

// RuntimeComponentsDisabled: only the ConfigMap and a StatefulSet without pods are wanted.
func (e *Etcd) RuntimeComponentsDisabled() bool {
	return e.hasAnnotation(AnnotationDisableRuntimeComponents)
}

// NoMembers says why no member is wanted; empty: some are.
func (e *Etcd) NoMembers() string {
	switch {
	case e.Spec.Replicas == 0:
		return "spec.replicas: 0"
	case e.RuntimeComponentsDisabled():
		return "the annotation " + AnnotationDisableRuntimeComponents
	}
	return ""
}

// WantedMembers is how many members there shall be now.
func (e *Etcd) WantedMembers() int32 {
	if e.NoMembers() != "" {
		return 0
	}
	return e.Spec.Replicas
}

// UnhealthyPodEvictionAllowed: pods that are not ready may be evicted in any case.
func (e *Etcd) UnhealthyPodEvictionAllowed() bool {
	return e.hasAnnotation(AnnotationAllowUnhealthyPodEviction)
}

// TakesOverBackups: the backups of another cluster under the same prefix are to be continued.
func (e *Etcd) TakesOverBackups() bool { return e.hasAnnotation(AnnotationTakeOverBackups) }

// ReconcileRequested is the annotation by which somebody asked for the specification to be
// applied, in either spelling, or "" if nobody did.
func (e *Etcd) ReconcileRequested() string {
	for _, name := range []string{AnnotationOperation, AnnotationOperationOld} {
		if e.Annotations[name] == OperationReconcile {
			return name
		}
	}
	return ""
}

func (e *Etcd) hasAnnotation(name string) bool {
	_, ok := e.Annotations[name]
	return ok
}
