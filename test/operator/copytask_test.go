package operator_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

// tasks are the EtcdCopyBackupsTasks of one namespace, with their Jobs.
type tasks struct {
	*site
	namespace string
}

func (s *site) tasks(t *testing.T, namespace string) tasks {
	t.Helper()
	s.namespace(t, namespace)
	return tasks{s, namespace}
}

func (s tasks) all() dynamic.ResourceInterface {
	return s.objects.Resource(schema.GroupVersionResource{Group: "druid.gardener.cloud", Version: "v1alpha1", Resource: "etcdcopybackupstasks"}).Namespace(s.namespace)
}

// make makes a task of its specification.
func (s tasks) make(t *testing.T, name, spec string) {
	t.Helper()
	o := &unstructured.Unstructured{}
	text := fmt.Sprintf("{apiVersion: druid.gardener.cloud/v1alpha1, kind: EtcdCopyBackupsTask, metadata: {name: %s, namespace: %s}, spec: %s}", name, s.namespace, spec)
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatal(err)
	}
	if _, err := s.all().Create(t.Context(), o, strict); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// patch changes a task as a person would.
func (s tasks) patch(t *testing.T, name, patch string) {
	t.Helper()
	if _, err := s.all().Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "a person"}); err != nil {
		t.Fatal(err)
	}
}

// is is nil if the task says so, for a condition such as "Succeeded=True CopySucceeded", and nothing else
// is the matter. says is in the error that it tells; "": it tells none.
func (s tasks) is(name, want, says string) func(context.Context) error {
	return func(ctx context.Context) error {
		o, err := s.all().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
		var got []string
		for _, item := range conditions {
			c, _ := item.(map[string]any)
			got = append(got, fmt.Sprintf("%s=%s %s", c["type"], c["status"], c["reason"]))
		}
		last, told, _ := unstructured.NestedString(o.Object, "status", "lastError")
		if !slices.Contains(got, want) || told != (says != "") || !strings.Contains(last, says) {
			return fmt.Errorf("it is %q, generation %d, with the error %q; want %s with %q", got, o.GetGeneration(), last, want, says)
		}
		return nil
	}
}

func (s tasks) job(t *testing.T, name string) *batchv1.Job {
	t.Helper()
	job, err := s.Client.BatchV1().Jobs(s.namespace).Get(t.Context(), name+"-worker", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return job
}

// hasJob is nil once there is a Job that is fit.
func (s tasks) hasJob(name string, fit func(*batchv1.Job) bool) func(context.Context) error {
	return func(ctx context.Context) error {
		job, err := s.Client.BatchV1().Jobs(s.namespace).Get(ctx, name+"-worker", metav1.GetOptions{})
		if err == nil && (job.DeletionTimestamp != nil || !fit(job)) {
			err = fmt.Errorf("the Job is %v", job.ObjectMeta)
		}
		return err
	}
}

func anyJob(*batchv1.Job) bool { return true }

// pod tells the status of the Job's pod, as a kubelet would, once there is one.
func (s tasks) pod(t *testing.T, name string, status corev1.PodStatus) {
	t.Helper()
	await(t, func(ctx context.Context) error {
		pods, err := s.Client.CoreV1().Pods(s.namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/part-of=" + name})
		if err != nil {
			return err
		}
		if len(pods.Items) != 1 {
			return fmt.Errorf("%d pods, want one", len(pods.Items))
		}
		pod := &pods.Items[0]
		pod.Status.Phase, pod.Status.ContainerStatuses = status.Phase, status.ContainerStatuses
		_, err = s.Client.CoreV1().Pods(s.namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
		return err
	})
}

func (s tasks) secret(t *testing.T, name string) {
	t.Helper()
	if _, err := s.Client.CoreV1().Secrets(s.namespace).Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (s tasks) deleteJob(t *testing.T, name string) {
	t.Helper()
	background := metav1.DeletePropagationBackground
	if err := s.Client.BatchV1().Jobs(s.namespace).Delete(t.Context(), name+"-worker", metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
		t.Fatal(err)
	}
}

// attempts is the container after so many of its attempts failed.
func attempts(failed int32) []corev1.ContainerStatus {
	return []corev1.ContainerStatus{{
		Name: "copy-backups", RestartCount: failed,
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: 5, Reason: "Error", Message: "level=INFO msg=begun\nError: the bucket new does not exist: make it\n",
		}},
	}}
}

const (
	copying   = "controllers: {etcdCopyBackupsTask: {enabled: true}}"
	twoClouds = "{sourceStore: {provider: aws, container: old, prefix: p}, targetStore: {provider: gcp, container: new, prefix: p}}"
)

func TestTasksCopyBackups(t *testing.T) {
	together(t, light)
	site := newSite(t)
	site.grant(t)
	p := site.operate(t, "operator", copying)
	s := site.tasks(t, "shop")

	t.Run("a task waits for its Secret, and its Job copies what it says", func(t *testing.T) {
		s.make(t, "main", `{maxBackups: 2, maxBackupAge: 3650, waitForFinalSnapshot: {enabled: true, timeout: 1ms},
			sourceStore: {provider: local, container: old, prefix: ns--uid/etcd-main}, targetStore: {provider: Local, container: new, prefix: p}}`)
		p.await(t, s.is("main", "Succeeded=False Copying", ""))
		copies(t, s.job(t, "main"))

		s.make(t, "clouds", strings.ReplaceAll(twoClouds, "container: new,", "container: new, secretRef: {name: late},"))
		p.await(t, s.is("clouds", "Succeeded=False SecretMissing", "no Secret late (spec.targetStore.secretRef) in shop: make it"))
		if _, err := s.Client.BatchV1().Jobs(s.namespace).Get(t.Context(), "clouds-worker", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("there is a Job without its Secret: %v", err)
		}
		s.secret(t, "late")
		p.await(t, s.hasJob("clouds", anyJob))
		p.await(t, s.is("clouds", "Succeeded=False Copying", ""))
	})

	t.Run("its end is told, and its Job is not made again", func(t *testing.T) {
		s.pod(t, "main", corev1.PodStatus{Phase: corev1.PodSucceeded})
		p.await(t, s.is("main", "Succeeded=True CopySucceeded", ""))
		s.deleteJob(t, "main")
		s.make(t, "after", twoClouds) // is looked at after the end of the other's Job
		p.await(t, s.hasJob("after", anyJob))
		s.patch(t, "main", `{"spec":{"maxBackups":1}}`)
		p.await(t, s.is("main", "Succeeded=True CopySucceeded", "has no effect: make another task"))
		if _, err := s.Client.BatchV1().Jobs(s.namespace).Get(t.Context(), "main-worker", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("the Job of a task that ended was made again: %v", err)
		}
	})

	t.Run("a Job that is edited or deleted by hand is put back", func(t *testing.T) {
		s.make(t, "edited", twoClouds)
		p.await(t, s.hasJob("edited", anyJob))
		first := s.job(t, "edited")
		edit := `{"metadata":{"labels":{"app.kubernetes.io/component":"mine"}},"spec":{"backoffLimit":0}}`
		if _, err := s.Client.BatchV1().Jobs(s.namespace).Patch(t.Context(), "edited-worker", types.MergePatchType, []byte(edit), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		p.await(t, s.hasJob("edited", func(j *batchv1.Job) bool {
			return j.UID == first.UID && j.Labels["app.kubernetes.io/component"] == "etcd-copy-backups-job" && *j.Spec.BackoffLimit == 6
		}))
		s.deleteJob(t, "edited")
		p.await(t, s.hasJob("edited", func(j *batchv1.Job) bool { return j.UID != first.UID }))
	})

	t.Run("another specification gets another Job", func(t *testing.T) {
		s.make(t, "changed", twoClouds)
		p.await(t, s.hasJob("changed", anyJob))
		s.patch(t, "changed", `{"spec":{"maxBackups":7}}`)
		p.await(t, s.hasJob("changed", func(j *batchv1.Job) bool {
			return slices.Contains(j.Spec.Template.Spec.Containers[0].Args, "--max-backups-to-copy=7")
		}))
		p.await(t, s.is("changed", "Succeeded=False Copying", ""))
	})

	t.Run("what is wrong is said, and mended it goes on", func(t *testing.T) {
		s.make(t, "itself", `{sourceStore: {provider: aws, container: one, prefix: p}, targetStore: {provider: S3, container: one, prefix: p//}}`)
		p.await(t, s.is("itself", "Succeeded=False StoreInvalid", "spec.targetStore is the same place as spec.sourceStore: name another container or prefix"))
		s.patch(t, "itself", `{"spec":{"targetStore":{"prefix":"q"}}}`)
		p.await(t, s.is("itself", "Succeeded=False Copying", ""))
	})

	t.Run("attempts that fail are told, and that the Job gives up", func(t *testing.T) {
		s.make(t, "failing", twoClouds)
		s.pod(t, "failing", corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: attempts(1)})
		p.await(t, s.is("failing", "Succeeded=False CopyRetried", "followed by another one: the bucket new does not exist: make it"))
		s.pod(t, "failing", corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: attempts(7)})
		p.await(t, s.is("failing", "Failed=True CopyFailed", "gave up (BackoffLimitExceeded: Job has reached the specified backoff limit); its last error: the bucket new does not exist: make it. Once that is mended"))
		p.await(t, s.is("failing", "Succeeded=False CopyFailed", "gave up"))
	})

	t.Run("a Job of somebody else is not touched, and named", func(t *testing.T) {
		pod := corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "i"}}}
		foreign := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "taken-worker"}, Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: pod}}}
		if _, err := s.Client.BatchV1().Jobs(s.namespace).Create(t.Context(), foreign, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		s.make(t, "taken", twoClouds)
		p.await(t, s.is("taken", "Succeeded=False JobNotMade", "belongs to somebody else"))
		if job := s.job(t, "taken"); job.Labels["app.kubernetes.io/managed-by"] != "" || len(job.OwnerReferences) != 0 {
			t.Errorf("it is %v now", job.ObjectMeta)
		}
		if err := s.all().Delete(t.Context(), "taken", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		p.await(t, s.gone("taken"))
		s.job(t, "taken")
	})

	t.Run("a task that is deleted takes its Job and its pods along, before it goes", func(t *testing.T) {
		await(t, func(ctx context.Context) error {
			pods, err := s.Client.CoreV1().Pods(s.namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/part-of=clouds"})
			if err == nil && len(pods.Items) == 0 {
				err = errors.New("it has no pod yet")
			}
			return err
		})
		if err := s.all().Delete(t.Context(), "clouds", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		p.await(t, s.gone("clouds"))
		if _, err := s.Client.BatchV1().Jobs(s.namespace).Get(t.Context(), "clouds-worker", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("the task is gone and its Job is not: %v", err)
		}
		pods, err := s.Client.CoreV1().Pods(s.namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/part-of=clouds"})
		if err != nil || len(pods.Items) != 0 {
			t.Errorf("the task is gone and %d pods are not (%v)", len(pods.Items), err)
		}
	})

	t.Run("without a change nothing is written, also after a restart", func(t *testing.T) {
		for _, name := range []string{"after", "edited", "changed", "itself"} { // else their states are news
			p.await(t, s.is(name, "Succeeded=False Copying", ""))
		}
		p.Kill()
		begun := time.Now()
		p = site.operate(t, "restarted", copying)
		s.make(t, "last", twoClouds)
		p.await(t, s.is("last", "Succeeded=False Copying", ""))
		for _, r := range site.asked(t, s.namespace, begun) {
			if !strings.Contains(r, "last") && !strings.Contains(strings.ToLower(r), "get") {
				t.Errorf("the restarted operator sent: %s", r)
			}
		}
	})
}

// gone is nil if there is no such task.
func (s tasks) gone(name string) func(context.Context) error {
	return func(ctx context.Context) error {
		o, err := s.all().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is there: %v, %w", o, err)
	}
}

// copies runs the program of the Job as its container would, in a home of this machine, and finds the
// backups copied.
func copies(t *testing.T, job *batchv1.Job) {
	t.Helper()
	home, scratch := t.TempDir(), t.TempDir()
	root := filepath.Join("..", "..")
	if err := os.CopyFS(filepath.Join(home, "old"), os.DirFS(filepath.Join(root, "testdata", "upstream-bucket-none"))); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(home, "new"), 0o700); err != nil {
		t.Fatal(err)
	}
	programs, err := memberPrograms.Get()
	if err != nil {
		t.Fatal(err)
	}
	c := job.Spec.Template.Spec.Containers[0]
	if want := []string{"/usr/local/bin/etcdbrctl"}; !slices.Equal(c.Command, want) {
		t.Errorf("the command is %q, want %q", c.Command, want)
	}
	var args []string
	for _, a := range c.Args {
		args = append(args, strings.Replace(a, "=/tmp", "="+scratch, 1))
	}
	run := exec.CommandContext(t.Context(), programs.Etcdbrctl, args...)
	for _, e := range c.Env {
		if e.Name == "HOME" {
			e.Value = home
		}
		run.Env = append(run.Env, e.Name+"="+e.Value)
	}
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%q: %v\n%s", args, err, out)
	}
	from, to := filepath.Join(home, "old", "ns--uid", "etcd-main", "v2"), filepath.Join(home, "new", "p", "v2")
	entries, err := os.ReadDir(from)
	if err != nil || len(entries) != 3 {
		t.Fatalf("the source has %v (%v), want three snapshots", entries, err)
	}
	for _, e := range entries {
		want, err := os.ReadFile(filepath.Join(from, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(to, e.Name())); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s is not copied as it is: %v", e.Name(), err)
		}
	}
}
