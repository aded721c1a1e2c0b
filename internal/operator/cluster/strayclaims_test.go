package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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
			abridge(o.Pods[0]) // as they come out of the cache
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
			if undone := r.undone[o.Etcd.UID]; len(undone) != 1 || !strings.Contains(undone[0], stray.Name) {
				t.Errorf("it is told that %q", undone)
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

// A template, a name and an ordinal make the name of a claim, and each may have dashes in itself.
func TestVolumeClaimsOfAnotherEtcdAreLeftToIt(t *testing.T) {
	named := func(name, template string) *druidv1alpha1.Etcd {
		return newEtcd(1, func(e *druidv1alpha1.Etcd) {
			e.Name, e.UID, e.Spec.VolumeClaimTemplate = name, types.UID(name), &template
		})
	}
	first, second := named("v", "a-v"), named("v-v", "a")
	for phrase, c := range map[string]struct {
		label string
		other *druidv1alpha1.Etcd
		want  string
	}{
		"it is the other's":                   {"v", first, "v"},
		"it is its own":                       {"v-v", first, ""},
		"somebody labelled it as the other's": {"v", named("v", "b"), ""},
		"there is no other":                   {"v", named("w", "a-v"), ""},
	} {
		t.Run(phrase, func(t *testing.T) {
			claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: second.Namespace, Name: second.VolumeClaimName(0),
				Labels: map[string]string{druidv1alpha1.LabelManagedBy: druidv1alpha1.ManagedBy, druidv1alpha1.LabelPartOf: c.label}}}
			r, cl := newReconciler(t, c.other, second, claim)
			o, err := r.observe(second)
			if err != nil || o.ClaimsOf != c.want {
				t.Fatalf("the claims are those of %q (%v), want %q", o.ClaimsOf, err, c.want)
			}
			if c.want == "" {
				return
			}
			o.NewToken, o.ClusterUID = []byte("token"), "k8s"
			if p := mustDecide(t, o, testSettings); len(p.Objects) > 0 || !strings.Contains(p.Waits(), "a-v-v-0, the first volume claim that this Etcd would have, is that of the Etcd v") {
				t.Errorf("%d objects are made; it waits %q", len(p.Objects), p.Waits())
			}
			// A pod that has it already, as both were made in the same moment.
			o = running(t, 1)
			o.Etcd, o.StatefulSet, o.ClaimsOf, o.Claims, o.Pods[0].CreationTimestamp = second, nil, "v", nil, ago(time.Hour)
			o.Pods[0].Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name}}}}
			if err := r.strayClaims(t.Context(), o, ModeApply); err != nil {
				t.Fatal(err)
			}
			var now corev1.PersistentVolumeClaim
			if err := cl.Get(t.Context(), client.ObjectKeyFromObject(claim), &now); err != nil || now.Labels[druidv1alpha1.LabelPartOf] != "v" {
				t.Errorf("its labels are %v (%v)", now.Labels, err)
			}
		})
	}
}
