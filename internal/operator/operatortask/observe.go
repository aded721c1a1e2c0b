package operatortask

import (
	"context"
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/operator/desired"
	"druid.internal/druid/internal/operator/operatortask/task"
)

// Observed is what a look at a task found. Nobody may change anything in it: most is the cache's.
type Observed struct {
	Task *task.Task
	Etcd *druidv1alpha1.Etcd // with its defaults; nil: there is none. Of a standing task as it was applied
	Pods []corev1.Pod        // of its members; only looked for where work is begun
	// Others are the tasks of the same Etcd, of both resources, that have neither ended nor are being deleted.
	Others  []*task.Task
	Attempt *Attempt // the last one of this operator; nil: it made none

	// Of a task that a Job does:
	Job     *batchv1.Job // nil: there is none that is the task's
	JobPods []corev1.Pod // of a standing task: of the Job that runs
	// Unended is a Job or a pod of another task of the type for the same Etcd that has not ended, for people; looked for
	// while the task has no Job. The other task is gone, or was given up: admission waits for all others.
	Unended string

	// Of a standing task:
	CronJob *batchv1.CronJob // nil: there is none that is the task's
	Jobs    []batchv1.Job    // of the CronJob
	Owner   string           // in whose name the Etcd's sidecars write the backups

	// SecretFault is why no run can have its credentials; looked for until one has succeeded, or has begun of which there is
	// one only.
	SecretFault string
}

// made is the task's CronJob or Job, nil if there is none.
func (o *Observed) made() client.Object {
	switch {
	case o.CronJob != nil:
		return o.CronJob
	case o.Job != nil:
		return o.Job
	}
	return nil
}

// observe reads the Etcd, its other tasks and the Job of a task that is done once from a reader, and everything else from the
// cache.
func (r *Reconciler) observe(ctx context.Context, t *task.Task, from client.Reader) (*Observed, error) {
	o := &Observed{Task: t, Attempt: r.attempts.at(t)}
	row, _ := typeOf(t.Type)
	if row.Standing != nil {
		if err := r.observeRuns(ctx, o); err != nil {
			return nil, err
		}
	}
	if t.Status.State.Ended() {
		return o, nil
	}
	if row.Job != nil {
		if err := r.observeJob(ctx, o, from); err != nil {
			return nil, err
		}
	}
	var err error
	if o.Etcd, err = r.etcd(ctx, t, from); err != nil || o.Etcd == nil {
		return o, err
	}
	if o.Others, err = r.others(ctx, t, from); err != nil {
		return nil, err
	}
	if row.Standing != nil {
		o.Etcd = o.Etcd.AsApplied() // what is refused, or nobody asked for, is not carried out by a task either
		cluster, err := r.cluster.UID(ctx)
		if err != nil {
			return nil, err
		}
		o.Owner = desired.Owner(cluster, o.Etcd)
		if running, _, how := runs(o.Jobs); running != nil || how == nil || how.Type != batchv1.JobComplete {
			if err := r.observeSecret(ctx, o, row.Standing.Secret); err != nil {
				return nil, err
			}
		}
	}
	if row.Job != nil && o.Job == nil {
		if o.Unended, err = r.unended(ctx, o, row.Job.Component, from); err != nil {
			return nil, err
		}
	}
	if row.Job != nil && (o.Job == nil || finished(o.Job) == nil && !slices.ContainsFunc(o.JobPods, ran)) {
		if err := r.observeSecret(ctx, o, row.Job.Secret); err != nil {
			return nil, err
		}
	}
	if row.Once != nil {
		var pods corev1.PodList
		if err := r.cache.List(ctx, &pods, client.InNamespace(t.Namespace), client.MatchingLabels(o.Etcd.MemberPodLabels())); err != nil {
			return nil, fmt.Errorf("list the pods of the Etcd %s: %w", t.Etcd, err)
		}
		o.Pods = pods.Items
	}
	return o, nil
}

// etcd is that of a task, nil if there is none.
func (r *Reconciler) etcd(ctx context.Context, t *task.Task, from client.Reader) (*druidv1alpha1.Etcd, error) {
	// Nothing has a name such as shop/main, and a client refuses to ask for it.
	if t.Etcd == "" || len(content.IsPathSegmentName(t.Etcd)) > 0 || t.EtcdNamespace != "" && t.EtcdNamespace != t.Namespace {
		return nil, nil
	}
	e := &druidv1alpha1.Etcd{}
	err := from.Get(ctx, types.NamespacedName{Namespace: t.Namespace, Name: t.Etcd}, e)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read the Etcd %s: %w", t.Etcd, err)
	}
	e.SetDefaults()
	return e, nil
}

// others are the unfinished tasks of the same Etcd. One that is being deleted is not worked at any more, and
// may stay for as long as somebody's finalizer holds it.
func (r *Reconciler) others(ctx context.Context, t *task.Task, from client.Reader) (all []*task.Task, err error) {
	for _, res := range resources() {
		list := res.list()
		if err := from.List(ctx, list, client.InNamespace(t.Namespace)); err != nil {
			return nil, fmt.Errorf("list the %ss: %w", res.kind, err)
		}
		for _, other := range res.tasks(list) {
			if other.Etcd == t.Etcd && other.UID != t.UID && !other.Status.State.Ended() && !other.Leaving && (other.EtcdNamespace == "" || other.EtcdNamespace == t.Namespace) {
				all = append(all, other)
			}
		}
	}
	return all, nil
}

// observeSecret looks for the credentials of a run. A pod that lacks them does not start, and its Job says nothing for
// hours.
func (r *Reconciler) observeSecret(ctx context.Context, o *Observed, of func(*druidv1alpha1.Etcd) (druidv1alpha1.SecretUse, bool)) error {
	use, named := of(o.Etcd)
	if !named {
		return nil
	}
	var secret corev1.Secret
	switch err := r.live.Get(ctx, types.NamespacedName{Namespace: o.Task.Namespace, Name: use.Name}, &secret); {
	case apierrors.IsNotFound(err):
		o.SecretFault = fmt.Sprintf("the Secret %s (%s) is not there: make it in the namespace of the Etcd, or correct the field", use.Name, use.Field)
	case err != nil:
		return fmt.Errorf("read the Secret %s: %w", use.Name, err)
	default:
		if keys := desired.Lacks(o.Etcd, use.Field, &secret); len(keys) > 0 {
			o.SecretFault = fmt.Sprintf("the Secret %s (%s) has no %s: add them", use.Name, use.Field, strings.Join(keys, ", "))
		}
	}
	return nil
}

// observeJob reads the Job of a task and its pods, which are there for some time after a Job that was deleted.
func (r *Reconciler) observeJob(ctx context.Context, o *Observed, from client.Reader) error {
	object := &druidv1alpha1.EtcdOperatorTask{ObjectMeta: o.Task.Meta()}
	var job batchv1.Job
	switch err := from.Get(ctx, types.NamespacedName{Namespace: o.Task.Namespace, Name: object.JobName()}, &job); {
	case err == nil:
		if owner := metav1.GetControllerOf(&job); owner != nil && owner.UID == o.Task.UID {
			o.Job = &job
		}
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("read the Job %s: %w", object.JobName(), err)
	}
	var pods corev1.PodList
	labels := client.MatchingLabels{druidv1alpha1.LabelManagedBy: druidv1alpha1.ManagedBy, druidv1alpha1.LabelName: object.JobName()}
	if err := from.List(ctx, &pods, client.InNamespace(o.Task.Namespace), labels); err != nil {
		return fmt.Errorf("list the pods of the Job %s: %w", object.JobName(), err)
	}
	o.JobPods = pods.Items
	return nil
}

// unended is a Job or a pod of another task that may be at work for the same Etcd.
func (r *Reconciler) unended(ctx context.Context, o *Observed, component string, from client.Reader) (string, error) {
	own := (&druidv1alpha1.EtcdOperatorTask{ObjectMeta: o.Task.Meta()}).JobName()
	labels := client.MatchingLabels{druidv1alpha1.LabelManagedBy: druidv1alpha1.ManagedBy, druidv1alpha1.LabelComponent: component, druidv1alpha1.LabelOwnedBy: o.Etcd.Name}
	tell := func(kind string, x client.Object) string {
		return fmt.Sprintf("the %s %s of the task %s", kind, x.GetName(), x.GetLabels()[druidv1alpha1.LabelPartOf])
	}
	var jobs batchv1.JobList
	if err := from.List(ctx, &jobs, client.InNamespace(o.Task.Namespace), labels); err != nil {
		return "", fmt.Errorf("list the Jobs of the Etcd %s: %w", o.Etcd.Name, err)
	}
	for i := range jobs.Items {
		if j := &jobs.Items[i]; j.Name != own && finished(j) == nil && j.DeletionTimestamp == nil { // one that goes makes no pods
			return tell("Job", j), nil
		}
	}
	var pods corev1.PodList // those of a Job that was deleted end later
	if err := from.List(ctx, &pods, client.InNamespace(o.Task.Namespace), labels); err != nil {
		return "", fmt.Errorf("list the pods of Jobs of the Etcd %s: %w", o.Etcd.Name, err)
	}
	for i := range pods.Items {
		if p := &pods.Items[i]; p.Labels[druidv1alpha1.LabelName] != own && active(*p) {
			return tell("pod", p), nil
		}
	}
	return "", nil
}

func (r *Reconciler) observeRuns(ctx context.Context, o *Observed) error {
	object := &druidv1alpha1.EtcdOperatorTask{ObjectMeta: o.Task.Meta()}
	var job batchv1.CronJob
	switch err := r.cache.Get(ctx, types.NamespacedName{Namespace: o.Task.Namespace, Name: object.CronJobName()}, &job); {
	case err == nil:
		if owner := metav1.GetControllerOf(&job); owner != nil && owner.UID == o.Task.UID {
			o.CronJob = &job
		}
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("read the CronJob %s: %w", object.CronJobName(), err)
	}
	if o.CronJob == nil {
		return nil
	}
	var jobs batchv1.JobList
	labels := client.MatchingLabels{druidv1alpha1.LabelPartOf: o.CronJob.Labels[druidv1alpha1.LabelPartOf], druidv1alpha1.LabelComponent: o.CronJob.Labels[druidv1alpha1.LabelComponent]}
	if err := r.cache.List(ctx, &jobs, client.InNamespace(o.Task.Namespace), labels); err != nil {
		return fmt.Errorf("list the Jobs of %s: %w", o.CronJob.Name, err)
	}
	for _, j := range jobs.Items {
		if metav1.IsControlledBy(&j, o.CronJob) {
			o.Jobs = append(o.Jobs, j)
		}
	}
	running, _, _ := runs(o.Jobs)
	if running == nil {
		return nil
	}
	var pods corev1.PodList
	if err := r.cache.List(ctx, &pods, client.InNamespace(o.Task.Namespace), labels); err != nil {
		return fmt.Errorf("list the pods of the Job %s: %w", running.Name, err)
	}
	for _, p := range pods.Items {
		if p.Labels[batchv1.JobNameLabel] == running.Name {
			o.JobPods = append(o.JobPods, p)
		}
	}
	return nil
}
