package operator_test

import (
	"context"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/backup/immutability"
)

func isRun(p *corev1.Pod) bool {
	return p.Labels[druidv1alpha1.LabelComponent] == druidv1alpha1.ComponentExtensionJob
}

// extend carries the task that prolongs locks out, also before its minute where it comes every few: a run tells what is in the bucket.
func (l *land) extend(ctx context.Context, w *town, v *view) error {
	if job := v.extension; job != nil && job.DeletionTimestamp == nil && strings.HasPrefix(job.Spec.Schedule, "*/") {
		name := "run-" + string(job.UID)
		if !slices.ContainsFunc(v.runs, func(p *corev1.Pod) bool { return p.Name == name }) {
			template := job.Spec.JobTemplate.Spec.Template
			owner := metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("CronJob"))
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: template.Labels, OwnerReferences: []metav1.OwnerReference{*owner}}, Spec: template.Spec}
			if _, err := l.s.Client.CoreV1().Pods(job.Namespace).Create(ctx, p, metav1.CreateOptions{}); err != nil {
				return err
			}
		}
	}
	for _, p := range v.runs {
		if p.Status.Phase == corev1.PodSucceeded || p.DeletionTimestamp != nil {
			continue
		}
		next := p.DeepCopy()
		next.Status.Phase = corev1.PodSucceeded
		next.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: p.Spec.Containers[0].Name, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed", Message: w.notice(p).String()}},
		}}
		if _, err := l.s.Client.CoreV1().Pods(p.Namespace).UpdateStatus(ctx, next, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// notice is what a run tells of the full that it is to keep.
func (w *town) notice(p *corev1.Pod) immutability.Notice {
	keep, whole := "", slices.Contains(p.Spec.Containers[0].Args, "--verify=always")
	for _, arg := range p.Spec.Containers[0].Args {
		if name, is := strings.CutPrefix(arg, "--keep="); is {
			keep = name
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	newest := w.newest()
	if newest.SnapName != keep {
		return immutability.Notice{At: w.clock(), Recorded: keep, Damaged: "there is no " + keep}
	}
	w.looked = w.looked || whole
	return immutability.Notice{At: w.clock(), Recorded: keep, Snapshot: keep, End: newest.LastRevision, NewestEnd: newest.LastRevision, Until: newest.ImmutableUntil, Whole: whole}
}
