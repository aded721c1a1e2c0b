package cluster

import (
	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

// sharedHold is why members do not sleep that joined a cluster outside: those outside vote in it
// too, and might be no majority. Empty: there is nothing in the way.
func sharedHold(o *Observed) string {
	if o.Etcd.Spec.Etcd.BootstrapWithExistingCluster == nil {
		return ""
	}
	for i := range o.Members {
		if o.Members[i].Status.ID != nil {
			return "spec.etcd.bootstrapWithExistingCluster to be removed: the members outside, which it names, would lose their majority if all members here went"
		}
	}
	return ""
}

// joined is the cluster that the members joined, as the status remembers it once they have.
func joined(s druidv1alpha1.EtcdStatus, e *druidv1alpha1.Etcd) *druidv1alpha1.BootstrapWithExistingClusterStatus {
	b := e.Spec.Etcd.BootstrapWithExistingCluster
	c := druidv1alpha1.FindCondition(s.Conditions, druidv1alpha1.ConditionBootstrappedWithExistingCluster)
	if s.BootstrapWithExistingCluster != nil || b == nil || c == nil || c.Status != druidv1alpha1.ConditionTrue {
		return s.BootstrapWithExistingCluster
	}
	return &druidv1alpha1.BootstrapWithExistingClusterStatus{JoinedAt: c.LastTransitionTime, Members: b.Members}
}
