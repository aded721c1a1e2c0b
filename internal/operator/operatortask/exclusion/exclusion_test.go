package exclusion

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/operator/desired"
	"druid.internal/druid/internal/operator/operatortask/task"
)

func of(c druidv1alpha1.ExcludeSnapshotsConfig) *task.Task { return &task.Task{Exclusion: &c} }

const full druidv1alpha1.SnapshotName = "Full-00000000-00009002-1565021494.zst"

func TestANameThatNoSnapshotCanHaveIsFoundBeforeAnythingRuns(t *testing.T) {
	for name, want := range map[druidv1alpha1.SnapshotName]string{
		full: "", "Incr-00009003-00009120-1565021514.gz": "", "Full-00000000-00009002-1565021494.gz.final": "",
		"Full-00000005-00000004-1565021494":  "first revision is after the last",
		"Full-000000000-00009002-1565021494": "not in canonical form",
		"--yes-leave-nothing":                "spec.config.excludeSnapshots.names[1]",
	} {
		got := misnamed(of(druidv1alpha1.ExcludeSnapshotsConfig{Names: []druidv1alpha1.SnapshotName{full, name}}), nil)
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// The newest backup of a cluster that sleeps is the only one with its last state, and while any chain is left the bucket does not
// tell that it is needed.
func TestTheFinalSnapshotOfAClusterThatSleepsIsExcludedOnlyWhenAsked(t *testing.T) {
	sleeping := func(name string, change ...func(*druidv1alpha1.HibernationStatus)) *druidv1alpha1.Etcd {
		h := &druidv1alpha1.HibernationStatus{EtcdUID: "etcd-uid", FinalSnapshot: &druidv1alpha1.FinalSnapshot{Name: name}}
		for _, c := range change {
			c(h)
		}
		e := &druidv1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Name: "main", UID: "etcd-uid"}}
		e.Status.Hibernation = h
		return e
	}
	names := []druidv1alpha1.SnapshotName{"Incr-00009003-00009120-1565021514.gz", full}
	for phrase, c := range map[string]struct {
		what    druidv1alpha1.ExcludeSnapshotsConfig
		etcd    *druidv1alpha1.Etcd
		refused bool
	}{
		"it is named":          {druidv1alpha1.ExcludeSnapshotsConfig{Names: names}, sleeping(string(full)), true},
		"with leaveNothing":    {druidv1alpha1.ExcludeSnapshotsConfig{Names: names, LeaveNothing: new(true)}, sleeping(string(full)), false},
		"without leaveNothing": {druidv1alpha1.ExcludeSnapshotsConfig{Names: names, LeaveNothing: new(false), Include: new(false)}, sleeping(string(full)), true},
		"it is taken back":     {druidv1alpha1.ExcludeSnapshotsConfig{Names: names, Include: new(true)}, sleeping(string(full)), false},
		"another is named":     {druidv1alpha1.ExcludeSnapshotsConfig{Names: names}, sleeping("Full-00000000-00009121-1565021600.zst"), false},
		"it is damaged":        {druidv1alpha1.ExcludeSnapshotsConfig{Names: names}, sleeping(string(full), func(h *druidv1alpha1.HibernationStatus) { h.FinalSnapshot.Damaged = "its digest differs" }), false},
		"there is none":        {druidv1alpha1.ExcludeSnapshotsConfig{Names: names}, sleeping("", func(h *druidv1alpha1.HibernationStatus) { h.FinalSnapshot = nil }), false},
		"of another Etcd":      {druidv1alpha1.ExcludeSnapshotsConfig{Names: names}, sleeping(string(full), func(h *druidv1alpha1.HibernationStatus) { h.EtcdUID = "former" }), false},
		"nobody sleeps":        {druidv1alpha1.ExcludeSnapshotsConfig{Names: names}, &druidv1alpha1.Etcd{}, false},
	} {
		if got := final(of(c.what), c.etcd); strings.Contains(got, string(full)+" is the final snapshot of the Etcd main") != c.refused || (got == "") == c.refused {
			t.Errorf("%s: %q, want it refused: %t", phrase, got, c.refused)
		}
	}
}

// What was asked for last is to hold: exclude, include, exclude.
func TestNoExclusionIsADuplicate(t *testing.T) {
	x := of(druidv1alpha1.ExcludeSnapshotsConfig{Names: []druidv1alpha1.SnapshotName{full}})
	if Type().Same(x, x) {
		t.Error("the same is refused")
	}
}

func TestWhatWasDoneIsSaid(t *testing.T) {
	for want, c := range map[string]druidv1alpha1.ExcludeSnapshotsConfig{
		"left out of restores: " + string(full):              {Names: []druidv1alpha1.SnapshotName{full}},
		"left out of restores: " + string(full) + ", Incr-1": {Names: []druidv1alpha1.SnapshotName{full, "Incr-1"}, Include: new(false)},
		"left out of restores: 1, 2, 3, 4, 5":                {Names: []druidv1alpha1.SnapshotName{"1", "2", "3", "4", "5"}},
		"left out of restores: 1, 2, 3, 4, 5 and 2 more":     {Names: []druidv1alpha1.SnapshotName{"1", "2", "3", "4", "5", "6", "7"}},
		"used by restores again: " + string(full):            {Names: []druidv1alpha1.SnapshotName{full}, Include: new(true)},
	} {
		if got := done(of(c)); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestARefusalIsToldFromAnotherFailure(t *testing.T) {
	if code, remedy := failed(desired.ExitRefused); code != "ERR_LEAVES_NOTHING" || !strings.Contains(remedy, "leaveNothing: true in spec.config.excludeSnapshots") {
		t.Errorf("refused it is %s: %s", code, remedy)
	}
	if code, remedy := failed(desired.ExitDamaged); code != "ERR_LEAVES_NOTHING" || !strings.Contains(remedy, "include: true in spec.config.excludeSnapshots") {
		t.Errorf("too late for a refusal it is %s: %s", code, remedy)
	}
	for _, exitCode := range []int32{0, 1, desired.ExitUsage, 5} {
		begun := exitCode != desired.ExitUsage
		if code, remedy := failed(exitCode); code != "ERR_EXCLUDE_SNAPSHOTS" || strings.Contains(remedy, "leaveNothing") || strings.Contains(remedy, "status.backup.excludedSnapshots") != begun {
			t.Errorf("with exit code %d it is %s: %s", exitCode, code, remedy)
		}
	}
}
