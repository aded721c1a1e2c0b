package cluster

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/operator/kube"
	"druid.internal/druid/internal/operator/metrics"
	"druid.internal/druid/internal/operator/volumes"
)

// volumeWriter is noted as the writer of what is not applied with the rest: sizes of claims, and the
// annotation with what was done about them.
const volumeWriter = kube.FieldManager + "-volumes"

// carryOut does what was decided about the volumes. Who was faster, or is another object by now, is left
// alone: the next look tells.
func (r *Reconciler) carryOut(ctx context.Context, o *Observed, a volumes.Action, out *outcome) {
	if !a.Acts() {
		return
	}
	out.changed = true
	if a.Kind == volumes.DeletePod {
		if may, err := r.mayGo(ctx, o, a.Pod); !may {
			if err != nil {
				out.fail(codeVolumes, err)
			}
			return
		}
	}
	switch err := r.step(ctx, o, a); {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return
	case err != nil:
		out.fail(codeVolumes, fmt.Errorf("%s: %w", a.Reason, err))
		return
	}
	r.log(ctx).Info("a step about the volumes was taken", "kind", a.Kind, "rule", a.Rule, "reason", a.Reason)
	switch a.Kind {
	case volumes.Expand, volumes.ReplaceTemplate:
		r.event(o.Etcd, VolumesGrow, a.Reason)
	case volumes.DeleteClaim:
		r.event(o.Etcd, VolumeReplaced, a.Reason)
	case volumes.DeletePod:
		r.event(o.Etcd, PodRestarted, a.Reason)
	}
}

func (r *Reconciler) step(ctx context.Context, o *Observed, a volumes.Action) error {
	at := metav1.ObjectMeta{Namespace: o.Etcd.Namespace}
	switch a.Kind {
	case volumes.Expand:
		var errs []error
		for _, c := range a.Claims {
			at.Name = c.Name
			patch := fmt.Appendf(nil, `{"metadata":{"uid":%q},"spec":{"resources":{"requests":{"storage":%q}}}}`, c.UID, a.Size.String())
			errs = append(errs, r.patch(ctx, &corev1.PersistentVolumeClaim{ObjectMeta: at}, patch))
		}
		return errors.Join(errs...)
	case volumes.WriteDown:
		at.Name = a.Member
		member := o.Live[Key{druidv1alpha1.KindEtcdMember, a.Member}]
		patch := fmt.Appendf(nil, `{"metadata":{"uid":%q,"annotations":{%q:%q}}}`, member.GetUID(), druidv1alpha1.AnnotationVolumeActions, a.Record.String())
		return r.patch(ctx, &druidv1alpha1.EtcdMember{ObjectMeta: at}, patch)
	case volumes.ReplaceTemplate:
		at.Name = o.StatefulSet.Name
		uid, version := o.StatefulSet.UID, o.StatefulSet.ResourceVersion
		r.applier.Forget(uid)
		return r.takeAway(ctx, "StatefulSet", &appsv1.StatefulSet{ObjectMeta: at}, client.Preconditions{UID: &uid, ResourceVersion: &version}, client.PropagationPolicy(metav1.DeletePropagationOrphan))
	case volumes.Remind:
		at.Name = o.StatefulSet.Name
		patch := fmt.Appendf(nil, `{"metadata":{"uid":%q,"annotations":{%q:%q}}}`, a.UID, druidv1alpha1.AnnotationClaimGone, a.Claim)
		return r.patch(ctx, &appsv1.StatefulSet{ObjectMeta: at}, patch)
	case volumes.DeleteClaim:
		at.Name = a.Claim
		return r.takeAway(ctx, "PersistentVolumeClaim", &corev1.PersistentVolumeClaim{ObjectMeta: at}, uidIs(a.UID))
	case volumes.DeletePod:
		at.Name = a.Pod
		return r.takeAway(ctx, "Pod", &corev1.Pod{ObjectMeta: at}, uidIs(a.UID))
	}
	return nil
}

// takeAway deletes an object, and counts it.
func (r *Reconciler) takeAway(ctx context.Context, kind string, object client.Object, how ...client.DeleteOption) error {
	err := r.client.Delete(ctx, object, how...)
	if err == nil {
		r.metrics.Object(kind, metrics.Removed)
	}
	return err
}

func uidIs(uid string) client.Preconditions {
	u := types.UID(uid)
	return client.Preconditions{UID: &u}
}

// patch changes an object. The patch names the UID that it is for.
func (r *Reconciler) patch(ctx context.Context, object client.Object, patch []byte) error {
	return r.client.Patch(ctx, object, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(volumeWriter))
}
