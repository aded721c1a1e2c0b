// Package extension is the type of task that keeps the newest full snapshot of a hibernated Etcd locked:
// a CronJob prolongs its locks, and removes the copies that its runs made before and that are locked no longer, unless
// the Etcd names a collector, who does that.
//
// The task stands for as long as the Etcd sleeps. It ends when the Etcd has woken up and its members have made a new
// full snapshot, and goes with the Etcd.
package extension

import (
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/operator/desired"
	"druid.internal/druid/internal/operator/health"
	"druid.internal/druid/internal/operator/operatortask/task"
	"druid.internal/druid/internal/schedule"
)

// Type is the row of the registry.
func Type() task.Type {
	return task.Type{
		Name: druidv1alpha1.TaskExtendFullSnapshotImmutability,
		Step: "Extension",
		Checks: []task.Check{
			task.HasStore, task.Hibernated, {Code: "ERR_SCHEDULE", Fails: unreadable}, {Code: "ERR_SCHEDULE", Fails: tooRare},
		},
		Standing: &task.Standing{
			Component: druidv1alpha1.ComponentExtensionJob, Secret: (*druidv1alpha1.Etcd).ExtenderSecret,
			Make: cronJob, Over: over, ErrorCode: "ERR_EXTEND_IMMUTABILITY",
		},
	}
}

// over ends the task.
func over(e *druidv1alpha1.Etcd) (state druidv1alpha1.TaskState, why string) {
	switch {
	case !e.BackupsEnabled():
		return druidv1alpha1.TaskFailed, fmt.Sprintf("the Etcd %s has no backup store any more: nothing is extended", e.Name)
	case e.NoMembers() == "" && e.Status.Hibernation == nil: // what it protects is needed until there is something newer
		return druidv1alpha1.TaskSucceeded, fmt.Sprintf("the Etcd %s is not hibernated any more: it makes new full snapshots by itself", e.Name)
	}
	return "", ""
}

// releaseAfter is when, after a cluster was told to wake up, what is held is released at the earliest; then every hour.
const releaseAfter = 10 * time.Minute

// soon is how often a run reads the final full, until one has, while volumes wait for that, which cost money.
const soon = "*/2 * * * *"

// otherwise is the schedule of an Etcd that has none that can be read, as of the sidecar.
const otherwise = "0 0 * * *"

// scheduleOf returns when the CronJob runs, as the task or the Etcd has it.
func scheduleOf(t *task.Task, e *druidv1alpha1.Etcd) string {
	if t.Schedule != nil {
		return *t.Schedule
	}
	if s := e.Spec.Backup.FullSnapshotSchedule; s != nil {
		if _, err := schedule.Parse(*s); err == nil {
			return *s
		}
	}
	return otherwise
}

func unreadable(t *task.Task, _ *druidv1alpha1.Etcd) string {
	return task.Unreadable(t, "spec.config.extendFullSnapshotImmutability.schedule")
}

// tooRare says why the schedule that a task names cannot keep anything locked, as far as it is known for how long locks last. That
// of an Etcd is looked at with its specification, and BackupsProtected tells of it.
func tooRare(t *task.Task, e *druidv1alpha1.Etcd) string {
	period := lasts(e)
	if t.Schedule == nil || period == 0 {
		return ""
	}
	if why := health.RunsTooRarely(*t.Schedule, period); why != "" {
		return fmt.Sprintf("spec.config.extendFullSnapshotImmutability.schedule cannot keep anything locked: %s; make another task that runs more often, or without a schedule", why)
	}
	return ""
}

// lasts is for how long a run locks; 0: not known, as only the bucket says.
func lasts(e *druidv1alpha1.Etcd) time.Duration {
	if i := e.Spec.Backup.Store.Immutability; i != nil && i.RetentionPeriod != nil {
		return i.RetentionPeriod.Duration
	}
	if p := given(e); p > 0 {
		return p
	}
	if b := e.Status.Backup; b != nil && b.RetentionPeriod != nil {
		return b.RetentionPeriod.Duration
	}
	return 0
}

func cronJob(t *task.Task, p task.Place) (*batchv1.CronJob, error) {
	text, whole := scheduleOf(t, p.Etcd), unread(p.Etcd)
	when, err := schedule.Parse(text)
	if err != nil {
		return nil, err
	}
	between := when.AsCronJob().Longest() // after the full was read, too
	switch {
	case releases(p.Etcd): // soon, and not when the next backup is due: the cluster may sleep by then
		text = fmt.Sprintf("%d * * * *", p.Etcd.Status.Hibernation.AwakeSince.Add(releaseAfter).UTC().Minute())
	case whole:
		text = soon
	}
	if when, err = schedule.Parse(text); err != nil {
		return nil, err
	}
	in := desired.ExtensionInput{TaskInput: p.Input(t, when), Since: t.Created, Between: between, Whole: whole, Release: releases(p.Etcd)}
	in.Keep, in.Digest = recorded(p.Etcd)
	in.Period = given(p.Etcd)
	return desired.ExtensionCronJob(in), nil
}

// recorded is the final full of an Etcd that sleeps, or that wakes up and has not taken a new one, which is kept whatever is
// newer: whoever may write can make a backup that is.
func recorded(e *druidv1alpha1.Etcd) (name, digest string) {
	h := e.Status.Hibernation
	if h == nil || h.EtcdUID != e.UID || h.NewFull != "" || h.FinalSnapshot == nil {
		return "", ""
	}
	if n, err := snapshot.ParseName(h.FinalSnapshot.Name); err != nil || n.Kind != snapshot.Full {
		return "", "" // nothing that a run could be told to keep
	}
	return h.FinalSnapshot.Name, h.FinalSnapshot.Digest
}

// given is for how long the bucket locked the final full; 0: not known.
func given(e *druidv1alpha1.Etcd) time.Duration {
	h := e.Status.Hibernation
	if h == nil || h.EtcdUID != e.UID || h.FinalSnapshot == nil || h.FinalSnapshot.RetentionPeriod == nil {
		return 0
	}
	return h.FinalSnapshot.RetentionPeriod.Duration
}

// releases: members have made a new backup, and what was held for the time of sleep is to be released.
func releases(e *druidv1alpha1.Etcd) bool {
	h := e.Status.Hibernation
	return e.Spec.Replicas > 0 && h != nil && h.AwakeSince != nil && h.NewFull != "" && h.Holds()
}

// unread: volumes are to go as soon as a run has read the final full. Of one of which something is known that keeps them they are not,
// and of an Etcd that sleeps already none are left, or they stay.
func unread(e *druidv1alpha1.Etcd) bool {
	name, _ := recorded(e)
	h := e.Status.Hibernation
	if name == "" || h.AwakeSince != nil || h.FinalSnapshot.ReadAt != nil || h.FinalSnapshot.Doubt() != "" {
		return false
	}
	slept := druidv1alpha1.FindCondition(e.Status.Conditions, druidv1alpha1.ConditionHibernated)
	return e.Spec.Backup.Store.Immutability != nil && !e.AllowsUnprotectedHibernation() && (!e.KeepsVolumes() || h.VolumesGoSince != nil) &&
		(slept == nil || slept.Status != druidv1alpha1.ConditionTrue)
}
