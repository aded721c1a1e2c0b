package cluster

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

// standingTask is a task that the operator makes by itself. None has a schedule: it is that of its type.
func standingTask(e *druidv1alpha1.Etcd, of druidv1alpha1.TaskType, name, component string) *druidv1alpha1.EtcdOperatorTask {
	ttl := int32(standingTTL / time.Second)
	return &druidv1alpha1.EtcdOperatorTask{
		TypeMeta:   metav1.TypeMeta{APIVersion: druidv1alpha1.GroupVersion().String(), Kind: druidv1alpha1.KindEtcdOperatorTask},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: e.Namespace, Labels: e.ObjectLabels(component, name), OwnerReferences: []metav1.OwnerReference{e.OwnerReference()}},
		Spec:       druidv1alpha1.EtcdOperatorTaskSpec{Type: of, TTLSecondsAfterFinished: &ttl, OwnerEtcdReference: &druidv1alpha1.OwnerEtcdReference{Name: e.Name}},
	}
}

// standingTTL is how long a task stays that has ended although it is needed, such as one beside which somebody made
// another: then it is made anew.
const standingTTL = 10 * time.Minute

// extensionTask keeps the newest backup locked.
func extensionTask(e *druidv1alpha1.Etcd) *druidv1alpha1.EtcdOperatorTask {
	return standingTask(e, druidv1alpha1.TaskExtendFullSnapshotImmutability, e.HibernationTaskName(), druidv1alpha1.ComponentHibernationTask)
}

// collectionTask deletes what retention lets go.
func collectionTask(e *druidv1alpha1.Etcd) *druidv1alpha1.EtcdOperatorTask {
	return standingTask(e, druidv1alpha1.TaskCollectBackups, e.CollectionTaskName(), druidv1alpha1.ComponentCollectionTask)
}

// standingTasks has those tasks be there that the Etcd needs: one to prolong the locks of the newest backup, one to collect
// with credentials of its own.
func (p *Plan) standingTasks(o *Observed) {
	e := o.Etcd
	p.standing(o, extensionTask(e), p.Sleep.Extend, o.lacksExtension(), "nothing is to be kept locked for a hibernation")
	p.standing(o, collectionTask(e), collects(e), !o.CollectionTaken, "the sidecars collect, or nobody does")
}

// lacksExtension: the operator may make a task that prolongs locks. Where another one has its name the condition tells.
func (o *Observed) lacksExtension() bool { return !o.anothers() && o.NoExtension == "" }

// keepLocked makes the task anew by which, as was applied, the lock of the final full is prolonged of a cluster that sleeps or wakes
// up. It does so also while a change waits to be asked for, or is refused: the lock would end.
func (p *Plan) keepLocked(o *Observed) {
	if h := p.Hibernation; h != nil && h.EtcdUID == o.Etcd.UID && h.FinalSnapshot != nil && immutabilityOf(o.Etcd.AsApplied()) != nil {
		p.standing(o, extensionTask(o.Etcd), true, o.lacksExtension(), "")
	}
}

// standing has a task stay while it is needed, and made if it may begin.
func (p *Plan) standing(o *Observed, task *druidv1alpha1.EtcdOperatorTask, needed, begins bool, otherwise string) {
	live, there := o.Live[keyOf(task)]
	switch {
	case needed && begins && !there:
		p.Objects = append(p.Objects, task)
	case !needed && there && live.GetDeletionTimestamp() == nil && metav1.IsControlledBy(live, o.Etcd):
		p.Remove = append(p.Remove, Removal{live, druidv1alpha1.KindEtcdOperatorTask, otherwise})
	}
}

// collects: somebody else than the sidecars deletes what retention lets go.
func collects(e *druidv1alpha1.Etcd) bool {
	_, named := e.CollectorSecret()
	return named && e.CollectionPeriod() > 0
}
