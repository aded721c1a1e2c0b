package cluster

import (
	"testing"
	"time"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

// An operator changed the template and died. The next one looks before the StatefulSet's controller does.
func TestAChangeThatNoControllerHasSeenIsNotTheEnd(t *testing.T) {
	o := running(t, 3)
	o.Etcd.Generation, o.StatefulSet.Generation = 2, 2
	o.Etcd.Status.LastOperation = &druidv1alpha1.LastOperation{Type: druidv1alpha1.LastOperationReconcile, State: druidv1alpha1.LastOperationSucceeded}
	told := func() string {
		op := statusOf(o, mustDecide(t, o, testSettings), outcome{}, "run", testNow).LastOperation
		return string(op.State) + ": " + op.Description
	}
	if got, want := told(), "Requeue: the StatefulSet's controller has not seen the newest template yet"; got != want {
		t.Errorf("before the controller has seen it: %s, want %s", got, want)
	}
	o.StatefulSet.Status.ObservedGeneration = 2
	if got, want := told(), "Succeeded: everything is made as the specification wants it"; got != want {
		t.Errorf("afterwards, as no pod had to be replaced: %s, want %s", got, want)
	}
}

func TestANewStatefulSetHasAMomentForItsPods(t *testing.T) {
	made := func(age time.Duration, pods int) func(*Observed) {
		return func(o *Observed) { o.StatefulSet.CreationTimestamp, o.Pods = ago(age), o.Pods[:pods] }
	}
	for phrase, c := range map[string]struct {
		change func(*Observed)
		want   bool
	}{
		"it was made a moment ago":                           {made(time.Second, 1), true},
		"it has all pods":                                    {made(time.Second, 3), false},
		"it has had its time":                                {made(fillsWithin, 1), false},
		"it was made in the future, by the operator's clock": {made(-time.Hour, 1), false},
		"there is none":                                      {func(o *Observed) { o.StatefulSet = nil }, false},
	} {
		if got := running(t, 3, c.change).fills(testNow); got != c.want {
			t.Errorf("%s: %t, want %t", phrase, got, c.want)
		}
	}
}
