package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

// The original put its finalizer on the Secrets that its Etcds named. The operator may not change Secrets,
// so it tells whose finalizer nobody needs any more, and how to take it away.

// tellOfKeptSecrets names them in an event of an Etcd that is being deleted.
func (r *Reconciler) tellOfKeptSecrets(ctx context.Context, e *druidv1alpha1.Etcd) error {
	var others druidv1alpha1.EtcdList
	if err := r.client.List(ctx, &others, client.InNamespace(e.Namespace)); err != nil {
		return fmt.Errorf("list the Etcds: %w", err)
	}
	var secrets []corev1.Secret
	for _, name := range druidv1alpha1.SecretNames(append(e.Secrets(), e.UnusedSecrets()...)) {
		var s corev1.Secret
		err := r.live.Get(ctx, types.NamespacedName{Namespace: e.Namespace, Name: name}, &s)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("read the Secret %s: %w", name, err)
		}
		if !apierrors.IsNotFound(err) {
			secrets = append(secrets, s)
		}
	}
	if names := keptSecrets(e, others.Items, secrets); len(names) > 0 {
		r.event(e, SecretsKept, fmt.Sprintf("no Etcd needs %s any more, and the finalizer %s, which the original put there, keeps them from being deleted: take it away as docs/operations/taking-over.md says",
			strings.Join(names, ", "), druidv1alpha1.Finalizer))
	}
	return nil
}

// keptSecrets are the names of the Secrets that have the original's finalizer, and that no Etcd needs
// when e is gone. Others that are being deleted do not count.
func keptSecrets(e *druidv1alpha1.Etcd, all []druidv1alpha1.Etcd, secrets []corev1.Secret) (names []string) {
	var used []string
	for i := range all {
		if o := &all[i]; o.UID != e.UID && o.DeletionTimestamp == nil {
			used = append(used, druidv1alpha1.SecretNames(o.Secrets())...)
		}
	}
	for i := range secrets {
		if s := &secrets[i]; slices.Contains(s.Finalizers, druidv1alpha1.Finalizer) && !slices.Contains(used, s.Name) {
			names = append(names, s.Name)
		}
	}
	return names
}
