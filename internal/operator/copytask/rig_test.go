package copytask

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/operator/desired"
)

var testNow = time.Date(2025, 6, 1, 3, 0, 0, 0, time.UTC)

func ptr[T any](v T) *T { return &v }

var testSettings = Settings{Images: desired.Images{Sidecar: "own:1", Init: "own:1"}}

func store(provider, container, prefix string) druidv1alpha1.StoreSpec {
	return druidv1alpha1.StoreSpec{Provider: ptr(druidv1alpha1.StorageProvider(provider)), Container: &container, Prefix: prefix}
}

func newTask(change ...func(*druidv1alpha1.EtcdCopyBackupsTask)) *druidv1alpha1.EtcdCopyBackupsTask {
	t := &druidv1alpha1.EtcdCopyBackupsTask{
		ObjectMeta: metav1.ObjectMeta{Name: "move", Namespace: "shop", UID: "task-uid", Generation: 2},
		Spec:       druidv1alpha1.EtcdCopyBackupsTaskSpec{SourceStore: store("aws", "old", "p"), TargetStore: store("gcp", "new", "p")},
	}
	t.Spec.TargetStore.SecretRef = &corev1.SecretReference{Name: "target"}
	for _, c := range change {
		c(t)
	}
	return t
}

// at is what is seen of a task whose Job was made of its specification. changes come last.
func at(t *testing.T, changes ...func(*Observed)) *Observed {
	t.Helper()
	o := &Observed{Task: newTask()}
	p, err := Decide(o, testSettings)
	if err != nil || p.Make == nil {
		t.Fatalf("no Job is made: %+v, %v", p, err)
	}
	o.Job = p.Make
	o.Job.UID, o.Job.ResourceVersion = "job-uid", "1"
	for _, c := range changes {
		c(o)
	}
	return o
}

// ends has the Job end so.
func ends(how batchv1.JobConditionType, reason, message string) func(*Observed) {
	return func(o *Observed) {
		o.Job.Status.Conditions = append(o.Job.Status.Conditions, batchv1.JobCondition{Type: how, Status: corev1.ConditionTrue, Reason: reason, Message: message})
	}
}

// withPod has the Job have a pod.
func withPod(s corev1.PodStatus) func(*Observed) {
	return func(o *Observed) {
		o.Pods = append(o.Pods, corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "move-worker-x", CreationTimestamp: metav1.NewTime(testNow.Add(time.Duration(len(o.Pods)) * time.Second))}, Status: s,
		})
	}
}

func container(s corev1.ContainerStatus) corev1.PodStatus {
	s.Name, s.Image = desired.ContainerCopy, "own:1"
	return corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{s}}
}

// retried is a container that runs again after an attempt ended so.
func retried(code int32, log string) corev1.PodStatus {
	return container(corev1.ContainerStatus{
		State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off 10s"}},
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: "Error", Message: log}},
	})
}

func lacks(names ...string) func(*Observed) {
	return func(o *Observed) {
		for _, n := range names {
			o.MissingSecrets = append(o.MissingSecrets, druidv1alpha1.SecretUse{Name: n, Field: "spec." + n + "Store.secretRef"})
		}
	}
}

func changed(change func(*druidv1alpha1.EtcdCopyBackupsTask)) func(*Observed) {
	return func(o *Observed) { change(o.Task) }
}

func condition(of druidv1alpha1.ConditionType, status druidv1alpha1.ConditionStatus) func(*Observed) {
	return func(o *Observed) {
		o.Task.Status.Conditions = append(o.Task.Status.Conditions, druidv1alpha1.Condition{Type: of, Status: status})
	}
}
