package copytask

import (
	"context"
	"fmt"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/operator/kube"
)

// apply carries a plan out.
func (r *Reconciler) apply(ctx context.Context, o *Observed, p Plan) error {
	if p.Remove != nil {
		return r.remove(ctx, p.Remove, p.Message)
	}
	if p.Make == nil {
		return nil
	}
	var have client.Object
	if o.Job != nil {
		have = o.Job
	}
	done, err := r.applier.Apply(ctx, p.Make, have)
	if err != nil {
		return err
	}
	if done.Created || done.Changed {
		r.log(ctx).Info("the Job was applied", "namespace", p.Make.Namespace, "name", p.Make.Name, "created", done.Created, "takenFrom", strings.Join(done.TakenFrom, ", "))
	}
	return nil
}

// remove deletes a Job, which stays until its pods are gone, unless it has been made anew.
func (r *Reconciler) remove(ctx context.Context, job *batchv1.Job, why string) error {
	err := r.client.Delete(ctx, job.DeepCopy(), client.Preconditions{UID: &job.UID}, client.PropagationPolicy(metav1.DeletePropagationForeground))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete Job %s/%s: %w", job.Namespace, job.Name, err)
	}
	r.applier.Forget(job.UID)
	r.log(ctx).Info("the Job was removed", "namespace", job.Namespace, "name", job.Name, "reason", why)
	return nil
}

// delete lets a task go when nothing of it is left that could still write to the target.
func (r *Reconciler) delete(ctx context.Context, t *druidv1alpha1.EtcdCopyBackupsTask) (reconcile.Result, error) {
	if !controllerutil.ContainsFinalizer(t, druidv1alpha1.Finalizer) {
		return reconcile.Result{}, nil
	}
	o, err := r.observe(ctx, t)
	if err != nil {
		return reconcile.Result{}, err
	}
	job := o.job()
	if job != nil && job.DeletionTimestamp == nil {
		if err := r.remove(ctx, job, "the task is deleted"); err != nil {
			return reconcile.Result{}, err
		}
	}
	if job != nil || len(o.Pods) > 0 {
		if o.Stuck != "" {
			s := *t.Status.DeepCopy()
			s.LastError = new("the task is deleted when all its pods have ended: " + o.Stuck)
			if err := r.write(ctx, t, s); err != nil {
				return reconcile.Result{}, err
			}
		}
		return reconcile.Result{RequeueAfter: deletionPoll}, nil
	}
	before := t.DeepCopy()
	controllerutil.RemoveFinalizer(t, druidv1alpha1.Finalizer)
	if err := r.patch(ctx, t, before); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("remove the finalizer: %w", err)
	}
	r.log(ctx).Info("the task is gone", "namespace", t.Namespace, "name", t.Name)
	return reconcile.Result{}, nil
}

// finalizer keeps the task until its Job is gone.
func (r *Reconciler) finalizer(ctx context.Context, t *druidv1alpha1.EtcdCopyBackupsTask) error {
	if controllerutil.ContainsFinalizer(t, druidv1alpha1.Finalizer) {
		return nil
	}
	before := t.DeepCopy()
	controllerutil.AddFinalizer(t, druidv1alpha1.Finalizer)
	if err := r.patch(ctx, t, before); err != nil {
		return fmt.Errorf("add the finalizer: %w", err)
	}
	return nil
}

func (r *Reconciler) patch(ctx context.Context, t, before *druidv1alpha1.EtcdCopyBackupsTask) error {
	return r.client.Patch(ctx, t, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(kube.FieldManager))
}
