package copytask

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/operator/kube"
)

// statusOf is the status after a plan was carried out, as far as err says. It depends on its arguments
// alone.
func statusOf(t *druidv1alpha1.EtcdCopyBackupsTask, p Plan, err error, now time.Time) druidv1alpha1.EtcdCopyBackupsTaskStatus {
	s := *t.Status.DeepCopy()
	if p.State == Over {
		if p.Trouble {
			s.LastError = &p.Message
		}
		return s
	}
	if err != nil {
		p.Reason, p.Trouble, p.Acted = druidv1alpha1.ReasonJobNotMade, true, false
		p.Message = strings.Join(strings.Fields(err.Error()), " ")
	}
	p.Message = druidv1alpha1.Cut(p.Message, druidv1alpha1.MaxMessage)
	put := func(of druidv1alpha1.ConditionType, status druidv1alpha1.ConditionStatus) {
		s.Conditions = druidv1alpha1.SetCondition(s.Conditions, druidv1alpha1.Condition{Type: of, Status: status, Reason: p.Reason, Message: p.Message}, metav1.NewTime(now))
	}
	switch p.State {
	case Succeeded:
		put(druidv1alpha1.ConditionSucceeded, druidv1alpha1.ConditionTrue)
	case Failed:
		put(druidv1alpha1.ConditionSucceeded, druidv1alpha1.ConditionFalse)
		put(druidv1alpha1.ConditionFailed, druidv1alpha1.ConditionTrue)
	default:
		put(druidv1alpha1.ConditionSucceeded, druidv1alpha1.ConditionFalse)
	}
	if p.State != Failed {
		s.Conditions = slices.DeleteFunc(s.Conditions, func(c druidv1alpha1.Condition) bool { return c.Type == druidv1alpha1.ConditionFailed })
	}
	s.LastError = nil
	if p.Trouble {
		s.LastError = &p.Message
	}
	if p.Acted {
		generation := t.Generation
		s.ObservedGeneration = &generation
	}
	return s
}

// write patches the status if it differs.
func (r *Reconciler) write(ctx context.Context, t *druidv1alpha1.EtcdCopyBackupsTask, s druidv1alpha1.EtcdCopyBackupsTaskStatus) error {
	if equality.Semantic.DeepEqual(t.Status, s) {
		return nil
	}
	next := t.DeepCopy()
	next.Status = s
	kube.StatusLimits("etcdcopybackupstasks").Clip(&next.Status)
	if err := r.client.Status().Patch(ctx, next, client.MergeFrom(t), client.FieldOwner(kube.FieldManager)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write the status: %w", err)
	}
	if c := druidv1alpha1.FindCondition(s.Conditions, druidv1alpha1.ConditionSucceeded); c != nil {
		r.log(ctx).Info("the task was looked at", "namespace", t.Namespace, "name", t.Name, "succeeded", c.Status, "reason", c.Reason, "message", c.Message)
	}
	return nil
}
