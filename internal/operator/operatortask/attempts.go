package operatortask

import (
	"context"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/operator/operatortask/task"
)

// Attempt is one at the work of a task, by this operator.
type Attempt struct {
	Running bool
	Late    bool // it only looked for what others had done
	Result  druidv1alpha1.TaskResult
	Err     error
	Ended   time.Time

	uid    types.UID // of the task
	cancel context.CancelFunc
}

// key is a task by its name: of one that is gone, nothing else is known.
type key struct{ kind, namespace, name string }

func keyOf(t *task.Task) key { return key{t.Kind, t.Namespace, t.Name} }

// leader finds the backup leader of an Etcd. The caller closes it.
type leader func(ctx context.Context, e *druidv1alpha1.Etcd, pods []corev1.Pod) (sidecar, error)

type sidecar interface {
	task.Sidecar
	Close()
}

// attempts makes them, each in a goroutine of its own: an upload may take longer than a task may wait to be
// looked at. What came of one is remembered until the status of the task tells it.
type attempts struct {
	leader leader
	log    *slog.Logger
	now    func() time.Time
	// told are tasks of which an attempt has ended, by their kind.
	told map[string]chan event.GenericEvent
	// turn is held while a task begins or ends, of either resource.
	turn sync.Mutex

	mu      sync.Mutex
	of      map[key]*Attempt
	ctx     context.Context // ends those that are under way
	stop    context.CancelFunc
	running sync.WaitGroup
}

func newAttempts(find leader, now func() time.Time, log *slog.Logger) *attempts {
	ctx, stop := context.WithCancel(context.Background())
	a := &attempts{leader: find, log: log, now: now, told: map[string]chan event.GenericEvent{}, of: map[key]*Attempt{}, ctx: ctx, stop: stop}
	for _, r := range resources() {
		a.told[r.kind] = make(chan event.GenericEvent)
	}
	return a
}

// Start owns the attempts: when ctx ends it ends them, and waits for that.
func (a *attempts) Start(ctx context.Context) error {
	<-ctx.Done()
	a.mu.Lock()
	a.stop() // none begins from now on
	a.mu.Unlock()
	a.running.Wait()
	return nil
}

// at is the last attempt at a task; nil: this operator made none.
func (a *attempts) at(t *task.Task) *Attempt {
	a.mu.Lock()
	defer a.mu.Unlock()
	one := a.of[keyOf(t)]
	if one == nil || one.uid != t.UID {
		return nil
	}
	c := *one
	return &c
}

// forget ends the attempt at a task that has ended or is gone, and drops what came of it.
func (a *attempts) forget(k key) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if one := a.of[k]; one != nil {
		one.cancel()
		delete(a.of, k)
	}
}

// lastLook is how long is looked for what earlier attempts did when the time of a task is over.
const lastLook = 30 * time.Second

// begin makes an attempt, unless one is under way. fresh: nobody can have made one before.
func (a *attempts) begin(o *Observed, row task.Type, fresh bool, object client.Object) {
	t, k := o.Task, keyOf(o.Task)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ctx.Err() != nil {
		return
	}
	if before := a.of[k]; before != nil {
		if before.Running && before.uid == t.UID {
			return
		}
		before.cancel()
	}
	began := a.now()
	left := row.Once.Timeout(t) - began.Sub(t.Status.Initiated)
	call := task.Call{Task: t, Again: !fresh, Late: left <= 0}
	if call.Late {
		left = lastLook
	}
	ctx, cancel := context.WithTimeout(a.ctx, left)
	one := &Attempt{Running: true, Late: call.Late, uid: t.UID, cancel: cancel}
	a.of[k] = one
	a.running.Go(func() {
		defer cancel()
		result, err := a.try(ctx, o, row, call)
		ended := a.now()
		log := a.log.With("namespace", t.Namespace, "kind", t.Kind, "task", t.Name, "etcd", t.Etcd, "took", ended.Sub(began))
		if err != nil {
			log.Warn("an attempt failed", "error", err)
		} else {
			log.Info("the work is done")
		}
		a.mu.Lock()
		one.Running, one.Result, one.Err, one.Ended = false, result, err, ended
		a.mu.Unlock()
		select {
		case a.told[t.Kind] <- event.GenericEvent{Object: object}:
		case <-a.ctx.Done():
		}
	})
}

func (a *attempts) try(ctx context.Context, o *Observed, row task.Type, call task.Call) (druidv1alpha1.TaskResult, error) {
	c, err := a.leader(ctx, o.Etcd, o.Pods)
	if err != nil {
		return druidv1alpha1.TaskResult{}, err
	}
	defer c.Close()
	call.Sidecar = c
	return row.Once.Do(ctx, call)
}
