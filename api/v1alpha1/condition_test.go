package v1alpha1

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAConditionKeepsTheTimesOfWhatDidNotChange(t *testing.T) {
	at := func(minute int) metav1.Time { return metav1.Date(2024, 5, 1, 12, minute, 0, 0, time.UTC) }
	var list []Condition
	for minute, step := range []struct {
		say                        string
		c                          Condition
		wantTransition, wantUpdate int
	}{
		{"new", Condition{Type: ConditionReady, Status: ConditionTrue, Reason: "A", Message: "a"}, 0, 0},
		{"the same", Condition{Type: ConditionReady, Status: ConditionTrue, Reason: "A", Message: "a"}, 0, 0},
		{"another message", Condition{Type: ConditionReady, Status: ConditionTrue, Reason: "A", Message: "b"}, 0, 2},
		{"another status", Condition{Type: ConditionReady, Status: ConditionFalse, Reason: "A", Message: "b"}, 3, 3},
		{"the same again", Condition{Type: ConditionReady, Status: ConditionFalse, Reason: "A", Message: "b"}, 3, 3},
	} {
		list = SetCondition(list, step.c, at(minute))
		want := step.c
		want.LastTransitionTime, want.LastUpdateTime = at(step.wantTransition), at(step.wantUpdate)
		if diff := cmp.Diff([]Condition{want}, list); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.say, diff)
		}
	}
	list = SetCondition(list, Condition{Type: ConditionBackupReady}, at(9))
	if c := FindCondition(list, ConditionBackupReady); c == nil || c != &list[1] {
		t.Errorf("the second condition is %v", c)
	}
	if c := FindCondition(list, ConditionQuorumLost); c != nil {
		t.Errorf("there is %v", c)
	}
}
