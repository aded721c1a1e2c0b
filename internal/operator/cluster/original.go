package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/operator/adoption"
	"druid.internal/druid/internal/operator/desired"
	"druid.internal/druid/internal/operator/kube"
	"druid.internal/druid/internal/operator/metrics"
)

// foreign: the StatefulSet is as the original made it. It is not touched unless somebody wants the
// specification to be applied.
func (o *Observed) foreign() bool {
	return o.StatefulSet != nil && desired.OfOriginal(o.StatefulSet.Spec.Template.Spec)
}

// originals: pods run that the original's StatefulSet made. Their sidecars cannot be asked as ours can.
func (o *Observed) originals() bool {
	return slices.ContainsFunc(o.Pods, func(p *corev1.Pod) bool { return desired.OfOriginal(p.Spec) })
}

// adopt judges what the original left. Refused is what stands against changing it.
func (p *Plan) adopt(o *Observed) {
	if !o.foreign() {
		return
	}
	found := adoption.Found{Etcd: o.Etcd, StatefulSet: o.StatefulSet, ConfigMap: o.ConfigMap, Pods: o.Pods, Claims: o.Claims, Members: o.Sidecars}
	for _, name := range []string{o.Etcd.FullSnapshotLeaseName(), o.Etcd.DeltaSnapshotLeaseName()} {
		if l, there := o.Live[Key{kindLease, name}]; there {
			found.Leases = append(found.Leases, l)
		}
	}
	p.Adoption = adoption.Judge(found)
	for _, why := range p.Adoption.Refused {
		p.Refused = append(p.Refused, "the cluster of the original is not taken over: "+why)
	}
}

// findOriginal reads what the cache does not hold because it has not got our labels: clusters that the
// original made before it gave its objects those of today. An Etcd that nobody ever looked at has none.
func (r *Reconciler) findOriginal(ctx context.Context, o *Observed) error {
	e := o.Etcd
	if o.StatefulSet == nil && e.Status.ObservedGeneration != nil {
		set := &appsv1.StatefulSet{}
		if found, err := r.readLive(ctx, e, e.StatefulSetName(), set); !found || err != nil {
			return err
		}
		o.StatefulSet = set
		o.Live[Key{"StatefulSet", set.Name}] = set
	}
	if !o.foreign() || maps.Equal(o.StatefulSet.Spec.Selector.MatchLabels, e.SelectorLabels()) {
		return nil
	}
	if o.ConfigMap == nil {
		c := &corev1.ConfigMap{}
		found, err := r.readLive(ctx, e, e.ConfigMapName(), c)
		if err != nil {
			return err
		}
		if found {
			o.ConfigMap = c
			o.Live[Key{"ConfigMap", c.Name}] = c
		}
	}
	return r.unlabelled(ctx, o)
}

// readLive reads an object past the cache. One that belongs to somebody else counts as not there: who
// applies it says so.
func (r *Reconciler) readLive(ctx context.Context, e *druidv1alpha1.Etcd, name string, into client.Object) (found bool, err error) {
	err = r.live.Get(ctx, types.NamespacedName{Namespace: e.Namespace, Name: name}, into)
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read %s past the cache: %w", name, err)
	}
	return belongs(into, e), nil
}

// unlabelled adds the pods and claims of the StatefulSet that have its labels and not ours.
func (r *Reconciler) unlabelled(ctx context.Context, o *Observed) error {
	selector, err := metav1.LabelSelectorAsSelector(o.StatefulSet.Spec.Selector)
	if err != nil || selector.Empty() {
		selector = labels.Nothing()
	}
	with := []client.ListOption{client.InNamespace(o.Etcd.Namespace), client.MatchingLabelsSelector{Selector: selector}}
	var (
		pods   corev1.PodList
		claims corev1.PersistentVolumeClaimList
	)
	for _, list := range []client.ObjectList{&pods, &claims} {
		if err := r.live.List(kube.LimitAnswer(ctx, kube.MaxList), list, with...); err != nil {
			return fmt.Errorf("list %T of the original's %s: %w", list, o.StatefulSet.Name, err)
		}
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		if n, ours := o.Etcd.PodOrdinal(p.Name); ours && o.pod(n) == nil && metav1.IsControlledBy(p, o.StatefulSet) {
			o.Pods = append(o.Pods, p)
		}
	}
	for i := range claims.Items {
		c := &claims.Items[i]
		known := slices.ContainsFunc(o.Claims, func(k *corev1.PersistentVolumeClaim) bool { return k.Name == c.Name })
		if _, ours := o.claimOrdinal(c.Name); ours && !known {
			o.Claims = append(o.Claims, c)
		}
	}
	return r.unlabelledLeases(ctx, o)
}

// unlabelledLeases adds the heartbeats of members and of snapshots that have not got our labels.
func (r *Reconciler) unlabelledLeases(ctx context.Context, o *Observed) error {
	names := []string{o.Etcd.FullSnapshotLeaseName(), o.Etcd.DeltaSnapshotLeaseName()}
	for i := range int(o.replicas()) {
		names = append(names, o.Etcd.MemberLeaseName(i))
	}
	for i, name := range names {
		key := Key{kindLease, name}
		if _, known := o.Live[key]; known {
			continue
		}
		l := &coordinationv1.Lease{}
		found, err := r.readLive(ctx, o.Etcd, name, l)
		if err != nil {
			return err
		}
		if !found {
			continue
		}
		o.Live[key] = l
		if i > 1 { // of a member
			o.Leases = append(o.Leases, *l)
		}
	}
	return nil
}

// relabel gives pods, claims and Leases the labels by which the new StatefulSet, the Services and this operator find them.
func (r *Reconciler) relabel(ctx context.Context, o *Observed, p Plan, out *outcome) {
	if o.foreign() && len(p.Objects) > 0 {
		r.event(o.Etcd, TakingOver, fmt.Sprintf("the cluster of the original is taken over; its pods are replaced one at a time: %d", len(o.Pods)))
	}
	for _, object := range p.Adoption.Relabel {
		patch, err := labelPatch(object)
		if err == nil {
			err = r.client.Patch(ctx, object, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(kube.FieldManager))
		}
		if err != nil {
			out.fail(codeAdopt, fmt.Errorf("label %s of the original: %w", object.GetName(), err))
			return
		}
		out.changed = true
		r.log(ctx).Info("an object of the original was labelled", "name", object.GetName())
	}
}

// orphan deletes the StatefulSet without its pods. The next look finds pods without one, and makes it.
func (r *Reconciler) orphan(ctx context.Context, o *Observed, p Plan) error {
	set := o.StatefulSet
	if set.DeletionTimestamp != nil {
		return nil // its pods are being let go
	}
	uid := set.UID
	err := r.client.Delete(ctx, set.DeepCopy(), client.Preconditions{UID: &uid}, client.PropagationPolicy(metav1.DeletePropagationOrphan))
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete the StatefulSet %s of the original without its pods: %w", set.Name, err)
	}
	r.applier.Forget(uid)
	r.metrics.Object("StatefulSet", metrics.Removed)
	r.log(ctx).Info("the StatefulSet of the original was deleted without its pods, to be made anew", "name", set.Name, "because of", p.Adoption.Replace)
	return nil
}

// labelPatch is a change of the labels of one object and no other of its name.
func labelPatch(o client.Object) ([]byte, error) {
	return json.Marshal(map[string]any{"metadata": map[string]any{"uid": o.GetUID(), "labels": o.GetLabels()}})
}
