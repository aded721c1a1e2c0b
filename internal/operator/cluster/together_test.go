package cluster

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"druid.internal/druid/internal/operator/rollout"
)

// added notes what is added, and after how long.
type added struct {
	queue
	after []time.Duration
}

func (a *added) Add(reconcile.Request)                          { a.after = append(a.after, 0) }
func (a *added) AddAfter(_ reconcile.Request, by time.Duration) { a.after = append(a.after, by) }

func TestChangesOfObjectsAreLookedAtTogetherAndTheBeginningAtOnce(t *testing.T) {
	h := together(handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{}}
	}))
	ctx, pod := t.Context(), &corev1.Pod{}
	for name, c := range map[string]struct {
		happens func(queue)
		want    time.Duration
	}{
		"it is made":   {func(q queue) { h.Create(ctx, event.CreateEvent{Object: pod}, q) }, togetherWithin},
		"it changes":   {func(q queue) { h.Update(ctx, event.UpdateEvent{ObjectOld: pod, ObjectNew: pod}, q) }, togetherWithin},
		"it goes":      {func(q queue) { h.Delete(ctx, event.DeleteEvent{Object: pod}, q) }, togetherWithin},
		"it was there": {func(q queue) { h.Create(ctx, event.CreateEvent{Object: pod, IsInInitialList: true}, q) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			q := &added{}
			if c.happens(q); len(q.after) != 1 || q.after[0] != c.want {
				t.Errorf("looked at after %v, want %s", q.after, c.want)
			}
		})
	}
}

func TestWhatTheOperatorMadeItselfIsNotLookedAt(t *testing.T) {
	p := notMade()
	pdb := func(generation int64, change ...func(*policyv1.PodDisruptionBudget)) *policyv1.PodDisruptionBudget {
		o := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Generation: generation}}
		for _, c := range change {
			c(o)
		}
		return o
	}
	for name, c := range map[string]struct{ got, want bool }{
		"it is made":                {p.Create(event.CreateEvent{Object: pdb(1)}), false},
		"it was there":              {p.Create(event.CreateEvent{Object: pdb(1), IsInInitialList: true}), true},
		"its status changes":        {p.Update(event.UpdateEvent{ObjectOld: pdb(1), ObjectNew: pdb(1, func(o *policyv1.PodDisruptionBudget) { o.Status.CurrentHealthy = 3 })}), false},
		"its specification changes": {p.Update(event.UpdateEvent{ObjectOld: pdb(1), ObjectNew: pdb(2)}), true},
		"its labels change":         {p.Update(event.UpdateEvent{ObjectOld: pdb(1), ObjectNew: pdb(1, func(o *policyv1.PodDisruptionBudget) { o.Labels = map[string]string{"a": "b"} })}), true},
		"it has no generation":      {p.Update(event.UpdateEvent{ObjectOld: &corev1.ConfigMap{}, ObjectNew: &corev1.ConfigMap{Data: map[string]string{"a": "b"}}}), true},
		"it goes":                   {p.Delete(event.DeleteEvent{Object: pdb(1)}), true},
	} {
		if c.got != c.want {
			t.Errorf("%s: looked at %t, want %t", name, c.got, c.want)
		}
	}
}

// An operator that had time for nothing else than its periodic looks never came to the Etcds that were
// there when it began.
func TestLooksForWhichNobodyAskedComeLast(t *testing.T) {
	r := &Reconciler{syncPeriod: 15 * time.Second, now: func() time.Time { return testNow }}
	done := Plan{Mode: ModeApply, Size: rollout.ScaleStep{Done: true}}
	for name, c := range map[string]struct {
		plan Plan
		want int
	}{
		"nothing is left to do": {done, handler.LowPriority},
		"a step is waited for":  {Plan{Mode: ModeApply}, 0},
	} {
		got, err := r.next(&Observed{}, c.plan, outcome{})
		if err != nil || got.Priority == nil || *got.Priority != c.want {
			t.Errorf("%s: %+v (%v), want priority %d", name, got, err, c.want)
		}
	}
}

func TestLooksForWhichNobodyAskedComeTogether(t *testing.T) {
	for _, c := range []struct {
		after, period, want time.Duration
	}{
		{0, 15 * time.Second, 15 * time.Second},
		{400 * time.Millisecond, 15 * time.Second, 14600 * time.Millisecond},
		{999 * time.Millisecond, 15 * time.Second, 14001 * time.Millisecond},
		{time.Second, 15 * time.Second, 15 * time.Second},
		{time.Second, time.Minute, 59 * time.Second},
		{0, 3, 3},
	} {
		if got := inStep(testNow.Add(c.after), c.period); got != c.want {
			t.Errorf("%s after a moment, with a period of %s: in %s, want %s", c.after, c.period, got, c.want)
		}
	}
}
