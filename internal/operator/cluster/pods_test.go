package cluster

import (
	"testing"

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
