package health

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/backup/immutability"
)

// TestTheLockOfAFinalSnapshotIsWatched is at 03:00; the schedule is daily at midnight, a full takes at most 15m, and clocks
// differ by at most 30m.
func TestTheLockOfAFinalSnapshotIsWatched(t *testing.T) {
	at := func(d time.Duration) *metav1.Time { x := metav1.NewTime(testNow.Add(d)); return &x }
	sleeps := func(change ...func(*druidv1alpha1.FinalSnapshot)) func(*Observation) {
		return func(o *Observation) {
			zero := int32(0)
			o.StatefulSet.Spec.Replicas = &zero
			f := &druidv1alpha1.FinalSnapshot{Name: "Full-9", Revision: 9, VerifiedAt: *at(-time.Hour)}
			for _, c := range change {
				c(f)
			}
			o.Etcd.Status.Hibernation = &druidv1alpha1.HibernationStatus{EtcdUID: o.Etcd.UID, Generation: 5, FinalSnapshot: f}
		}
	}
	until := func(d time.Duration) func(*druidv1alpha1.FinalSnapshot) {
		return func(f *druidv1alpha1.FinalSnapshot) { f.ProtectedUntil = at(d) }
	}
	looked := func(d time.Duration) func(*druidv1alpha1.FinalSnapshot) {
		return func(f *druidv1alpha1.FinalSnapshot) { f.LookedAt = at(d) }
	}
	reckoned := func(f *druidv1alpha1.FinalSnapshot) { f.Inferred = true }
	task := func(state druidv1alpha1.TaskState, age time.Duration) func(*Observation) {
		return func(o *Observation) {
			o.Extension = &druidv1alpha1.EtcdOperatorTask{ObjectMeta: metav1.ObjectMeta{Name: "main-hibernation", CreationTimestamp: *at(-age)}}
			o.Extension.Status.State = state
		}
	}
	// told is what a pod left that was made so long ago.
	told := func(age time.Duration, n immutability.Notice) func(*Observation) {
		return func(o *Observation) {
			o.ExtensionPods = append(o.ExtensionPods, &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{CreationTimestamp: *at(-age)},
				Status:     corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: n.String()}}}}},
			})
		}
	}
	const untilNext, margin = 21 * time.Hour, 45 * time.Minute
	for phrase, c := range map[string]struct {
		seen    Observation
		status  druidv1alpha1.ConditionStatus
		reason  string
		message string
	}{
		"locked for days":                               {asleep(sleeps(until(96 * time.Hour))), isTrue, "FinalSnapshotProtected", "locked until 2025-06-05T03:00:00Z; the next extension is at 2025-06-02T00:00:00Z"},
		"just long enough":                              {asleep(sleeps(until(untilNext + margin))), isTrue, "FinalSnapshotProtected", "2025-06-02T00:45:00Z"},
		"not long enough":                               {asleep(sleeps(until(untilNext + margin - time.Second))), isFalse, "ProtectionEnds", "may be through after that"},
		"ended":                                         {asleep(sleeps(until(0))), isFalse, "ProtectionEnded", "ended at"},
		"ended long ago":                                {asleep(sleeps(until(-96 * time.Hour))), isFalse, "ProtectionEnded", "can delete it"},
		"as reckoned":                                   {asleep(sleeps(until(96*time.Hour), reckoned)), isTrue, "FinalSnapshotInferred", "locked until 2025-06-05T03:00:00Z as inferred from the bucket's policy: the store does not tell dates of objects"},
		"as reckoned, and not long enough":              {asleep(sleeps(until(untilNext+margin-time.Second), reckoned)), isFalse, "ProtectionEnds", "as inferred from the bucket's policy"},
		"a run reckoned":                                {asleep(sleeps(until(time.Hour)), task("InProgress", time.Hour), told(time.Minute, immutability.Notice{At: testNow, Snapshot: "Full-9", Until: testNow.Add(96 * time.Hour), Inferred: ptrTo(true)})), isTrue, "FinalSnapshotInferred", "2025-06-05"},
		"a run was told what was reckoned":              {asleep(sleeps(until(time.Hour), reckoned), task("InProgress", time.Hour), told(time.Minute, immutability.Notice{At: testNow, Snapshot: "Full-9", Until: testNow.Add(96 * time.Hour), Inferred: ptrTo(false)})), isTrue, "FinalSnapshotProtected", "2025-06-05"},
		"an older program does not say which":           {asleep(sleeps(until(time.Hour), reckoned), task("InProgress", time.Hour), told(time.Minute, immutability.Notice{At: testNow, Snapshot: "Full-9", Until: testNow.Add(96 * time.Hour)})), isTrue, "FinalSnapshotInferred", "2025-06-05"},
		"a run kept it, and another is newer":           {asleep(sleeps(until(time.Hour)), task("InProgress", time.Hour), told(time.Minute, immutability.Notice{At: testNow, Snapshot: "Full-9c", End: 9, Recorded: "Full-9", Newer: "Full-10, which goes to revision 9", NewestEnd: 9, Until: testNow.Add(96 * time.Hour)})), isFalse, "FinalSnapshotNotNewest", "Full-9 is locked until 2025-06-05T03:00:00Z, and there is something newer that no member wrote: Full-10"},
		"a run held it, and another is newer":           {asleep(sleeps(until(time.Hour)), task("InProgress", time.Hour), told(time.Minute, immutability.Notice{At: testNow, Snapshot: "Full-9", End: 9, Recorded: "Full-9", Newer: "Full-10", NewestEnd: 9, Held: true})), isFalse, "FinalSnapshotNotNewest", "Full-9 is held"},
		"a run kept it, and tells no revision":          {asleep(sleeps(until(time.Hour)), task("InProgress", time.Hour), told(time.Minute, immutability.Notice{At: testNow, Snapshot: "Full-9", End: 8, Recorded: "Full-9", NewestEnd: 8, Until: testNow.Add(96 * time.Hour)})), isTrue, "FinalSnapshotProtected", "2025-06-05"},
		"a run could not keep it":                       {asleep(sleeps(until(96*time.Hour)), task("InProgress", time.Hour), told(time.Minute, immutability.Notice{At: testNow, Snapshot: "Full-10", End: 9, Recorded: "Full-9", Newer: "Full-10", NewestEnd: 9, Damaged: "Full-9: it is gone", Until: testNow.Add(96 * time.Hour)})), isFalse, "FinalSnapshotDamaged", "Full-9: it is gone"},
		"what it kept is too short, and newer":          {asleep(sleeps(until(time.Hour)), task("InProgress", time.Hour), told(time.Minute, immutability.Notice{At: testNow, Snapshot: "Full-9", End: 9, Recorded: "Full-9", Newer: "Full-10", NewestEnd: 9, Until: testNow.Add(2 * time.Hour)})), isFalse, "ProtectionEnds", "2025-06-01T05"},
		"held":                                          {asleep(sleeps(func(f *druidv1alpha1.FinalSnapshot) { f.Held = true })), isTrue, "FinalSnapshotHeld", "until somebody releases it"},
		"no date":                                       {asleep(sleeps()), isUnknown, "FinalSnapshotDateNotKnown", "nobody has told"},
		"nothing is known":                              {asleep(sleeps(), func(o *Observation) { o.Etcd.Status.Hibernation = nil }), isUnknown, "FinalSnapshotDateNotKnown", "another operator"},
		"another Etcd's":                                {asleep(sleeps(until(96*time.Hour)), func(o *Observation) { o.Etcd.Status.Hibernation.EtcdUID = "other" }), isUnknown, "FinalSnapshotDateNotKnown", ""},
		"without one":                                   {asleep(sleeps(), func(o *Observation) { o.Etcd.Status.Hibernation.FinalSnapshot = nil }), isFalse, "FinalSnapshotMissing", "was allowed"},
		"the task has ended":                            {asleep(sleeps(until(96*time.Hour)), task("Failed", time.Hour)), isFalse, "ExtensionNotRunning", "main-hibernation"},
		"nobody acts on the task":                       {asleep(sleeps(until(96*time.Hour)), task("", time.Hour)), isFalse, "ExtensionNotRunning", "controllers.etcdOpsTask"},
		"nobody has acted on the task yet":              {asleep(sleeps(until(96*time.Hour)), task("", time.Minute)), isTrue, "FinalSnapshotProtected", ""},
		"a run told":                                    {asleep(sleeps(until(time.Hour)), task("InProgress", time.Hour), told(time.Minute, immutability.Notice{At: testNow, Snapshot: "Full-9", Until: testNow.Add(96 * time.Hour)})), isTrue, "FinalSnapshotProtected", "2025-06-05"},
		"a run held it":                                 {asleep(sleeps(until(time.Hour)), task("InProgress", time.Hour), told(time.Minute, immutability.Notice{At: testNow, Snapshot: "Full-9", Held: true})), isTrue, "FinalSnapshotHeld", ""},
		"a run found it damaged":                        {asleep(sleeps(until(96*time.Hour)), task("InProgress", time.Hour), told(time.Minute, immutability.Notice{At: testNow, Snapshot: "Full-8", Until: testNow.Add(96 * time.Hour), Damaged: "Full-9: a hole"})), isFalse, "FinalSnapshotDamaged", "Full-9: a hole"},
		"a run kept a copy of it":                       {asleep(sleeps(until(time.Hour)), task("InProgress", time.Hour), told(time.Minute, immutability.Notice{At: testNow, Snapshot: "Full-copy", End: 9, Until: testNow.Add(96 * time.Hour)})), isTrue, "FinalSnapshotProtected", "2025-06-05"},
		"a run kept another one":                        {asleep(sleeps(until(96*time.Hour)), task("InProgress", time.Hour), told(time.Minute, immutability.Notice{At: testNow, Snapshot: "Full-8", End: 8, Until: testNow.Add(96 * time.Hour)})), isFalse, "FinalSnapshotDamaged", "restores to revision 8 of 9"},
		"a run of the same name went less far":          {asleep(sleeps(until(96*time.Hour)), task("InProgress", time.Hour), told(time.Minute, immutability.Notice{At: testNow, Snapshot: "Full-9", End: 8, Until: testNow.Add(96 * time.Hour)})), isFalse, "FinalSnapshotDamaged", "restores to revision 8 of 9"},
		"a run found nothing":                           {asleep(sleeps(until(96*time.Hour)), task("InProgress", time.Hour), told(time.Minute, immutability.Notice{At: testNow, Damaged: "there is no full"})), isFalse, "FinalSnapshotDamaged", "there is no full"},
		"an older program told of what nobody can read": {asleep(sleeps(until(96*time.Hour)), task("InProgress", time.Hour), told(time.Minute, immutability.Notice{At: testNow, Snapshot: "Full-copy", Until: testNow.Add(96 * time.Hour)})), isUnknown, "FinalSnapshotDateNotKnown", ""},
		"there is no task, and none is made":            {asleep(sleeps(until(96*time.Hour)), func(o *Observation) { o.NoExtension = "suspended" }), isFalse, "ExtensionNotRunning", "Full-9 is locked until 2025-06-05T03:00:00Z, and no EtcdOperatorTask prolongs that: suspended"},
		"held, and the task has ended":                  {asleep(sleeps(func(f *druidv1alpha1.FinalSnapshot) { f.Held = true }), task("Failed", time.Hour)), isFalse, "ExtensionNotRunning", "Full-9 is held"},
		"held, two runs ago":                            {asleep(sleeps(func(f *druidv1alpha1.FinalSnapshot) { f.Held = true }, looked(-52*time.Hour)), task("InProgress", 96*time.Hour)), isUnknown, "FinalSnapshotDateNotKnown", "was held"},
		"held, one run ago":                             {asleep(sleeps(func(f *druidv1alpha1.FinalSnapshot) { f.Held = true }, looked(-27*time.Hour)), task("InProgress", 96*time.Hour)), isTrue, "FinalSnapshotHeld", ""},
		"a run of an earlier hibernation told":          {asleep(sleeps(until(time.Hour)), task("InProgress", time.Hour), told(2*time.Hour, immutability.Notice{At: testNow, Snapshot: "Full-9", Until: testNow.Add(96 * time.Hour)})), isFalse, "ProtectionEnds", ""},
		"an older run told, of which pods remain":       {asleep(sleeps(until(96*time.Hour), looked(-time.Minute)), task("InProgress", 2*time.Hour), told(time.Hour, immutability.Notice{At: testNow.Add(-time.Hour), Snapshot: "Full-9", Until: testNow.Add(time.Hour)})), isTrue, "FinalSnapshotProtected", ""},
	} {
		got := conditionOf(t, c.seen, druidv1alpha1.ConditionHibernationBackupProtected)
		if got == nil || got.Status != c.status || got.Reason != c.reason || !strings.Contains(got.Message, c.message) {
			t.Errorf("%s: %+v, want %s, %s, %q", phrase, got, c.status, c.reason, c.message)
		}
	}
	for phrase, o := range map[string]Observation{
		"awake":                   cluster(3, ofBucket),
		"no lock is asked for":    asleep(sleeps(until(time.Hour)), func(o *Observation) { o.Etcd.Spec.Backup.Store.Immutability = nil }),
		"without a store":         asleep(sleeps(until(time.Hour)), func(o *Observation) { o.Etcd.Spec.Backup.Store = nil }),
		"the members still stand": cluster(3, ofBucket, wantReplicas(0)),
	} {
		if got := conditionOf(t, o, druidv1alpha1.ConditionHibernationBackupProtected); got != nil {
			t.Errorf("%s: %+v, want no condition", phrase, got)
		}
	}
}

// A run that should be under way may be through any moment; one that did not come makes a difference.
func TestARunMayTakeItsTime(t *testing.T) {
	zero := int32(0)
	o := asleep(func(o *Observation) {
		o.StatefulSet.Spec.Replicas = &zero
		until := metav1.NewTime(time.Date(2025, 6, 2, 1, 0, 0, 0, time.UTC))
		o.Etcd.Status.Hibernation = &druidv1alpha1.HibernationStatus{EtcdUID: o.Etcd.UID, FinalSnapshot: &druidv1alpha1.FinalSnapshot{Name: "Full-9", ProtectedUntil: &until}}
	})
	for clock, want := range map[string]druidv1alpha1.ConditionStatus{"23:59": isTrue, "00:00": isTrue, "00:14": isTrue, "00:16": isFalse, "00:30": isFalse} {
		day := 1
		if strings.HasPrefix(clock, "00") {
			day = 2
		}
		hm, err := time.Parse("15:04", clock)
		if err != nil {
			t.Fatal(err)
		}
		at := time.Date(2025, 6, day, hm.Hour(), hm.Minute(), 0, 0, time.UTC)
		f, applies := look(o, nil, at).hibernationProtected()
		if !applies || f.status != want {
			t.Errorf("at %s: %+v, want %s", clock, f, want)
		}
	}
}

func asleep(change ...func(*Observation)) Observation {
	return cluster(3, append([]func(*Observation){ofBucket, wantReplicas(0), noMembers}, change...)...)
}

func conditionOf(t *testing.T, o Observation, of druidv1alpha1.ConditionType) *druidv1alpha1.Condition {
	t.Helper()
	return druidv1alpha1.FindCondition(Conditions(o, Members(o, DefaultThresholds(), testNow), testNow), of)
}

// The final snapshot is gone from the bucket, or excluded: the run keeps an older one, which is not damaged.
func TestTheLockOfAnotherSnapshotIsNotThatOfTheFinalOne(t *testing.T) {
	until := metav1.NewTime(testNow.Add(time.Hour))
	n := immutability.Notice{At: testNow, Snapshot: "Full-00000000-00000500-1700000000.zst", Until: testNow.Add(96 * time.Hour)}
	o := sleeping(druidv1alpha1.FinalSnapshot{Name: "Full-00000000-00001000-1748000000.zst.final", Revision: 1000, ProtectedUntil: &until}, func(o *Observation) {
		o.ExtensionPods = []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: ago(time.Minute)},
			Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: n.String()}}}}}}}
	})
	c := conditionOf(t, o, druidv1alpha1.ConditionHibernationBackupProtected)
	if c == nil || c.Status != isFalse {
		t.Errorf("%+v; the run kept %s, which has revision 500 of 1000", c, n.Snapshot)
	}
}

// Whoever may write puts a full into the bucket while the cluster sleeps. The runs keep that one, and the lock of the final
// one ends.
func TestANewerSnapshotThatNoMemberWroteIsNotTheFinalOne(t *testing.T) {
	until := metav1.NewTime(testNow.Add(48 * time.Hour))
	for phrase, c := range map[string]struct {
		kept    string
		end     int64
		highest *int64
		awake   bool
		want    druidv1alpha1.ConditionStatus
	}{
		"further than any member was":               {"Full-00000000-00009999-1748700000.zst", 9999, ptrTo[int64](1002), false, isFalse},
		"a delta that only somebody else can have":  {"Full-00000000-00001000-1748000000.zst.final", 1003, ptrTo[int64](1002), false, isFalse},
		"what a member uploaded as it stopped":      {"Full-00000000-00001000-1748000000.zst.final", 1002, ptrTo[int64](1002), false, isTrue},
		"an operator before that knew of revisions": {"Full-00000000-00001000-1748000000.zst.final", 1002, nil, false, isTrue},
		"members write again":                       {"Full-00000000-00009999-1748700000.zst", 9999, ptrTo[int64](1002), true, isTrue},
	} {
		n := immutability.Notice{At: testNow, Snapshot: c.kept, End: c.end, Until: testNow.Add(96 * time.Hour)}
		o := sleeping(druidv1alpha1.FinalSnapshot{Name: "Full-00000000-00001000-1748000000.zst.final", Revision: 1000, ProtectedUntil: &until}, func(o *Observation) {
			o.Etcd.Status.LastKnownRevision = c.highest
			o.ExtensionPods = []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: ago(time.Minute)},
				Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: n.String()}}}}}}}
			if c.awake {
				since := ago(time.Hour)
				o.Etcd.Status.Hibernation.AwakeSince = &since
			}
		})
		got := conditionOf(t, o, druidv1alpha1.ConditionHibernationBackupProtected)
		if got == nil || got.Status != c.want || c.want == isFalse && !strings.Contains(got.Message, "etcdbrctl exclude") {
			t.Errorf("%s: %+v, want %s", phrase, got, c.want)
		}
	}
}

func ptrTo[T any](v T) *T { return &v }

// A run after waking up tells that nothing is held by runs any more, whatever the bucket holds by itself.
func TestAReleaseIsBelieved(t *testing.T) {
	for released, want := range map[bool]bool{true: false, false: true} {
		n := immutability.Notice{At: testNow, Snapshot: "Full-10", End: 10, Held: true, Released: released}
		o := sleeping(druidv1alpha1.FinalSnapshot{Name: "Full-9", Revision: 9, Held: true}, func(o *Observation) {
			o.Etcd.Status.Hibernation.AwakeSince = ptr(ago(time.Hour))
			o.ExtensionPods = []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: ago(time.Minute)},
				Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: n.String()}}}}}}}
		})
		if h := Hibernation(o); h.FinalSnapshot.Held != want || h.FinalSnapshot.LookedAt == nil {
			t.Errorf("released %t: %+v", released, h.FinalSnapshot)
		}
	}
}

// A hold that nobody has looked at for a month may have been released since.
func TestAHoldIsBelievedForAsLongAsRunsTell(t *testing.T) {
	looked := ago(30 * 24 * time.Hour)
	c := conditionOf(t, sleeping(druidv1alpha1.FinalSnapshot{Name: "Full-9", Held: true, LookedAt: &looked}, func(o *Observation) {
		o.Extension.Status.State = "Failed"
	}), druidv1alpha1.ConditionHibernationBackupProtected)
	if c == nil || c.Status == isTrue {
		t.Errorf("%+v; the task has failed, and nobody has looked for 30 days at a daily schedule", c)
	}
}

// Replicas that are not acted on (suspended, or not asked for) do not wake a cluster.
func TestTheConditionStaysWhileMembersAreOnlyWanted(t *testing.T) {
	until := metav1.NewTime(testNow.Add(-time.Hour))
	for phrase, change := range map[string]func(*Observation){
		"replicas of a suspended Etcd": func(o *Observation) {
			o.Etcd.Spec.Replicas = 3
			o.Etcd.Annotations = map[string]string{druidv1alpha1.AnnotationSuspendReconcile: ""}
		},
		"asleep by the annotation": func(o *Observation) {
			o.Etcd.Spec.Replicas = 3
			o.Etcd.Annotations = map[string]string{druidv1alpha1.AnnotationDisableRuntimeComponents: ""}
		},
	} {
		c := conditionOf(t, sleeping(druidv1alpha1.FinalSnapshot{Name: "Full-9", ProtectedUntil: &until}, change), druidv1alpha1.ConditionHibernationBackupProtected)
		if c == nil {
			t.Errorf("%s: no condition, and the lock ended an hour ago", phrase)
		}
	}
}

func sleeping(final druidv1alpha1.FinalSnapshot, change ...func(*Observation)) Observation {
	return asleep(append([]func(*Observation){func(o *Observation) {
		zero := int32(0)
		o.StatefulSet.Spec.Replicas = &zero
		o.Etcd.Status.Hibernation = &druidv1alpha1.HibernationStatus{EtcdUID: o.Etcd.UID, Generation: 5, FinalSnapshot: &final}
		o.Extension = &druidv1alpha1.EtcdOperatorTask{ObjectMeta: metav1.ObjectMeta{Name: "main-hibernation", CreationTimestamp: ago(40 * 24 * time.Hour)}}
		o.Extension.Status.State = "InProgress"
	}}, change...)...)
}

// A program from before tells no end: the names do.
func TestANoticeOfAnOlderProgramIsReadByItsNames(t *testing.T) {
	final := druidv1alpha1.FinalSnapshot{Name: "Full-00000000-00001000-1748000000.zst.final", Revision: 1002}
	for kept, want := range map[string]druidv1alpha1.ConditionStatus{
		final.Name: isTrue,
		"Full-00000000-00001000-1748600000.zst.final": isTrue, // a copy
		"Full-00000000-00000999-1748000000.zst":       isFalse,
		"something":                                   isUnknown,
	} {
		n := immutability.Notice{At: testNow, Snapshot: kept, Until: testNow.Add(96 * time.Hour)}
		c := conditionOf(t, sleeping(final, func(o *Observation) {
			o.ExtensionPods = []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: ago(time.Minute)},
				Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: n.String()}}}}}}}
		}), druidv1alpha1.ConditionHibernationBackupProtected)
		if c == nil || c.Status != want {
			t.Errorf("%s was kept: %+v, want %s", kept, c, want)
		}
	}
}

// The task of a sleep stands on if the cluster sleeps again before it is awake like any other.
func TestWhatARunOfAFormerSleepToldIsNotAboutTheFinalFullOfThisOne(t *testing.T) {
	final := druidv1alpha1.FinalSnapshot{Name: "Full-00000000-00000020-1748746800.final", Revision: 20, VerifiedAt: ago(time.Minute), ProtectedUntil: ptr(ago(-96 * time.Hour))}
	former := "Full-00000000-00000009-1748746000.final"
	for phrase, n := range map[string]immutability.Notice{
		"it kept the former one":         {At: testNow.Add(-3 * time.Hour), Snapshot: former, Recorded: former, End: 9, Held: true},
		"the same, of the same revision": {At: testNow.Add(-3 * time.Hour), Snapshot: former, Recorded: former, End: 20, Held: true},
		"it began before this sleep":     {At: testNow, Snapshot: former, Recorded: former, End: 9},
		"the same, and reached as far":   {At: testNow, Snapshot: former, Recorded: former, End: 20},
		"it released":                    {At: testNow.Add(-3 * time.Hour), Snapshot: "Full-00000000-00000010-1748746500", End: 10, Released: true},
	} {
		o := sleeping(final, func(o *Observation) {
			o.ExtensionPods = []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: ago(3 * time.Hour)},
				Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: n.String()}}}}}}}
		})
		if got := Hibernation(o); cmp.Diff(*got.FinalSnapshot, final) != "" {
			t.Errorf("%s: %+v", phrase, got.FinalSnapshot)
		}
	}
}

// A run that lists alone has not read what it kept; a broken member could have put anything there.
func TestWhatARunHasReadIsKnown(t *testing.T) {
	for phrase, c := range map[string]struct {
		n    immutability.Notice
		want bool
	}{
		"it has read it":                         {immutability.Notice{At: testNow, Snapshot: "Full-9", Recorded: "Full-9", End: 9, Whole: true}, true},
		"it has listed it":                       {immutability.Notice{At: testNow, Snapshot: "Full-9", Recorded: "Full-9", End: 9}, false},
		"it has not understood it":               {immutability.Notice{At: testNow, Snapshot: "Full-9", Recorded: "Full-9", End: 9, Unproven: "the bucket key was not understood"}, false},
		"it has read that it ends before":        {immutability.Notice{At: testNow, Snapshot: "Full-9", Recorded: "Full-9", End: 8, Whole: true}, false},
		"it has read something else":             {immutability.Notice{At: testNow, Snapshot: "Full-9", End: 9, Whole: true}, false},
		"it has found it damaged":                {immutability.Notice{At: testNow, Snapshot: "Full-9", Recorded: "Full-9", End: 9, Whole: true, Damaged: "a hole"}, false},
		"it released what is held for the sleep": {immutability.Notice{At: testNow, Snapshot: "Full-10", End: 10, Released: true}, false},
	} {
		o := sleeping(druidv1alpha1.FinalSnapshot{Name: "Full-9", Revision: 9, VerifiedAt: ago(time.Hour)}, func(o *Observation) {
			o.ExtensionPods = []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: ago(time.Minute)},
				Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: c.n.String()}}}}}}}
		})
		if f := Hibernation(o).FinalSnapshot; !strings.Contains(f.Doubt(), c.n.Unproven) || (f.Doubt() != "") != (c.n.Damaged+c.n.Unproven != "" || c.n.End == 8) {
			t.Errorf("%s: %q is doubted", phrase, f.Doubt())
		}
		if f := Hibernation(o).FinalSnapshot; (f.ReadAt != nil) != c.want || c.n.Released && f.LookedAt != nil {
			t.Errorf("%s: %+v", phrase, f)
		}
	}
}

// Volumes wait for a run that reads the final full.
func TestItIsKnownWhyNoRunReadsTheFinalFull(t *testing.T) {
	const name = "Full-9"
	for phrase, c := range map[string]struct {
		change func(*Observation)
		want   string
	}{
		"none has ended":             {falls(time.Minute), ""},
		"none has for long":          {falls(readPatience + time.Second), "none has since 2025-06-01T02:44:59Z, and one may be at work: kubectl describe etcdoperatortask main-hibernation"},
		"volumes stay":               {func(*Observation) {}, ""},
		"one has read it":            {left(immutability.Notice{At: testNow, Snapshot: name, Recorded: name, Whole: true}), ""},
		"it is damaged":              {left(immutability.Notice{At: testNow, Snapshot: name, Recorded: name, Damaged: "a hole"}), ""},
		"it is of a former sleep":    {left(immutability.Notice{At: testNow, Snapshot: "Full-8", Recorded: "Full-8"}), ""},
		"it began before this sleep": {left(immutability.Notice{At: testNow.Add(-2 * time.Hour), Snapshot: name, Recorded: name}), ""},
		"its program does not tell":  {both(left(immutability.Notice{At: testNow, Snapshot: name, Recorded: name}), falls(readPatience+time.Second)), "spec.backup.image older"},
		"it was not told to read":    {left(immutability.Notice{At: testNow.Add(-readPatience), Snapshot: name, Recorded: name}), ""},
		"its pod finds no node yet":  {stuck(taskPatience), ""},
		"its pod finds no node":      {stuck(taskPatience + time.Second), "the pod main-7-x does not begin: its pod cannot be scheduled (no room); when that is mended in the Etcd, kubectl delete job/main-7"},
		"the last one failed": {func(o *Observation) {
			o.Extension.Status.LastOperation = &druidv1alpha1.TaskOperation{State: druidv1alpha1.OperationFailed}
			o.Extension.Status.LastErrors = []druidv1alpha1.LastError{{Description: "the Job main-7 does not begin"}}
		}, "the Job main-7 does not begin"},
		"there is no task": {func(o *Observation) { o.NoExtension = "somebody made another one" }, "somebody made another one"},
	} {
		o := sleeping(druidv1alpha1.FinalSnapshot{Name: name, Revision: 9, VerifiedAt: ago(time.Hour)}, c.change)
		if len(o.ExtensionPods) > 0 && len(o.Etcd.Status.Conditions) == 0 {
			falls(readPatience - time.Second)(&o)
		}
		if got := Unread(o, testNow); got == "" != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", phrase, got, c.want)
		}
	}
}

// falls: it is falling asleep, or its volumes are to go, for so long.
func falls(since time.Duration) func(*Observation) {
	return func(o *Observation) {
		o.Etcd.Status.Conditions = []druidv1alpha1.Condition{{Type: druidv1alpha1.ConditionHibernated, Status: druidv1alpha1.ConditionFalse, LastTransitionTime: ago(since)}}
	}
}

// stuck: the pod of a run finds no node for so long.
func stuck(since time.Duration) func(*Observation) {
	return func(o *Observation) {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "main-7-x", CreationTimestamp: ago(since), Labels: map[string]string{batchv1.JobNameLabel: "main-7"}}}
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "no room"}}
		o.ExtensionPods = []*corev1.Pod{p}
	}
}

func both(changes ...func(*Observation)) func(*Observation) {
	return func(o *Observation) {
		for _, c := range changes {
			c(o)
		}
	}
}

// left: a run left that behind.
func left(n immutability.Notice) func(*Observation) {
	return func(o *Observation) {
		o.ExtensionPods = []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: ago(time.Minute)},
			Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: n.String()}}}}}}}
	}
}

// Whatever else a run tells: what it holds is held until a run tells that it is released.
func TestWhatRunsHoldIsKnownUntilOneHasReleasedIt(t *testing.T) {
	tells := func(change func(*immutability.Notice), before ...func(*Observation)) *druidv1alpha1.HibernationStatus {
		n := immutability.Notice{At: testNow, Snapshot: "Full-9", Recorded: "Full-9", End: 9}
		change(&n)
		o := sleeping(druidv1alpha1.FinalSnapshot{Name: "Full-9", Revision: 9}, append(before, func(o *Observation) {
			o.ExtensionPods = []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: ago(time.Minute)},
				Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: n.String()}}}}}}}
		})...)
		return Hibernation(o)
	}
	held := func(n *immutability.Notice) { n.Held = true }
	released := func(n *immutability.Notice) { n.Released = true }
	left := func(o *Observation) { o.Etcd.Status.Hibernation.HoldsLeft = true }
	final := func(o *Observation) { o.Etcd.Status.Hibernation.FinalSnapshot.Held = true }
	none := func(o *Observation) { o.Etcd.Status.Hibernation.FinalSnapshot = nil }
	for phrase, c := range map[string]struct {
		got  *druidv1alpha1.HibernationStatus
		want bool
	}{
		"nothing is held":                 {tells(func(*immutability.Notice) {}), false},
		"it is held":                      {tells(held), true},
		"it is held, without a final":     {tells(held, none), true},
		"a run tells nothing of it":       {tells(func(*immutability.Notice) {}, left), true},
		"it is released":                  {tells(released, left, final), false},
		"it is released, without a final": {tells(released, left, none), false},
		"it is released, and damaged":     {tells(func(n *immutability.Notice) { n.Released, n.Damaged = true, "a hole" }, left, final), false},
	} {
		if c.got.Holds() != c.want {
			t.Errorf("%s: %+v, want that something is held: %t", phrase, c.got, c.want)
		}
	}
}

func TestAClusterThatNeverSleptHasNoConditionAboutItsSleep(t *testing.T) {
	o := asleep(func(o *Observation) {
		zero := int32(0)
		o.StatefulSet.Spec.Replicas, o.Etcd.Spec.Replicas = &zero, 3
	})
	if c := conditionOf(t, o, druidv1alpha1.ConditionHibernationBackupProtected); c != nil {
		t.Errorf("%+v, want none", c)
	}
}

// Asleep for longer than a period, and kept locked by extensions: nobody has looked through the bucket since.
func longAsleep(o *Observation) {
	wasProtected(o)
	o.Etcd.Status.Conditions = append(o.Etcd.Status.Conditions, druidv1alpha1.Condition{Type: druidv1alpha1.ConditionHibernationBackupProtected, Status: isTrue})
	o.Etcd.Status.Backup = &druidv1alpha1.EtcdBackupStatus{BackupStatus: druidv1alpha1.BackupStatus{
		LookedAt: ago(240 * time.Hour), ProtectionLevel: "compliance", Protection: "compliance until then", ProtectedUntil: ptr(ago(144 * time.Hour)),
	}}
}

func TestWhoSleepsLongAndWellIsNoAlert(t *testing.T) {
	until, told := ago(-90*time.Hour), ago(3*time.Hour)
	final := func(change ...func(*druidv1alpha1.FinalSnapshot)) druidv1alpha1.FinalSnapshot {
		f := druidv1alpha1.FinalSnapshot{Name: "Full-9", Revision: 9, VerifiedAt: ago(240 * time.Hour), ProtectedUntil: &until, LookedAt: &told}
		for _, c := range change {
			c(&f)
		}
		return f
	}
	wakes := func(o *Observation) {
		since, three := ago(time.Minute), int32(3)
		o.Etcd.Status.Hibernation.AwakeSince, o.Etcd.Spec.Replicas, o.StatefulSet.Spec.Replicas = &since, three, &three
	}
	check(t, druidv1alpha1.ConditionBackupsProtected, map[string]conditionCase{
		"locked":       {sleeping(final(), longAsleep), isTrue, "Protected", "Full-9 is locked until"},
		"held":         {sleeping(final(func(f *druidv1alpha1.FinalSnapshot) { f.Held, f.ProtectedUntil = true, nil }), longAsleep), isTrue, "Protected", "Full-9 is held"},
		"as reckoned":  {sleeping(final(func(f *druidv1alpha1.FinalSnapshot) { f.Inferred = true }), longAsleep), isTrue, "ProtectionInferred", "Full-9 is locked until"},
		"not for long": {sleeping(final(func(f *druidv1alpha1.FinalSnapshot) { f.ProtectedUntil = ptr(ago(-time.Hour)) }), longAsleep), isFalse, "NotProtected", "may be through after that"},
		"not known":    {sleeping(final(func(f *druidv1alpha1.FinalSnapshot) { f.ProtectedUntil = nil }), longAsleep), isUnknown, "ProtectionNotKnown", "nobody has told"},
		"waking up":    {sleeping(final(), longAsleep, wakes), isTrue, "Protected", "Full-9 is locked until"},
		"waking up, and members looked": {sleeping(final(), longAsleep, wakes, func(o *Observation) {
			o.Etcd.Status.Backup.LookedAt = ago(time.Second)
		}), isFalse, "NotProtected", ""},
	})
}

func TestTheLockIsWatchedUntilAMemberHasTakenAFull(t *testing.T) {
	until := ago(-90 * time.Hour)
	for newFull, want := range map[string]bool{"": true, "Full-10": false} {
		o := sleeping(druidv1alpha1.FinalSnapshot{Name: "Full-9", Revision: 9, ProtectedUntil: &until}, func(o *Observation) {
			since, three := ago(72*time.Hour), int32(3)
			h := o.Etcd.Status.Hibernation
			h.AwakeSince, h.NewFull, o.Etcd.Spec.Replicas, o.StatefulSet.Spec.Replicas = &since, newFull, three, &three
		})
		if c := conditionOf(t, o, druidv1alpha1.ConditionHibernationBackupProtected); (c != nil) != want {
			t.Errorf("the new full is %q: %+v, want a condition %t", newFull, c, want)
		}
	}
}

// A cluster is awake and has taken a new full: what was held for its sleep is released by a run, and if none does somebody is told.
func TestAHoldThatNobodyReleasesIsTold(t *testing.T) {
	failed := func(since time.Duration) func(*Observation) {
		return func(o *Observation) {
			o.Extension.Status.LastOperation = &druidv1alpha1.TaskOperation{State: druidv1alpha1.OperationFailed, Reason: "the Job main-7 failed"}
			o.Extension.Status.LastErrors = []druidv1alpha1.LastError{{Description: "the Job main-6 failed", ObservedAt: ago(48 * time.Hour)}, {Description: "the Job main-7 failed", ObservedAt: ago(since)}}
		}
	}
	awake := func(since time.Duration) func(*Observation) {
		return func(o *Observation) { o.Etcd.Status.Hibernation.AwakeSince = ptr(ago(since)) }
	}
	ended := func(o *Observation) {
		o.Extension.Status.State = druidv1alpha1.TaskRejected
		o.Extension.Status.LastOperation = &druidv1alpha1.TaskOperation{State: druidv1alpha1.OperationFailed, Reason: "another one does the same"}
	}
	none := func(o *Observation) { o.Extension = nil }
	suspended := func(o *Observation) { o.Extension, o.NoExtension = nil, "suspended" }
	left := func(o *Observation) {
		o.Etcd.Status.Hibernation.FinalSnapshot, o.Etcd.Status.Hibernation.HoldsLeft = nil, true
	}
	notHeld := func(o *Observation) { o.Etcd.Status.Hibernation.FinalSnapshot.Held = false }
	noLocks := func(o *Observation) { o.Etcd.Spec.Backup.Store.Immutability = nil }
	late := func(o *Observation) {
		o.Etcd.Status.Hibernation.NewFull = fmt.Sprintf("Full-00000000-00000010-%d.zst", testNow.Add(-time.Hour).Unix())
	}
	asleep := func(o *Observation) { o.Etcd.Spec.Replicas = 0 }
	another := func(o *Observation) { o.Etcd.Status.Hibernation.EtcdUID = "other" }
	for phrase, c := range map[string]struct {
		changes []func(*Observation)
		want    string // in the message; empty: there is no condition
	}{
		"a run will come":                               {nil, ""},
		"the last run failed":                           {[]func(*Observation){failed(time.Minute)}, "Full-9 is held still, although Full-10 is newer, and cannot be collected: the last run failed: the Job main-7 failed"},
		"no lock is asked for, and the last run failed": {[]func(*Observation){noLocks, failed(time.Minute)}, "the Job main-7 failed"},
		"a run failed while the cluster slept":          {[]func(*Observation){failed(2 * time.Hour)}, ""},
		"the same, and none was better since":           {[]func(*Observation){awake(4 * time.Hour), failed(5 * time.Hour)}, "no run has since 2025-05-31T23:00:00Z: the Job main-7 failed"},
		"the task has ended":                            {[]func(*Observation){ended}, "main-hibernation does not: another one does the same"},
		"nobody acts on the task":                       {[]func(*Observation){func(o *Observation) { o.Extension.Status.State = "" }}, "controllers.etcdOpsTask"},
		"a task will be made":                           {[]func(*Observation){none}, ""},
		"there is no task, and none is made":            {[]func(*Observation){suspended}, "no EtcdOperatorTask for that: suspended"},
		"no run has come":                               {[]func(*Observation){awake(4 * time.Hour)}, "no run has since 2025-05-31T23:00:00Z: kubectl get"},
		"the full came late":                            {[]func(*Observation){awake(4 * time.Hour), late}, ""},
		"holds of before, without a final":              {[]func(*Observation){left, failed(time.Minute)}, "what runs of the extension held, here or in a former store, is held still"},
		"no run goes to a former store":                 {[]func(*Observation){left, failed(time.Minute)}, "what is in a former store is released by hand alone: etcdbrctl"},
		"nothing is held":                               {[]func(*Observation){notHeld, failed(time.Minute)}, ""},
		"it is to sleep again":                          {[]func(*Observation){asleep, failed(time.Minute)}, ""},
		"another Etcd's":                                {[]func(*Observation){another, failed(time.Minute)}, ""},
	} {
		o := sleeping(druidv1alpha1.FinalSnapshot{Name: "Full-9", Revision: 9, Held: true}, append([]func(*Observation){func(o *Observation) {
			since, three := ago(time.Hour), int32(3)
			h := o.Etcd.Status.Hibernation
			h.AwakeSince, h.NewFull, o.Etcd.Spec.Replicas, o.StatefulSet.Spec.Replicas = &since, "Full-10", three, &three
		}}, c.changes...)...)
		got := conditionOf(t, o, druidv1alpha1.ConditionHibernationBackupProtected)
		if (got != nil) != (c.want != "") || got != nil && (got.Status != isFalse || got.Reason != druidv1alpha1.ReasonHoldNotReleased || !strings.Contains(got.Message, c.want) || !strings.Contains(got.Message, "--release-holds")) {
			t.Errorf("%s: %+v, want %q", phrase, got, c.want)
		}
		if b := conditionOf(t, o, druidv1alpha1.ConditionBackupsProtected); b != nil && strings.Contains(b.Message, "--release-holds") {
			t.Errorf("%s: of the newest backups it is told: %+v", phrase, b)
		}
	}
}

// Immutability is taken out of the specification while the cluster sleeps: nothing prolongs any more.
func TestWhenProtectionEndsIsToldWhileTheClusterSleeps(t *testing.T) {
	removed := func(o *Observation) { o.Etcd.Spec.Backup.Store.Immutability, o.Extension = nil, nil }
	until, ended := ago(-90*time.Hour), ago(time.Second)
	for phrase, c := range map[string]struct {
		final  druidv1alpha1.FinalSnapshot
		change func(*Observation)
		want   string // in the message of each condition; empty: there is none
	}{
		"locked":                  {druidv1alpha1.FinalSnapshot{ProtectedUntil: &until}, removed, "locked until 2025-06-04T21:00:00Z"},
		"held":                    {druidv1alpha1.FinalSnapshot{Held: true}, removed, "gcloud storage objects update --no-event-based-hold"},
		"the lock has ended":      {druidv1alpha1.FinalSnapshot{ProtectedUntil: &ended}, removed, ""},
		"nobody has told of one":  {druidv1alpha1.FinalSnapshot{}, removed, ""},
		"it was never asked for":  {druidv1alpha1.FinalSnapshot{ProtectedUntil: &until}, func(o *Observation) { removed(o); o.Etcd.Status.Conditions = nil }, ""},
		"the removal is no order": {druidv1alpha1.FinalSnapshot{ProtectedUntil: &until}, func(o *Observation) { appliedBefore(o); o.Etcd.Spec.Backup.Store.Immutability = nil }, "not by spec.backup"},
		"nor that of the store":   {druidv1alpha1.FinalSnapshot{ProtectedUntil: &until}, func(o *Observation) { appliedBefore(o); o.Etcd.Spec.Backup.Store = nil }, "not by spec.backup"},
	} {
		c.final.Name, c.final.Revision = "Full-9", 9
		o := sleeping(c.final, longAsleep, c.change)
		for _, of := range []druidv1alpha1.ConditionType{druidv1alpha1.ConditionHibernationBackupProtected, druidv1alpha1.ConditionBackupsProtected} {
			got := conditionOf(t, o, of)
			if (got != nil) != (c.want != "") || got != nil && !strings.Contains(got.Message, c.want) {
				t.Errorf("%s: %s is %+v, want %q", phrase, of, got, c.want)
			}
			if got != nil && (got.Reason == "ImmutabilityRemoved") == (o.Extension != nil) {
				t.Errorf("%s: %s has the reason %s", phrase, of, got.Reason)
			}
		}
	}
}

// What earlier sleeps held stays so in a cluster that sleeps without a final full, wherever its backups go by now.
func TestHoldsThatAreLeftAreToldWithoutAFinalFull(t *testing.T) {
	left := func(o *Observation) {
		o.Etcd.Status.Hibernation.FinalSnapshot, o.Etcd.Status.Hibernation.HoldsLeft = nil, true
	}
	removed := func(o *Observation) { o.Etcd.Spec.Backup.Store.Immutability, o.Extension = nil, nil }
	until := ago(-90 * time.Hour)
	for phrase, c := range map[string]struct {
		seen   Observation
		reason string // empty: there is no condition
		want   string
	}{
		"the store has no locks":                 {sleeping(druidv1alpha1.FinalSnapshot{}, removed, left), druidv1alpha1.ReasonImmutabilityRemoved, "what runs of the extension held, here or in a former store, is held, and nobody can delete it"},
		"it is that which was applied":           {sleeping(druidv1alpha1.FinalSnapshot{}, removed, appliedBefore, left), druidv1alpha1.ReasonImmutabilityRemoved, "is held, and nobody can delete it"},
		"no store is named, and locks go on":     {sleeping(druidv1alpha1.FinalSnapshot{}, appliedBefore, func(o *Observation) { o.Etcd.Spec.Backup.Store = nil }, left), druidv1alpha1.ReasonFinalSnapshotMissing, "is held until the cluster has woken up"},
		"locks are asked for":                    {sleeping(druidv1alpha1.FinalSnapshot{}, left), druidv1alpha1.ReasonFinalSnapshotMissing, "is held until the cluster has woken up"},
		"with a final full that is locked, too":  {sleeping(druidv1alpha1.FinalSnapshot{Name: "Full-9", ProtectedUntil: &until}, longAsleep, removed, func(o *Observation) { o.Etcd.Status.Hibernation.HoldsLeft = true }), druidv1alpha1.ReasonImmutabilityRemoved, "Full-9 is locked until"},
		"nothing is held":                        {sleeping(druidv1alpha1.FinalSnapshot{}, removed, left, func(o *Observation) { o.Etcd.Status.Hibernation.HoldsLeft = false }), "", ""},
		"what another Etcd of the name has left": {sleeping(druidv1alpha1.FinalSnapshot{}, removed, left, func(o *Observation) { o.Etcd.Status.Hibernation.EtcdUID = "other" }), "", ""},
	} {
		got := conditionOf(t, c.seen, druidv1alpha1.ConditionHibernationBackupProtected)
		if (got != nil) != (c.reason != "") || got != nil && (got.Reason != c.reason || !strings.Contains(got.Message, c.want)) {
			t.Errorf("%s: %+v, want %s, %q", phrase, got, c.reason, c.want)
		}
	}
}

// appliedBefore: what was applied last is written down.
func appliedBefore(o *Observation) {
	e := o.Etcd.DeepCopy()
	e.SetDefaults()
	o.Etcd.Status.Hibernation.Applied = &druidv1alpha1.AppliedBackup{Store: e.Spec.Backup.Store, FullSnapshotSchedule: e.Spec.Backup.FullSnapshotSchedule}
}

func TestTheScheduleThatCountsIsThatOfTheTask(t *testing.T) {
	until := ago(-90 * time.Hour)
	for schedule, want := range map[string]druidv1alpha1.ConditionStatus{"": isTrue, "0 4 * * *": isTrue, "@yearly": isFalse} {
		for phrase, change := range map[string]func(*Observation){
			"with locks asked for": func(*Observation) {},
			"with none":            func(o *Observation) { o.Etcd.Spec.Backup.Store.Immutability = nil },
		} {
			o := sleeping(druidv1alpha1.FinalSnapshot{Name: "Full-9", Revision: 9, ProtectedUntil: &until}, change, func(o *Observation) {
				o.Extension.Name = "somebodys"
				if schedule != "" {
					o.Extension.Spec.Config = &druidv1alpha1.EtcdOperatorTaskConfig{Schedule: &schedule}
				}
			})
			c := conditionOf(t, o, druidv1alpha1.ConditionHibernationBackupProtected)
			if c == nil || c.Status != want || want == isFalse && !strings.Contains(c.Message, "another task with another schedule") {
				t.Errorf("%q, %s: %+v, want %s", schedule, phrase, c, want)
			}
		}
	}
}

// What is refused, or nobody asked for, is not what extensions go by, and not what their condition is judged by.
func TestTheScheduleThatCountsIsTheOneThatWasApplied(t *testing.T) {
	until := ago(-90 * time.Hour)
	o := sleeping(druidv1alpha1.FinalSnapshot{Name: "Full-9", Revision: 9, ProtectedUntil: &until}, appliedBefore)
	if c := conditionOf(t, o, druidv1alpha1.ConditionHibernationBackupProtected); c == nil || c.Status != isTrue || strings.Contains(c.Message, "applied") {
		t.Errorf("nothing was changed: %+v", c)
	}
	o.Etcd.Spec.Backup.FullSnapshotSchedule = ptr("0 0 1 * *")
	if c := conditionOf(t, o, druidv1alpha1.ConditionHibernationBackupProtected); c == nil || c.Status != isTrue || !strings.Contains(c.Message, "2025-06-02T00:00:00Z; the extension goes by status.hibernation.applied") {
		t.Errorf("a monthly schedule is not applied: %+v", c)
	}
}
