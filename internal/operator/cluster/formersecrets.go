package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/operator/kube"
)

// The original put its finalizer on the Secrets that its Etcds named. The operator takes it off those that no Etcd names
// any more: of an Etcd that is deleted, and those that a specification named before. That is all that the
// admission policies let it change of a Secret; without them it has no right to that either, and tells of those Secrets.

// releaseSecrets takes the original's finalizer off those of the Secrets that no Etcd needs.
func (r *Reconciler) releaseSecrets(ctx context.Context, e *druidv1alpha1.Etcd, names []string) error {
	var others druidv1alpha1.EtcdList
	if err := r.client.List(ctx, &others, client.InNamespace(e.Namespace)); err != nil {
		return fmt.Errorf("list the Etcds: %w", err)
	}
	var kept []string
	var errs []error
	for _, name := range unneeded(e, others.Items, names) {
		s, err := r.secret(ctx, e, name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if s == nil || !controllerutil.ContainsFinalizer(s, druidv1alpha1.Finalizer) {
			continue
		}
		switch err := r.releaseSecret(ctx, s); {
		case apierrors.IsForbidden(err):
			kept = append(kept, name)
		case client.IgnoreNotFound(err) != nil:
			errs = append(errs, fmt.Errorf("take the finalizer of the original off Secret %s: %w", name, err))
		}
	}
	if len(kept) > 0 {
		r.event(e, SecretsKept, fmt.Sprintf("no Etcd needs %s any more, and the finalizer %s, which the original put there, keeps them from being deleted: take it away as docs/operations/taking-over.md says",
			strings.Join(kept, ", "), druidv1alpha1.Finalizer))
	}
	return errors.Join(errs...)
}

func (r *Reconciler) releaseSecret(ctx context.Context, s *corev1.Secret) error {
	before := s.DeepCopy()
	controllerutil.RemoveFinalizer(s, druidv1alpha1.Finalizer)
	if err := r.client.Patch(ctx, s, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(kube.FieldManager)); err != nil {
		return err
	}
	r.log(ctx).Info("the finalizer of the original was taken off a Secret that no Etcd needs", "namespace", s.Namespace, "secret", s.Name)
	return nil
}

// unneeded are those of the names that no Etcd has which is not being deleted.
func unneeded(e *druidv1alpha1.Etcd, all []druidv1alpha1.Etcd, names []string) (free []string) {
	var used []string
	for i := range all {
		if o := &all[i]; o.UID != e.UID && o.DeletionTimestamp == nil {
			used = append(used, druidv1alpha1.SecretNames(o.Secrets())...)
		}
	}
	if e.DeletionTimestamp == nil { // it may be newer than what is listed of it
		used = append(used, druidv1alpha1.SecretNames(e.Secrets())...)
	}
	for _, name := range names {
		if !slices.Contains(used, name) {
			free = append(free, name)
		}
	}
	return free
}

// formerSecrets are those that pods were to read until now, and are not to any more.
func formerSecrets(before *appsv1.StatefulSet, now client.Object) []string {
	if next, is := now.(*appsv1.StatefulSet); is && before != nil {
		read := secretsOfPods(next)
		return slices.DeleteFunc(secretsOfPods(before), func(name string) bool { return slices.Contains(read, name) })
	}
	return nil
}

func secretsOfPods(s *appsv1.StatefulSet) (names []string) {
	pod := s.Spec.Template.Spec
	for _, v := range pod.Volumes {
		if v.Secret != nil {
			names = append(names, v.Secret.SecretName)
		}
	}
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		for _, v := range c.Env {
			if v.ValueFrom != nil && v.ValueFrom.SecretKeyRef != nil {
				names = append(names, v.ValueFrom.SecretKeyRef.Name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
