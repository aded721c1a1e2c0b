package copytask

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/operator/desired"
	"druid.internal/druid/internal/operator/health"
)

// Settings are what the operator was configured with.
type Settings struct {
	Images desired.Images
}

// State is how far a task is.
type State string

// The states, each with one action.
const (
	Over      State = "Over"      // it ended earlier: nothing is done
	Succeeded State = "Succeeded" // its Job copied everything
	Failed    State = "Failed"    // its Job gave up
	Hindered  State = "Hindered"  // nothing can be copied until somebody mends something; no Job is made
	Replacing State = "Replacing" // the Job of a former specification goes, before another is made
	Copying   State = "Copying"   // its Job is there, or is made
)

// Plan is what follows from a look.
type Plan struct {
	State   State
	Reason  string // of the condition
	Message string
	Trouble bool // the message is an error: it does not get on, or failed

	Make   *batchv1.Job // shall be as it is here; nil: is left alone
	Remove *batchv1.Job // shall go; nil: none

	Acted bool          // on the newest specification
	Again time.Duration // when to look again if nobody tells of anything; 0: only then
}

// secretsEvery is how often is looked for Secrets, of which nobody tells.
const secretsEvery = 15 * time.Second

// Decide depends on its arguments alone.
func Decide(o *Observed, s Settings) (Plan, error) {
	if ended(o.Task) {
		return over(o.Task), nil
	}
	job := o.job()
	why := wrong(o.Task)
	var want *batchv1.Job
	if why == "" {
		var err error
		want, err = desired.CopyJob(desired.CopyInput{Task: o.Task, Images: s.Images, Live: job})
		if err != nil {
			return Plan{}, err
		}
	}
	current := job != nil && (want != nil && checksum(job) == checksum(want) || checksum(job) == "")
	switch {
	case job != nil && finished(job, batchv1.JobComplete) != nil:
		return Plan{State: Succeeded, Reason: druidv1alpha1.ReasonCopySucceeded, Message: fmt.Sprintf("the Job %s copied the backups%s", job.Name, unread(o.Task)), Acted: current}, nil
	case job != nil && finished(job, batchv1.JobFailed) != nil:
		p := failed(o, job)
		p.Acted = current
		return p, nil
	case job != nil && job.DeletionTimestamp != nil:
		return Plan{State: Replacing, Reason: druidv1alpha1.ReasonJobReplaced, Message: fmt.Sprintf("the Job %s is being deleted; it is made anew when it is gone%s", job.Name, left(o)), Acted: true, Again: deletionPoll}, nil
	case job != nil && !current:
		return Plan{State: Replacing, Reason: druidv1alpha1.ReasonJobReplaced, Remove: job, Acted: true,
			Message: fmt.Sprintf("the Job %s copies what a former specification says, and is deleted first", job.Name)}, nil
	case job != nil && checksum(job) == "":
		// The original's operator made it: its image does not know our flags, nor ours all of its.
		want = nil
	case why != "":
		return Plan{State: Hindered, Reason: druidv1alpha1.ReasonStoreInvalid, Message: why, Trouble: true, Acted: true}, nil
	case len(o.MissingSecrets) > 0 && job == nil:
		p := missing(o)
		p.State = Hindered
		return p, nil
	}
	p := copying(o, job)
	p.State, p.Make, p.Acted = Copying, want, true
	return p, nil
}

// over is a task that ended. What is changed in it has no effect, and that is said.
func over(t *druidv1alpha1.EtcdCopyBackupsTask) Plan {
	p := Plan{State: Over}
	if g := t.Status.ObservedGeneration; g != nil && *g != t.Generation {
		p.Trouble = true
		p.Message = "the specification was changed after the task had ended, which has no effect: make another task"
	}
	return p
}

// copying says how a Job is that has not ended; nil: it is about to be made.
func copying(o *Observed, job *batchv1.Job) Plan {
	trouble := func(reason, message string) Plan { return Plan{Reason: reason, Message: message, Trouble: true} }
	name := o.Task.JobName()
	p := Plan{Reason: druidv1alpha1.ReasonCopying, Message: fmt.Sprintf("the Job %s copies%s", name, unread(o.Task))}
	switch {
	case job == nil:
	case job.Spec.Suspend != nil && *job.Spec.Suspend:
		p = trouble(druidv1alpha1.ReasonPodNotStarted, fmt.Sprintf("the Job %s is suspended: it goes on when its spec.suspend is false", name))
	case len(o.MissingSecrets) > 0:
		p = missing(o)
	case attempt(o) != "":
		p = trouble(druidv1alpha1.ReasonCopyRetried, attemptFailed+attempt(o))
	default:
		if last := remembered(o.Task); last != "" {
			p = trouble(druidv1alpha1.ReasonCopyRetried, attemptFailed+last)
		}
		for i := range o.Pods {
			if reason, why := health.PodHindered(&o.Pods[i]); why != "" {
				p = trouble(cmp.Or(reason, druidv1alpha1.ReasonPodNotStarted), fmt.Sprintf("the Job %s does not begin: %s", name, why))
			}
		}
	}
	if !o.started() && len(o.Task.Secrets()) > 0 {
		p.Again = secretsEvery
	}
	return p
}

// unread names what is said for nothing, for the end of a message.
func unread(t *druidv1alpha1.EtcdCopyBackupsTask) (text string) {
	if t.Spec.SourceStore.Immutability != nil {
		text += "; spec.sourceStore.immutability is not read: nothing is written there"
	}
	if i := t.Spec.TargetStore.Immutability; i != nil && i.RetentionType != druidv1alpha1.RetentionObject {
		text += "; spec.targetStore.immutability asks for nothing: whether the bucket locks what is copied to it, etcdbrctl bucket inspect tells, and with retentionType: object each copy would be locked"
	}
	for _, u := range t.UnusedSecrets() {
		text += fmt.Sprintf("; %s is not read: a local store is below %s of the node", u.Field, desired.DefaultHostPath)
	}
	return text
}

// missing names the Secrets that are not there.
func missing(o *Observed) Plan {
	var names []string
	for _, use := range o.MissingSecrets {
		names = append(names, fmt.Sprintf("%s (%s)", use.Name, use.Field))
	}
	return Plan{
		Reason: druidv1alpha1.ReasonSecretMissing, Trouble: true, Acted: true, Again: secretsEvery,
		Message: fmt.Sprintf("there is no Secret %s in %s: make it, or leave secretRef out for the identity that the cloud gives the pods", strings.Join(names, ", "), o.Task.Namespace),
	}
}

// attemptFailed begins the message about an attempt, by which it is found again.
const attemptFailed = "an attempt to copy failed and is followed by another one: "

// remembered is the error of an attempt that was told, "" if none was. A Job that is about to give up
// deletes its pods first.
func remembered(t *druidv1alpha1.EtcdCopyBackupsTask) string {
	last, is := strings.CutPrefix(text(t.Status.LastError), attemptFailed)
	if !is {
		return ""
	}
	return last
}

// failed repeats the error of the last attempt.
func failed(o *Observed, job *batchv1.Job) Plan {
	c := finished(job, batchv1.JobFailed)
	message := fmt.Sprintf("the Job %s gave up (%s: %s)", job.Name, c.Reason, strings.TrimSpace(c.Message))
	if last := cmp.Or(attempt(o), remembered(o.Task)); last != "" {
		message += "; its last error: " + last
	}
	return Plan{State: Failed, Reason: druidv1alpha1.ReasonCopyFailed, Trouble: true,
		Message: message + ". Once that is mended, another task goes on where this one ended"}
}

// attempt is the error of the last attempt that failed, "" if none did, or the pod is gone.
func attempt(o *Observed) string {
	said, _ := health.LastFailure(o.Pods)
	return said
}

// finished is the condition by which a Job has ended so, nil if it has not.
func finished(job *batchv1.Job, how batchv1.JobConditionType) *batchv1.JobCondition {
	for i := range job.Status.Conditions {
		if c := &job.Status.Conditions[i]; c.Type == how && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}

func checksum(job *batchv1.Job) string { return job.Annotations[druidv1alpha1.AnnotationJobChecksum] }

// left says which pods of a Job that is being deleted do not end.
func left(o *Observed) string {
	if o.Stuck == "" {
		return ""
	}
	return ", as soon as its pods have ended: " + o.Stuck
}
