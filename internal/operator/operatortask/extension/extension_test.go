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
		"awake":                    {3, &druidv1alpha1.HibernationStatus{FinalSnapshot: &druidv1alpha1.FinalSnapshot{Held: true}, AwakeSince: &woke, NewFull: "Full-2"}, true},
		"no member took a full":    {3, &druidv1alpha1.HibernationStatus{FinalSnapshot: &druidv1alpha1.FinalSnapshot{Held: true}, AwakeSince: &woke}, false},
		"about to wake up":         {3, &druidv1alpha1.HibernationStatus{FinalSnapshot: &druidv1alpha1.FinalSnapshot{Held: true}}, false},
		"asleep again":             {0, &druidv1alpha1.HibernationStatus{FinalSnapshot: &druidv1alpha1.FinalSnapshot{Held: true}, AwakeSince: &woke, NewFull: "Full-2"}, false},
		"awake, and it was locked": {3, &druidv1alpha1.HibernationStatus{FinalSnapshot: &druidv1alpha1.FinalSnapshot{}, AwakeSince: &woke, NewFull: "Full-2"}, false},
		"awake, without a final":   {3, &druidv1alpha1.HibernationStatus{AwakeSince: &woke, NewFull: "Full-2"}, false},
		"never asleep":             {3, nil, false},
	} {
		e := &druidv1alpha1.Etcd{}
		e.Spec.Replicas, e.Status.Hibernation = c.replicas, c.status
		if got := releases(e); got != c.want {
			t.Errorf("%s: %t, want %t", phrase, got, c.want)
		}
	}
}

// The CronJob is another one with another name alone, so nothing else that changes in the record may be in it.
func TestTheRecordedFullIsKeptWhileTheClusterSleeps(t *testing.T) {
	const name, digest = "Full-00000000-00001000-1748000000.zst.final", "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
	woke, told := metav1.NewTime(time.Unix(100, 0)), metav1.NewTime(time.Unix(90, 0))
	sleeps := func(change func(*druidv1alpha1.HibernationStatus)) *druidv1alpha1.HibernationStatus {
		h := &druidv1alpha1.HibernationStatus{EtcdUID: "uid", FinalSnapshot: &druidv1alpha1.FinalSnapshot{Name: name, Digest: digest}}
		change(h)
		return h
	}
	for phrase, c := range map[string]struct {
		status *druidv1alpha1.HibernationStatus
		want   string
	}{
		"asleep": {sleeps(func(*druidv1alpha1.HibernationStatus) {}), name},
		"a run has told of it": {sleeps(func(h *druidv1alpha1.HibernationStatus) {
			h.FinalSnapshot.LookedAt, h.FinalSnapshot.Newer = &told, "Full-2"
		}), name},
		"found damaged":           {sleeps(func(h *druidv1alpha1.HibernationStatus) { h.FinalSnapshot.Damaged = "a hole" }), name},
		"waking up":               {sleeps(func(h *druidv1alpha1.HibernationStatus) { h.AwakeSince = &woke }), name},
		"awake, with a new full":  {sleeps(func(h *druidv1alpha1.HibernationStatus) { h.AwakeSince, h.NewFull = &woke, "Full-2" }), ""},
		"without a final one":     {sleeps(func(h *druidv1alpha1.HibernationStatus) { h.FinalSnapshot = nil }), ""},
		"of another Etcd":         {sleeps(func(h *druidv1alpha1.HibernationStatus) { h.EtcdUID = "other" }), ""},
		"named as no full can be": {sleeps(func(h *druidv1alpha1.HibernationStatus) { h.FinalSnapshot.Name = "--release-holds" }), ""},
		"never asleep":            {nil, ""},
	} {
		e := &druidv1alpha1.Etcd{}
		e.UID, e.Status.Hibernation = "uid", c.status
		if c.status != nil && c.status.FinalSnapshot != nil {
			c.status.FinalSnapshot.RetentionPeriod = &metav1.Duration{Duration: 96 * time.Hour}
			if got, ours := given(e), c.status.EtcdUID == e.UID; (got == 96*time.Hour) != ours {
				t.Errorf("%s: the bucket gave %s", phrase, got)
			}
		}
		got, of := recorded(e)
		if got != c.want || (of == digest) != (c.want != "") {
			t.Errorf("%s: %q with the digest %q, want %q", phrase, got, of, c.want)
		}
	}
}
