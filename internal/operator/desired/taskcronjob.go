package desired

import (
	"maps"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/schedule"
)

// TaskInput is everything that the CronJob or Job of a task depends on, whatever its type.
type TaskInput struct {
	Task   *druidv1alpha1.EtcdOperatorTask // its name, namespace and uid
	Etcd   *druidv1alpha1.Etcd             // with its defaults, and a store
	Images Images

	// Schedule of a CronJob; zero for a Job.
	Schedule schedule.Schedule
}

const (
	// taskLate is how late a run may begin that was missed, as while Kubernetes was down. Without a
	// bound, a CronJob that has missed many is not run any more by some versions.
	taskLate = 6 * time.Hour
	// taskLimit is how long a run may last: the largest databases take an hour each way.
	taskLimit = 6 * 3600
)

// taskRun is what a Job does.
type taskRun struct {
	component string // the label
	verb      string // of etcdbrctl, and the name of the container
	scratch   string // name of the volume with room to work in
	args      []string
	secret    *corev1.SecretReference // with the credentials
}

// taskCronJob does something with the store of an Etcd on a schedule.
func taskCronJob(in TaskInput, run taskRun) *batchv1.CronJob {
	// What is due is looked for from the time on after which it were too late: a schedule that is reckoned from
	// there would never come if that is nearer than one period.
	late := int64((taskLate + in.Schedule.Every()) / time.Second)
	one, no, labels := int32(1), false, in.Task.JobLabels(run.component)
	job := &batchv1.CronJob{
		TypeMeta: typeMeta("batch/v1", "CronJob"),
		ObjectMeta: metav1.ObjectMeta{
			Name: in.Task.CronJobName(), Namespace: in.Task.Namespace, Labels: labels, OwnerReferences: []metav1.OwnerReference{in.Task.OwnerReference()},
		},
		Spec: batchv1.CronJobSpec{
			Schedule:                   in.Schedule.Expression(),
			Suspend:                    &no, // said, so that it is set back when somebody else suspends it
			ConcurrencyPolicy:          batchv1.ForbidConcurrent,
			StartingDeadlineSeconds:    &late,
			SuccessfulJobsHistoryLimit: &one,
			FailedJobsHistoryLimit:     &one,
			JobTemplate: batchv1.JobTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       taskJobSpec(in, run, labels),
			},
		},
	}
	if zone := in.Schedule.Zone(); zone != "" && zone != "Local" { // which a CronJob rejects, and means without a zone
		job.Spec.TimeZone = &zone
	}
	return job
}

// taskJobSpec does something with the store of an Etcd once. Its pods are those of the Etcd's ServiceAccount, which has the
// identity in the cloud that a store without a Secret is reached with, and carry the Etcd's labels for networks and webhooks.
func taskJobSpec(in TaskInput, run taskRun, labels map[string]string) batchv1.JobSpec {
	no, restarts, one, limit := false, int32(restarts), int32(1), int64(taskLimit)
	s := *in.Etcd.Spec.Backup.Store
	s.SecretRef = run.secret
	pod := corev1.PodSpec{
		RestartPolicy:                corev1.RestartPolicyNever, // the pods that failed stay with the Job, for what they said
		ServiceAccountName:           in.Etcd.ServiceAccountName(),
		AutomountServiceAccountToken: &no,
		EnableServiceLinks:           &no,
		SecurityContext:              podSecurity(false),
		Volumes:                      []corev1.Volume{{Name: run.scratch, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
	}
	args := []string{run.verb, "--storage-provider=" + Provider(*s.Provider), "--store-container=" + container(&s)}
	if s.Prefix != "" {
		args = append(args, "--store-prefix="+s.Prefix)
	}
	if endpoint := value(s.EndpointOverride, ""); endpoint != "" {
		args = append(args, "--store-endpoint-override="+endpoint)
	}
	args = append(args, encryptionFlags(&s)...)
	c := corev1.Container{
		Name:                     run.verb,
		Image:                    in.Images.Sidecar,
		ImagePullPolicy:          corev1.PullIfNotPresent,
		Command:                  []string{"/usr/local/bin/etcdbrctl"},
		Args:                     literal(append(args, run.args...)),
		Env:                      []corev1.EnvVar{{Name: "HOME", Value: home}},
		SecurityContext:          containerSecurity(false),
		VolumeMounts:             []corev1.VolumeMount{{Name: run.scratch, MountPath: scratchDir}},
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
	}
	env, volume, mount := credentials(&s, ownStore)
	c.Env = append(c.Env, env...)
	if volume != nil {
		pod.Volumes = append(pod.Volumes, *volume)
		c.VolumeMounts = append(c.VolumeMounts, *mount)
	}
	if isLocal(in.Etcd) {
		volume, mount := localDirectory(&s, localVolume)
		pod.Volumes = append(pod.Volumes, volume)
		c.VolumeMounts = append(c.VolumeMounts, mount)
		pod.InitContainers = []corev1.Container{giveAway("change-backup-bucket-permissions", in.Images.Init, mount)}
	}
	pod.Containers = []corev1.Container{c}

	podLabels := map[string]string{}
	maps.Copy(podLabels, in.Etcd.Spec.Labels)
	maps.Copy(podLabels, labels)
	return batchv1.JobSpec{
		ActiveDeadlineSeconds: &limit, BackoffLimit: &restarts, Parallelism: &one, Completions: &one,
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: podLabels}, Spec: pod},
	}
}

// credentialsOf are those of a role, or else those of the members.
func credentialsOf(e *druidv1alpha1.Etcd, role func(*druidv1alpha1.Etcd) (druidv1alpha1.SecretUse, bool)) *corev1.SecretReference {
	if use, named := role(e); named {
		return &corev1.SecretReference{Name: use.Name}
	}
	return e.Spec.Backup.Store.SecretRef
}
