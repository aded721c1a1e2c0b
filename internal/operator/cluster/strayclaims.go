package cluster

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/operator/kube"
)

// strayWithin is how long the cache has to know of the claims of a pod.
const strayWithin = 30 * time.Second

// strayClaims finds the claims of pods that the cache does not know, as somebody took their labels off, and gives them the labels back:
// whether a claim is being deleted, and with it the last copy of the data, must be known before a pod goes. Of an Etcd that is only
// watched they stay as they are.
func (r *Reconciler) strayClaims(ctx context.Context, o *Observed, mode Mode) error {
	if o.foreign() || o.ClaimsOf != "" {
		return nil
	}
	for _, p := range o.Pods {
		if r.now().Sub(p.CreationTimestamp.Time) < strayWithin {
			continue
		}
		for _, v := range p.Spec.Volumes {
			if v.PersistentVolumeClaim == nil {
				continue
			}
			name := v.PersistentVolumeClaim.ClaimName
			_, ours := o.claimOrdinal(name)
			if !ours || slices.ContainsFunc(o.Claims, func(c *corev1.PersistentVolumeClaim) bool { return c.Name == name }) {
				continue
			}
			if err := r.strayClaim(ctx, o, name, mode); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *Reconciler) strayClaim(ctx context.Context, o *Observed, name string, mode Mode) error {
	e := o.Etcd
	var found corev1.PersistentVolumeClaimList
	if err := r.live.List(ctx, &found, client.InNamespace(e.Namespace), client.MatchingFields{"metadata.name": name}); err != nil {
		return fmt.Errorf("read the volume claim %s, which its pod uses: %w", name, err)
	}
	for i := range found.Items {
		c := &found.Items[i]
		o.Claims = append(o.Claims, c)
		if mode == ModeWatch || c.Labels[druidv1alpha1.LabelManagedBy] == druidv1alpha1.ManagedBy && c.Labels[druidv1alpha1.LabelPartOf] == druidv1alpha1.LabelValue(e.Name) {
			continue // with its labels the cache hears of it later
		}
		head := &corev1.PersistentVolumeClaim{ObjectMeta: c.ObjectMeta}
		head.Labels = map[string]string{druidv1alpha1.LabelManagedBy: druidv1alpha1.ManagedBy, druidv1alpha1.LabelPartOf: druidv1alpha1.LabelValue(e.Name)}
		patch, err := labelPatch(head)
		if err == nil {
			err = r.client.Patch(ctx, head, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(kube.FieldManager))
		}
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("give the volume claim %s its labels back: %w", name, err)
		}
		r.undid(e, fmt.Sprintf("PersistentVolumeClaim %s: somebody took its labels off", name))
	}
	return nil
}
