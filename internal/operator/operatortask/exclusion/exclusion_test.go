package exclusion

import (
	"strings"
	"testing"

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
