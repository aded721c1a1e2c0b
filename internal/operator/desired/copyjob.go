package desired

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ContainerCopy is the container of a task's Job, as the original names it.
const ContainerCopy = "copy-backups"

// CopyInput is everything that the Job of a task depends on.
type CopyInput struct {
	Task   *druidv1alpha1.EtcdCopyBackupsTask // whose stores have a known provider, and a container unless they are local
	Images Images
	// Live is the Job that exists: its images stay, as a Job's pods cannot be changed. nil: there is none.
	Live *batchv1.Job
}

// restarts are after how many a Job gives up: the default of Jobs, which the original has.
const restarts = 6

const copyScratch = "copy-backups-scratch"

// CopyJob is the Job of a task. An attempt that fails is followed by another in the same pod, which
// finds what the one before proved. The pods are those of the namespace's default ServiceAccount, which
// has the identity in the cloud that stores without a Secret are reached with.
func CopyJob(in CopyInput) (*batchv1.Job, error) {
	no, limit, one := false, int32(restarts), int32(1) // suspend is said, so that it is set back
	images := in.Images
	if in.Live != nil {
		images = imagesOf(in.Live.Spec.Template.Spec, images)
	}
	pod := corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyOnFailure,
		// Webhooks of clouds mount what they need by themselves; the copy asks no API server.
		AutomountServiceAccountToken: &no,
		EnableServiceLinks:           &no,
		SecurityContext:              podSecurity(false),
		Containers:                   []corev1.Container{copyContainer(in.Task, images.Sidecar)},
		Volumes:                      []corev1.Volume{{Name: copyScratch, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
	}
	container := &pod.Containers[0]
	container.VolumeMounts = []corev1.VolumeMount{{Name: copyScratch, MountPath: scratchDir}}
	for _, s := range storesOf(in.Task) {
		env, volume, mount := credentials(s.spec, s.place)
		container.Env = append(container.Env, env...)
		if volume != nil {
			pod.Volumes = append(pod.Volumes, *volume)
			container.VolumeMounts = append(container.VolumeMounts, *mount)
		}
	}
	mountLocal(in, images.Init, &pod)
	job := &batchv1.Job{
		TypeMeta: typeMeta("batch/v1", "Job"),
		ObjectMeta: metav1.ObjectMeta{
			Name: in.Task.JobName(), Namespace: in.Task.Namespace, Labels: in.Task.JobLabels(), OwnerReferences: []metav1.OwnerReference{in.Task.OwnerReference()},
		},
		Spec: batchv1.JobSpec{
			Suspend: &no, BackoffLimit: &limit, Parallelism: &one, Completions: &one,
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: in.Task.JobPodLabels()}, Spec: pod},
		},
	}
	described := job.Spec
	described.Suspend = nil // a former operator left the default, and its Jobs go on
	checksum, err := jobChecksum(described)
	job.Annotations = map[string]string{druidv1alpha1.AnnotationJobChecksum: checksum}
	return job, err
}

// storeOf is one of a task's stores, with what tells it from the other.
type storeOf struct {
	spec   *druidv1alpha1.StoreSpec
	flags  string // what its flags begin with
	place  place
	volume string // of a local store
	init   string // the container that makes a local store accessible
}

// storesOf are the stores of a task, the source first.
func storesOf(t *druidv1alpha1.EtcdCopyBackupsTask) []storeOf {
	return []storeOf{
		{&t.Spec.SourceStore, "--source-", sourceStore, "source-" + localVolume, "change-source-backup-bucket-permissions"},
		{&t.Spec.TargetStore, "--", ownStore, localVolume, "change-backup-bucket-permissions"},
	}
}

func copyContainer(t *druidv1alpha1.EtcdCopyBackupsTask, image string) corev1.Container {
	args := []string{"copy"}
	for _, s := range storesOf(t) {
		args = append(args, s.flags+"storage-provider="+Provider(*s.spec.Provider), s.flags+"store-container="+container(s.spec))
		if s.spec.Prefix != "" {
			args = append(args, s.flags+"store-prefix="+s.spec.Prefix)
		}
		if endpoint := value(s.spec.EndpointOverride, ""); endpoint != "" {
			args = append(args, s.flags+"store-endpoint-override="+endpoint)
		}
		args = append(args, s.flags+"snapstore-temp-directory="+scratchDir)
	}
	args = append(args, encryptionFlags(&t.Spec.TargetStore)...)
	if period, mode := objectLock(&t.Spec.TargetStore); period != "" {
		args = append(args, "--object-lock-period="+period, "--object-lock-mode="+mode)
	}
	args = append(args, "--copy-manifest="+scratchDir+"/copied.json")
	if n := t.Spec.MaxBackups; n != nil {
		args = append(args, fmt.Sprintf("--max-backups-to-copy=%d", *n))
	}
	if days := t.Spec.MaxBackupAge; days != nil {
		args = append(args, fmt.Sprintf("--max-backup-age=%d", *days))
	}
	if w := t.Spec.WaitForFinalSnapshot; w != nil && w.Enabled {
		args = append(args, "--wait-for-final-snapshot=true", "--wait-for-final-snapshot-timeout="+duration(w.Timeout, "0s"))
	}
	return corev1.Container{
		Name:            ContainerCopy,
		Image:           image,
		ImagePullPolicy: corev1.PullIfNotPresent,
		Command:         []string{"/usr/local/bin/etcdbrctl"},
		Args:            literal(args),
		Env:             []corev1.EnvVar{{Name: "HOME", Value: home}},
		SecurityContext: containerSecurity(false),
		// The operator repeats the error of an attempt that failed.
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
	}
}

// mountLocal mounts the directories of local stores, one that both have once.
func mountLocal(in CopyInput, image string, pod *corev1.PodSpec) {
	mounted := map[string]bool{}
	for _, s := range storesOf(in.Task) {
		if Provider(*s.spec.Provider) != localProvider || mounted[container(s.spec)] {
			continue
		}
		mounted[container(s.spec)] = true
		volume, mount := localDirectory(s.spec, s.volume)
		pod.Volumes = append(pod.Volumes, volume)
		pod.Containers[0].VolumeMounts = append(pod.Containers[0].VolumeMounts, mount)
		pod.InitContainers = append(pod.InitContainers, giveAway(s.init, image, mount))
	}
}

// imagesOf are those of a pod, or else others.
func imagesOf(pod corev1.PodSpec, others Images) Images {
	for _, c := range pod.Containers {
		if c.Name == ContainerCopy {
			others.Sidecar = c.Image
		}
	}
	for _, c := range pod.InitContainers {
		others.Init = c.Image
	}
	return others
}

// jobChecksum is over everything but the images: another image alone is no reason to begin again.
func jobChecksum(spec batchv1.JobSpec) (string, error) {
	plain := spec.DeepCopy()
	for _, list := range [][]corev1.Container{plain.Template.Spec.InitContainers, plain.Template.Spec.Containers} {
		for i := range list {
			list[i].Image = ""
		}
	}
	b, err := json.Marshal(plain)
	if err != nil {
		return "", fmt.Errorf("checksum of the Job: %w", err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}
