package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/operator/hibernation"
	"druid.internal/druid/internal/operator/kube"
	"druid.internal/druid/internal/operator/metrics"
	"druid.internal/druid/internal/operator/rollout"
)

// failure is something that could not be carried out.
type failure struct {
	code druidv1alpha1.ErrorCode
	err  error
}

// outcome is what carrying a plan out came to.
type outcome struct {
	changed  bool // at least one request changed something
	set      bool // the StatefulSet was changed, which pods may have to follow
	there    bool // the Secret was to be made, and is there; nothing was done after that
	created  []string
	failures []failure
}

func (o *outcome) fail(code druidv1alpha1.ErrorCode, err error) {
	o.failures = append(o.failures, failure{code, err})
}

// begins: all objects of a new cluster were made. Its pods are made within moments, and the look at them tells of both.
func (o outcome) begins(before *Observed, p Plan) bool {
	made := Key{kindStatefulSet, before.Etcd.StatefulSetName()}
	return before.Etcd.Status.ObservedGeneration == nil && before.StatefulSet == nil && p.Size.Replicas > 0 && slices.Contains(o.created, made.String()) &&
		len(o.failures) == 0 && len(p.Refused) == 0
}

// apply carries a plan out. An object that cannot be made keeps the StatefulSet from being made or
// changed, and nothing from being made that does not need it; as long as something could not be made
// nothing is removed, and no pod replaced.
func (r *Reconciler) apply(ctx context.Context, o *Observed, p Plan) (out outcome) {
	defer func() {
		if len(out.created) > 0 {
			r.log(ctx).Info("objects were created", "namespace", o.Etcd.Namespace, "etcd", o.Etcd.Name, "objects", out.created)
		}
	}()
	if len(p.Refused) == 0 { // else nothing of the original's is touched
		if r.relabel(ctx, o, p, &out); len(out.failures) > 0 {
			return out
		}
	}
	switch {
	case p.Sleep.Admit:
		r.asking.refuse(o, 0)
	case p.Sleep.Refuse:
		r.asking.refuse(o, hibernation.RefuseFor)
	}
	objects := p.Objects
	if o.StatefulSet == nil {
		objects = r.makeTogether(ctx, o, p, &out)
	}
	for _, object := range objects {
		if out.there {
			return out
		}
		key := keyOf(object)
		if key.Kind == "StatefulSet" && len(out.failures) > 0 {
			break
		}
		if key.Kind == "RoleBinding" && len(out.failures) > 0 && o.Live[Key{"Role", o.Etcd.RoleName()}] == nil && !slices.Contains(out.created, Key{"Role", o.Etcd.RoleName()}.String()) {
			continue // there is no Role that it could bind
		}
		if former := formerSecrets(o.StatefulSet, object); len(former) > 0 {
			if err := r.releaseSecrets(ctx, o.Etcd, former); err != nil {
				out.fail(codeOf("SYNC", object), err)
				break
			}
		}
		if key.Kind == "StatefulSet" && len(p.Adoption.Replace) > 0 {
			if err := r.orphan(ctx, o, p); err != nil {
				out.fail(codeAdopt, err)
			}
			break
		}
		if err := r.make(ctx, o, p, key, object, &out); err != nil {
			out.fail(codeOf("SYNC", object), err)
		}
	}
	if len(out.failures) > 0 || out.there {
		return out
	}
	if p.Snapshot != nil {
		r.log(ctx).Info("a snapshot is taken", "for", p.Snapshot.For)
		r.snapshots.begin(o, *p.Snapshot)
	}
	for _, pod := range p.Remount {
		if err := r.remount(ctx, o.Etcd, pod, p.Configuration); err != nil {
			out.fail(codeRemount, err)
		}
	}
	for _, gone := range p.Remove {
		if err := r.remove(ctx, o.Etcd, gone); err != nil {
			out.fail(codeOf("DELETE", gone.Object), err)
			continue
		}
		out.changed = true
	}
	if out.set { // what pods and volumes are replaced for was decided by the former template
		return out
	}
	if p.Pod.Kind == rollout.Delete && len(out.failures) == 0 {
		if err := r.replace(ctx, o, p.Pod); err != nil {
			out.fail(codeReplacePod, err)
		}
		out.changed = true
	}
	if len(out.failures) == 0 {
		r.carryOut(ctx, o, p.Volumes, &out)
	}
	return out
}

// atOnce is how many objects of a new cluster are made at the same time. Some take the API server ten times
// as long as others.
const atOnce = 4

// apart has in free the objects of a new cluster that need none of the others, and in bound those that do: a StatefulSet
// has pods at once, which need everything, and a RoleBinding is refused before its Role is there.
func apart(objects []client.Object) (free, bound []client.Object) {
	for _, object := range objects {
		if kind := keyOf(object).Kind; kind == "StatefulSet" || kind == "RoleBinding" {
			bound = append(bound, object)
		} else {
			free = append(free, object)
		}
	}
	return free, bound
}

// makeTogether makes what of a new cluster needs nothing else, and returns what remains.
func (r *Reconciler) makeTogether(ctx context.Context, o *Observed, p Plan, out *outcome) (rest []client.Object) {
	var g errgroup.Group
	g.SetLimit(atOnce)
	together, rest := apart(p.Objects)
	// Where somebody else's is in the place of the Secret nothing is made beside it.
	if i := slices.IndexFunc(together, func(object client.Object) bool { return keyOf(object).Kind == "Secret" }); i >= 0 {
		if err := r.make(ctx, o, p, keyOf(together[i]), together[i], out); err != nil {
			out.fail(codeOf("SYNC", together[i]), err)
		}
		if out.there {
			return nil
		}
		together = slices.Delete(together, i, i+1)
	}
	parts := make([]outcome, len(together))
	for i, object := range together {
		g.Go(func() error {
			if err := r.make(ctx, o, p, keyOf(object), object, &parts[i]); err != nil {
				parts[i].fail(codeOf("SYNC", object), err)
			}
			return nil
		})
	}
	_ = g.Wait() // each keeps its own failure
	for _, part := range parts {
		out.changed = out.changed || part.changed
		out.created = append(out.created, part.created...)
		out.failures = append(out.failures, part.failures...)
	}
	return rest
}

// joiner is noted as the writer of the annotation of members that join.
const joiner = kube.FieldManager + "-join"

// make has an object be as it is here.
func (r *Reconciler) make(ctx context.Context, o *Observed, p Plan, key Key, object client.Object, out *outcome) error {
	if slices.Contains(p.Joining, key.Name) && key.Kind == druidv1alpha1.KindEtcdMember && o.Live[key] == nil {
		// Its sidecar takes the annotation away, so it must not be among what is applied, then or later.
		annotated := object.DeepCopyObject().(client.Object)
		annotated.SetAnnotations(map[string]string{druidv1alpha1.AnnotationCreateAsLearner: "true"})
		err := r.client.Create(ctx, annotated, client.FieldOwner(joiner))
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create %s: %w", key, err)
		}
		out.changed = true
		r.metrics.Object(key.Kind, metrics.Created)
		r.log(ctx).Info("a member that joins is made known", "member", key.Name)
		return nil
	}
	if key.Kind == "Secret" {
		// It is made once, and never changed: what is in it is random.
		switch err := r.client.Create(ctx, object, client.FieldOwner(kube.FieldManager)); {
		case apierrors.IsAlreadyExists(err):
			out.there = true
			return nil
		case err != nil:
			return fmt.Errorf("create %s: %w", key, err)
		}
		r.tokenMade(o.Etcd)
		out.changed = true
		r.metrics.Object(key.Kind, metrics.Created)
		return nil
	}
	done, err := r.applier.Apply(ctx, object, o.Live[key])
	if err != nil {
		return err
	}
	if key.Kind == kindLease && done.Created {
		r.heartbeats.made(o.Etcd, done.Object.(*coordinationv1.Lease))
	}
	if len(done.TakenFrom) > 0 {
		r.undid(o.Etcd, fmt.Sprintf("%s was set back: %s had changed it", key, strings.Join(done.TakenFrom, ", ")))
	}
	if done.Created || done.Changed {
		out.changed = true
		if key.Kind == "StatefulSet" && done.Changed {
			out.set = true
			r.wrote(o.Etcd, wroteSet{uid: done.Object.GetUID(), generation: done.Object.GetGeneration()})
		}
		r.metrics.Object(key.Kind, actionOf(done))
		if done.Created {
			out.created = append(out.created, key.String())
		} else {
			r.log(ctx).Info("an object was changed", "namespace", o.Etcd.Namespace, "kind", key.Kind, "name", key.Name, "takenFrom", done.TakenFrom)
		}
	}
	return nil
}

// actionOf is what applying an object that was not as it should be did.
func actionOf(done kube.Outcome) metrics.Action {
	switch {
	case done.Created:
		return metrics.Created
	case len(done.TakenFrom) > 0:
		return metrics.SetBack
	}
	return metrics.Changed
}

// remove deletes what is superfluous, unless it has been made anew.
func (r *Reconciler) remove(ctx context.Context, e *druidv1alpha1.Etcd, gone Removal) error {
	uid := gone.Object.GetUID()
	err := r.client.Delete(ctx, gone.Object, client.Preconditions{UID: &uid}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete %s %s: %w", gone.Kind, gone.Object.GetName(), err)
	}
	r.applier.Forget(uid)
	if gone.Kind == kindLease && !apierrors.IsConflict(err) {
		r.heartbeats.removed(e, gone.Object.GetName())
	}
	r.metrics.Object(gone.Kind, metrics.Removed)
	r.log(ctx).Info("an object was removed", "kind", gone.Kind, "name", gone.Object.GetName(), "reason", gone.Reason)
	return nil
}

// replace deletes a pod, which its StatefulSet makes anew, unless another one has gone since the decision.
func (r *Reconciler) replace(ctx context.Context, o *Observed, s rollout.Step) error {
	e, uid := o.Etcd, types.UID(s.UID)
	if may, err := r.mayGo(ctx, o, s.Pod); !may {
		return err
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: s.Pod}}
	err := r.client.Delete(ctx, pod, client.Preconditions{UID: &uid})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil // somebody else replaced it
	case err != nil:
		return fmt.Errorf("delete pod %s: %w", s.Pod, err)
	}
	r.log(ctx).Info("a pod is replaced", "pod", s.Pod, "reason", s.Reason)
	r.metrics.PodReplaced()
	r.event(e, PodReplaced, s.Reason)
	return nil
}

// remount has the kubelet of a pod look at the ConfigMap now.
func (r *Reconciler) remount(ctx context.Context, e *druidv1alpha1.Etcd, pod corev1.Pod, configuration string) error {
	patch := fmt.Appendf(nil, `{"metadata":{"uid":%q,"annotations":{%q:%q}}}`, pod.UID, druidv1alpha1.AnnotationConfigMapRead, configuration)
	object := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: pod.Name}}
	err := r.client.Patch(ctx, object, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(kube.FieldManager))
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // another pod mounts what there is by itself
	}
	if err != nil {
		return fmt.Errorf("annotate pod %s: %w", pod.Name, err)
	}
	r.log(ctx).Info("a pod shall mount its configuration anew", "pod", pod.Name, "configuration", configuration)
	return nil
}

// message returns an error for the status: on one line unless it is an answer of an API server, and within the limit.
func message(err error) string {
	text := err.Error()
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Message == "" {
		text = strings.Join(strings.Fields(text), " ")
	}
	return druidv1alpha1.Cut(text, druidv1alpha1.MaxMessage)
}
