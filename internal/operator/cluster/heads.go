package cluster

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

// The cache holds the objects with the operator's label, which everybody may write on his own objects.
// So it keeps whole only what can be the operator's: what a resource of ours, or an object made from
// one, controls, and what is not larger than such objects are. Of everything else it keeps the head,
// which has a few hundred bytes. What of an Etcd is kept as a head is read from the API server when
// the Etcd is looked at.

// Up to which size an object is kept whole, in bytes as the API server encodes it.
const (
	wholeUsual    = 16 << 10 // those of the operator have 1 to 4 KiB
	wholeTemplate = 64 << 10 // with a pod template: labels and annotations of the specification are in it, twice
)

// annotationHead marks a head. It is set in the cache alone.
const annotationHead = "internal.druid.gardener.cloud/head"

// headLabels are those that objects are found by.
var headLabels = []string{
	druidv1alpha1.LabelManagedBy, druidv1alpha1.LabelPartOf, druidv1alpha1.LabelComponent, druidv1alpha1.LabelName, druidv1alpha1.LabelOwnedBy,
	appsv1.ControllerRevisionHashLabelKey, batchv1.JobNameLabel,
}

// bounded returns the object, or its head.
func bounded(o client.Object) client.Object {
	if weight(o) <= wholeSize(o) && plausible(o) {
		return o
	}
	return headOf(o)
}

func wholeSize(o client.Object) int {
	switch reflect.TypeOf(o).Elem().Name() {
	case "StatefulSet", "Job", "CronJob":
		return wholeTemplate
	}
	return wholeUsual
}

// weight is the size of an object. Of resources of ours it is that of the metadata: their definitions
// limit the rest.
func weight(o client.Object) int {
	if sized, is := o.(interface{ Size() int }); is {
		return sized.Size()
	}
	n := 0
	for _, pairs := range []map[string]string{o.GetLabels(), o.GetAnnotations()} {
		for k, v := range pairs {
			n += len(k) + len(v)
		}
	}
	for _, r := range o.GetOwnerReferences() {
		n += len(r.Name) + len(r.Kind) + len(r.APIVersion) + len(r.UID)
	}
	for _, f := range o.GetFinalizers() {
		n += len(f)
	}
	return n
}

// plausible reports whether an object can be the operator's, or made from one of those. Claims of
// volumes have no controller, and resources of ours need none.
func plausible(o client.Object) bool {
	switch o.(type) {
	case *corev1.PersistentVolumeClaim, *druidv1alpha1.Etcd, *druidv1alpha1.EtcdMember, *druidv1alpha1.EtcdOperatorTask, *druidv1alpha1.EtcdOpsTask, *druidv1alpha1.EtcdCopyBackupsTask:
		return true
	}
	c := metav1.GetControllerOfNoCopy(o)
	return c != nil && slices.Contains([]string{
		druidv1alpha1.KindEtcd, druidv1alpha1.KindEtcdOperatorTask, druidv1alpha1.KindEtcdCopyBackupsTask, kindStatefulSet, "Job", "CronJob",
	}, c.Kind)
}

// headOf returns what tells an object from others, and whose it is.
func headOf(o client.Object) client.Object {
	head := reflect.New(reflect.TypeOf(o).Elem()).Interface().(client.Object)
	head.SetNamespace(o.GetNamespace())
	head.SetName(o.GetName())
	head.SetUID(o.GetUID())
	head.SetResourceVersion(o.GetResourceVersion())
	head.SetGeneration(o.GetGeneration())
	head.SetCreationTimestamp(o.GetCreationTimestamp())
	head.SetDeletionTimestamp(o.GetDeletionTimestamp())
	head.SetAnnotations(map[string]string{annotationHead: ""})
	labels := map[string]string{}
	for _, name := range headLabels {
		if v, is := o.GetLabels()[name]; is {
			labels[name] = v
		}
	}
	head.SetLabels(labels)
	if c := metav1.GetControllerOf(o); c != nil {
		c.APIVersion, c.Kind, c.Name = druidv1alpha1.Cut(c.APIVersion, 128), druidv1alpha1.Cut(c.Kind, 64), druidv1alpha1.Cut(c.Name, 253)
		head.SetOwnerReferences([]metav1.OwnerReference{*c})
	}
	if job, is := o.(*batchv1.Job); is { // who waits for a Job goes by how it ended
		s := &head.(*batchv1.Job).Status
		s.Active, s.Succeeded, s.Failed, s.StartTime, s.CompletionTime = job.Status.Active, job.Status.Succeeded, job.Status.Failed, job.Status.StartTime, job.Status.CompletionTime
		for _, c := range job.Status.Conditions[:min(len(job.Status.Conditions), 8)] {
			c.Message = druidv1alpha1.Cut(c.Message, 512)
			s.Conditions = append(s.Conditions, c)
		}
	}
	return head
}

// boundedLease returns a Lease as it is kept. Of a large one only the head and the heartbeat remain.
func boundedLease(l *coordinationv1.Lease) *coordinationv1.Lease {
	abridge(l)
	if weight(l) > maxLease {
		head := headOf(l).(*coordinationv1.Lease)
		head.Spec.RenewTime = l.Spec.RenewTime
		if h := l.Spec.HolderIdentity; h != nil {
			cut := druidv1alpha1.Cut(*h, maxHolder)
			head.Spec.HolderIdentity = &cut
		}
		l = head
	}
	share(l)
	return l
}

// A Lease of a member has 300 bytes, and its holder two ids and a role.
const (
	maxLease  = 4 << 10
	maxHolder = 256
)

// isHead reports whether the cache keeps the head of an object alone.
func isHead(o client.Object) bool {
	_, is := o.GetAnnotations()[annotationHead]
	return is
}

// whole reads what of an Etcd the cache keeps as heads. Of pods, claims and members, of which there can
// be many, those that are too large stay heads: no pod of ours is.
func (r *Reconciler) whole(ctx context.Context, o *Observed) error {
	for key, object := range o.Live {
		if !isHead(object) {
			continue
		}
		read, err := r.readWhole(ctx, object)
		switch {
		case err != nil:
			return err
		case read == nil:
			delete(o.Live, key)
		default:
			o.Live[key] = read
		}
	}
	o.StatefulSet, o.ConfigMap = inPlaceOf(o, o.StatefulSet, kindStatefulSet), inPlaceOf(o, o.ConfigMap, "ConfigMap")
	for i := range o.Members {
		if m := &o.Members[i]; isHead(m) {
			if read, is := o.Live[Key{druidv1alpha1.KindEtcdMember, m.Name}].(*druidv1alpha1.EtcdMember); is {
				o.Members[i] = *read
			}
		}
	}
	for _, pods := range [][]*corev1.Pod{o.Pods, o.ExtensionPods} {
		if err := readParts(ctx, r, pods); err != nil {
			return err
		}
	}
	return readParts(ctx, r, o.Claims)
}

// inPlaceOf returns what was read in the place of a head.
func inPlaceOf[T interface {
	client.Object
	comparable
}](o *Observed, object T, kind string) T {
	var none T
	if object == none || !isHead(object) {
		return object
	}
	read, _ := o.Live[Key{kind, object.GetName()}].(T)
	return read
}

func readParts[T client.Object](ctx context.Context, r *Reconciler, parts []T) error {
	for i, p := range parts {
		if !isHead(p) {
			continue
		}
		read, err := r.readWhole(ctx, p)
		if err != nil {
			return err
		}
		if read == nil {
			continue // it is gone, and the cache will be told
		}
		if whole, is := read.(T); is && weight(whole) <= wholeSize(whole) {
			parts[i] = whole
		}
	}
	return nil
}

// readWhole reads an object that the cache keeps as a head; nil: it is gone.
func (r *Reconciler) readWhole(ctx context.Context, head client.Object) (client.Object, error) {
	read := reflect.New(reflect.TypeOf(head).Elem()).Interface().(client.Object)
	err := r.live.Get(ctx, client.ObjectKeyFromObject(head), read)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read %s, which is too large for the cache or has no owner: %w", head.GetName(), err)
	}
	abridge(read)
	return read, nil
}
