package desired

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

// The exit codes of etcdbrctl after which another attempt ends in the same way (docs/reference/exit-codes.md).
const (
	ExitUsage   = 2 // also a name that no snapshot has
	ExitRefused = 3 // it could lose data
)

// exclusionLimit is how long an exclusion may last, in seconds: it reads names and tags alone.
const exclusionLimit = 3600

// ExclusionInput is everything that a Job depends on which leaves snapshots out of restores.
type ExclusionInput struct {
	TaskInput
	What druidv1alpha1.ExcludeSnapshotsConfig
}

// ExclusionJob leaves snapshots out of restores, or takes that back, once. Its pods stay when they have failed, for what
// they said.
func ExclusionJob(in ExclusionInput) *batchv1.Job {
	run := taskRun{
		component: druidv1alpha1.ComponentExclusionJob, verb: "exclude", scratch: "exclusion-scratch",
		secret: credentialsOf(in.Etcd, (*druidv1alpha1.Etcd).ExcluderSecret),
	}
	if value(in.What.Include, false) {
		run.verb = "include"
	}
	if reason := value(in.What.Reason, ""); reason != "" {
		run.args = append(run.args, "--reason="+reason)
	}
	if value(in.What.LeaveNothing, false) {
		run.args = append(run.args, "--yes-leave-nothing")
	}
	run.args = append(run.args, "--") // whatever the names are
	for _, n := range in.What.Names {
		run.args = append(run.args, string(n))
	}
	labels := in.Task.OnceLabels(run.component)
	spec, limit := taskJobSpec(in.TaskInput, run, labels), int64(exclusionLimit)
	spec.ActiveDeadlineSeconds = &limit
	spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
		Action: batchv1.PodFailurePolicyActionFailJob,
		OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
			ContainerName: &run.verb, Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: []int32{ExitUsage, ExitRefused},
		},
	}}}
	return &batchv1.Job{
		TypeMeta: typeMeta("batch/v1", "Job"),
		ObjectMeta: metav1.ObjectMeta{
			Name: in.Task.JobName(), Namespace: in.Task.Namespace, Labels: labels, OwnerReferences: []metav1.OwnerReference{in.Task.OwnerReference()},
		},
		Spec: spec,
	}
}
