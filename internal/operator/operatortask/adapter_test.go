package operatortask

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/operator/operatortask/task"
)

func TestBothResourcesSayTheSame(t *testing.T) {
	meta := metav1.ObjectMeta{Name: "now", Namespace: "shop", UID: "task-uid", CreationTimestamp: metav1.NewTime(testNow.Add(-time.Minute))}
	config := &druidv1alpha1.OnDemandSnapshotConfig{Type: druidv1alpha1.SnapshotFull}
	objects := map[string]client.Object{
		druidv1alpha1.KindEtcdOperatorTask: &druidv1alpha1.EtcdOperatorTask{ObjectMeta: meta, Spec: druidv1alpha1.EtcdOperatorTaskSpec{
			Type: "OnDemandSnapshotTask", OwnerEtcdReference: &druidv1alpha1.OwnerEtcdReference{Name: "main"}, TTLSecondsAfterFinished: ptr(int32(0)),
			Config: &druidv1alpha1.EtcdOperatorTaskConfig{OnDemandSnapshot: config},
		}},
		druidv1alpha1.KindEtcdOpsTask: &druidv1alpha1.EtcdOpsTask{ObjectMeta: meta, Spec: druidv1alpha1.EtcdOpsTaskSpec{
			EtcdName: ptr("main"), TTLSecondsAfterFinished: ptr(int32(0)), Config: druidv1alpha1.EtcdOpsTaskConfig{OnDemandSnapshot: config},
		}},
	}
	for _, r := range resources() {
		t.Run(r.kind, func(t *testing.T) {
			want := newTask(func(t *task.Task) { t.Kind, t.TTL = r.kind, 0 })
			if diff := cmp.Diff(want, r.read(objects[r.kind])); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAStatusIsReadAsItWasWritten(t *testing.T) {
	states := map[string]task.Status{
		"waiting":  {State: druidv1alpha1.TaskPending, Step: task.Admit, StepState: druidv1alpha1.OperationPending, Reason: "waits"},
		"at work":  {State: druidv1alpha1.TaskInProgress, Initiated: testNow, Step: "Snapshot", StepState: druidv1alpha1.OperationInProgress, Reason: "begun"},
		"rejected": {State: druidv1alpha1.TaskRejected, Initiated: testNow, Step: task.Admit, StepState: druidv1alpha1.OperationFailed, Reason: "no", Errors: []druidv1alpha1.LastError{{Code: "ERR_GET_ETCD", Description: "no"}}},
		"done": {State: druidv1alpha1.TaskSucceeded, Initiated: testNow, Step: "Snapshot", StepState: druidv1alpha1.OperationCompleted, Reason: "done",
			Result: &druidv1alpha1.TaskResult{Snapshots: []druidv1alpha1.TakenSnapshot{{Name: "Full-1", Revision: 7, Bytes: 9}}}},
	}
	for name, want := range states {
		want.Since = testNow.Add(time.Minute)
		for _, r := range resources() {
			t.Run(name+", "+r.kind, func(t *testing.T) {
				o := r.one()
				if ops, is := o.(*druidv1alpha1.EtcdOpsTask); is {
					ops.Spec.Config.OnDemandSnapshot = &druidv1alpha1.OnDemandSnapshotConfig{}
				}
				r.write(o, want)
				if diff := cmp.Diff(want, r.read(o).Status); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		}
	}
}

func TestAnOpsTaskHasTheWordsOfTheOriginal(t *testing.T) {
	o := &druidv1alpha1.EtcdOpsTask{Spec: druidv1alpha1.EtcdOpsTaskSpec{Config: druidv1alpha1.EtcdOpsTaskConfig{OnDemandSnapshot: &druidv1alpha1.OnDemandSnapshotConfig{}}}}
	at := func(s druidv1alpha1.TaskState, step task.Step, is druidv1alpha1.OperationState, now time.Time) {
		toOpsTask(o, task.Status{State: s, Step: step, StepState: is, Since: now, Initiated: testNow, Reason: "r", Run: "run"})
	}
	at(druidv1alpha1.TaskPending, task.Admit, druidv1alpha1.OperationPending, testNow)
	if op := o.Status.LastOperation; op.Type != "Admit" || op.State != "InProgress" || op.RunID != "run" || op.Description != "r" {
		t.Errorf("waiting it is %+v", op)
	}
	at(druidv1alpha1.TaskInProgress, "Snapshot", druidv1alpha1.OperationInProgress, testNow.Add(time.Second))
	if op := o.Status.LastOperation; op.Type != "Execution" || o.Status.StartedAt == nil {
		t.Errorf("at work it is %+v", op)
	}
	since := o.Status.LastTransitionTime
	at(druidv1alpha1.TaskInProgress, "Snapshot", druidv1alpha1.OperationFailed, testNow.Add(time.Minute))
	if got := o.Status.LastTransitionTime; !got.Equal(since) {
		t.Errorf("in the same state since %s, want %s", got, since)
	}
}

func TestAScheduleIsTakenFromEitherPlace(t *testing.T) {
	for name, c := range map[string]druidv1alpha1.EtcdOperatorTaskConfig{
		"flat":        {Schedule: ptr("@daily")},
		"in its part": {ExtendFullSnapshotImmutability: &druidv1alpha1.ExtendFullSnapshotImmutabilityConfig{Schedule: ptr("@daily")}},
	} {
		got := ofOperatorTask(&druidv1alpha1.EtcdOperatorTask{Spec: druidv1alpha1.EtcdOperatorTaskSpec{Type: "ExtendFullSnapshotImmutabilityTask", Config: &c}})
		if got.Schedule == nil || *got.Schedule != "@daily" || got.Type != druidv1alpha1.TaskExtendFullSnapshotImmutability {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestAScheduleOfACollectionIsRead(t *testing.T) {
	got := ofOperatorTask(&druidv1alpha1.EtcdOperatorTask{Spec: druidv1alpha1.EtcdOperatorTaskSpec{Type: "CollectBackupsTask",
		Config: &druidv1alpha1.EtcdOperatorTaskConfig{CollectBackups: &druidv1alpha1.CollectBackupsConfig{Schedule: ptr("@hourly")}}}})
	if got.Schedule == nil || *got.Schedule != "@hourly" || got.Type != druidv1alpha1.TaskCollectBackups {
		t.Errorf("%+v", got)
	}
}

func TestWhatIsToBeExcludedIsRead(t *testing.T) {
	config := &druidv1alpha1.ExcludeSnapshotsConfig{Names: []druidv1alpha1.SnapshotName{"Full-1"}}
	got := ofOperatorTask(&druidv1alpha1.EtcdOperatorTask{Spec: druidv1alpha1.EtcdOperatorTaskSpec{Type: "ExcludeSnapshotsTask", Config: &druidv1alpha1.EtcdOperatorTaskConfig{ExcludeSnapshots: config}}})
	if got.Exclusion != config || got.Type != druidv1alpha1.TaskExcludeSnapshots {
		t.Errorf("%+v", got)
	}
}

func TestATaskBelongsToTheEtcdOfItsNameAlone(t *testing.T) {
	owner := func(kind, name string, uid types.UID) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: druidv1alpha1.GroupVersion().String(), Kind: kind, Name: name, UID: uid}
	}
	meta := metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{owner("Etcd", "main", "etcd-uid"), owner("Etcd", "events", "b"), owner("Shoot", "main", "c")}}
	for _, got := range []*task.Task{
		ofOperatorTask(&druidv1alpha1.EtcdOperatorTask{ObjectMeta: meta, Spec: druidv1alpha1.EtcdOperatorTaskSpec{OwnerEtcdReference: &druidv1alpha1.OwnerEtcdReference{Name: "main"}}}),
		ofOpsTask(&druidv1alpha1.EtcdOpsTask{ObjectMeta: meta, Spec: druidv1alpha1.EtcdOpsTaskSpec{EtcdName: ptr("main")}}),
	} {
		if diff := cmp.Diff([]types.UID{"etcd-uid"}, got.Owners); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}
