package desired

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

// ExtensionInput is everything that a CronJob depends on which keeps the newest backup locked.
type ExtensionInput struct {
	TaskInput
	// Since is when the task was made: what was uploaded before is not removed.
	Since time.Time
	// Keep is the name of a full that is kept whatever is newer, Digest the SHA-256 of it; empty: none, not known.
	Keep, Digest string
	// Period is for how long the bucket locked that full, which counts where it does not tell what it gives; 0: not known.
	Period time.Duration
	// Between is the longest time between two runs.
	Between time.Duration
	// Whole: what is kept is read whole, also if no lock is due.
	Whole bool
	// Release: the Etcd is awake, and its former backup is held.
	Release bool
}

// ExtensionCronJob keeps the newest backup locked on a schedule.
func ExtensionCronJob(in ExtensionInput) *batchv1.CronJob {
	if in.Release {
		return extensionCronJob(in, "--release-holds", "--snapstore-temp-directory="+scratchDir, "--notice-file="+corev1.TerminationMessagePathDefault)
	}
	args := []string{"--every=" + duration(&metav1.Duration{Duration: in.Between}, "")}
	if period, _ := objectLock(in.Etcd.Spec.Backup.Store); period != "" {
		args = append(args, "--retention-period="+period) // the bucket has none
	} else if in.Period > 0 {
		args = append(args, "--default-retention-period="+duration(&metav1.Duration{Duration: in.Period}, ""))
	}
	if in.Whole {
		args = append(args, "--verify=always")
	}
	if in.Keep != "" {
		args = append(args, "--keep="+in.Keep)
		if in.Digest != "" {
			args = append(args, "--keep-digest="+in.Digest)
		}
	}
	args = append(args, "--snapstore-temp-directory="+scratchDir, "--notice-file="+corev1.TerminationMessagePathDefault)
	if _, collector := in.Etcd.CollectorSecret(); !collector { // who removes expired copies
		args = append(args, "--gc-from-timestamp="+in.Since.UTC().Format(time.RFC3339))
	}
	return extensionCronJob(in, args...)
}

func extensionCronJob(in ExtensionInput, args ...string) *batchv1.CronJob {
	return taskCronJob(in.TaskInput, taskRun{
		component: druidv1alpha1.ComponentExtensionJob, verb: "extend-snapshot-immutability", scratch: "extension-scratch",
		args: args, secret: credentialsOf(in.Etcd, (*druidv1alpha1.Etcd).ExtenderSecret),
	})
}
