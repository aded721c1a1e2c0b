package operator_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// work makes an EtcdOperatorTask for the Etcd main.
func (s *site) work(t *testing.T, namespace, name, spec string) {
	t.Helper()
	s.apply(t, fmt.Sprintf("{apiVersion: druid.gardener.cloud/v1alpha1, kind: EtcdOperatorTask, metadata: {name: %s, namespace: %s}, spec: %s}", name, namespace, spec))
}

// ops makes an EtcdOpsTask.
func (s *site) ops(t *testing.T, namespace, name, spec string) {
	t.Helper()
	s.apply(t, fmt.Sprintf("{apiVersion: druid.gardener.cloud/v1alpha1, kind: EtcdOpsTask, metadata: {name: %s, namespace: %s}, spec: %s}", name, namespace, spec))
}

// worked is nil if a task is in a state and says so.
func (s *site) worked(kind, namespace, name, state, says string) func(context.Context) error {
	return func(ctx context.Context) error {
		o, err := s.get(ctx, kind, namespace, name)
		if err != nil {
			return err
		}
		got, _, _ := unstructured.NestedString(o.Object, "status", "state")
		reason, _, _ := unstructured.NestedString(o.Object, "status", "lastOperation", "reason")
		if kind == "EtcdOpsTask" {
			reason, _, _ = unstructured.NestedString(o.Object, "status", "lastOperation", "description")
		}
		if got != state || !strings.Contains(reason, says) {
			return fmt.Errorf("it is %v, want %s with %q", o.Object["status"], state, says)
		}
		return nil
	}
}

// absent is nil if there is no such object.
func (s *site) absent(kind, namespace, name string) func(context.Context) error {
	return func(ctx context.Context) error {
		o, err := s.get(ctx, kind, namespace, name)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is there: %v, %w", o, err)
	}
}

const (
	fullNow   = `{type: OnDemandSnapshot, config: {onDemandSnapshot: {type: full}}, ownerEtcdReference: {name: main}}`
	deltaNow  = `{type: OnDemandSnapshotTask, config: {onDemandSnapshot: {type: delta}}, ownerEtcdReference: {name: main}}`
	extending = `{type: ExtendFullSnapshotImmutability, config: {schedule: 30 3 * * *}, ownerEtcdReference: {name: main}}`
	excluding = `{type: ExcludeSnapshots, config: {excludeSnapshots: {names: [Full-00000000-00009002-1565021494.zst]}}, ownerEtcdReference: {name: main}}`
	including = `{type: ExcludeSnapshotsTask, config: {excludeSnapshots: {names: [Full-00000000-00009002-1565021494.zst], include: true}}, ownerEtcdReference: {name: main}}`
)

// collected has an Etcd name a collector, and uncollected none any more.
func collected(o map[string]any) {
	spec(map[string]any{"name": "members"}, "backup", "store", "secretRef")(o)
	spec(map[string]any{"collectorSecretRef": map[string]any{"name": "collector"}}, "backup", "store", "roles")(o)
}

func uncollected(o map[string]any) {
	unstructured.RemoveNestedField(o, "spec", "backup", "store", "roles")
}

// collectorsKeys are his credentials.
func collectorsKeys() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "collector"}, StringData: map[string]string{"accessKeyID": "a", "secretAccessKey": "s", "region": "r"}}
}

// jobOf is the Job of a task that is done once; an error: there is none.
func (s *site) jobOf(ctx context.Context, namespace, task string) (*batchv1.Job, error) {
	all, err := s.Client.BatchV1().Jobs(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/part-of=" + task})
	if err != nil {
		return nil, err
	}
	if len(all.Items) != 1 {
		return nil, fmt.Errorf("%s has %d Jobs, want one", task, len(all.Items))
	}
	return &all.Items[0], nil
}

// exited is how a kubelet tells the end of a pod.
func exited(exitCode int32, log string) corev1.PodStatus {
	s := corev1.PodStatus{Phase: corev1.PodSucceeded, ContainerStatuses: []corev1.ContainerStatus{{
		Name: "exclude", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: exitCode, Message: log}},
	}}}
	if exitCode != 0 {
		s.Phase = corev1.PodFailed
	}
	return s
}

// often has tasks looked at as often as Etcds.
const often = "controllers: {etcd: {enableEtcdSpecAutoReconcile: true, etcdStatusSyncPeriod: 1s}, etcdOpsTask: {requeueInterval: 1s}}"

func TestTasksAreCarriedOut(t *testing.T) {
	together(t, light)
	s, l, w := newShop(t)
	p := s.operate(t, "operator", often)

	t.Run("a task without its Etcd is rejected, and without time to live it goes", func(t *testing.T) {
		s.work(t, "shop", "early", fullNow)
		p.await(t, s.worked("EtcdOperatorTask", "shop", "early", "Rejected", "there is no Etcd main in shop"))
		s.work(t, "shop", "brief", strings.Replace(fullNow, "{type", "{ttlSecondsAfterFinished: 0, type", 1))
		p.await(t, s.absent("EtcdOperatorTask", "shop", "brief"))
	})
	t.Run("so is one for an Etcd of another namespace, and of the original without the name of one", func(t *testing.T) {
		s.work(t, "shop", "abroad", strings.Replace(fullNow, "{name: main}", "{name: main, namespace: garden}", 1))
		p.await(t, s.worked("EtcdOperatorTask", "shop", "abroad", "Rejected", "make the task in garden"))
		s.ops(t, "shop", "nobody", "{config: {onDemandSnapshot: {type: full}}}")
		p.await(t, s.worked("EtcdOpsTask", "shop", "nobody", "Rejected", "no Etcd is named"))
	})

	s.apply(t, l.etcdIn("shop", "grows", 1))
	p.await(t, s.condition("shop", "main", "Ready", "True", "Quorate", ""))

	t.Run("snapshots are taken, and what was taken is said", func(t *testing.T) {
		s.work(t, "shop", "full", strings.Replace(fullNow, "type: full", "type: full, isFinal: true", 1))
		p.await(t, s.worked("EtcdOperatorTask", "shop", "full", "Succeeded", ".zst.final up to revision"))
		o, err := s.get(t.Context(), "EtcdOperatorTask", "shop", "full")
		if err != nil {
			t.Fatal(err)
		}
		taken, _, _ := unstructured.NestedSlice(o.Object, "status", "result", "snapshots")
		if len(taken) != 1 || taken[0].(map[string]any)["bytes"] != int64(4096) {
			t.Errorf("the result is %v", taken)
		}
		if owners := o.GetOwnerReferences(); len(owners) != 1 || owners[0].Name != "main" || owners[0].Controller != nil {
			t.Errorf("its owners are %v", owners)
		}
		s.ops(t, "shop", "delta", "{etcdName: main, config: {onDemandSnapshot: {type: delta}}}")
		p.await(t, s.worked("EtcdOpsTask", "shop", "delta", "Succeeded", "everything is in the bucket already"))
	})

	t.Run("they are taken one after the other, and the same is not asked for twice", func(t *testing.T) {
		hold := make(chan struct{})
		w.mu.Lock()
		w.hold = hold
		w.mu.Unlock()
		s.work(t, "shop", "first", fullNow)
		p.await(t, s.worked("EtcdOperatorTask", "shop", "first", "InProgress", ""))
		s.ops(t, "shop", "same", "{etcdName: main, config: {onDemandSnapshot: {type: full}}}")
		p.await(t, s.worked("EtcdOpsTask", "shop", "same", "Rejected", "the EtcdOperatorTask first does the same"))
		s.work(t, "shop", "second", deltaNow)
		p.await(t, s.worked("EtcdOperatorTask", "shop", "second", "Pending", "waits for the EtcdOperatorTask first"))
		s.work(t, "shop", "standing", extending)
		p.await(t, s.worked("EtcdOperatorTask", "shop", "standing", "Rejected", "is not hibernated"))
		w.mu.Lock()
		w.hold = nil
		w.mu.Unlock()
		close(hold)
		p.await(t, s.worked("EtcdOperatorTask", "shop", "first", "Succeeded", "Full-"))
		p.await(t, s.worked("EtcdOperatorTask", "shop", "second", "Succeeded", ""))
	})

	t.Run("some time after its end a task is deleted", func(t *testing.T) {
		s.ops(t, "shop", "short", "{etcdName: main, ttlSecondsAfterFinished: 1, config: {onDemandSnapshot: {type: delta}}}")
		p.await(t, s.absent("EtcdOpsTask", "shop", "short"))
		if err := s.worked("EtcdOperatorTask", "shop", "first", "Succeeded", "")(t.Context()); err != nil {
			t.Error(err)
		}
	})

	t.Run("one that waits for the finalizer of the original goes", func(t *testing.T) {
		s.apply(t, "{apiVersion: druid.gardener.cloud/v1alpha1, kind: EtcdOpsTask, metadata: {name: former, namespace: shop, finalizers: [druid.gardener.cloud/etcd-ops-task]}, spec: {etcdName: main, ttlSecondsAfterFinished: 1, config: {onDemandSnapshot: {type: delta}}}}")
		p.await(t, s.absent("EtcdOpsTask", "shop", "former"))
	})

	t.Run("the full of a hibernated Etcd is kept locked until it wakes up", func(t *testing.T) {
		s.change(t, "Etcd", "shop", "main", replicas(0))
		p.await(t, s.operation("shop", "main", "Reconcile Succeeded"))
		p.await(t, p.counted("etcddruid_snapshot_duration_seconds_count", `succeeded="true"`))
		s.work(t, "shop", "extend", extending)
		p.await(t, s.worked("EtcdOperatorTask", "shop", "extend", "InProgress", "the CronJob extend runs at 30 3 * * *; no run has ended yet"))
		job, err := s.Client.BatchV1().CronJobs("shop").Get(t.Context(), "extend", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		task, err := s.get(t.Context(), "EtcdOperatorTask", "shop", "extend")
		if err != nil {
			t.Fatal(err)
		}
		args := job.Spec.JobTemplate.Spec.Template.Spec.Containers[0].Args
		if want := "--gc-from-timestamp=" + task.GetCreationTimestamp().UTC().Format("2006-01-02T15:04:05Z"); !slices.Contains(args, want) || job.Spec.ConcurrencyPolicy != batchv1.ForbidConcurrent {
			t.Errorf("it runs %q, want %s", args, want)
		}
		s.change(t, "CronJob", "shop", "extend", func(o map[string]any) { set(o, true, "spec", "suspend") })
		p.await(t, func(ctx context.Context) error {
			now, err := s.Client.BatchV1().CronJobs("shop").Get(ctx, "extend", metav1.GetOptions{})
			if err == nil && *now.Spec.Suspend {
				err = errors.New("it is still suspended")
			}
			return err
		})
		if err := s.Client.BatchV1().CronJobs("shop").Delete(t.Context(), "extend", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		p.await(t, func(ctx context.Context) error {
			again, err := s.Client.BatchV1().CronJobs("shop").Get(ctx, "extend", metav1.GetOptions{})
			if err == nil && again.UID == job.UID {
				err = fmt.Errorf("it is not gone yet")
			}
			return err
		})
		s.work(t, "shop", "useless", fullNow)
		p.await(t, s.worked("EtcdOperatorTask", "shop", "useless", "Rejected", "wake it up"))
		s.change(t, "Etcd", "shop", "main", replicas(1))
		p.await(t, s.worked("EtcdOperatorTask", "shop", "extend", "Succeeded", "is not hibernated any more"))
		p.await(t, s.absent("CronJob", "shop", "extend"))
	})

	t.Run("who is named to delete does it with credentials of his own until nobody is", func(t *testing.T) {
		const task = "main-collection"
		s.change(t, "Etcd", "shop", "main", collected)
		s.secret(t, "shop", "members")
		p.await(t, s.worked("EtcdOperatorTask", "shop", task, "InProgress", "the Secret collector (spec.backup.store.roles.collectorSecretRef) is not there"))
		s.secret(t, "shop", "collector")
		p.await(t, s.worked("EtcdOperatorTask", "shop", task, "InProgress", "the Secret collector (spec.backup.store.roles.collectorSecretRef) has no accessKeyID, secretAccessKey, region"))
		if _, err := s.Client.CoreV1().Secrets("shop").Update(t.Context(), collectorsKeys(), metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		p.await(t, s.worked("EtcdOperatorTask", "shop", task, "InProgress", "/12 * * *; no run has ended yet"))
		job, err := s.Client.BatchV1().CronJobs("shop").Get(t.Context(), task, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		etcd, err := s.get(t.Context(), "Etcd", "shop", "main")
		if err != nil {
			t.Fatal(err)
		}
		system, err := s.Client.CoreV1().Namespaces().Get(t.Context(), "kube-system", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		pod := job.Spec.JobTemplate.Spec.Template.Spec
		if want := "--owner=" + string(system.UID) + "/shop/main/" + string(etcd.GetUID()); !slices.Contains(pod.Containers[0].Args, want) || !slices.Contains(pod.Containers[0].Args, "--max-backups=30") {
			t.Errorf("it runs %q, want %s", pod.Containers[0].Args, want)
		}
		conf, err := s.Client.CoreV1().ConfigMaps("shop").Get(t.Context(), "main-config", metav1.GetOptions{})
		if err != nil || !strings.Contains(fmt.Sprint(conf.Data), "garbageCollectionPeriod: 0s") {
			t.Errorf("the sidecars are told %v (%v)", conf.Data, err)
		}
		if err := s.Client.BatchV1().CronJobs("shop").Delete(t.Context(), task, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		p.await(t, func(ctx context.Context) error {
			again, err := s.Client.BatchV1().CronJobs("shop").Get(ctx, task, metav1.GetOptions{})
			if err == nil && again.UID == job.UID {
				err = fmt.Errorf("it is not gone yet")
			}
			return err
		})
		s.delete(t, "EtcdOperatorTask", "shop", task)
		p.await(t, s.worked("EtcdOperatorTask", "shop", task, "InProgress", "no run has ended yet"))

		s.change(t, "Etcd", "shop", "main", uncollected)
		p.await(t, s.absent("EtcdOperatorTask", "shop", task))
		p.await(t, p.counted("etcddruid_objects_total", `action="removed"`, `kind="EtcdOperatorTask"`))
		p.await(t, s.absent("CronJob", "shop", task))
	})

	t.Run("snapshots are excluded by a Job with the credentials of the excluder, one task after the other", func(t *testing.T) {
		s.change(t, "Etcd", "shop", "main", spec(map[string]any{"excluderSecretRef": map[string]any{"name": "excluder"}}, "backup", "store", "roles"))
		s.work(t, "shop", "too-early", excluding)
		p.await(t, s.worked("EtcdOperatorTask", "shop", "too-early", "Rejected", "the Secret excluder (spec.backup.store.roles.excluderSecretRef) is not there"))
		keys := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "excluder"}, StringData: map[string]string{"accessKeyID": "a", "secretAccessKey": "s", "region": "r"}}
		if _, err := s.Client.CoreV1().Secrets("shop").Create(t.Context(), keys, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}

		pods := tasks{s, "shop"}
		s.work(t, "shop", "refused", excluding)
		s.work(t, "shop", "taken-back", including)
		p.await(t, s.worked("EtcdOperatorTask", "shop", "taken-back", "Pending", "waits for the EtcdOperatorTask refused"))
		pods.pod(t, "refused", exited(3, "level=INFO\nError: exclude snapshots: nothing could be restored any more\n"))
		p.await(t, s.worked("EtcdOperatorTask", "shop", "refused", "Failed", "exclude snapshots: nothing could be restored any more; another task with leaveNothing: true in spec.config.excludeSnapshots"))
		job, err := s.jobOf(t.Context(), "shop", "refused")
		if err != nil {
			t.Fatal(err)
		}
		pod := job.Spec.Template.Spec
		if !slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Secret != nil && v.Secret.SecretName == "excluder" }) {
			t.Errorf("its pod has %+v", pod.Volumes)
		}
		if args := pod.Containers[0].Args; args[0] != "exclude" || args[len(args)-1] != "Full-00000000-00009002-1565021494.zst" {
			t.Errorf("it runs %q", args)
		}

		p.await(t, s.worked("EtcdOperatorTask", "shop", "taken-back", "InProgress", "is at work"))
		pods.pod(t, "taken-back", exited(0, ""))
		p.await(t, s.worked("EtcdOperatorTask", "shop", "taken-back", "Succeeded", "used by restores again: Full-00000000-00009002-1565021494.zst"))
		s.delete(t, "EtcdOperatorTask", "shop", "taken-back")
		p.await(t, func(ctx context.Context) error {
			if job, err := s.jobOf(ctx, "shop", "taken-back"); err == nil {
				return fmt.Errorf("its Job is there: %v", job.ObjectMeta)
			}
			return nil
		})
	})

	t.Run("those that have ended are counted", func(t *testing.T) {
		for _, state := range []string{"succeeded", "failed", "rejected"} {
			for _, name := range []string{"etcddruid_operator_tasks_total", "etcddruid_operator_task_duration_seconds_count"} {
				p.await(t, p.counted(name, `etcd="main"`, `etcd_namespace="shop"`, fmt.Sprintf("state=%q", state)))
			}
		}
	})

	t.Run("tasks go with their Etcd", func(t *testing.T) {
		s.delete(t, "Etcd", "shop", "main")
		p.await(t, s.absent("EtcdOperatorTask", "shop", "first"))
	})
}
