package cluster

import (
	"context"
	"log/slog"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubernetes "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/operator/kube"
	"druid.internal/druid/internal/operator/metrics"
	"druid.internal/druid/internal/operator/rollout"
)

// newReconciler is one with testSettings at testNow, for which nothing is there but the objects.
func newReconciler(t *testing.T, objects ...client.Object) (*Reconciler, client.Client) {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{kubernetes.AddToScheme, druidv1alpha1.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	byLabel := func(o client.Object) []string {
		if n, ok := o.GetLabels()[druidv1alpha1.LabelPartOf]; ok {
			return []string{n}
		}
		return nil
	}
	b := fake.NewClientBuilder().WithScheme(s).WithStatusSubresource(&druidv1alpha1.Etcd{}).WithObjects(objects...)
	for _, o := range []client.Object{&coordinationv1.Lease{}, &druidv1alpha1.EtcdMember{}, &corev1.Pod{}, &corev1.PersistentVolumeClaim{}} {
		b = b.WithIndex(o, partOf, byLabel)
	}
	c, log, now := b.Build(), slog.New(slog.DiscardHandler), func() time.Time { return testNow }
	r := &Reconciler{
		settings: testSettings, syncPeriod: 15 * time.Second, now: now,
		client: c, cache: c, live: c, cluster: kube.NewCluster(c), applier: kube.NewApplier(c, c),
		recorder: events.NewFakeRecorder(100), metrics: metrics.New(), configs: newConfigurations(), logger: log,
		heartbeats: newHeartbeats(c, time.Minute, now, log), sidecars: httpAsker{secrets: c, log: log},
		tokens: map[types.UID]time.Time{}, claims: map[types.UID]claimNews{}, quiet: map[types.UID]Quiet{},
	}
	r.snapshots = newSnapshots(httpAsker{secrets: c, log: log}, now, log, r.metrics)
	return r, c
}

// reread is an object as it is now.
func reread[T client.Object](t *testing.T, c client.Client, object T) (T, error) {
	t.Helper()
	now := object.DeepCopyObject().(T)
	return now, c.Get(context.Background(), client.ObjectKeyFromObject(object), now)
}

// What is done was read a moment ago. Who applies another specification with the same annotation meanwhile asks for that.
func TestARequestForANewerSpecificationStaysWhenTheOlderOneIsDone(t *testing.T) {
	e := newEtcd(1)
	e.Annotations = map[string]string{druidv1alpha1.AnnotationOperation: druidv1alpha1.OperationReconcile}
	r, c := newReconciler(t, e)
	done := Plan{Mode: ModeApply, Size: rollout.ScaleStep{Done: true}}
	seen, err := reread(t, c, e)
	if err != nil {
		t.Fatal(err)
	}
	newer := seen.DeepCopy()
	newer.Spec.Etcd.Metrics = ptr(druidv1alpha1.MetricsExtensive)
	newer.Generation++
	if err := c.Update(context.Background(), newer); err != nil {
		t.Fatal(err)
	}
	if err := r.finish(context.Background(), seen, done, outcome{}); err == nil {
		t.Error("the end of what was seen was no error, after which is looked again")
	}
	now, err := reread(t, c, e)
	if err != nil || now.ReconcileRequested() == "" {
		t.Errorf("annotations %v (%v): the request to apply the newer specification went unseen", now.Annotations, err)
	}
	if err := r.finish(context.Background(), now, done, outcome{}); err != nil {
		t.Fatal(err)
	}
	if now, err = reread(t, c, e); err != nil || now.ReconcileRequested() != "" {
		t.Errorf("annotations %v (%v), want the request to be gone with what it asked for", now.Annotations, err)
	}
}
