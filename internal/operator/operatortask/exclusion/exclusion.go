// Package exclusion is the type of task that leaves snapshots out of restores, or takes that back: a Job does once what
// etcdbrctl exclude and include do, with the credentials of the excluder where the Etcd names one.
//
// Both can be done again without harm: what is excluded already stays so. What was asked for last is to hold, so tasks of
// this type wait for each other, whatever they name.
package exclusion

import (
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/operator/desired"
	"druid.internal/druid/internal/operator/operatortask/task"
	"druid.internal/druid/internal/schedule"
)

// Type is the row of the registry.
func Type() task.Type {
	return task.Type{
		Name:   druidv1alpha1.TaskExcludeSnapshots,
		Step:   "Exclusion",
		Same:   func(_, _ *task.Task) bool { return false },
		Checks: []task.Check{task.HasStore, {Code: "ERR_SNAPSHOT_NAME", Fails: misnamed}, {Code: "ERR_FINAL_SNAPSHOT", Fails: final}},
		Job: &task.Job{
			Component: druidv1alpha1.ComponentExclusionJob, Secret: desired.ExclusionSecret, Limit: desired.ExclusionLimit,
			Make: job, Done: done, Failed: failed,
		},
	}
}

// misnamed says which name no snapshot can have.
func misnamed(t *task.Task, _ *druidv1alpha1.Etcd) string {
	for i, n := range t.Exclusion.Names {
		if _, err := snapshot.ParseName(string(n)); err != nil {
			return fmt.Sprintf("spec.config.excludeSnapshots.names[%d]: %v; `etcdbrctl list --all` shows the names", i, err)
		}
	}
	return ""
}

// final says that an Etcd would wake up with an older state, which nobody would be told of as long as any chain is left. One that is
// damaged may go: an older state is kept in its place already.
func final(t *task.Task, e *druidv1alpha1.Etcd) string {
	h, x := e.Status.Hibernation, t.Exclusion
	if h == nil || h.EtcdUID != e.UID || h.FinalSnapshot == nil || h.FinalSnapshot.Damaged != "" || is(x.Include) || is(x.LeaveNothing) {
		return ""
	}
	if !slices.Contains(x.Names, druidv1alpha1.SnapshotName(h.FinalSnapshot.Name)) {
		return ""
	}
	return fmt.Sprintf("%s is the final snapshot of the Etcd %s, which sleeps (status.hibernation.finalSnapshot): it would wake up with an older state, or from its volumes, and the lock of this one would not be prolonged any more; wake it up first, or write leaveNothing: true in another task",
		h.FinalSnapshot.Name, e.Name)
}

// is tells whether a switch is on.
func is(b *bool) bool { return b != nil && *b }

func job(t *task.Task, p task.Place) *batchv1.Job {
	return desired.ExclusionJob(desired.ExclusionInput{TaskInput: p.Input(t, schedule.Schedule{}), What: *t.Exclusion})
}

func done(t *task.Task) string {
	const most = 5
	var names []string
	for _, n := range t.Exclusion.Names[:min(most, len(t.Exclusion.Names))] {
		names = append(names, string(n))
	}
	others := ""
	if n := len(t.Exclusion.Names) - most; n > 0 {
		others = fmt.Sprintf(" and %d more", n)
	}
	what := "left out of restores: "
	if is(t.Exclusion.Include) {
		what = "used by restores again: "
	}
	return what + strings.Join(names, ", ") + others
}

func failed(exitCode int32) (code druidv1alpha1.ErrorCode, remedy string) {
	switch exitCode {
	case desired.ExitRefused:
		return "ERR_LEAVES_NOTHING", "another task with leaveNothing: true in spec.config.excludeSnapshots does it all the same"
	case desired.ExitDamaged:
		return "ERR_LEAVES_NOTHING", "make another task with include: true in spec.config.excludeSnapshots"
	case desired.ExitUsage: // nothing was begun
		return "ERR_EXCLUDE_SNAPSHOTS", "once that is mended, make another task"
	}
	return "ERR_EXCLUDE_SNAPSHOTS", "some may be done already, which status.backup.excludedSnapshots of the Etcd tells while its members run; once that is mended, make another task, which does the rest"
}
