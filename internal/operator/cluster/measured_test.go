package cluster

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/operator/kube"
	"druid.internal/druid/internal/operator/metrics"
	"druid.internal/druid/internal/operator/rollout"
	"druid.internal/druid/internal/operator/volumes"
)

// counts are what is shown of what a Reconciler did: counters, and how often a time was taken.
func counts(t *testing.T, m *metrics.Catalogue) map[string]float64 {
	t.Helper()
	shown := prometheus.NewRegistry()
	if err := m.Register(shown, nil, nil, time.Now); err != nil {
		t.Fatal(err)
	}
	families, err := shown.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		for _, one := range f.GetMetric() {
			name := f.GetName()
			for _, l := range one.GetLabel() {
				name += " " + l.GetValue()
			}
			all[name] = one.GetCounter().GetValue() + float64(one.GetHistogram().GetSampleCount())
		}
	}
	return all
}

func TestWhatIsDoneIsCounted(t *testing.T) {
	makes := func(p Plan, object client.Object) func(*Reconciler, *Observed) error {
		return func(r *Reconciler, o *Observed) error {
			object.SetNamespace(o.Etcd.Namespace)
			return r.make(context.Background(), o, p, keyOf(object), object, &outcome{})
		}
	}
	about := func(a volumes.Action) func(*Reconciler, *Observed) error {
		return func(r *Reconciler, o *Observed) error {
			if a.Kind == volumes.DeletePod {
				a.UID = string(o.Pods[0].UID)
			}
			var out outcome
			r.carryOut(context.Background(), o, a, &out)
			if len(out.failures) > 0 {
				return out.failures[0].err
			}
			return nil
		}
	}
	for phrase, c := range map[string]struct {
		do    func(*Reconciler, *Observed) error
		want  map[string]float64
		event []string
	}{
		"a member that joins is made known": {
			do:   makes(Plan{Joining: []string{"main-3"}}, &druidv1alpha1.EtcdMember{TypeMeta: metav1.TypeMeta{Kind: druidv1alpha1.KindEtcdMember}, ObjectMeta: metav1.ObjectMeta{Name: "main-3"}}),
			want: map[string]float64{"etcddruid_objects_total created EtcdMember": 1},
		},
		"the Secret is made": {
			do:   makes(Plan{}, &corev1.Secret{TypeMeta: metav1.TypeMeta{Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{Name: "main-sidecar-token"}}),
			want: map[string]float64{"etcddruid_objects_total created Secret": 1},
		},
		"another object is made": {
			do:   makes(Plan{}, &rbacv1.Role{TypeMeta: metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "Role"}, ObjectMeta: metav1.ObjectMeta{Name: "more"}}),
			want: map[string]float64{"etcddruid_objects_total created Role": 1},
		},
		"what is superfluous is removed": {
			do: func(r *Reconciler, o *Observed) error {
				return r.remove(context.Background(), o.Etcd, Removal{Object: o.StatefulSet, Kind: "StatefulSet", Reason: "nobody wants it"})
			},
			want: map[string]float64{"etcddruid_objects_total removed StatefulSet": 1},
		},
		"the StatefulSet of the original is taken from its pods": {
			do:   func(r *Reconciler, o *Observed) error { return r.orphan(context.Background(), o, Plan{}) },
			want: map[string]float64{"etcddruid_objects_total removed StatefulSet": 1},
		},
		"a pod with a former template is replaced": {
			do: func(r *Reconciler, o *Observed) error {
				return r.replace(context.Background(), o, rollout.Step{Kind: rollout.Delete, Pod: o.Pods[0].Name, UID: string(o.Pods[0].UID)})
			},
			want:  map[string]float64{"etcddruid_pods_replaced_total": 1},
			event: []string{"Normal PodReplaced"},
		},
		"a pod goes because of its volume": {
			do:    about(volumes.Action{Kind: volumes.DeletePod, Pod: "main-0", Reason: "its volume is read-only"}),
			want:  map[string]float64{"etcddruid_objects_total removed Pod": 1},
			event: []string{"Warning PodRestarted"},
		},
		"a step fails": {
			do: func(r *Reconciler, _ *Observed) error {
				r.count(Plan{Mode: ModeApply}, outcome{failures: []failure{{codeReplacePod, errors.New("no")}}})
				return nil
			},
			want: map[string]float64{"etcddruid_looks_total apply failed": 1, "etcddruid_failures_total ERR_REPLACE_POD": 1},
		},
		"nothing can be read": { // without the namespace by whose uid a cluster is known
			do: func(r *Reconciler, o *Observed) error {
				if _, err := r.Reconcile(context.Background(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(o.Etcd)}); err == nil {
					return errors.New("it was read")
				}
				return nil
			},
			want: map[string]float64{"etcddruid_failures_total ERR_OBSERVE": 1},
		},
		"an object stays when its Etcd is deleted": {
			do: func(r *Reconciler, o *Observed) error {
				if err := r.client.Delete(context.Background(), o.Etcd.DeepCopy()); err != nil {
					return err
				}
				r.client = interceptor.NewClient(r.client.(client.WithWatch), interceptor.Funcs{Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
					return errors.New("no")
				}})
				if _, err := r.Reconcile(context.Background(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(o.Etcd)}); err == nil {
					return errors.New("it was deleted")
				}
				return nil
			},
			want:  map[string]float64{"etcddruid_failures_total ERR_DELETE_STATEFULSET": 1},
			event: []string{"Normal Deleting"},
		},
	} {
		t.Run(phrase, func(t *testing.T) {
			o := running(t, 3)
			o.Etcd.Finalizers = []string{druidv1alpha1.Finalizer}
			o.StatefulSet.ManagedFields = nil // the fake client takes whole ones alone
			objects := []client.Object{o.Etcd.DeepCopy(), o.StatefulSet.DeepCopy()}
			for _, p := range o.Pods {
				objects = append(objects, p.DeepCopy())
			}
			r, _ := newReconciler(t, objects...)
			if err := c.do(r, o); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, counts(t, r.metrics)); d != "" {
				t.Errorf("what is shown (-want +got):\n%s", d)
			}
			if d := cmp.Diff(c.event, told(r)); d != "" {
				t.Errorf("events (-want +got):\n%s", d)
			}
		})
	}
	for want, done := range map[metrics.Action]kube.Outcome{
		metrics.Created: {Created: true},
		metrics.Changed: {Changed: true},
		metrics.SetBack: {Changed: true, TakenFrom: []string{"a person (spec.replicas)"}},
	} {
		if got := actionOf(done); got != want {
			t.Errorf("%+v counts as %s, want %s", done, got, want)
		}
	}
}
