package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/operator/kube"
)

// delete removes everything that was made for an Etcd but its volumes, whose claims nobody owns, and
// its backups. The Etcd goes when nothing is left but the Secret with the token, which goes with it:
// the operator may not delete Secrets.
func (r *Reconciler) delete(ctx context.Context, e *druidv1alpha1.Etcd) (reconcile.Result, error) {
	if !controllerutil.ContainsFinalizer(e, druidv1alpha1.Finalizer) {
		return reconcile.Result{}, nil
	}
	o, err := r.observe(e)
	if err != nil {
		return reconcile.Result{}, err
	}
	if err := r.listen(ctx, o); err != nil {
		return reconcile.Result{}, err
	}
	left, failures := r.removeAll(ctx, o)
	s := *e.Status.DeepCopy()
	s.LastErrors = lastErrors(s.LastErrors, failures, r.now())
	s.LastKnownRevision = revision(o)
	op := druidv1alpha1.LastOperation{
		Type: druidv1alpha1.LastOperationDelete, State: druidv1alpha1.LastOperationProcessing, Description: "the objects of the Etcd are deleted; its volumes and backups stay",
		RunID: string(controller.ReconcileIDFromContext(ctx)), LastUpdateTime: metav1.NewTime(r.now()),
	}
	if stuck := r.stuck(o); len(stuck) > 0 {
		op.Description += "; what does not end: " + strings.Join(stuck, "; ")
	}
	if len(failures) > 0 {
		op.State, op.Description = druidv1alpha1.LastOperationError, s.LastErrors[0].Description
	}
	if last := s.LastOperation; last == nil || last.Type != op.Type || last.State != op.State || last.Description != op.Description {
		if last == nil || last.Type != op.Type {
			r.event(e, Deleting, op.Description)
		}
		s.LastOperation = &op
	}
	if len(left) > 0 || len(failures) > 0 {
		var errs []error
		for _, f := range failures {
			r.metrics.Failure(string(f.code))
			errs = append(errs, f.err)
		}
		errs = append(errs, r.write(ctx, e, s))
		return reconcile.Result{RequeueAfter: deletionPoll}, errors.Join(errs...)
	}
	if err := r.releaseSecrets(ctx, e, druidv1alpha1.SecretNames(append(e.Secrets(), e.UnusedSecrets()...))); err != nil {
		return reconcile.Result{}, err
	}
	before := e.DeepCopy()
	controllerutil.RemoveFinalizer(e, druidv1alpha1.Finalizer)
	if err := r.client.Patch(ctx, e, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(kube.FieldManager)); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("remove the finalizer: %w", err)
	}
	r.log(ctx).Info("the Etcd is gone", "namespace", e.Namespace, "name", e.Name)
	r.snapshots.forget(e.UID)
	r.asking.forget(e.UID)
	r.configs.forget(e.UID)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.tokens, e.UID)
	delete(r.claims, e.UID)
	delete(r.quiet, e.UID)
	delete(r.writes, e.UID)
	delete(r.restored, e.UID)
	delete(r.undone, e.UID)
	return reconcile.Result{}, nil
}

// stuck is what is being deleted for longer than it was given, and what to do about it.
func (r *Reconciler) stuck(o *Observed) (all []string) {
	long := func(object client.Object) bool {
		at := object.GetDeletionTimestamp()
		return at != nil && r.now().Sub(at.Time) > stuckAfter
	}
	for key, object := range o.Live {
		if belongs(object, o.Etcd) && long(object) && len(object.GetFinalizers()) > 0 {
			all = append(all, fmt.Sprintf("%s, which waits for whoever takes the finalizers %s off", key, strings.Join(object.GetFinalizers(), ", ")))
		}
	}
	for _, p := range o.Pods {
		if long(p) {
			all = append(all, "pod "+p.Name+unending)
		}
	}
	slices.Sort(all)
	return all
}

// deletionPoll is how often is looked for what is left, besides whenever something goes.
const deletionPoll = 5 * time.Second

// removeAll deletes what is there, and tells what is left, the pods included. Of theirs the end of the StatefulSet
// takes care; nobody does of those that have none, as it was orphaned, by us when it was to be made anew or by hand.
func (r *Reconciler) removeAll(ctx context.Context, o *Observed) (left []string, failures []failure) {
	e := o.Etcd
	for _, key := range slices.SortedFunc(maps.Keys(o.Live), func(a, b Key) int { return cmp.Compare(a.String(), b.String()) }) {
		object := o.Live[key]
		if !belongs(object, e) {
			continue
		}
		left = append(left, key.String())
		if object.GetDeletionTimestamp() != nil {
			continue
		}
		if err := r.remove(ctx, e, Removal{object, key.Kind, "the Etcd is deleted"}); err != nil {
			failures = append(failures, failure{codeOf("DELETE", object), err})
		}
	}
	for _, p := range o.Pods {
		left = append(left, "Pod "+p.Name)
		if p.DeletionTimestamp != nil || metav1.GetControllerOf(p) != nil || !belongs(p, e) {
			continue
		}
		if err := r.remove(ctx, e, Removal{p, "Pod", "the Etcd is deleted, and the pod has no StatefulSet"}); err != nil {
			failures = append(failures, failure{codeOf("DELETE", p), err})
		}
	}
	return left, failures
}

// belongs: the Etcd controls the object, or nobody does and it carries its labels.
func belongs(object client.Object, e *druidv1alpha1.Etcd) bool {
	if owner := metav1.GetControllerOf(object); owner != nil {
		return owner.UID == e.UID
	}
	l := object.GetLabels()
	return l[druidv1alpha1.LabelManagedBy] == druidv1alpha1.ManagedBy && l[druidv1alpha1.LabelPartOf] == e.Name
}
