package operatortask

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/operator/kube"
)

// apply makes and removes the CronJob or Job of a task.
func (r *Reconciler) apply(ctx context.Context, o *Observed, p Plan) error {
	if j := p.Remove; j != nil && j.GetDeletionTimestamp() == nil {
		uid := j.GetUID()
		err := r.client.Delete(ctx, j.DeepCopyObject().(client.Object), client.Preconditions{UID: &uid}, client.PropagationPolicy(metav1.DeletePropagationBackground))
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete %s %s/%s: %w", kindOf(j), j.GetNamespace(), j.GetName(), err)
		}
		r.applier.Forget(uid)
		r.log(ctx).Info("the "+kindOf(j)+" was removed", "namespace", j.GetNamespace(), "name", j.GetName(), "reason", p.Reason)
	}
	if p.Make == nil {
		return nil
	}
	done, err := r.applier.Apply(ctx, p.Make, o.made())
	if err != nil {
		return err
	}
	if done.Created || done.Changed {
		r.log(ctx).Info("the "+kindOf(p.Make)+" was applied", "namespace", p.Make.GetNamespace(), "name", p.Make.GetName(), "created", done.Created)
	}
	return nil
}

// kindOf is for people: what a cache gives does not say its kind.
func kindOf(o client.Object) string {
	if _, is := o.(*batchv1.Job); is {
		return "Job"
	}
	return "CronJob"
}

// belong has the task go with its Etcd.
func (r *Reconciler) belong(ctx context.Context, object client.Object, e *druidv1alpha1.Etcd) error {
	for _, o := range object.GetOwnerReferences() {
		if o.UID == e.UID {
			return nil
		}
	}
	before := object.DeepCopyObject().(client.Object)
	object.SetOwnerReferences(append(object.GetOwnerReferences(), metav1.OwnerReference{
		APIVersion: druidv1alpha1.GroupVersion().String(), Kind: druidv1alpha1.KindEtcd, Name: e.Name, UID: e.UID,
	}))
	return r.patch(ctx, object, before)
}

// let removes the finalizer that the original's operator set, without which it would be waited for.
func (r *Reconciler) let(ctx context.Context, object client.Object) error {
	if !controllerutil.ContainsFinalizer(object, druidv1alpha1.FinalizerOpsTask) {
		return nil
	}
	before := object.DeepCopyObject().(client.Object)
	controllerutil.RemoveFinalizer(object, druidv1alpha1.FinalizerOpsTask)
	return client.IgnoreNotFound(r.patch(ctx, object, before))
}

func (r *Reconciler) patch(ctx context.Context, object, before client.Object) error {
	return r.client.Patch(ctx, object, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(kube.FieldManager))
}

// remove deletes a task whose time is over.
func (r *Reconciler) remove(ctx context.Context, object client.Object) error {
	uid := object.GetUID()
	err := r.client.Delete(ctx, object, client.Preconditions{UID: &uid}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete the task: %w", err)
	}
	r.log(ctx).Info("the task was deleted: its time after the end is over", "namespace", object.GetNamespace(), "name", object.GetName())
	return nil
}
