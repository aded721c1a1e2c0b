package desired

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

// The exit codes of etcdbrctl after which another attempt ends in the same way (docs/reference/exit-codes.md).
const (
	ExitUsage   = 2 // also a name that no snapshot has
	ExitRefused = 3 // it could lose data
	ExitDamaged = 4 // of an exclusion: it was done, and nothing is left to restore from
)

// ExclusionLimit is how long an exclusion may last: it reads names and tags alone.
const ExclusionLimit = time.Hour

// ExclusionInput is everything that a Job depends on which leaves snapshots out of restores.
type ExclusionInput struct {
	TaskInput
	What druidv1alpha1.ExcludeSnapshotsConfig
}

// ExclusionSecret is what an exclusion has credentials from: the excluder's, or else that of the members; false: the identity of
// the pod counts, or the store is a directory.
func ExclusionSecret(e *druidv1alpha1.Etcd) (druidv1alpha1.SecretUse, bool) {
	if use, named := e.ExcluderSecret(); named {
		return use, true
	}
	if isLocal(e) {
		return druidv1alpha1.SecretUse{}, false
	}
	return e.StoreSecret()
}

// ExclusionJob leaves snapshots out of restores, or takes that back, once.
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
	labels[druidv1alpha1.LabelOwnedBy] = in.Etcd.Name // one is found when its task is gone
	spec, limit := taskJobSpec(in.TaskInput, run, labels), int64(ExclusionLimit/time.Second)
	spec.ActiveDeadlineSeconds = &limit
	spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
		Action: batchv1.PodFailurePolicyActionFailJob,
		OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
			ContainerName: &run.verb, Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: []int32{ExitUsage, ExitRefused, ExitDamaged},
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
