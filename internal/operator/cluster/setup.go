package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/operator/config"
	"druid.internal/druid/internal/operator/desired"
	"druid.internal/druid/internal/operator/health"
	"druid.internal/druid/internal/operator/kube"
	"druid.internal/druid/internal/operator/metrics"
	"druid.internal/druid/internal/operator/sidecars"
)

// Setup adds the controller to the manager, whose cache must be that of [CacheOptions].
func Setup(mgr manager.Manager, cfg config.Config, log *slog.Logger) error {
	kept, err := newStores(context.Background(), mgr.GetCache())
	if err != nil {
		return err
	}
	c := cfg.Controllers.Etcd
	asker := httpAsker{secrets: mgr.GetAPIReader(), budget: sidecars.NewBudget(), log: log}
	measured := metrics.New()
	if err := measured.Register(ctrlmetrics.Registry, mgr.GetCache(), mgr.Elected(), time.Now); err != nil {
		return fmt.Errorf("register the metrics: %w", err)
	}
	snapshots := newSnapshots(asker, time.Now, log, measured)
	if err := mgr.Add(snapshots); err != nil {
		return err
	}
	questions := newAsking(asker, time.Now, log)
	if err := mgr.Add(questions); err != nil {
		return err
	}
	r := &Reconciler{
		settings: Settings{
			Images:           desired.Images{Wrapper: cfg.Images.Wrapper, Sidecar: cfg.Images.Sidecar, Init: cfg.Images.Init},
			AutoReconcile:    c.EnableEtcdSpecAutoReconcile,
			DisableAutomount: c.DisableEtcdServiceAccountAutomount,
			Thresholds:       health.Thresholds{Unknown: c.EtcdMember.UnknownThreshold, NotReady: c.EtcdMember.NotReadyThreshold},
		},
		syncPeriod: c.EtcdStatusSyncPeriod,
		now:        time.Now,
		client:     mgr.GetClient(),
		stores:     kept,
		live:       mgr.GetAPIReader(),
		cluster:    kube.NewCluster(mgr.GetAPIReader()),
		applier:    kube.NewApplier(mgr.GetClient(), mgr.GetAPIReader()),
		recorder:   mgr.GetEventRecorder("etcd-druid"),
		asking:     questions,
		snapshots:  snapshots,
		metrics:    measured,
		configs:    newConfigurations(),
		heartbeats: newHeartbeats(mgr.GetAPIReader(), c.EtcdMember.UnknownThreshold, time.Now, log),
		rehear:     cfg.Controllers.DisableLeaseCache,
		logger:     log,
		tokens:     map[types.UID]time.Time{},
		claims:     map[types.UID]claimNews{},
		quiet:      map[types.UID]Quiet{},
		writes:     map[types.UID]wroteSet{},
		undone:     map[types.UID][]string{},
		restored:   map[types.UID]map[string]time.Time{},
	}
	b := builder.ControllerManagedBy(mgr).Named("etcd").
		For(&druidv1alpha1.Etcd{}, builder.WithPredicates(etcdChanged())).
		WithOptions(controller.Options{MaxConcurrentReconciles: c.ConcurrentSyncs, RateLimiter: r.again()})
	owner := together(handler.EnqueueRequestForOwner(mgr.GetScheme(), mgr.GetRESTMapper(), &druidv1alpha1.Etcd{}, handler.OnlyControllerOwner()))
	label := together(handler.EnqueueRequestsFromMapFunc(etcdOf))
	for _, o := range []client.Object{
		&corev1.ConfigMap{}, &corev1.Service{}, &corev1.ServiceAccount{}, &policyv1.PodDisruptionBudget{}, &rbacv1.Role{}, &rbacv1.RoleBinding{},
	} {
		b = b.Watches(o, owner, builder.WithPredicates(notMade()))
	}
	b = b.Watches(&appsv1.StatefulSet{}, owner).
		Watches(&druidv1alpha1.EtcdMember{}, owner, builder.WithPredicates(memberTells())).
		Watches(&druidv1alpha1.EtcdOperatorTask{}, owner).
		Watches(&corev1.Pod{}, label).
		Watches(&corev1.PersistentVolumeClaim{}, label).
		WatchesRawSource(r.heartbeats).
		WatchesRawSource(source.Channel(snapshots.told, &handler.EnqueueRequestForObject{})).
		WatchesRawSource(source.Channel(questions.told, &handler.EnqueueRequestForObject{}))
	return b.Complete(r)
}

// again is when an Etcd is looked at once more of which something failed: what conditions tell depends on the time as well, so not
// much later than any other.
func (r *Reconciler) again() workqueue.TypedRateLimiter[reconcile.Request] {
	return kube.Again(max(failedAtMost, r.syncPeriod))
}

const failedAtMost = 15 * time.Second

// etcdOf is the Etcd that an object is labelled with.
func etcdOf(_ context.Context, o client.Object) []reconcile.Request {
	name, ok := o.GetLabels()[druidv1alpha1.LabelPartOf]
	if !ok || o.GetLabels()[druidv1alpha1.LabelManagedBy] != druidv1alpha1.ManagedBy {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: name}}}
}
