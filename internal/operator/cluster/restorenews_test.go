package cluster

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

func TestARestoreOfAMemberIsToldOfOnce(t *testing.T) {
	restored := func(kind druidv1alpha1.RestorationType, status druidv1alpha1.OperationOutcome, end time.Duration) func(*Observed) {
		return func(o *Observed) {
			at := metav1.NewTime(testNow.Add(end))
			o.Members[0].Status.LastRestoration = &druidv1alpha1.Restoration{Type: kind, Status: status, Message: "its data are damaged", EndTime: &at}
		}
	}
	o := running(t, 3)
	r := &Reconciler{now: func() time.Time { return testNow }, restored: map[types.UID]map[string]time.Time{}}
	once := []string{"MemberRestored: " + o.Members[0].Name + " was restored from the backup: its data are damaged"}
	for _, c := range []struct {
		phrase string
		change func(*Observed)
		want   []string
	}{
		{"none was", func(*Observed) {}, nil},
		{"by the others", restored(druidv1alpha1.RestorationFromLeader, druidv1alpha1.OutcomeSuccess, 0), nil},
		{"it failed", restored(druidv1alpha1.RestorationFromSnapshot, druidv1alpha1.OutcomeFailed, 0), nil},
		{"long before the operator began", restored(druidv1alpha1.RestorationFromSnapshot, druidv1alpha1.OutcomeSuccess, -restoredWithin-time.Second), nil},
		{"one was", restored(druidv1alpha1.RestorationFromSnapshot, druidv1alpha1.OutcomeSuccess, -time.Minute), once},
		{"the same", restored(druidv1alpha1.RestorationFromSnapshot, druidv1alpha1.OutcomeSuccess, -time.Minute), nil},
		{"it was again", restored(druidv1alpha1.RestorationFromSnapshot, druidv1alpha1.OutcomeSuccess, 0), once},
	} {
		c.change(o)
		var got []string
		for _, n := range r.restoreNews(o) {
			got = append(got, n.kind.Reason+": "+n.note)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", c.phrase, diff)
		}
	}
}
