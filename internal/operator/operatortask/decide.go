package operatortask

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/operator/desired"
	"druid.internal/druid/internal/operator/health"
	"druid.internal/druid/internal/operator/operatortask/task"
)

// Settings are what the operator was configured with.
type Settings struct {
	Images desired.Images
	Again  time.Duration // between looks at a task that waits, and between attempts
}

// Plan is what follows from a look.
type Plan struct {
	State     druidv1alpha1.TaskState
	Step      task.Step
	StepState druidv1alpha1.OperationState
	Reason    string
	Error     druidv1alpha1.ErrorCode // Reason is one; empty: it is none
	Initiated bool                    // the task is begun now
	Result    *druidv1alpha1.TaskResult

	Begin  bool          // begin an attempt, once the status is written
	Make   client.Object // the CronJob or Job shall be as it is here; nil: is left alone
	Remove client.Object // shall go; nil: none
	Delete bool          // the task, whose time after the end is over
	Again  time.Duration // when to look again if nobody tells of anything; 0: only then
}

// The codes of errors that all types share.
const (
	codeEtcd      druidv1alpha1.ErrorCode = "ERR_GET_ETCD"             // there is no such Etcd
	codeNamespace druidv1alpha1.ErrorCode = "ERR_ETCD_NAMESPACE"       // it is named in another namespace
	codeDuplicate druidv1alpha1.ErrorCode = "ERR_DUPLICATE_TASK"       // there is one like it already
	codeType      druidv1alpha1.ErrorCode = "ERR_TASK_TYPE"            // this operator does not know the type
	codeRequest   druidv1alpha1.ErrorCode = "ERR_EXECUTE_HTTP_REQUEST" // the sidecar cannot be reached
	codeTimeout   druidv1alpha1.ErrorCode = "ERR_TIMEOUT"              // it took too long
	codeCronJob   druidv1alpha1.ErrorCode = "ERR_SYNC_CRONJOB"         // the CronJob cannot be made or removed
	codeJob       druidv1alpha1.ErrorCode = "ERR_SYNC_JOB"             // the Job cannot be made or removed
	codeSecret    druidv1alpha1.ErrorCode = "ERR_SECRET"               // the credentials of the Job are not there
)

// Decide depends on its arguments alone.
func Decide(o *Observed, s Settings, now time.Time) (Plan, error) {
	t := o.Task
	if t.Status.State.Ended() {
		return ended(o, now), nil
	}
	row, known := typeOf(t.Type)
	begun := t.Status.State == druidv1alpha1.TaskInProgress && !t.Status.Initiated.IsZero()
	if code, why := impossible(o, row, known); why != "" {
		return stop(o, row, begun, code, why), nil
	}
	if !begun {
		if p, goes := admit(o, row, s); !goes {
			return p, nil
		}
	}
	if row.Standing != nil {
		return stand(o, row, s, now)
	}
	if o.SecretFault != "" && o.Job == nil && !slices.ContainsFunc(o.JobPods, active) { // others wait for this one
		return stop(o, row, begun, codeSecret, o.SecretFault+", and make another task"), nil
	}
	if !begun {
		return Plan{
			State: druidv1alpha1.TaskInProgress, Step: row.Step, StepState: druidv1alpha1.OperationInProgress, Initiated: true,
			Reason: "the work has begun", Begin: row.Once != nil, Again: s.Again,
		}, nil
	}
	if row.Job != nil {
		return run(o, row, s, now), nil
	}
	return work(o, row, s, now), nil
}

// ended is a task at its end, which stays for a while.
func ended(o *Observed, now time.Time) Plan {
	p := Plan{State: o.Task.Status.State}
	if o.CronJob != nil { // a Job stays with its task, for what it said
		p.Remove = o.CronJob
	}
	if left := o.Task.Status.Since.Add(o.Task.TTL).Sub(now); left > 0 {
		p.Again = left
		return p
	}
	p.Delete = true
	return p
}

// impossible says why a task can neither be begun nor go on, whatever its type.
func impossible(o *Observed, row task.Type, known bool) (druidv1alpha1.ErrorCode, string) {
	t := o.Task
	switch {
	case !known, row.Name == druidv1alpha1.TaskOnDemandSnapshot && t.Snapshot == nil, row.Name == druidv1alpha1.TaskExcludeSnapshots && t.Exclusion == nil:
		return codeType, fmt.Sprintf("this operator does not know what to do for the type %q", t.Type)
	case t.Etcd == "":
		return codeEtcd, "no Etcd is named: write the name of one, and make another task"
	case t.EtcdNamespace != "" && t.EtcdNamespace != t.Namespace:
		return codeNamespace, fmt.Sprintf("spec.ownerEtcdReference.namespace is %s, and a task works in its own namespace only: leave it out, or make the task in %s", t.EtcdNamespace, t.EtcdNamespace)
	case o.Etcd == nil:
		return codeEtcd, fmt.Sprintf("there is no Etcd %s in %s", t.Etcd, t.Namespace)
	case o.Etcd.DeletionTimestamp != nil:
		return codeEtcd, fmt.Sprintf("the Etcd %s is being deleted", t.Etcd)
	case len(t.Owners) > 0 && !slices.Contains(t.Owners, o.Etcd.UID):
		return codeEtcd, fmt.Sprintf("the Etcd %s that the task was for is gone, and another one has its name: make another task", t.Etcd)
	}
	return "", ""
}

// stop ends a task that cannot be done: begun, it has failed.
func stop(o *Observed, row task.Type, begun bool, code druidv1alpha1.ErrorCode, why string) Plan {
	p := Plan{State: druidv1alpha1.TaskRejected, Step: task.Admit, StepState: druidv1alpha1.OperationFailed, Reason: why, Error: code, Remove: o.made()}
	if begun {
		p.State, p.Step = druidv1alpha1.TaskFailed, cmp.Or(row.Step, task.Admit)
	}
	return p
}

// admit says whether a task may be begun, and otherwise what it waits for or why it never will be.
func admit(o *Observed, row task.Type, s Settings) (Plan, bool) {
	t := o.Task
	reject := func(code druidv1alpha1.ErrorCode, why string) (Plan, bool) {
		return stop(o, row, false, code, why), false
	}
	if code, why := failing(row.Checks, t, o.Etcd); why != "" {
		return reject(code, why)
	}
	var first *task.Task
	for _, other := range o.Others {
		if other.Type == t.Type && (other.Before(t) || other.Status.State == druidv1alpha1.TaskInProgress) && (row.Same == nil || row.Same(other, t)) {
			return reject(codeDuplicate, fmt.Sprintf("the %s does the same for the Etcd %s and has not ended: wait for it, and make another task if it is needed still", other, t.Etcd))
		}
		theirs, _ := typeOf(other.Type)
		waits := other.Before(t) || other.Status.State == druidv1alpha1.TaskInProgress
		if waits && theirs.Standing == nil && (first == nil || other.Before(first)) {
			first = other
		}
	}
	if first != nil && row.Standing == nil {
		return Plan{
			State: druidv1alpha1.TaskPending, Step: task.Admit, StepState: druidv1alpha1.OperationPending, Again: s.Again,
			Reason: fmt.Sprintf("waits for the %s of the same Etcd, which was made before", first),
		}, false
	}
	if code, why := failing(row.Turn, t, o.Etcd); why != "" {
		return reject(code, why)
	}
	return Plan{}, true
}

// failing is the first precondition that does not hold.
func failing(checks []task.Check, t *task.Task, e *druidv1alpha1.Etcd) (druidv1alpha1.ErrorCode, string) {
	for _, c := range checks {
		if why := c.Fails(t, e); why != "" {
			return c.Code, why
		}
	}
	return "", ""
}

// work is how a task goes on that is done once and was begun.
func work(o *Observed, row task.Type, s Settings, now time.Time) Plan {
	p := Plan{State: druidv1alpha1.TaskInProgress, Step: row.Step, StepState: druidv1alpha1.OperationInProgress, Reason: o.Task.Status.Reason}
	fail := func(code druidv1alpha1.ErrorCode, why string) Plan {
		p.State, p.StepState, p.Reason, p.Error = druidv1alpha1.TaskFailed, druidv1alpha1.OperationFailed, why, code
		return p
	}
	limit := row.Once.Timeout(o.Task)
	late := now.Sub(o.Task.Status.Initiated) >= limit
	var failure *task.Failure
	switch c := o.Attempt; {
	case c == nil:
		p.Begin, p.Again = true, s.Again
	case c.Running:
		p.Again = s.Again
	case c.Err == nil:
		p.State, p.StepState, p.Result = druidv1alpha1.TaskSucceeded, druidv1alpha1.OperationCompleted, &c.Result
		p.Reason = describe(c.Result)
	case errors.As(c.Err, &failure):
		return fail(failure.Code, said(c.Err))
	case errors.Is(c.Err, task.ErrLate):
		why := fmt.Sprintf("it was not done within %s", limit)
		if n := len(o.Task.Status.Errors); n > 0 {
			why += "; the last error: " + o.Task.Status.Errors[n-1].Description
		}
		return fail(codeTimeout, why)
	case late && c.Late:
		return fail(codeRequest, fmt.Sprintf("it was not done within %s: %s", limit, said(c.Err)))
	default:
		p.Reason, p.Error = "an attempt failed, and another one follows: "+said(c.Err), codeRequest
		if wait := c.Ended.Add(s.Again).Sub(now); wait > 0 && !late {
			p.Again = wait
			return p
		}
		p.Begin, p.Again = true, s.Again
	}
	return p
}

// run is how a task goes on that a Job does and that was begun.
func run(o *Observed, row task.Type, s Settings, now time.Time) Plan {
	p := Plan{State: druidv1alpha1.TaskInProgress, Step: row.Step, StepState: druidv1alpha1.OperationInProgress, Again: s.Again}
	job := o.Job
	late := now.Sub(o.Task.Status.Initiated) >= row.Job.Limit
	if job == nil {
		if late { // others wait for this one
			return tooLate(o, row)
		}
		if slices.ContainsFunc(o.JobPods, active) {
			p.Reason = "somebody deleted the Job; it is made anew when its pods are gone"
			return p
		}
		if o.Unended != "" { // what it does last would hold
			p.Reason = fmt.Sprintf("waits for %s, which has not ended", o.Unended)
			return p
		}
		if code, why := failing(row.Checks, o.Task, o.Etcd); why != "" { // they held when the task was begun
			return stop(o, row, true, code, why)
		}
		made := row.Job.Make(o.Task, task.Place{Etcd: o.Etcd, Images: s.Images})
		p.Make, p.Reason = made, fmt.Sprintf("the Job %s is at work", made.Name)
		return p
	}
	said, exitCode := health.LastFailure(o.JobPods)
	code, remedy := row.Job.Failed(exitCode)
	how := finished(job)
	switch ends := condition(job, batchv1.JobFailureTarget); {
	case how != nil && how.Type == batchv1.JobComplete:
		p.State, p.StepState, p.Again = druidv1alpha1.TaskSucceeded, druidv1alpha1.OperationCompleted, 0
		p.Reason = fmt.Sprintf("%s (kubectl logs job/%s says more)", row.Job.Done(o.Task), job.Name)
	case how != nil:
		p.State, p.StepState, p.Error, p.Again = druidv1alpha1.TaskFailed, druidv1alpha1.OperationFailed, code, 0
		p.Reason = fmt.Sprintf("the Job %s failed: %s; %s", job.Name, cmp.Or(said, told(how)), remedy)
	case ends != nil:
		p.Error, p.Reason = code, fmt.Sprintf("the Job %s is ending: %s%s", job.Name, cmp.Or(said, told(ends)), unended(o.JobPods))
	case late && (job.DeletionTimestamp != nil || suspended(job)):
		return tooLate(o, row)
	case job.DeletionTimestamp != nil:
		p.Reason = fmt.Sprintf("the Job %s is being deleted; it is made anew when it is gone", job.Name)
	case suspended(job):
		p.Reason = isSuspended(job)
	case said != "":
		p.Error, p.Reason = code, fmt.Sprintf("an attempt of the Job %s failed, and another one follows: %s", job.Name, said)
	case o.SecretFault != "":
		p.Error, p.Reason = codeSecret, fmt.Sprintf("the Job %s does not begin: %s", job.Name, o.SecretFault)
	default:
		p.Reason = fmt.Sprintf("the Job %s is at work", job.Name)
		if hindrance := idle(job, o.JobPods, now); hindrance != "" {
			p.Reason = fmt.Sprintf("the Job %s does not begin: %s", job.Name, hindrance)
		}
	}
	return p
}

// tooLate gives a task up that no Job is at work for, so that the others get on.
func tooLate(o *Observed, row task.Type) Plan {
	said := fmt.Sprintf("it was not done within %s", row.Job.Limit)
	if n := len(o.Task.Status.Errors); n > 0 {
		said += "; the last error: " + o.Task.Status.Errors[n-1].Description
	} else if r := o.Task.Status.Reason; r != "" {
		said += "; at last: " + r
	}
	return stop(o, row, true, codeTimeout, said+"; make another task")
}

// describe is a result in words.
func describe(r druidv1alpha1.TaskResult) string {
	if len(r.Snapshots) == 0 {
		return "everything is in the bucket already"
	}
	var all []string
	for _, s := range r.Snapshots {
		text := fmt.Sprintf("%s up to revision %d", s.Name, s.Revision)
		if s.RetainUntil != nil {
			text += ", locked until " + s.RetainUntil.UTC().Format(time.RFC3339)
		}
		all = append(all, text)
	}
	return "in the bucket: " + strings.Join(all, "; ")
}

// said is an error in one line.
func said(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// stand is how a standing task is.
func stand(o *Observed, row task.Type, s Settings, now time.Time) (Plan, error) {
	p := Plan{State: druidv1alpha1.TaskInProgress, Step: row.Step, StepState: druidv1alpha1.OperationInProgress, Again: s.Again}
	p.Initiated = o.Task.Status.Initiated.IsZero()
	if state, why := row.Standing.Over(o.Etcd); state != "" {
		p.State, p.Reason, p.StepState, p.Remove, p.Again = state, why, druidv1alpha1.OperationCompleted, o.made(), 0
		if state == druidv1alpha1.TaskFailed {
			p.StepState, p.Error = druidv1alpha1.OperationFailed, row.Standing.ErrorCode
		}
		return p, nil
	}
	job, err := row.Standing.Make(o.Task, task.Place{Etcd: o.Etcd, Owner: o.Owner, Images: s.Images})
	if err != nil {
		return Plan{}, err
	}
	p.Make = job
	p.Reason = fmt.Sprintf("the CronJob %s runs at %s", job.Name, job.Spec.Schedule)
	if zone := job.Spec.TimeZone; zone != nil {
		p.Reason += " of " + *zone
	}
	if s := job.Spec.Suspend; s != nil && *s {
		p.Reason = fmt.Sprintf("the CronJob %s is suspended, as the newest backup is damaged (status.hibernation of the Etcd)", job.Name)
	}
	running, last, how := runs(o.Jobs)
	switch {
	case o.SecretFault != "":
		p.StepState, p.Error = druidv1alpha1.OperationFailed, row.Standing.ErrorCode
		p.Reason = fmt.Sprintf("%s; until then no run of the CronJob %s has credentials", o.SecretFault, job.Name)
	case running != nil:
		said, _ := health.LastFailure(o.JobPods)
		switch why := idle(running, o.JobPods, now); {
		case suspended(running):
			p.Reason = isSuspended(running)
		case said != "":
			p.Reason = fmt.Sprintf("an attempt of the Job %s failed, and another one follows: %s", running.Name, said)
		case why != "": // it keeps its template, and no other one is made beside it
			p.Reason = fmt.Sprintf("the Job %s does not begin: %s; when that is mended in the Etcd, kubectl delete job/%s has the next one begin", running.Name, why, running.Name)
		default:
			p.Reason += fmt.Sprintf("; the Job %s runs since %s", running.Name, running.CreationTimestamp.UTC().Format(time.RFC3339))
		}
	case last == nil:
		p.Reason += "; no run has ended yet"
	case how.Type == batchv1.JobFailed:
		p.StepState, p.Error = druidv1alpha1.OperationFailed, row.Standing.ErrorCode
		p.Reason = fmt.Sprintf("the Job %s failed at %s (%s: %s): kubectl logs job/%s says why; the CronJob %s tries again at its next time",
			last.Name, how.LastTransitionTime.UTC().Format(time.RFC3339), how.Reason, strings.TrimSpace(how.Message), last.Name, job.Name)
	default:
		p.StepState = druidv1alpha1.OperationCompleted
		p.Reason += fmt.Sprintf("; the last run succeeded at %s", how.LastTransitionTime.UTC().Format(time.RFC3339))
	}
	return p, nil
}

// maxErrors are kept in the status, and maxCode of one code.
const maxErrors, maxCode = 10, 3

// statusOf is the status after a plan. It depends on its arguments alone.
func statusOf(t *task.Task, p Plan, run string, now time.Time) task.Status {
	s := t.Status
	if s.State.Ended() {
		return s
	}
	p.Reason = druidv1alpha1.Cut(p.Reason, druidv1alpha1.MaxMessage)
	if p.Initiated {
		s.Initiated = now
	}
	if s.Step != p.Step || s.StepState != p.StepState || s.State != p.State {
		s.Since = now
	}
	if s.Step != p.Step || s.StepState != p.StepState || s.State != p.State || s.Reason != p.Reason {
		s.Run = run
	}
	s.State, s.Step, s.StepState, s.Reason = p.State, p.Step, p.StepState, p.Reason
	if p.State.Ended() && s.Initiated.IsZero() {
		s.Initiated = now // it stopped being Pending
	}
	if p.Result != nil {
		s.Result = p.Result
	}
	switch {
	case p.Error != "":
		s.Errors = remember(s.Errors, druidv1alpha1.LastError{Code: p.Error, Description: p.Reason, ObservedAt: metav1.NewTime(now)})
	case p.State == druidv1alpha1.TaskInProgress && p.StepState == druidv1alpha1.OperationCompleted:
		s.Errors = nil // a standing task whose newest run succeeded
	}
	return s
}

// remember adds an error, unless it is the last one, and forgets the oldest.
func remember(all []druidv1alpha1.LastError, e druidv1alpha1.LastError) []druidv1alpha1.LastError {
	if n := len(all); n > 0 && all[n-1].Code == e.Code && all[n-1].Description == e.Description {
		return all
	}
	kept, same := []druidv1alpha1.LastError{e}, 1
	for _, old := range slices.Backward(all) {
		if old.Code == e.Code {
			same++
		}
		if len(kept) < maxErrors && (old.Code != e.Code || same <= maxCode) {
			kept = append(kept, old)
		}
	}
	slices.Reverse(kept)
	return kept
}
