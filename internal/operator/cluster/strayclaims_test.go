package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/operator/rollout"
)

// A claim whose labels somebody took off, before he deletes it, is the only copy of the data all the same.
func TestAClaimWithoutItsLabelsIsFoundAndLabelled(t *testing.T) {
	for phrase, c := range map[string]struct {
		age   time.Duration // of the pod
		mode  Mode
		found bool
	}{
		"its pod is there for long": {time.Hour, ModeApply, true},
		"its pod was made just now": {time.Second, ModeApply, false}, // and the cache hears of the claim in a moment
		"the Etcd is suspended":     {time.Hour, ModeWatch, true},
	} {
		t.Run(phrase, func(t *testing.T) {
			o := running(t, 1, former(0), noStore)
			stray := o.Claims[0].DeepCopy()
			stray.Namespace, stray.UID, stray.Labels = o.Etcd.Namespace, "stray", map[string]string{"of": "somebody"}
			stray.DeletionTimestamp, stray.Finalizers = ptr(ago(time.Minute)), []string{"kubernetes.io/pvc-protection"}
			o.Claims, o.Pods[0].CreationTimestamp = nil, ago(c.age)
			o.Pods[0].Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: stray.Name}}}}
			r, cl := newReconciler(t, stray)
			if err := r.strayClaims(t.Context(), o, c.mode); err != nil {
				t.Fatal(err)
			}
			if got := len(o.Claims) == 1; got != c.found {
				t.Fatalf("it is found: %t, want %t", got, c.found)
			}
			if !c.found {
				return
			}
			var now corev1.PersistentVolumeClaim
			if err := cl.Get(t.Context(), client.ObjectKeyFromObject(stray), &now); err != nil {
				t.Fatal(err)
			}
			if c.mode == ModeWatch {
				if fmt.Sprint(now.Labels) != fmt.Sprint(stray.Labels) {
					t.Errorf("its labels are %v, and were %v", now.Labels, stray.Labels)
				}
				return
			}
			want := map[string]string{"of": "somebody", druidv1alpha1.LabelManagedBy: druidv1alpha1.ManagedBy, druidv1alpha1.LabelPartOf: o.Etcd.Name}
			if fmt.Sprint(now.Labels) != fmt.Sprint(want) {
				t.Errorf("its labels are %v, want %v", now.Labels, want)
			}
			if told := <-r.recorder.(*events.FakeRecorder).Events; !strings.Contains(told, stray.Name) {
				t.Errorf("told was %q", told)
			}
			if p := mustDecide(t, o, testSettings); p.Pod.Kind != rollout.Wait || !strings.Contains(p.Pod.Reason, "is being deleted and goes with it") {
				t.Errorf("%s: %s, want that its pod stays", p.Pod.Kind, p.Pod.Reason)
			}
		})
	}
}

// Looks in between cost nothing.
func TestClaimsThatAreKnownAreNotAskedFor(t *testing.T) {
	live := &warnings{away: true}
	r := &Reconciler{now: func() time.Time { return testNow }, live: live}
	o := running(t, 3)
	for i, p := range o.Pods {
		p.CreationTimestamp = metav1.NewTime(testNow.Add(-time.Hour))
		p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: o.Claims[i].Name}}}}
	}
	if err := r.strayClaims(t.Context(), o, ModeApply); err != nil || live.asked != 0 {
		t.Errorf("%d questions, %v", live.asked, err)
	}
}
