package copytask

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/operator/config"
	"druid.internal/druid/internal/operator/desired"
	"druid.internal/druid/internal/operator/kube"
)

// deletionPoll is how often is looked for what is left of a deleted task, besides whenever something goes.
const deletionPoll = 5 * time.Second

// Reconciler carries tasks out.
type Reconciler struct {
	settings Settings
	now      func() time.Time

	client  client.Client
	cache   client.Reader // what it gives is a copy
	live    client.Reader // asks the API server
	applier *kube.Applier
	logger  *slog.Logger
}

// Setup adds the controller to the manager, unless the configuration says that it does not run. Of Jobs
// and pods the manager's cache may hold those with the operator's label alone.
func Setup(mgr manager.Manager, cfg config.Config, log *slog.Logger) error {
	c := cfg.Controllers.EtcdCopyBackupsTask
	if !c.Runs() {
		return nil
	}
	r := &Reconciler{
		settings: Settings{Images: desired.Images{Sidecar: cfg.Images.Sidecar, Init: cfg.Images.Init}},
		now:      time.Now,
		client:   mgr.GetClient(),
		cache:    mgr.GetClient(),
		live:     mgr.GetAPIReader(),
		applier:  kube.NewApplier(mgr.GetClient(), mgr.GetAPIReader()),
		logger:   log,
	}
	return builder.ControllerManagedBy(mgr).Named("etcdcopybackupstask").
		For(&druidv1alpha1.EtcdCopyBackupsTask{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&batchv1.Job{}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(taskOf)).
		WithOptions(controller.Options{MaxConcurrentReconciles: c.ConcurrentSyncs, RateLimiter: kube.Again(time.Minute)}).
		Complete(r)
}

// taskOf is the task of a pod.
func taskOf(_ context.Context, o client.Object) []reconcile.Request {
	if o.GetLabels()[druidv1alpha1.LabelComponent] != druidv1alpha1.ComponentCopyBackupsJob {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetLabels()[druidv1alpha1.LabelPartOf]}}}
}

// Reconcile looks at one task.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	t := &druidv1alpha1.EtcdCopyBackupsTask{}
	if err := r.cache.Get(ctx, req.NamespacedName, t); err != nil {
		if apierrors.IsNotFound(err) {
			return reconcile.Result{}, nil
		}
		return reconcile.Result{}, fmt.Errorf("read the task: %w", err)
	}
	if t.DeletionTimestamp != nil {
		return r.delete(ctx, t)
	}
	o, err := r.look(ctx, t)
	if err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if o.Task.DeletionTimestamp != nil {
		return reconcile.Result{}, nil // the cache is told of it
	}
	p, err := Decide(o, r.settings)
	if err == nil && p.State != Over {
		if err := r.finalizer(ctx, o.Task); err != nil {
			return reconcile.Result{}, err
		}
		err = r.apply(ctx, o, p)
	}
	if writeErr := r.write(ctx, o.Task, statusOf(o.Task, p, err, r.now())); writeErr != nil {
		return reconcile.Result{}, writeErr
	}
	if err != nil {
		return reconcile.Result{}, err // again, later each time
	}
	return reconcile.Result{RequeueAfter: p.Again}, nil
}

func (r *Reconciler) log(ctx context.Context) *slog.Logger {
	return r.logger.With("run", controller.ReconcileIDFromContext(ctx))
}
