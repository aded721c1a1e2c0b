package extension

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

func TestHoldsAreReleasedAfterWakingUp(t *testing.T) {
	woke := metav1.NewTime(time.Unix(100, 0))
	for phrase, c := range map[string]struct {
		replicas int32
		status   *druidv1alpha1.HibernationStatus
		want     bool
	}{
		"asleep":                   {0, &druidv1alpha1.HibernationStatus{FinalSnapshot: &druidv1alpha1.FinalSnapshot{Held: true}}, false},
		"awake":                    {3, &druidv1alpha1.HibernationStatus{FinalSnapshot: &druidv1alpha1.FinalSnapshot{Held: true}, AwakeSince: &woke}, true},
		"about to wake up":         {3, &druidv1alpha1.HibernationStatus{FinalSnapshot: &druidv1alpha1.FinalSnapshot{Held: true}}, false},
		"asleep again":             {0, &druidv1alpha1.HibernationStatus{FinalSnapshot: &druidv1alpha1.FinalSnapshot{Held: true}, AwakeSince: &woke}, false},
		"awake, and it was locked": {3, &druidv1alpha1.HibernationStatus{FinalSnapshot: &druidv1alpha1.FinalSnapshot{}, AwakeSince: &woke}, false},
		"awake, without a final":   {3, &druidv1alpha1.HibernationStatus{AwakeSince: &woke}, false},
		"never asleep":             {3, nil, false},
	} {
		e := &druidv1alpha1.Etcd{}
		e.Spec.Replicas, e.Status.Hibernation = c.replicas, c.status
		if got := releases(e); got != c.want {
			t.Errorf("%s: %t, want %t", phrase, got, c.want)
		}
	}
}
