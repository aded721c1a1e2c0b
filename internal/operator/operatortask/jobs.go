package operatortask

import (
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"druid.internal/druid/internal/operator/health"
)

// runs are the Job that runs, and the one that ended last, with how it did.
func runs(jobs []batchv1.Job) (running, last *batchv1.Job, how *batchv1.JobCondition) {
	newest := slices.SortedFunc(slices.Values(jobs), func(a, b batchv1.Job) int { return b.CreationTimestamp.Compare(a.CreationTimestamp.Time) })
	for i := range newest {
		j := &newest[i]
		c := finished(j)
		switch {
		case c == nil && running == nil && last == nil:
			running = j
		case c != nil && last == nil:
			last, how = j, c
		}
	}
	return running, last, how
}

// finished is how a Job ended; nil: it has not.
func finished(j *batchv1.Job) *batchv1.JobCondition {
	return condition(j, batchv1.JobComplete, batchv1.JobFailed)
}

// condition is one of these that a Job has; nil: none.
func condition(j *batchv1.Job, of ...batchv1.JobConditionType) *batchv1.JobCondition {
	for i := range j.Status.Conditions {
		if c := &j.Status.Conditions[i]; slices.Contains(of, c.Type) && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}

// patience is how long no container of a Job needs to run before that is told.
const patience = time.Minute

// idle says what keeps the pods of a Job from work; "": nothing, or nothing yet.
func idle(job *batchv1.Job, pods []corev1.Pod, now time.Time) string {
	for i := range pods {
		if _, why := health.PodHindered(&pods[i]); why != "" {
			return why
		}
	}
	since := job.CreationTimestamp.Time
	if start := job.Status.StartTime; start != nil { // later, if it was suspended
		since = start.Time
	}
	for i := range pods { // in the place of others, as after a drain
		if made := pods[i].CreationTimestamp.Time; made.After(since) {
			since = made
		}
	}
	if now.Sub(since) < patience || slices.ContainsFunc(pods, ran) {
		return ""
	}
	look := "job/" + job.Name
	if i := slices.IndexFunc(pods, active); i >= 0 {
		look = "pod/" + pods[i].Name
	}
	return fmt.Sprintf("no container of it has run since %s; kubectl describe %s says why", since.UTC().Format(time.RFC3339), look)
}

// unended says what to do about a pod of a Job that is ending.
func unended(pods []corev1.Pod) string {
	i := slices.IndexFunc(pods, active)
	if i < 0 {
		return ""
	}
	name := pods[i].Name
	return fmt.Sprintf("; its pod %s has not ended, and is waited for: kubectl describe pod/%s says why; if its node is gone for good, kubectl delete pod/%s --force", name, name, name)
}

// suspended: somebody has the Job wait.
func suspended(j *batchv1.Job) bool { return j.Spec.Suspend != nil && *j.Spec.Suspend }

func isSuspended(j *batchv1.Job) string {
	return fmt.Sprintf(`the Job %[1]s is suspended: kubectl patch job/%[1]s -p '{"spec":{"suspend":false}}' has it begin`, j.Name)
}

// told is a condition in words.
func told(c *batchv1.JobCondition) string {
	return fmt.Sprintf("%s: %s", c.Reason, strings.TrimSpace(c.Message))
}

// ran: a container of the pod runs, or did.
func ran(p corev1.Pod) bool {
	if p.Status.Phase != "" && p.Status.Phase != corev1.PodPending {
		return true
	}
	return slices.ContainsFunc(p.Status.InitContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.State.Running != nil || c.State.Terminated != nil || c.LastTerminationState.Terminated != nil
	})
}

// active: a container of the pod may run.
func active(p corev1.Pod) bool {
	return p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed
}
