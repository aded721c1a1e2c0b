package copytask

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

// Observed is what a look at a task found. Nobody may change anything in it: most is the cache's.
type Observed struct {
	Task *druidv1alpha1.EtcdCopyBackupsTask
	// Job has the name of the task's, whosever it is; nil: there is none, or it has lost our labels.
	Job  *batchv1.Job
	Pods []corev1.Pod // of the Job
	// Stuck says which of them do not end although they are deleted, and what to do; empty: none.
	Stuck string
	// MissingSecrets are those that the specification names and that are not there. They are looked for
	// only until a pod has started.
	MissingSecrets []druidv1alpha1.SecretUse
}

// observe reads what the cache holds about a task.
func (r *Reconciler) observe(ctx context.Context, t *druidv1alpha1.EtcdCopyBackupsTask) (*Observed, error) {
	o := &Observed{Task: t}
	var job batchv1.Job
	switch err := r.cache.Get(ctx, types.NamespacedName{Namespace: t.Namespace, Name: t.JobName()}, &job); {
	case err == nil:
		o.Job = &job
	case !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("read the Job %s: %w", t.JobName(), err)
	}
	var pods corev1.PodList
	labels := client.MatchingLabels{druidv1alpha1.LabelPartOf: t.Name, druidv1alpha1.LabelComponent: druidv1alpha1.ComponentCopyBackupsJob}
	if err := r.cache.List(ctx, &pods, client.InNamespace(t.Namespace), labels); err != nil {
		return nil, fmt.Errorf("list the pods of the Job %s: %w", t.JobName(), err)
	}
	o.Pods, o.Stuck = pods.Items, stuck(pods.Items, r.now)
	return o, nil
}

// stuckAfter is for how long a pod may be terminating beyond the time that it was given.
const stuckAfter = 30 * time.Second

// stuck says which pods have been terminating for longer.
func stuck(pods []corev1.Pod, now func() time.Time) string {
	var names []string
	for i := range pods {
		if at := pods[i].DeletionTimestamp; at != nil && now().Sub(at.Time) > stuckAfter {
			names = append(names, pods[i].Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return strings.Join(names, ", ") + " does not; if its node is lost for good, remove the node, or delete the pod by force"
}

// look observes, and asks the API server for what no cache holds.
func (r *Reconciler) look(ctx context.Context, t *druidv1alpha1.EtcdCopyBackupsTask) (*Observed, error) {
	o, err := r.observe(ctx, t)
	if err != nil || ended(t) {
		return o, err
	}
	if o.Job == nil {
		// The cache may not know yet that the task has ended, and its Job is gone: it must not be made again.
		o.Task = &druidv1alpha1.EtcdCopyBackupsTask{}
		if err := r.live.Get(ctx, client.ObjectKeyFromObject(t), o.Task); err != nil {
			return nil, fmt.Errorf("read the task: %w", err)
		}
	}
	if o.started() || ended(o.Task) {
		return o, nil
	}
	seen := map[string]bool{}
	for _, use := range o.Task.Secrets() {
		if seen[use.Name] {
			continue
		}
		seen[use.Name] = true
		err := r.live.Get(ctx, types.NamespacedName{Namespace: t.Namespace, Name: use.Name}, &corev1.Secret{})
		switch {
		case apierrors.IsNotFound(err):
			o.MissingSecrets = append(o.MissingSecrets, use)
		case err != nil:
			return nil, fmt.Errorf("read the Secret %s: %w", use.Name, err)
		}
	}
	return o, nil
}

// started: a container of a pod runs, or ran, so that everything is there that it mounts.
func (o *Observed) started() bool {
	for i := range o.Pods {
		s := o.Pods[i].Status
		for _, c := range append(append([]corev1.ContainerStatus{}, s.InitContainerStatuses...), s.ContainerStatuses...) {
			if c.State.Running != nil || c.State.Terminated != nil || c.LastTerminationState.Terminated != nil {
				return true
			}
		}
	}
	return false
}

// job is the task's Job, nil if there is none or it is somebody else's.
func (o *Observed) job() *batchv1.Job {
	if o.Job == nil || !belongs(o.Job, o.Task) {
		return nil
	}
	return o.Job
}

// belongs: the task controls the Job, or nobody does and it carries its labels.
func belongs(job *batchv1.Job, t *druidv1alpha1.EtcdCopyBackupsTask) bool {
	if owner := metav1.GetControllerOf(job); owner != nil {
		return owner.UID == t.UID
	}
	return job.Labels[druidv1alpha1.LabelPartOf] == t.Name && job.Labels[druidv1alpha1.LabelComponent] == druidv1alpha1.ComponentCopyBackupsJob
}

// ended: the task has succeeded or failed, for good.
func ended(t *druidv1alpha1.EtcdCopyBackupsTask) bool {
	for _, of := range []druidv1alpha1.ConditionType{druidv1alpha1.ConditionSucceeded, druidv1alpha1.ConditionFailed} {
		if c := druidv1alpha1.FindCondition(t.Status.Conditions, of); c != nil && c.Status == druidv1alpha1.ConditionTrue {
			return true
		}
	}
	return false
}
