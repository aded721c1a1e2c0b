package operatortask

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/operator/desired"
	"druid.internal/druid/internal/operator/operatortask/task"
)

var testNow = time.Date(2026, 6, 1, 3, 0, 0, 0, time.UTC)

var testSettings = Settings{Images: desired.Images{Sidecar: "own:1", Init: "own:1"}, Again: 15 * time.Second}

func ptr[T any](v T) *T { return &v }

// newEtcd has a store and a quorum.
func newEtcd(changes ...func(*druidv1alpha1.Etcd)) *druidv1alpha1.Etcd {
	e := &druidv1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Name: "main", Namespace: "shop", UID: "etcd-uid"}}
	e.Spec.Replicas = 3
	e.Spec.Backup.Store = &druidv1alpha1.StoreSpec{Provider: ptr(druidv1alpha1.StorageProvider("aws")), Container: ptr("bucket"), Prefix: "shop/main"}
	e.Status.Conditions = []druidv1alpha1.Condition{{Type: druidv1alpha1.ConditionReady, Status: druidv1alpha1.ConditionTrue, Reason: "Quorate"}}
	for _, c := range changes {
		c(e)
	}
	return e
}

func asleep(e *druidv1alpha1.Etcd) { e.Spec.Replicas, e.Status.Conditions = 0, nil }

// annotated: the annotation wants no members, whatever there are yet.
func annotated(e *druidv1alpha1.Etcd) {
	e.Annotations = map[string]string{druidv1alpha1.AnnotationDisableRuntimeComponents: ""}
}

// wakes: members are wanted, and none has told of a new full.
func wakes(e *druidv1alpha1.Etcd) {
	e.Status.Hibernation = &druidv1alpha1.HibernationStatus{EtcdUID: e.UID}
}

func withoutStore(e *druidv1alpha1.Etcd) { e.Spec.Backup.Store = nil }

// newTask takes a full snapshot.
func newTask(changes ...func(*task.Task)) *task.Task {
	t := &task.Task{
		Kind: druidv1alpha1.KindEtcdOperatorTask, Namespace: "shop", Name: "now", UID: "task-uid", Created: testNow.Add(-time.Minute),
		Type: druidv1alpha1.TaskOnDemandSnapshot, Etcd: "main", TTL: time.Hour,
		Snapshot: &druidv1alpha1.OnDemandSnapshotConfig{Type: druidv1alpha1.SnapshotFull},
	}
	for _, c := range changes {
		c(t)
	}
	return t
}

func delta(t *task.Task) {
	t.Snapshot = &druidv1alpha1.OnDemandSnapshotConfig{Type: druidv1alpha1.SnapshotDelta}
}

func standing(t *task.Task) {
	t.Type, t.Snapshot = druidv1alpha1.TaskExtendFullSnapshotImmutability, nil
}

func collects(t *task.Task) {
	t.Type, t.Snapshot = druidv1alpha1.TaskCollectBackups, nil
}

func excludes(t *task.Task) {
	t.Type, t.Snapshot = druidv1alpha1.TaskExcludeSnapshots, nil
	t.Exclusion = &druidv1alpha1.ExcludeSnapshotsConfig{Names: []druidv1alpha1.SnapshotName{"Full-00000000-00009002-1565021494.zst"}}
}

// pods are those of a Job, the oldest first, by how their containers ended. One with a negative exit code runs.
func pods(ends ...corev1.ContainerStateTerminated) (all []corev1.Pod) {
	for i, end := range ends {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(testNow.Add(time.Duration(i) * time.Second))}}
		p.Status.Phase = corev1.PodRunning
		if end.ExitCode >= 0 {
			p.Status.Phase = corev1.PodFailed
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "exclude", State: corev1.ContainerState{Terminated: &end}}}
		}
		all = append(all, p)
	}
	return all
}

func withCollector(e *druidv1alpha1.Etcd) {
	e.SetDefaults()
	e.Spec.Backup.Store.Roles = &druidv1alpha1.StoreRoles{CollectorSecretRef: &corev1.SecretReference{Name: "collector"}}
}

// of is a task of the Etcd with a UID.
func of(etcd types.UID) func(*task.Task) {
	return func(t *task.Task) { t.Owners = []types.UID{etcd} }
}

// begun is a task that was begun so long ago.
func begun(ago time.Duration) func(*task.Task) {
	return func(t *task.Task) {
		t.Status = task.Status{State: druidv1alpha1.TaskInProgress, Initiated: testNow.Add(-ago), Step: "Snapshot", StepState: druidv1alpha1.OperationInProgress, Reason: "the work has begun", Since: testNow.Add(-ago)}
	}
}

// saying is a task that was begun, and what it says.
func saying(reason string) func(*task.Task) {
	return func(t *task.Task) { t.Status.Reason = reason }
}

// erring is a task with an error.
func erring(description string) func(*task.Task) {
	return func(t *task.Task) { t.Status.Errors = []druidv1alpha1.LastError{{Description: description}} }
}

// over is a task that ended so long ago.
func over(state druidv1alpha1.TaskState, ago time.Duration) func(*task.Task) {
	return func(t *task.Task) {
		t.Status = task.Status{State: state, Initiated: testNow.Add(-ago), Step: "Snapshot", StepState: druidv1alpha1.OperationCompleted, Since: testNow.Add(-ago)}
	}
}

// other is another task, made so much earlier.
func other(name string, earlier time.Duration, changes ...func(*task.Task)) *task.Task {
	return newTask(append([]func(*task.Task){func(t *task.Task) {
		t.Name, t.Kind, t.Created = name, druidv1alpha1.KindEtcdOpsTask, t.Created.Add(-earlier)
	}}, changes...)...)
}
