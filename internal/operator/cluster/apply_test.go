package cluster

import (
	"context"
	"errors"
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/operator/kube"
)

// The API server refuses a RoleBinding whose Role it does not know, and pods begin with their StatefulSet.
func TestWhatNeedsOtherObjectsOfANewClusterIsMadeAfterThem(t *testing.T) {
	p := mustDecide(t, empty(newEtcd(3)), testSettings)
	first, then := apart(p.Objects)
	if len(first)+len(then) != len(p.Objects) {
		t.Fatalf("%d objects are made together and %d afterwards, of %d", len(first), len(then), len(p.Objects))
	}
	var kinds []string
	for _, object := range then {
		kinds = append(kinds, keyOf(object).Kind)
	}
	if want := []string{"RoleBinding", "StatefulSet"}; !slices.Equal(kinds, want) {
		t.Errorf("made afterwards are %q, want %q in this order", kinds, want)
	}
	for _, object := range first {
		if keyOf(object).Kind == "Role" {
			return
		}
	}
	t.Error("the Role is not made before its RoleBinding")
}

// For up to half a minute after a definition was made nothing can belong to an object of it.
func TestAnAPIServerThatDoesNotKnowTheDefinitionYetIsWaitedForWithoutAnError(t *testing.T) {
	e := newEtcd(3)
	r, c := newReconciler(t, e)
	knows := false
	server := interceptor.NewClient(c.(client.WithWatch), interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
		if b, binds := o.(*rbacv1.RoleBinding); binds { // its Role is looked for before anything else
			if err := c.Get(ctx, client.ObjectKey{Namespace: b.Namespace, Name: b.RoleRef.Name}, &rbacv1.Role{}); err != nil {
				return err
			}
		}
		if len(o.GetOwnerReferences()) > 0 && !knows {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, o.GetName(),
				errors.New("cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion druid.gardener.cloud/v1alpha1 Kind Etcd: no matches"))
		}
		return c.Create(ctx, o, opts...)
	}})
	r.client, r.applier = server, kube.NewApplier(server, server)
	o := empty(e)
	p := mustDecide(t, o, testSettings)
	out := r.apply(t.Context(), o, p)
	if len(out.failures) < 5 || !unheardOf(out.failures) {
		t.Fatalf("%d failures: %v", len(out.failures), out.failures)
	}
	if got, err := r.next(o, p, out); err != nil || got.RequeueAfter <= 0 || got.RequeueAfter > soon {
		t.Errorf("looked at again in %s (%v), want it within %s", got.RequeueAfter, err, soon)
	}
	s := statusOf(o, p, out, "run", testNow)
	if op := s.LastOperation; len(s.LastErrors) > 0 || op.State != druidv1alpha1.LastOperationRequeue || s.ObservedGeneration != nil {
		t.Errorf("the status says %+v, errors %v, generation %v", op, s.LastErrors, s.ObservedGeneration)
	}
	r.tell(t.Context(), o, p, out, s)
	select {
	case told := <-r.recorder.(*events.FakeRecorder).Events:
		t.Errorf("the event %q", told)
	default:
	}
	knows = true
	if out = r.apply(t.Context(), o, p); len(out.failures) > 0 || !slices.Contains(out.created, Key{"RoleBinding", e.RoleBindingName()}.String()) {
		t.Errorf("once it knows: %v, made %q", out.failures, out.created)
	}
}
