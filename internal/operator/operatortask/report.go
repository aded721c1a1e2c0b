package operatortask

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/operator/kube"
	"druid.internal/druid/internal/operator/operatortask/task"
)

// write patches the status if it differs, and fails if somebody wrote the task since it was read: what
// was decided on a former state of it must not be carried out.
func (r *Reconciler) write(ctx context.Context, object client.Object, t *task.Task, s task.Status) error {
	if t.Status.State.Ended() {
		return nil
	}
	before := object.DeepCopyObject().(client.Object)
	r.resource.write(object, s)
	switch o := object.(type) {
	case *druidv1alpha1.EtcdOperatorTask:
		kube.StatusLimits("etcdoperatortasks").Clip(&o.Status)
	case *druidv1alpha1.EtcdOpsTask:
		kube.StatusLimits("etcdopstasks").Clip(&o.Status)
	}
	if equality.Semantic.DeepEqual(before, object) {
		return nil
	}
	if err := r.client.Status().Patch(ctx, object, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(kube.FieldManager)); err != nil {
		return fmt.Errorf("write the status: %w", err)
	}
	if s.State != t.Status.State {
		r.log(ctx).Info("the task changed its state", "kind", t.Kind, "namespace", t.Namespace, "name", t.Name, "etcd", t.Etcd, "type", t.Type, "state", s.State, "reason", s.Reason)
		if s.State.Ended() {
			took := s.Since.Sub(s.Initiated)
			r.metrics.Ended(string(t.Type), string(s.State), t.Etcd, t.Namespace, took)
		}
	}
	return nil
}
