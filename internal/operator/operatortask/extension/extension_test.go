package extension

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/operator/desired"
	"druid.internal/druid/internal/operator/operatortask/task"
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
		"awake, holds of before":   {3, &druidv1alpha1.HibernationStatus{AwakeSince: &woke, NewFull: "Full-2", HoldsLeft: true}, true},
		"never asleep":             {3, nil, false},
	} {
		e := &druidv1alpha1.Etcd{}
		e.Spec.Replicas, e.Status.Hibernation = c.replicas, c.status
		if got := releases(e); got != c.want {
			t.Errorf("%s: %t, want %t", phrase, got, c.want)
		}
		e.Spec.Backup.Store = &druidv1alpha1.StoreSpec{Provider: new(druidv1alpha1.StorageProvider("gcp")), Prefix: "p"}
		e.Spec.Backup.FullSnapshotSchedule = new("0 3 * * *")
		job, err := cronJob(&task.Task{}, task.Place{Etcd: e})
		if err != nil {
			t.Fatal(err)
		}
		// At 00:01:40, and what is held is released ten minutes later at the earliest.
		if want := map[bool]string{true: "11 * * * *", false: "0 3 * * *"}[c.want]; job.Spec.Schedule != want {
			t.Errorf("%s: it runs at %s, want %s", phrase, job.Spec.Schedule, want)
		}
	}
}

// Volumes cost money until somebody else than the member has seen that the final full is there.
func TestARunLooksSoonWhileVolumesWaitForIt(t *testing.T) {
	const name = "Full-00000000-00001000-1748000000.zst.final"
	now := metav1.NewTime(time.Unix(100, 0))
	for phrase, c := range map[string]struct {
		change func(*druidv1alpha1.Etcd, *druidv1alpha1.HibernationStatus)
		soon   bool
	}{
		"a member told alone": {func(*druidv1alpha1.Etcd, *druidv1alpha1.HibernationStatus) {}, true},
		"a run has read it":   {func(_ *druidv1alpha1.Etcd, h *druidv1alpha1.HibernationStatus) { h.FinalSnapshot.ReadAt = &now }, false},
		"a run has looked":    {func(_ *druidv1alpha1.Etcd, h *druidv1alpha1.HibernationStatus) { h.FinalSnapshot.LookedAt = &now }, true},
		"there is no final":   {func(_ *druidv1alpha1.Etcd, h *druidv1alpha1.HibernationStatus) { h.FinalSnapshot = nil }, false},
		"it wakes up":         {func(_ *druidv1alpha1.Etcd, h *druidv1alpha1.HibernationStatus) { h.AwakeSince = &now }, false},
		"volumes stay":        {func(e *druidv1alpha1.Etcd, _ *druidv1alpha1.HibernationStatus) { e.Spec.Hibernation = nil }, false},
		"they do since some have gone": {func(e *druidv1alpha1.Etcd, h *druidv1alpha1.HibernationStatus) {
			e.Spec.Hibernation, h.VolumesGoSince = nil, &now
		}, true},
		"they stay as that is allowed": {func(e *druidv1alpha1.Etcd, _ *druidv1alpha1.HibernationStatus) {
			e.Spec.Hibernation.AllowUnprotected = new(true)
		}, false},
		"it is damaged": {func(_ *druidv1alpha1.Etcd, h *druidv1alpha1.HibernationStatus) { h.FinalSnapshot.Damaged = "a hole" }, false},
		"no locks are asked for": {func(e *druidv1alpha1.Etcd, _ *druidv1alpha1.HibernationStatus) {
			e.Spec.Backup.Store.Immutability = nil
		}, false},
		"the members stop":        {hibernated(druidv1alpha1.ConditionFalse, druidv1alpha1.ReasonScalingToZero), true},
		"volumes wait":            {hibernated(druidv1alpha1.ConditionFalse, druidv1alpha1.ReasonDeletingVolumes), true},
		"it sleeps, none is left": {hibernated(druidv1alpha1.ConditionTrue, druidv1alpha1.ReasonHibernated), false},
	} {
		e := &druidv1alpha1.Etcd{}
		e.Spec.Backup.Store = &druidv1alpha1.StoreSpec{Provider: new(druidv1alpha1.StorageProvider("gcp")), Prefix: "p", Immutability: &druidv1alpha1.ImmutabilitySpec{RetentionType: druidv1alpha1.RetentionBucket}}
		e.Spec.Backup.FullSnapshotSchedule = new("0 3 * * *")
		e.Spec.Hibernation = &druidv1alpha1.HibernationSpec{Volumes: new(druidv1alpha1.HibernationDeletesVolumes)}
		e.Status.Hibernation = &druidv1alpha1.HibernationStatus{FinalSnapshot: &druidv1alpha1.FinalSnapshot{Name: name}}
		c.change(e, e.Status.Hibernation)
		job, err := cronJob(&task.Task{}, task.Place{Etcd: e})
		if err != nil {
			t.Fatal(err)
		}
		if want := map[bool]string{true: "*/2 * * * *", false: "0 3 * * *"}[c.soon]; job.Spec.Schedule != want {
			t.Errorf("%s: it runs at %s, want %s", phrase, job.Spec.Schedule, want)
		}
		// What it locks has to last until the next run after the look.
		args := strings.Join(job.Spec.JobTemplate.Spec.Template.Spec.Containers[0].Args, " ")
		if !strings.Contains(args, "--every=24h") || strings.Contains(args, "--verify=always") != c.soon {
			t.Errorf("%s: it is run with %q", phrase, args)
		}
	}
}

func hibernated(status druidv1alpha1.ConditionStatus, reason string) func(*druidv1alpha1.Etcd, *druidv1alpha1.HibernationStatus) {
	return func(e *druidv1alpha1.Etcd, _ *druidv1alpha1.HibernationStatus) {
		e.Status.Conditions = []druidv1alpha1.Condition{{Type: druidv1alpha1.ConditionHibernated, Status: status, Reason: reason}}
	}
}

// The image of the sidecars may be the only one that can be pulled.
func TestJobsHaveTheImageOfTheSidecars(t *testing.T) {
	e := &druidv1alpha1.Etcd{}
	e.Spec.Backup.Store = &druidv1alpha1.StoreSpec{Provider: new(druidv1alpha1.StorageProvider("gcp")), Prefix: "p"}
	e.Spec.Backup.FullSnapshotSchedule = new("0 3 * * *")
	for image, want := range map[string]string{"": "registry.local/own:1", "mirror.corp/own:2": "mirror.corp/own:2", "mirror.corp/etcdbrctl:v0.43.0": "registry.local/own:1"} {
		e.Spec.Backup.Image = &image
		job, err := cronJob(&task.Task{}, task.Place{Etcd: e, Images: desired.Images{Sidecar: "registry.local/own:1"}})
		if err != nil {
			t.Fatal(err)
		}
		if got := job.Spec.JobTemplate.Spec.Template.Spec.Containers[0].Image; got != want {
			t.Errorf("spec.backup.image %q: the Job runs %q, want %q", image, got, want)
		}
	}
}

// Locks that last four days are prolonged every other day, and not once per year.
func TestAScheduleThatCannotKeepAnythingLockedIsRefused(t *testing.T) {
	four := &metav1.Duration{Duration: 96 * time.Hour}
	object := func(e *druidv1alpha1.Etcd) {
		e.Spec.Backup.Store.Immutability = &druidv1alpha1.ImmutabilitySpec{RetentionType: druidv1alpha1.RetentionObject, RetentionPeriod: four}
	}
	final := func(e *druidv1alpha1.Etcd) {
		e.Status.Hibernation = &druidv1alpha1.HibernationStatus{FinalSnapshot: &druidv1alpha1.FinalSnapshot{RetentionPeriod: four}}
	}
	survey := func(e *druidv1alpha1.Etcd) {
		e.Status.Backup = &druidv1alpha1.EtcdBackupStatus{BackupStatus: druidv1alpha1.BackupStatus{RetentionPeriod: four}}
	}
	for phrase, c := range map[string]struct {
		schedule string
		known    func(*druidv1alpha1.Etcd)
		refused  bool
	}{
		"the specification says, every other day": {"0 0 */2 * *", object, false},
		"the specification says, once per year":   {"@yearly", object, true},
		"the final full tells":                    {"@yearly", final, true},
		"a look through the bucket tells":         {"@yearly", survey, true},
		"three days and a bit":                    {"@every 95h", object, false},
		"four days to the minute":                 {"@every 96h", object, true},
		"only the bucket knows":                   {"@yearly", func(*druidv1alpha1.Etcd) {}, false}, // HibernationBackupProtected tells
	} {
		e := &druidv1alpha1.Etcd{}
		e.Spec.Backup.Store = &druidv1alpha1.StoreSpec{}
		c.known(e)
		why := ""
		for _, check := range Type().Checks[2:] { // those about schedules
			why += check.Fails(&task.Task{Schedule: &c.schedule}, e)
		}
		if (why != "") != c.refused || c.refused && (!strings.Contains(why, "locks last for 96h from a run") || !strings.Contains(why, c.schedule)) {
			t.Errorf("%s: %q, want refused %t", phrase, why, c.refused)
		}
		if why := tooRare(&task.Task{}, e); why != "" {
			t.Errorf("%s: refused without a schedule: %s", phrase, why)
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
