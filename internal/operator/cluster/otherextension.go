package cluster

import (
	"context"
	"fmt"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

// otherExtension finds the task that somebody made to prolong the locks of an Etcd that sleeps or wakes up. While it stands
// none of the operator's own may: it would be rejected, and made again.
func (r *Reconciler) otherExtension(ctx context.Context, o *Observed) error {
	e := o.Etcd
	if o.Extension != nil && !o.Extension.Status.State.Ended() || e.Spec.Replicas > 0 && e.Status.Hibernation == nil && !e.RuntimeComponentsDisabled() {
		return nil
	}
	var tasks druidv1alpha1.EtcdOperatorTaskList
	if err := r.cache.List(ctx, &tasks, client.InNamespace(e.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list the EtcdOperatorTasks: %w", err)
	}
	if t := othersTask(e, tasks.Items); t != nil {
		o.ExtensionPods = nil
		return r.extensions(o, t)
	}
	return nil
}

// othersTask is one that is at work; nil: none is.
func othersTask(e *druidv1alpha1.Etcd, all []druidv1alpha1.EtcdOperatorTask) *druidv1alpha1.EtcdOperatorTask {
	for i := range all {
		t := &all[i]
		owner := t.Spec.OwnerEtcdReference
		if strings.TrimSuffix(string(t.Spec.Type), "Task") == string(druidv1alpha1.TaskExtendFullSnapshotImmutability) && t.Name != e.HibernationTaskName() &&
			owner != nil && owner.Name == e.Name && t.Status.State == druidv1alpha1.TaskInProgress && t.DeletionTimestamp == nil {
			return t
		}
	}
	return nil
}

// anothers: somebody else's task prolongs the locks.
func (o *Observed) anothers() bool {
	return o.Extension != nil && o.Extension.Name != o.Etcd.HibernationTaskName()
}
