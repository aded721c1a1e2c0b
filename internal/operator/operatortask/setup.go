package operatortask

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/operator/config"
	"druid.internal/druid/internal/operator/desired"
	"druid.internal/druid/internal/operator/kube"
	"druid.internal/druid/internal/operator/metrics"
	"druid.internal/druid/internal/operator/operatortask/task"
	"druid.internal/druid/internal/operator/sidecars"
)

// Reconciler carries the tasks of one resource out.
type Reconciler struct {
	resource resource
	settings Settings
	now      func() time.Time

	client   client.Client
	cache    client.Reader // what it gives is a copy
	live     client.Reader // asks the API server
	cluster  *kube.Cluster
	applier  *kube.Applier
	attempts *attempts
	metrics  *metrics.Tasks
	logger   *slog.Logger
}

// askTimeout is for the calls of sidecars that should be answered at once.
const askTimeout = 5 * time.Second

// Setup adds a controller for each resource to the manager, unless the configuration says that they do
// not run. Of pods, Jobs and CronJobs the manager's cache may hold those with the operator's label alone.
func Setup(mgr manager.Manager, cfg config.Config, log *slog.Logger) error {
	c := cfg.Controllers.EtcdOpsTask
	if !c.Enabled {
		return nil
	}
	measured := metrics.NewTasks()
	if err := measured.Register(ctrlmetrics.Registry); err != nil {
		return fmt.Errorf("register the metrics: %w", err)
	}
	dialer := sidecars.Dialer{Secrets: mgr.GetAPIReader(), Timeout: askTimeout, Budget: sidecars.NewBudget()}
	find := func(ctx context.Context, e *druidv1alpha1.Etcd, pods []corev1.Pod) (sidecar, error) {
		return dialer.Leader(ctx, e, pods)
	}
	all := newAttempts(find, time.Now, log)
	if err := mgr.Add(all); err != nil {
		return err
	}
	applier, cluster := kube.NewApplier(mgr.GetClient(), mgr.GetAPIReader()), kube.NewCluster(mgr.GetAPIReader())
	for _, res := range resources() {
		r := &Reconciler{
			resource: res,
			settings: Settings{Images: desired.Images{Sidecar: cfg.Images.Sidecar, Init: cfg.Images.Init}, Again: c.RequeueInterval},
			now:      time.Now,
			client:   mgr.GetClient(),
			cache:    mgr.GetClient(),
			live:     mgr.GetAPIReader(),
			cluster:  cluster,
			applier:  applier,
			attempts: all,
			metrics:  measured,
			logger:   log,
		}
		b := builder.ControllerManagedBy(mgr).Named(strings.ToLower(res.kind)).
			For(res.one()).
			Watches(&druidv1alpha1.Etcd{}, handler.EnqueueRequestsFromMapFunc(r.ofEtcd), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
			WatchesRawSource(source.Channel(all.told[res.kind], &handler.EnqueueRequestForObject{})).
			WithOptions(controller.Options{MaxConcurrentReconciles: c.ConcurrentSyncs, RateLimiter: kube.Again(time.Minute)})
		for _, other := range resources() {
			// The end of one is the turn of the next.
			b = b.Watches(other.one(), handler.EnqueueRequestsFromMapFunc(r.behind(other)))
		}
		if res.kind == druidv1alpha1.KindEtcdOperatorTask {
			b = b.Owns(&batchv1.CronJob{}).Watches(&batchv1.Job{}, handler.EnqueueRequestsFromMapFunc(r.ofJob))
		}
		if err := b.Complete(r); err != nil {
			return err
		}
	}
	return nil
}

// ofEtcd are the unfinished tasks of an Etcd.
func (r *Reconciler) ofEtcd(ctx context.Context, o client.Object) []reconcile.Request {
	return r.unfinished(ctx, o.GetNamespace(), o.GetName())
}

// behind are the unfinished tasks of the Etcd of a task that has ended, or goes.
func (r *Reconciler) behind(other resource) handler.MapFunc {
	return func(ctx context.Context, o client.Object) []reconcile.Request {
		t := other.read(o)
		if !t.Status.State.Ended() && o.GetDeletionTimestamp() == nil {
			return nil
		}
		return r.unfinished(ctx, t.Namespace, t.Etcd)
	}
}

func (r *Reconciler) unfinished(ctx context.Context, namespace, etcd string) (all []reconcile.Request) {
	list := r.resource.list()
	if err := r.cache.List(ctx, list, client.InNamespace(namespace)); err != nil {
		r.logger.Warn("the tasks cannot be listed", "namespace", namespace, "error", err)
		return nil
	}
	for _, t := range r.resource.tasks(list) {
		if t.Etcd == etcd && !t.Status.State.Ended() {
			all = append(all, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: t.Namespace, Name: t.Name}})
		}
	}
	return all
}

// ofJob is the task of its Job, or of one of its CronJob.
func (r *Reconciler) ofJob(ctx context.Context, o client.Object) []reconcile.Request {
	if !slices.ContainsFunc(Types(), func(t task.Type) bool {
		component := o.GetLabels()[druidv1alpha1.LabelComponent]
		return t.Standing != nil && t.Standing.Component == component || t.Job != nil && t.Job.Component == component
	}) {
		return nil
	}
	list := r.resource.list()
	if err := r.cache.List(ctx, list, client.InNamespace(o.GetNamespace())); err != nil {
		r.logger.Warn("the tasks cannot be listed", "namespace", o.GetNamespace(), "error", err)
		return nil
	}
	for _, t := range r.resource.tasks(list) {
		if druidv1alpha1.LabelValue(t.Name) == o.GetLabels()[druidv1alpha1.LabelPartOf] {
			return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: t.Namespace, Name: t.Name}}}
		}
	}
	return nil
}

// Reconcile looks at one task.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	object := r.resource.one()
	if err := r.cache.Get(ctx, req.NamespacedName, object); err != nil {
		if apierrors.IsNotFound(err) {
			r.attempts.forget(key{r.resource.kind, req.Namespace, req.Name})
			return reconcile.Result{}, nil
		}
		return reconcile.Result{}, fmt.Errorf("read the task: %w", err)
	}
	t := r.resource.read(object)
	if object.GetDeletionTimestamp() != nil {
		r.attempts.forget(keyOf(t))
		return reconcile.Result{}, r.let(ctx, object)
	}
	if t.Status.State.Ended() {
		r.attempts.forget(keyOf(t))
	}
	result, err := r.look(ctx, object)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return reconcile.Result{RequeueAfter: time.Second}, nil // the cache is told of what somebody wrote
	}
	return result, err
}

func (r *Reconciler) look(ctx context.Context, object client.Object) (reconcile.Result, error) {
	t := r.resource.read(object)
	o, p, err := r.decide(ctx, t, r.cache)
	row, _ := typeOf(t.Type)
	if err == nil && (p.State.Ended() || p.Initiated || row.Job != nil && p.Make != nil) && !t.Status.State.Ended() {
		// An end is for good, a beginning has the others wait, and so has a Job. The cache may not know yet what the Etcd,
		// the others and their pods are: the API server has to say so. One is looked at after the other until that is written,
		// so that of two that were made in the same second each sees what became of the other.
		r.attempts.turn.Lock()
		defer r.attempts.turn.Unlock()
		o, p, err = r.decide(kube.LimitAnswer(ctx, kube.MaxList), t, r.live)
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	if p.Delete {
		return reconcile.Result{}, r.remove(ctx, object)
	}
	if row.Job != nil && p.Make != nil {
		if err := r.newest(ctx, object); err != nil {
			return reconcile.Result{}, err
		}
	}
	if o.Etcd != nil && !p.State.Ended() {
		if err := r.belong(ctx, object, o.Etcd); err != nil {
			return reconcile.Result{}, fmt.Errorf("make the Etcd the owner of the task: %w", err)
		}
	}
	applyErr := r.apply(ctx, o, p)
	if applyErr != nil {
		p.State, p.StepState, p.Error, p.Reason = druidv1alpha1.TaskInProgress, druidv1alpha1.OperationFailed, codeCronJob, said(applyErr)
		if row.Job != nil {
			p.Error = codeJob
		}
		if t.Status.State.Ended() {
			return reconcile.Result{}, applyErr
		}
	}
	now := r.now().Truncate(time.Second) // what a status can hold
	status := statusOf(t, p, string(controller.ReconcileIDFromContext(ctx)), now)
	if err := r.write(ctx, object, t, status); err != nil {
		return reconcile.Result{}, err
	}
	if applyErr != nil {
		return reconcile.Result{}, applyErr // again, later each time
	}
	if p.Begin {
		t.Status = status
		r.attempts.begin(o, row, p.Initiated, object)
	}
	return reconcile.Result{RequeueAfter: p.Again}, nil
}

// newest fails with a conflict if the cache gave a former state of a task. It may not know yet that the task has ended, and
// its Job is gone, which would be made again.
func (r *Reconciler) newest(ctx context.Context, object client.Object) error {
	now := r.resource.one()
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(object), now); err != nil {
		return fmt.Errorf("read the task: %w", err)
	}
	if now.GetResourceVersion() != object.GetResourceVersion() || now.GetUID() != object.GetUID() {
		return apierrors.NewConflict(schema.GroupResource{Group: druidv1alpha1.Group, Resource: r.resource.kind}, object.GetName(), errors.New("it was written since it was looked at"))
	}
	return nil
}

func (r *Reconciler) decide(ctx context.Context, t *task.Task, from client.Reader) (*Observed, Plan, error) {
	o, err := r.observe(ctx, t, from)
	if err != nil {
		return nil, Plan{}, err
	}
	p, err := Decide(o, r.settings, r.now())
	return o, p, err
}

func (r *Reconciler) log(ctx context.Context) *slog.Logger {
	return r.logger.With("run", controller.ReconcileIDFromContext(ctx))
}
