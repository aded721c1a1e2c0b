package operatortask

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/operator/operatortask/task"
)

// resource is what tells one resource of tasks from the other.
type resource struct {
	kind string
	one  func() client.Object
	list func() client.ObjectList
	// tasks are those of a list.
	tasks func(client.ObjectList) []*task.Task
	read  func(client.Object) *task.Task
	// write puts a status into an object that has another one.
	write func(client.Object, task.Status)
}

// resources are both.
func resources() []resource {
	return []resource{
		{
			kind: druidv1alpha1.KindEtcdOperatorTask,
			one:  func() client.Object { return &druidv1alpha1.EtcdOperatorTask{} },
			list: func() client.ObjectList { return &druidv1alpha1.EtcdOperatorTaskList{} },
			tasks: func(l client.ObjectList) (all []*task.Task) {
				items := l.(*druidv1alpha1.EtcdOperatorTaskList).Items
				for i := range items {
					all = append(all, ofOperatorTask(&items[i]))
				}
				return all
			},
			read:  func(o client.Object) *task.Task { return ofOperatorTask(o.(*druidv1alpha1.EtcdOperatorTask)) },
			write: func(o client.Object, s task.Status) { toOperatorTask(o.(*druidv1alpha1.EtcdOperatorTask), s) },
		},
		{
			kind: druidv1alpha1.KindEtcdOpsTask,
			one:  func() client.Object { return &druidv1alpha1.EtcdOpsTask{} },
			list: func() client.ObjectList { return &druidv1alpha1.EtcdOpsTaskList{} },
			tasks: func(l client.ObjectList) (all []*task.Task) {
				items := l.(*druidv1alpha1.EtcdOpsTaskList).Items
				for i := range items {
					all = append(all, ofOpsTask(&items[i]))
				}
				return all
			},
			read:  func(o client.Object) *task.Task { return ofOpsTask(o.(*druidv1alpha1.EtcdOpsTask)) },
			write: func(o client.Object, s task.Status) { toOpsTask(o.(*druidv1alpha1.EtcdOpsTask), s) },
		},
	}
}

// head is what both have.
func head(kind string, o client.Object, ttl *int32) *task.Task {
	seconds := int32(3600)
	if ttl != nil {
		seconds = *ttl
	}
	return &task.Task{
		Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(), Generation: o.GetGeneration(),
		Created: o.GetCreationTimestamp().Time, TTL: time.Duration(seconds) * time.Second, Leaving: o.GetDeletionTimestamp() != nil,
	}
}

// owners are the Etcds of a name that an object goes with.
func owners(o client.Object, etcd string) (all []types.UID) {
	for _, r := range o.GetOwnerReferences() {
		if group, _, _ := strings.Cut(r.APIVersion, "/"); group == druidv1alpha1.Group && r.Kind == druidv1alpha1.KindEtcd && r.Name == etcd {
			all = append(all, r.UID)
		}
	}
	return all
}

func ofOperatorTask(o *druidv1alpha1.EtcdOperatorTask) *task.Task {
	t := head(druidv1alpha1.KindEtcdOperatorTask, o, o.Spec.TTLSecondsAfterFinished)
	t.Type = druidv1alpha1.TaskType(strings.TrimSuffix(string(o.Spec.Type), "Task"))
	if r := o.Spec.OwnerEtcdReference; r != nil {
		t.Etcd, t.EtcdNamespace = r.Name, r.Namespace
	}
	t.Owners = owners(o, t.Etcd)
	if c := o.Spec.Config; c != nil {
		t.Snapshot, t.Exclusion, t.Schedule = c.OnDemandSnapshot, c.ExcludeSnapshots, o.ExtensionSchedule()
		if g := c.CollectBackups; g != nil {
			t.Schedule = g.Schedule
		}
	}
	s := o.Status
	t.Status = task.Status{State: s.State, Initiated: moment(s.InitiatedAt), Errors: s.LastErrors, Result: s.Result}
	if op := s.LastOperation; op != nil {
		t.Status.Step, t.Status.StepState, t.Status.Reason, t.Status.Since = task.Step(op.Name), op.State, op.Reason, op.LastTransitionTime.Time
	}
	return t
}

func toOperatorTask(o *druidv1alpha1.EtcdOperatorTask, s task.Status) {
	generation := o.Generation
	o.Status = druidv1alpha1.EtcdOperatorTaskStatus{
		ObservedGeneration: &generation, State: s.State, InitiatedAt: stamp(s.Initiated), LastErrors: s.Errors, Result: s.Result,
		LastOperation: &druidv1alpha1.TaskOperation{Name: string(s.Step), State: s.StepState, LastTransitionTime: metav1.NewTime(s.Since), Reason: s.Reason},
	}
}

func ofOpsTask(o *druidv1alpha1.EtcdOpsTask) *task.Task {
	t := head(druidv1alpha1.KindEtcdOpsTask, o, o.Spec.TTLSecondsAfterFinished)
	if name := o.Spec.EtcdName; name != nil {
		t.Etcd = *name
	}
	t.Owners = owners(o, t.Etcd)
	if c := o.Spec.Config.OnDemandSnapshot; c != nil {
		t.Type, t.Snapshot = druidv1alpha1.TaskOnDemandSnapshot, c
	}
	s := o.Status
	t.Status = task.Status{State: s.State, Initiated: moment(s.StartedAt), Errors: s.LastErrors, Result: s.Result, Since: moment(s.LastTransitionTime)}
	if op := s.LastOperation; op != nil {
		t.Status.StepState, t.Status.Reason, t.Status.Run = op.State, op.Description, op.RunID
		t.Status.Since = op.LastUpdateTime.Time
		t.Status.Step = task.Admit
		if row, ok := typeOf(t.Type); ok && op.Type == opsExecution {
			t.Status.Step = row.Step
		}
		if s.State == druidv1alpha1.TaskPending && op.State == druidv1alpha1.OperationInProgress {
			t.Status.StepState = druidv1alpha1.OperationPending
		}
	}
	return t
}

// The types of operations that the original has.
const (
	opsAdmit     = "Admit"
	opsExecution = "Execution"
)

func toOpsTask(o *druidv1alpha1.EtcdOpsTask, s task.Status) {
	of, state := opsExecution, s.StepState
	if s.Step == task.Admit {
		of = opsAdmit
	}
	if state == druidv1alpha1.OperationPending {
		state = druidv1alpha1.OperationInProgress // the original has no other word for it
	}
	since := metav1.NewTime(s.Since)
	last := o.Status.LastTransitionTime
	if o.Status.State != s.State || last == nil {
		last = &since
	}
	o.Status = druidv1alpha1.EtcdOpsTaskStatus{
		State: s.State, LastTransitionTime: last, StartedAt: stamp(s.Initiated), LastErrors: s.Errors, Result: s.Result,
		LastOperation: &druidv1alpha1.OpsTaskOperation{Type: of, State: state, Description: s.Reason, RunID: s.Run, LastUpdateTime: since},
	}
}

func moment(t *metav1.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.Time
}

func stamp(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	at := metav1.NewTime(t)
	return &at
}
