// Package task holds what all tasks have in common, whatever resource they were written as, and what a
// type of task says about itself.
//
// It reads and writes nothing, and knows no type: those are packages of their own, listed in
// operatortask/registry.go.
package task

import (
	"context"
	"errors"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/operator/desired"
	"druid.internal/druid/internal/schedule"
)

// Task is a task, whatever resource it was written as.
type Task struct {
	Kind, Namespace, Name string
	UID                   types.UID
	Generation            int64
	Created               time.Time

	Type          druidv1alpha1.TaskType // without Task at the end
	Etcd          string                 // name; empty: none is named
	EtcdNamespace string                 // as it is written; empty: the task's own
	Owners        []types.UID            // Etcds of that name that the task goes with; none: it was never begun
	TTL           time.Duration          // after the end
	Leaving       bool                   // it is being deleted

	Snapshot  *druidv1alpha1.OnDemandSnapshotConfig // of the type OnDemandSnapshot
	Exclusion *druidv1alpha1.ExcludeSnapshotsConfig // of the type ExcludeSnapshots
	Schedule  *string                               // of a standing type; nil: it follows the Etcd

	Status Status
}

// String names the task for people.
func (t *Task) String() string { return t.Kind + " " + t.Name }

// Meta is the head of the resource, as far as objects are named and owned by it.
func (t *Task) Meta() metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: t.Namespace, Name: t.Name, UID: t.UID}
}

// Before: it was made before another one, which therefore waits for it. Of those made in the same second
// the names decide, so that any two tasks agree.
func (t *Task) Before(o *Task) bool {
	if !t.Created.Equal(o.Created) {
		return t.Created.Before(o.Created)
	}
	if t.Name != o.Name {
		return t.Name < o.Name
	}
	return t.Kind < o.Kind
}

// Status is how far a task is.
type Status struct {
	State     druidv1alpha1.TaskState // empty: nobody has looked at it
	Initiated time.Time               // zero: it was never begun
	Step      Step
	StepState druidv1alpha1.OperationState
	Reason    string
	Since     time.Time // the step is in its state
	Run       string    // in the operator's log
	Errors    []druidv1alpha1.LastError
	Result    *druidv1alpha1.TaskResult
}

// Step is a part of a task's work.
type Step string

// Admit is the step before the work: does everything hold that the type asks for, and is it its turn?
const Admit Step = "Admit"

// Check is a precondition. It depends on its arguments alone.
type Check struct {
	Code druidv1alpha1.ErrorCode
	// Fails says why it does not hold and what to do; empty: it holds.
	Fails func(*Task, *druidv1alpha1.Etcd) string
}

// Type is what a type of task says about itself. It has one of Once, Job and Standing.
type Type struct {
	Name druidv1alpha1.TaskType
	Step Step // the work, in the status
	// Same tells whether two unfinished tasks of the type may not be there together; nil: none may. Those of a type
	// whose last word counts all wait for their turn.
	Same func(a, b *Task) bool
	// Checks are looked at until the task is begun, and again before its Job is made. Turn are looked at only when its turn has come, as
	// they may hold by then.
	Checks, Turn []Check

	Once     *Once
	Job      *Job
	Standing *Standing
}

// Once is work that is done once.
type Once struct {
	Timeout func(*Task) time.Duration
	// Do does it, and may last until ctx ends. It must do no harm if it was done before: an operator that
	// dies does not know how far it got. An error that is no *Failure is tried again until the timeout.
	Do func(ctx context.Context, c Call) (druidv1alpha1.TaskResult, error)
}

// Call is one attempt.
type Call struct {
	Task    *Task
	Sidecar Sidecar
	// Again: another attempt may have reached the sidecar before, by this operator or one that died.
	Again bool
	// Late: the time is over. What earlier attempts did is looked for; nothing is begun any more.
	Late bool
}

// Sidecar is the backup leader.
type Sidecar interface {
	Full(ctx context.Context, final bool) (agentapi.Snapshot, error)
	Delta(ctx context.Context) (*agentapi.Snapshot, error)
	Latest(ctx context.Context) (agentapi.LatestSnapshots, error)
}

// Failure ends a task, as another attempt would fail as well.
type Failure struct {
	Code druidv1alpha1.ErrorCode
	Err  error
}

func (f *Failure) Error() string { return f.Err.Error() }

// Unwrap is what failed.
func (f *Failure) Unwrap() error { return f.Err }

// ErrLate: the time is over and nothing was found that an earlier attempt did.
var ErrLate = errors.New("the time is over")

// Job is work that is done once, by a Job: it needs the store, and no member.
type Job struct {
	Component string // the label of the Job
	// Secret is what it has credentials from; false: it needs none.
	Secret func(*druidv1alpha1.Etcd) (druidv1alpha1.SecretUse, bool)
	// Limit is how long the Job may take to end, and nobody waits longer for one that is not there, or is suspended.
	Limit time.Duration
	// Make is the Job, named after the task and its uid. It is made anew if somebody deletes it, so it must do no harm the
	// second time. It must end by itself.
	Make func(*Task, Place) *batchv1.Job
	// Done says what one did that succeeded.
	Done func(*Task) string
	// Failed says what it means that one ended with an exit code, and what to do; 0: it did not end by itself.
	Failed func(exitCode int32) (code druidv1alpha1.ErrorCode, remedy string)
}

// Standing is work that goes on until the Etcd does not need it any more: a CronJob.
type Standing struct {
	Component string // the label of its CronJob and Jobs
	// Secret is what its Jobs have credentials from that members have not; false: they have those of the members.
	Secret func(*druidv1alpha1.Etcd) (druidv1alpha1.SecretUse, bool)
	// Make is the CronJob as it shall be.
	Make func(*Task, Place) (*batchv1.CronJob, error)
	// Over ends the task because of what the Etcd is now; empty: it goes on.
	Over func(*druidv1alpha1.Etcd) (state druidv1alpha1.TaskState, why string)
	// ErrorCode of a run that failed.
	ErrorCode druidv1alpha1.ErrorCode
}

// Place is what a Job or CronJob depends on besides its task.
type Place struct {
	Etcd   *druidv1alpha1.Etcd // with its defaults
	Owner  string              // in whose name its sidecars write the backups
	Images desired.Images
}

// Input is what the Jobs and CronJobs of all types depend on. A Job has no schedule.
func (p Place) Input(t *Task, when schedule.Schedule) desired.TaskInput {
	images, _ := desired.ImagesFor(p.Etcd, p.Images) // those that are replaced are told of with the Etcd
	return desired.TaskInput{
		Task: &druidv1alpha1.EtcdOperatorTask{ObjectMeta: t.Meta()}, Etcd: p.Etcd, Images: images,
		Schedule: when,
	}
}

// The checks that several types have.
var (
	// HasStore: backups are made somewhere.
	HasStore = Check{"ERR_BACKUP_NOT_ENABLED", func(_ *Task, e *druidv1alpha1.Etcd) string {
		if e.BackupsEnabled() {
			return ""
		}
		return fmt.Sprintf("the Etcd %s has no backup store: configure spec.backup.store, and make another task", e.Name)
	}}
	// HasQuorum: a majority of the members works.
	HasQuorum = Check{"ERR_ETCD_NOT_READY", func(_ *Task, e *druidv1alpha1.Etcd) string {
		c := druidv1alpha1.FindCondition(e.Status.Conditions, druidv1alpha1.ConditionReady)
		switch {
		case e.Spec.Replicas == 0, c != nil && c.Reason == druidv1alpha1.ReasonNotChecked && e.NoMembers() != "":
			return fmt.Sprintf("the Etcd %s is hibernated (%s), so nobody can take a snapshot: wake it up, and make another task", e.Name, e.NoMembers())
		case c == nil:
			return fmt.Sprintf("the Etcd %s has no quorum yet: wait for its condition Ready, and make another task", e.Name)
		case c.Status != druidv1alpha1.ConditionTrue:
			return fmt.Sprintf("the Etcd %s has no quorum (%s: %s): wait for its condition Ready, and make another task", e.Name, c.Reason, c.Message)
		}
		return ""
	}}
	// Hibernated: no member runs that makes backups by itself, or none has taken a full since the cluster slept.
	Hibernated = Check{"ERR_ETCD_NOT_HIBERNATED", func(_ *Task, e *druidv1alpha1.Etcd) string {
		if h := e.Status.Hibernation; e.NoMembers() != "" || h != nil && h.EtcdUID == e.UID {
			return ""
		}
		return fmt.Sprintf("the Etcd %s is not hibernated (spec.replicas: %d), so it makes new full snapshots by itself: nothing needs to be extended", e.Name, e.Spec.Replicas)
	}}
)
