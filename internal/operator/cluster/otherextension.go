package cluster

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

// otherExtension finds the task that somebody made to prolong the locks of an Etcd that sleeps or wakes up. While it stands
// none of the operator's own may: it would be rejected, and made again.
func (r *Reconciler) otherExtension(o *Observed) error {
	e := o.Etcd
	if o.Extension != nil && !o.Extension.Status.State.Ended() || e.NoMembers() == "" && e.Status.Hibernation == nil {
		return nil
	}
	tasks, err := inNamespace[*druidv1alpha1.EtcdOperatorTask](r.stores, e.Namespace)
	if err != nil {
		return err
	}
	if t := othersTask(e, tasks); t != nil {
		o.ExtensionPods = nil
		return r.extensions(o, t)
	}
	if taken := func(t *druidv1alpha1.EtcdOperatorTask) bool {
		return t.Name == e.HibernationTaskName() && !metav1.IsControlledBy(t, e)
	}; o.Extension == nil && slices.ContainsFunc(tasks, taken) {
		o.NoExtension = "somebody made another one of the name " + e.HibernationTaskName() + ", which is the operator's: delete it"
	}
	return nil
}

// othersTask is one that is at work; nil: none is.
func othersTask(e *druidv1alpha1.Etcd, all []*druidv1alpha1.EtcdOperatorTask) *druidv1alpha1.EtcdOperatorTask {
	for _, t := range all {
		owner := t.Spec.OwnerEtcdReference
		if strings.TrimSuffix(string(t.Spec.Type), "Task") == string(druidv1alpha1.TaskExtendFullSnapshotImmutability) && !metav1.IsControlledBy(t, e) &&
			owner != nil && owner.Name == e.Name && t.Status.State == druidv1alpha1.TaskInProgress && t.DeletionTimestamp == nil {
			return t
		}
	}
	return nil
}

// anothers: somebody else's task prolongs the locks.
func (o *Observed) anothers() bool {
	return o.Extension != nil && !metav1.IsControlledBy(o.Extension, o.Etcd)
}
