package cluster

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

func TestTheTaskOfSomebodyElseCountsWhileItIsAtWork(t *testing.T) {
	of := func(change func(*druidv1alpha1.EtcdOperatorTask)) []*druidv1alpha1.EtcdOperatorTask {
		x := druidv1alpha1.EtcdOperatorTask{ObjectMeta: metav1.ObjectMeta{Name: "often", Namespace: "shop"}, Spec: druidv1alpha1.EtcdOperatorTaskSpec{
			Type: druidv1alpha1.TaskExtendFullSnapshotImmutability, OwnerEtcdReference: &druidv1alpha1.OwnerEtcdReference{Name: "main"},
		}}
		x.Status.State = druidv1alpha1.TaskInProgress
		change(&x)
		return []*druidv1alpha1.EtcdOperatorTask{&x}
	}
	for phrase, c := range map[string]struct {
		change func(*druidv1alpha1.EtcdOperatorTask)
		want   bool
	}{
		"it is":                         {func(*druidv1alpha1.EtcdOperatorTask) {}, true},
		"by the other name":             {func(x *druidv1alpha1.EtcdOperatorTask) { x.Spec.Type += "Task" }, true},
		"of another Etcd":               {func(x *druidv1alpha1.EtcdOperatorTask) { x.Spec.OwnerEtcdReference.Name = "events" }, false},
		"of none":                       {func(x *druidv1alpha1.EtcdOperatorTask) { x.Spec.OwnerEtcdReference = nil }, false},
		"of another type":               {func(x *druidv1alpha1.EtcdOperatorTask) { x.Spec.Type = druidv1alpha1.TaskCollectBackups }, false},
		"it was rejected":               {func(x *druidv1alpha1.EtcdOperatorTask) { x.Status.State = druidv1alpha1.TaskRejected }, false},
		"nobody acts on it":             {func(x *druidv1alpha1.EtcdOperatorTask) { x.Status.State = "" }, false},
		"it goes":                       {func(x *druidv1alpha1.EtcdOperatorTask) { x.DeletionTimestamp = &metav1.Time{Time: testNow} }, false},
		"of the name of the operator's": {func(x *druidv1alpha1.EtcdOperatorTask) { x.Name = "main-hibernation" }, true},
		"it is the operator's own": {func(x *druidv1alpha1.EtcdOperatorTask) {
			x.OwnerReferences = []metav1.OwnerReference{newEtcd(0).OwnerReference()}
		}, false},
	} {
		if got := othersTask(newEtcd(0), of(c.change)); (got != nil) != c.want {
			t.Errorf("%s: %+v, want it to count %t", phrase, got, c.want)
		}
	}
}

// Two that stand for the same Etcd would be one that is rejected, and made again, for ever.
func TestTheOperatorMakesNoTaskBesideThatOfSomebodyElse(t *testing.T) {
	for name, want := range map[string]bool{"often": false, "": true} {
		o := running(t, 3, wants(0), locks, recorded(2), gone, func(o *Observed) {
			if name != "" {
				o.Extension = &druidv1alpha1.EtcdOperatorTask{ObjectMeta: metav1.ObjectMeta{Name: name}}
			}
		})
		made := false
		for _, object := range mustDecide(t, o, testSettings).Objects {
			made = made || keyOf(object).Kind == druidv1alpha1.KindEtcdOperatorTask
		}
		if made != want {
			t.Errorf("beside %q: one is made %t, want %t", name, made, want)
		}
	}
}
