package operatortask

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/operator/operatortask/task"
)

// never is a backup leader whose snapshots take for ever.
type never struct{ begun chan bool }

func (n never) Full(ctx context.Context, _ bool) (agentapi.Snapshot, error) {
	n.begun <- true
	<-ctx.Done()
	return agentapi.Snapshot{}, ctx.Err()
}
func (never) Delta(context.Context) (*agentapi.Snapshot, error) { return nil, nil }
func (never) Latest(context.Context) (agentapi.LatestSnapshots, error) {
	return agentapi.LatestSnapshots{}, nil
}
func (never) Close() {}

func newRig(t *testing.T) (*attempts, never) {
	t.Helper()
	n := never{make(chan bool, 9)}
	a := newAttempts(func(context.Context, *druidv1alpha1.Etcd, []corev1.Pod) (sidecar, error) { return n, nil }, func() time.Time { return testNow }, slog.New(slog.DiscardHandler))
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- a.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return a, n
}

func (a *attempts) start(x *task.Task, object client.Object) {
	row, _ := typeOf(x.Type)
	a.begin(&Observed{Task: x, Etcd: newEtcd()}, row, true, object)
}

func TestATaskHasOneAttemptAtATimeAndOthersGoOn(t *testing.T) {
	a, n := newRig(t)
	first, second := newTask(begun(0)), newTask(begun(0), func(t *task.Task) { t.Name, t.Etcd = "second", "other" })
	a.start(first, &druidv1alpha1.EtcdOperatorTask{})
	a.start(first, &druidv1alpha1.EtcdOperatorTask{})
	a.start(second, &druidv1alpha1.EtcdOperatorTask{})
	<-n.begun
	<-n.begun
	select {
	case <-n.begun:
		t.Error("one of them was begun twice")
	default:
	}
	for _, x := range []*task.Task{first, second} {
		if at := a.at(x); at == nil || !at.Running {
			t.Errorf("%s: %+v", x, at)
		}
	}
}

func TestATaskThatIsGoneEndsItsAttempt(t *testing.T) {
	a, n := newRig(t)
	x := newTask(begun(0))
	a.start(x, &druidv1alpha1.EtcdOperatorTask{})
	<-n.begun
	a.forget(keyOf(x))
	<-a.told[x.Kind]
	if at := a.at(x); at != nil {
		t.Errorf("it is remembered: %+v", at)
	}
}

func TestATaskOfTheSameNameHasNotMadeTheAttempt(t *testing.T) {
	a, n := newRig(t)
	a.start(newTask(begun(0)), &druidv1alpha1.EtcdOperatorTask{})
	<-n.begun
	if at := a.at(newTask(func(t *task.Task) { t.UID = "another" })); at != nil {
		t.Errorf("it has %+v", at)
	}
}

func TestAnAttemptEndsWithTheTimeOfItsTask(t *testing.T) {
	a, n := newRig(t)
	x := newTask(begun(15*time.Minute - 10*time.Millisecond))
	a.start(x, &druidv1alpha1.EtcdOperatorTask{})
	<-n.begun
	<-a.told[x.Kind]
	if at := a.at(x); at == nil || at.Running || !errors.Is(at.Err, context.DeadlineExceeded) {
		t.Errorf("it is %+v", at)
	}
	a.start(x, &druidv1alpha1.EtcdOperatorTask{}) // 10 ms are left still by the clock of the test
	<-n.begun
}
