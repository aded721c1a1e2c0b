package cluster

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// warnings answers every list of events with one, and counts.
type warnings struct {
	client.Reader
	asked int
	away  bool
	about string // the kind of the object
}

func (w *warnings) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	if w.asked++; w.away {
		return errors.New("events are kept elsewhere, which is away")
	}
	list.(*corev1.EventList).Items = []corev1.Event{{Message: "no room", InvolvedObject: corev1.ObjectReference{Kind: w.about}}}
	return nil
}

func TestEventsOfClaimsAreAskedForMoreAndMoreRarely(t *testing.T) {
	now, live := testNow, &warnings{}
	r := &Reconciler{now: func() time.Time { return now }, live: live, claims: map[types.UID]claimNews{}}
	pending := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data-0", CreationTimestamp: ago(time.Hour)}, Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending}}
	look := func(claims ...*corev1.PersistentVolumeClaim) int {
		t.Helper()
		o := empty(newEtcd(1))
		o.Claims = claims
		r.claimEvents(t.Context(), o)
		return len(o.ClaimEvents)
	}
	var times []time.Duration
	for at := time.Duration(0); at <= 20*time.Minute; at += 5 * time.Second {
		now = testNow.Add(at)
		before := live.asked
		if got := look(pending); got != 1 {
			t.Fatalf("after %s %d events are known, want 1", at, got)
		}
		if live.asked > before {
			times = append(times, at)
		}
	}
	want := []time.Duration{0, 30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 13 * time.Minute, 18 * time.Minute}
	if len(times) != len(want) {
		t.Fatalf("asked at %v, want %v", times, want)
	}
	for i := range want {
		if times[i] != want[i] {
			t.Errorf("asked at %v, want %v", times, want)
		}
	}

	bound := pending.DeepCopy()
	bound.Status.Phase = corev1.ClaimBound
	if got := look(bound); got != 0 || len(r.claims) != 0 {
		t.Errorf("a claim that is bound has %d events, and %d Etcds are remembered", got, len(r.claims))
	}
	before := live.asked
	if look(pending); live.asked != before+1 {
		t.Error("new trouble is not asked for at once")
	}
}

// A driver that watches the health of volumes warns of the claim, which stays bound.
func TestWarningsAboutAVolumeAreAskedForWhileItsPodIsNotReady(t *testing.T) {
	for phrase, c := range map[string]struct {
		change func(*corev1.Pod)
		want   int
	}{
		"all are ready":              {func(*corev1.Pod) {}, 0},
		"one is not":                 {func(p *corev1.Pod) { p.Status.Conditions = nil }, 1},
		"one is not, since just now": {func(p *corev1.Pod) { p.Status.Conditions, p.CreationTimestamp = nil, ago(time.Second) }, 0},
		"one is not, nor on a node":  {func(p *corev1.Pod) { p.Status.Conditions, p.Spec.NodeName = nil, "" }, 0},
	} {
		live := &warnings{about: "PersistentVolumeClaim"}
		r := &Reconciler{now: func() time.Time { return testNow }, live: live, claims: map[types.UID]claimNews{}}
		o := running(t, 3, func(o *Observed) {
			for i, p := range o.Pods {
				o.Claims[i].Status.Capacity = o.Claims[i].Spec.Resources.Requests
				p.Spec.NodeName, p.CreationTimestamp = "node", ago(time.Hour)
				p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: o.Claims[i].Name}}}}
				abridge(p)
			}
			c.change(o.Pods[1])
		})
		r.claimEvents(t.Context(), o)
		if len(o.ClaimEvents) != c.want || live.asked != c.want {
			t.Errorf("%s: events %v after %d questions, want %d", phrase, o.ClaimEvents, live.asked, c.want)
		}
	}
}

func TestWhyAStatefulSetMakesNoPodIsAskedFor(t *testing.T) {
	for phrase, c := range map[string]struct {
		change func(*Observed)
		want   int
	}{
		"all pods exist": {func(*Observed) {}, 0},
		"one is missing": {func(o *Observed) { o.Pods = o.Pods[:2] }, 1},
		"it was made a moment ago": {func(o *Observed) {
			o.Pods, o.StatefulSet.CreationTimestamp = nil, ago(time.Second)
		}, 0},
	} {
		live := &warnings{about: kindStatefulSet}
		r := &Reconciler{now: func() time.Time { return testNow }, live: live, claims: map[types.UID]claimNews{}}
		o := running(t, 3, func(o *Observed) {
			for i := range o.Claims {
				o.Claims[i].Status.Capacity = o.Claims[i].Spec.Resources.Requests
			}
		}, c.change)
		r.claimEvents(t.Context(), o)
		if len(o.SetEvents) != c.want || len(o.ClaimEvents) != 0 || live.asked != c.want {
			t.Errorf("%s: events %v and %v after %d questions, want %d", phrase, o.SetEvents, o.ClaimEvents, live.asked, c.want)
		}
	}
}

// Events only make a message better: who is in trouble needs the rest of a look.
func TestALookGoesOnWithoutEvents(t *testing.T) {
	now, live := testNow, &warnings{}
	r := &Reconciler{now: func() time.Time { return now }, live: live, claims: map[types.UID]claimNews{}, logger: slog.New(slog.DiscardHandler)}
	pending := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data-0", CreationTimestamp: ago(time.Hour)}, Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending}}
	for i, c := range []struct {
		away        bool
		told, asked int
	}{{true, 0, 1}, {false, 1, 2}, {true, 1, 3}} {
		o := empty(newEtcd(1))
		o.Claims, live.away = []*corev1.PersistentVolumeClaim{pending}, c.away
		r.claimEvents(t.Context(), o)
		if len(o.ClaimEvents) != c.told || live.asked != c.asked {
			t.Errorf("look %d: %d events after %d questions, want %d and %d", i, len(o.ClaimEvents), live.asked, c.told, c.asked)
		}
		now = now.Add(10 * time.Minute)
	}
}
