package cluster

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"druid.internal/druid/internal/operator/rollout"
	"druid.internal/druid/internal/operator/volumes"
)

// What is replaced was decided by the former template: a new image of etcd waits for the snapshot before it.
func TestNoPodGoesInTheLookThatChangesTheTemplate(t *testing.T) {
	for phrase, p := range map[string]Plan{
		"of the template": {Pod: rollout.Step{Kind: rollout.Delete, Pod: "main-0", UID: "pod-0"}},
		"of the volumes":  {Volumes: volumes.Action{Kind: volumes.DeletePod, Pod: "main-0", UID: "pod-0", Reason: "its claim goes"}},
	} {
		for _, changes := range []bool{true, false} {
			o := running(t, 3)
			var objects []client.Object
			for _, pod := range o.Pods {
				objects = append(objects, pod.DeepCopy())
			}
			there := o.StatefulSet.DeepCopy()
			there.ManagedFields = nil
			r, cl := newReconciler(t, append(objects, there)...)
			set := there.DeepCopy()
			set.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("StatefulSet"))
			set.ResourceVersion, set.UID = "", ""
			set.Spec.Template.Labels["changed"] = "yes"
			if p.Objects = nil; changes {
				p.Objects = []client.Object{set}
			}
			out := r.apply(context.Background(), o, p)
			if len(out.failures) > 0 || out.set != changes {
				t.Fatalf("%s: the template was changed: %t, failures %v", phrase, out.set, out.failures)
			}
			err := cl.Get(context.Background(), client.ObjectKeyFromObject(o.Pods[0]), &corev1.Pod{})
			if stays := err == nil; stays != changes {
				t.Errorf("%s, which changes: %t, the pod stays: %t (%v)", phrase, changes, stays, err)
			}
		}
	}
}

// The sidecars are asked for seconds between the look at the pods and the deletion of one, and a drain may take another one meanwhile.
func TestAPodStaysIfAnotherOneWentSinceTheLook(t *testing.T) {
	ctx := context.Background()
	steps := map[string]func(*Reconciler, *Observed) error{
		"of the template": func(r *Reconciler, o *Observed) error {
			return r.replace(ctx, o, rollout.Step{Kind: rollout.Delete, Pod: o.Pods[0].Name, UID: string(o.Pods[0].UID)})
		},
		"of the volumes": func(r *Reconciler, o *Observed) error {
			var out outcome
			r.carryOut(ctx, o, volumes.Action{Kind: volumes.DeletePod, Pod: o.Pods[0].Name, UID: string(o.Pods[0].UID), Reason: "its volume is read-only"}, &out)
			if len(out.failures) > 0 {
				t.Fatal(out.failures)
			}
			return nil
		},
	}
	for phrase, c := range map[string]struct {
		meanwhile func(client.Client, *corev1.Pod) error
		goes      bool
	}{
		"nothing": {func(client.Client, *corev1.Pod) error { return nil }, true},
		"gone":    {func(c client.Client, p *corev1.Pod) error { return c.Delete(ctx, p) }, false},
		"made anew": {func(c client.Client, p *corev1.Pod) error {
			if err := c.Delete(ctx, p); err != nil {
				return err
			}
			anew := p.DeepCopy()
			anew.UID, anew.ResourceVersion = types.UID("another"), ""
			return c.Create(ctx, anew)
		}, false},
		"ending": {func(c client.Client, p *corev1.Pod) error {
			p.Finalizers = []string{"somebody.example/waits"}
			if err := c.Update(ctx, p); err != nil {
				return err
			}
			return c.Delete(ctx, p)
		}, false},
		"not ready": {func(c client.Client, p *corev1.Pod) error {
			for i := range p.Status.Conditions {
				p.Status.Conditions[i].Status = corev1.ConditionFalse
			}
			return c.Status().Update(ctx, p)
		}, false},
	} {
		for of, step := range steps {
			t.Run(phrase+" "+of, func(t *testing.T) {
				o := running(t, 3)
				var objects []client.Object
				for _, p := range o.Pods {
					objects = append(objects, p.DeepCopy())
				}
				r, cl := newReconciler(t, objects...)
				var other corev1.Pod
				if err := cl.Get(ctx, client.ObjectKeyFromObject(o.Pods[2]), &other); err != nil {
					t.Fatal(err)
				}
				if err := c.meanwhile(cl, &other); err != nil {
					t.Fatal(err)
				}
				if err := step(r, o); err != nil {
					t.Fatal(err)
				}
				err := cl.Get(ctx, client.ObjectKeyFromObject(o.Pods[0]), &corev1.Pod{})
				if client.IgnoreNotFound(err) != nil {
					t.Fatal(err)
				}
				if gone := apierrors.IsNotFound(err); gone != c.goes {
					t.Errorf("the pod was deleted: %v, want %v", gone, c.goes)
				}
			})
		}
	}
}
