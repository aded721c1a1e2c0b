// Package collection is the type of task that deletes what retention lets go with credentials of its own: a CronJob does
// what the sidecars do for an Etcd that names no collector.
//
// While the Etcd sleeps no backup becomes older than another, so its history stays as it is: only those copies are deleted
// that extensions made and that are locked no longer. The task stands for as long as the Etcd names a collector.
package collection

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"time"

	batchv1 "k8s.io/api/batch/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/operator/desired"
	"druid.internal/druid/internal/operator/operatortask/task"
	"druid.internal/druid/internal/schedule"
)

// Type is the row of the registry.
func Type() task.Type {
	return task.Type{
		Name: druidv1alpha1.TaskCollectBackups,
		Step: "Collection",
		Checks: []task.Check{
			task.HasStore, {Code: "ERR_NO_COLLECTOR", Fails: nobody}, {Code: "ERR_SCHEDULE", Fails: unreadable},
		},
		Standing: &task.Standing{
			Component: druidv1alpha1.ComponentCollectionJob, Secret: (*druidv1alpha1.Etcd).CollectorSecret,
			Make: cronJob, Over: over, ErrorCode: "ERR_COLLECT_BACKUPS",
		},
	}
}

func nobody(_ *task.Task, e *druidv1alpha1.Etcd) string {
	if _, named := e.CollectorSecret(); named {
		return ""
	}
	return fmt.Sprintf("the Etcd %s names no collector, so its sidecars delete what retention lets go: name a Secret in %s, and make another task", e.Name, druidv1alpha1.FieldCollectorSecret)
}

func unreadable(t *task.Task, _ *druidv1alpha1.Etcd) string {
	return task.Unreadable(t, "spec.config.collectBackups.schedule")
}

// over ends the task.
func over(e *druidv1alpha1.Etcd) (state druidv1alpha1.TaskState, why string) {
	if !e.BackupsEnabled() {
		return druidv1alpha1.TaskFailed, fmt.Sprintf("the Etcd %s has no backup store any more: nothing is collected", e.Name)
	}
	if _, named := e.CollectorSecret(); !named {
		return druidv1alpha1.TaskSucceeded, fmt.Sprintf("the Etcd %s names no collector any more: its sidecars delete what retention lets go", e.Name)
	}
	return "", ""
}

// otherwise is how often a task without a schedule runs that somebody made for an Etcd which is never collected by itself.
const otherwise = 12 * time.Hour

func cronJob(t *task.Task, p task.Place) (*batchv1.CronJob, error) {
	text := about(cmp.Or(p.Etcd.CollectionPeriod(), otherwise), string(t.UID))
	if t.Schedule != nil {
		text = *t.Schedule
	}
	when, err := schedule.Parse(text)
	if err != nil {
		return nil, err
	}
	job := desired.CollectionCronJob(desired.CollectionInput{TaskInput: p.Input(t, when), Owner: p.Owner, CopiesSince: copiesSince(t, p.Etcd)})
	if doubtful(p.Etcd) {
		job.Spec.Suspend = new(true)
	}
	return job, nil
}

// doubtful: an extension found that the newest backup is damaged, or not the final one, and keeps another one, which a listing
// does not tell from what is not needed. Nothing goes before that is settled, or the Etcd has made a new one.
func doubtful(e *druidv1alpha1.Etcd) bool {
	h := e.Status.Hibernation
	return h != nil && h.FinalSnapshot != nil && (h.FinalSnapshot.Damaged != "" || h.FinalSnapshot.Newer != "")
}

// copiesSince is when the oldest copy was made, at the earliest, that is not needed when it is locked no longer, if
// nothing else is to go; zero: retention decides.
func copiesSince(t *task.Task, e *druidv1alpha1.Etcd) time.Time {
	h := e.Status.Hibernation
	switch {
	case h != nil && h.FinalSnapshot != nil: // also while it wakes up and nothing is newer yet
		return h.FinalSnapshot.VerifiedAt.Time
	case h != nil, task.Hibernated.Fails(t, e) == "":
		return t.Created
	}
	return time.Time{}
}

// about is a schedule by the clock that comes at least as often as a period, and once a day. When exactly depends on who
// asks, so that not all clusters are collected in the same minute.
//
//	12h, as one ─> 17 5-23/12 * * *    12h, as another ─> 44 0-23/12 * * *    10m ─> 4-59/10 * * * *
func about(period time.Duration, who string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(who))
	minute, rest := int(h.Sum32()%60), int(h.Sum32()/60%1440)
	if period < time.Hour {
		n := step(int(period/time.Minute), 60)
		return fmt.Sprintf("%d-59/%d * * * *", minute%n, n)
	}
	n := step(int(period/time.Hour), 24)
	if n == 24 {
		return fmt.Sprintf("%d %d * * *", minute, rest%n)
	}
	return fmt.Sprintf("%d %d-23/%d * * *", minute, rest%n, n)
}

// step is the largest number up to most that divides all, so that the last of an hour or day is as far from the first of
// the next as any two are.
func step(most, all int) int {
	for n := min(most, all); n > 1; n-- {
		if all%n == 0 {
			return n
		}
	}
	return 1
}
