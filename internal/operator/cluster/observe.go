package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/operator/desired"
	"druid.internal/druid/internal/operator/health"
)

// Observed is what a look at an Etcd found. Nobody may change anything in it: most is the cache's.
type Observed struct {
	health.Observation

	ConfigMap *corev1.ConfigMap // nil: there is none
	// Configured is what the ConfigMap says, if that is known already.
	Configured *desired.Live
	// Live are the objects that belong to the Etcd by their names, whoever made them, those above
	// included. What the cache does not hold is not there, or has lost our labels.
	Live map[Key]client.Object

	// NewToken is for the sidecars, if there is no Secret with one yet; nil: there is, or it was not
	// looked for, as the pods run with it.
	NewToken []byte
	// TokenTaken: a Secret of that name is somebody else's. TokenGoing: it is that of a former Etcd of this name, with
	// which it goes.
	TokenTaken, TokenGoing bool
	// MissingSecrets are those that the specification names and that are not there, LackingSecrets those
	// without a key that they must have. They are looked for only while a pod does not get ready.
	MissingSecrets []druidv1alpha1.SecretUse
	LackingSecrets []LackingSecret
	// CertificateFault is why members could not reach each other with the certificates for peers, looked for
	// only before they do.
	CertificateFault string

	// heard is when the Leases were read from the API server.
	heard time.Time

	// Classes are the StorageClasses of claims about which something is to be done, nil: it does not
	// exist. The others are not looked for.
	Classes map[string]*storagev1.StorageClass

	// Asked: the sidecars were asked; Sidecars are those that answered, by ordinal.
	Asked    bool
	Sidecars map[int]agentapi.Member
	Unasked  string // why none could be asked; empty: they could

	// Quiet is an earlier look that found the same, and after which nothing had to be done; nil: there
	// is none.
	Quiet *Quiet
	// Snapshots are those that steps wait for, by what they are for.
	Snapshots map[string]SnapshotState

	// ClusterUID is the uid of the namespace kube-system, by which this Kubernetes is told from others.
	ClusterUID string
}

// LackingSecret is a Secret without the keys by which it serves the field that names it.
type LackingSecret struct {
	druidv1alpha1.SecretUse
	Keys []string
}

// Key is an object of one Etcd: they are all in its namespace.
type Key struct{ Kind, Name string }

func (k Key) String() string { return k.Kind + " " + k.Name }

// observe reads everything about an Etcd that the cache holds. It asks nobody.
func (r *Reconciler) observe(ctx context.Context, e *druidv1alpha1.Etcd) (*Observed, error) {
	o := &Observed{Observation: health.Observation{Etcd: e}, Live: map[Key]client.Object{}}
	for _, want := range named(e) {
		if err := r.read(ctx, o, want.kind, want.name, want.into); err != nil {
			return nil, err
		}
	}
	if s, ok := o.Live[Key{"StatefulSet", e.StatefulSetName()}].(*appsv1.StatefulSet); ok {
		o.StatefulSet = s
	}
	if c, ok := o.Live[Key{"ConfigMap", e.ConfigMapName()}].(*corev1.ConfigMap); ok {
		o.ConfigMap = c
	}
	for _, name := range []string{e.HibernationTaskName(), e.CollectionTaskName()} {
		if t, there := o.Live[Key{druidv1alpha1.KindEtcdOperatorTask, name}]; there && !metav1.IsControlledBy(t, e) {
			delete(o.Live, Key{druidv1alpha1.KindEtcdOperatorTask, name}) // somebody else's of that name is none
		}
	}
	if t, ok := o.Live[Key{druidv1alpha1.KindEtcdOperatorTask, e.HibernationTaskName()}].(*druidv1alpha1.EtcdOperatorTask); ok {
		if err := r.extensions(ctx, o, t); err != nil {
			return nil, err
		}
	}
	if err := r.otherExtension(ctx, o); err != nil {
		return nil, err
	}
	var (
		members druidv1alpha1.EtcdMemberList
		pods    corev1.PodList
		claims  corev1.PersistentVolumeClaimList
	)
	for _, list := range []client.ObjectList{&members, &pods, &claims} {
		err := r.cache.List(ctx, list, client.InNamespace(e.Namespace), client.MatchingFields{partOf: e.Name}, client.UnsafeDisableDeepCopy)
		if err != nil {
			return nil, fmt.Errorf("list %T of %s: %w", list, e.Name, err)
		}
	}
	o.listen(r.heartbeats.last(e))
	for i := range members.Items {
		m := &members.Items[i]
		if _, ours := e.MemberOrdinal(m.Name); ours {
			o.Members = append(o.Members, *m)
		}
		o.Live[Key{druidv1alpha1.KindEtcdMember, m.Name}] = m
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		if _, ours := e.PodOrdinal(p.Name); ours && p.Labels[druidv1alpha1.LabelComponent] == druidv1alpha1.ComponentStatefulSet {
			o.Pods = append(o.Pods, *p)
		}
	}
	for i := range claims.Items {
		if _, ours := o.claimOrdinal(claims.Items[i].Name); ours {
			o.Claims = append(o.Claims, claims.Items[i])
		}
	}
	return o, nil
}

// listen has the Leases be those that were heard.
func (o *Observed) listen(h heard) {
	for i := range o.Leases {
		delete(o.Live, Key{kindLease, o.Leases[i].Name})
	}
	o.Leases, o.heard = nil, h.at
	for _, l := range h.leases {
		if _, ours := o.Etcd.MemberOrdinal(l.Name); ours {
			o.Leases = append(o.Leases, *l)
		}
		o.Live[Key{kindLease, l.Name}] = l
	}
}

// extensions reads the pods of the task that prolongs locks.
func (r *Reconciler) extensions(ctx context.Context, o *Observed, t *druidv1alpha1.EtcdOperatorTask) error {
	o.Extension = t
	var pods corev1.PodList
	err := r.cache.List(ctx, &pods, client.InNamespace(t.Namespace), client.MatchingFields{partOf: druidv1alpha1.LabelValue(t.Name)}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return fmt.Errorf("list the pods of the EtcdOperatorTask %s: %w", t.Name, err)
	}
	for i := range pods.Items {
		if p := &pods.Items[i]; p.Labels[druidv1alpha1.LabelComponent] == druidv1alpha1.ComponentExtensionJob {
			o.ExtensionPods = append(o.ExtensionPods, *p)
		}
	}
	return nil
}

// wanted is an object that is read by its name.
type wanted struct {
	kind, name string
	into       client.Object
}

// named are the objects of which an Etcd has one each.
func named(e *druidv1alpha1.Etcd) []wanted {
	return []wanted{
		{"StatefulSet", e.StatefulSetName(), &appsv1.StatefulSet{}},
		{"ConfigMap", e.ConfigMapName(), &corev1.ConfigMap{}},
		{"PodDisruptionBudget", e.PodDisruptionBudgetName(), &policyv1.PodDisruptionBudget{}},
		{"Service", e.ClientServiceName(), &corev1.Service{}},
		{"Service", e.PeerServiceName(), &corev1.Service{}},
		{"ServiceAccount", e.ServiceAccountName(), &corev1.ServiceAccount{}},
		{"Role", e.RoleName(), &rbacv1.Role{}},
		{"RoleBinding", e.RoleBindingName(), &rbacv1.RoleBinding{}},
		{druidv1alpha1.KindEtcdOperatorTask, e.HibernationTaskName(), &druidv1alpha1.EtcdOperatorTask{}},
		{druidv1alpha1.KindEtcdOperatorTask, e.CollectionTaskName(), &druidv1alpha1.EtcdOperatorTask{}},
	}
}

func (r *Reconciler) read(ctx context.Context, o *Observed, kind, name string, into client.Object) error {
	err := r.cache.Get(ctx, types.NamespacedName{Namespace: o.Etcd.Namespace, Name: name}, into, &client.GetOptions{UnsafeDisableDeepCopy: yes()})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("read %s %s: %w", kind, name, err)
	}
	o.Live[Key{kind, name}] = into
	return nil
}

func yes() *bool { b := true; return &b }

// pod is the pod with the ordinal, or nil.
func (o *Observed) pod(ordinal int) *corev1.Pod {
	name := o.Etcd.PodName(ordinal)
	for i := range o.Pods {
		if o.Pods[i].Name == name {
			return &o.Pods[i]
		}
	}
	return nil
}

// member is the EtcdMember with the ordinal, or nil.
func (o *Observed) member(ordinal int) *druidv1alpha1.EtcdMember {
	name := o.Etcd.MemberName(ordinal)
	for i := range o.Members {
		if o.Members[i].Name == name {
			return &o.Members[i]
		}
	}
	return nil
}

// replicas are those of the StatefulSet, 0 if there is none.
func (o *Observed) replicas() int32 {
	switch s := o.StatefulSet; {
	case s == nil:
		return 0
	case s.Spec.Replicas == nil:
		return 1
	default:
		return *s.Spec.Replicas
	}
}

// claimTemplate is that of the StatefulSet, nil if there is none.
func (o *Observed) claimTemplate() *corev1.PersistentVolumeClaim {
	if o.StatefulSet == nil || len(o.StatefulSet.Spec.VolumeClaimTemplates) == 0 {
		return nil
	}
	return &o.StatefulSet.Spec.VolumeClaimTemplates[0]
}

// keptTemplate is the claim template of the StatefulSet, which cannot be changed, if the specification
// would make another one; nil: it would not.
func (o *Observed) keptTemplate(e *druidv1alpha1.Etcd) *corev1.PersistentVolumeClaim {
	t := o.claimTemplate()
	if t == nil {
		return nil
	}
	class, size := "", resource.Quantity{}
	if c := e.Spec.StorageClass; c != nil {
		class = *c
	}
	if c := e.Spec.StorageCapacity; c != nil {
		size = *c
	}
	had := ""
	if c := t.Spec.StorageClassName; c != nil {
		had = *c
	}
	if t.Name == e.VolumeClaimTemplateName() && had == class && size.Cmp(t.Spec.Resources.Requests[corev1.ResourceStorage]) == 0 &&
		len(t.Labels)+len(t.Annotations) == 0 && slices.Equal(t.Spec.AccessModes, []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}) {
		return nil
	}
	return t
}

// claimOrdinal is whose volume claim it is by its name.
func (o *Observed) claimOrdinal(claim string) (int, bool) {
	template := o.Etcd.VolumeClaimTemplateName()
	if t := o.claimTemplate(); t != nil {
		template = t.Name
	}
	pod, ok := strings.CutPrefix(claim, template+"-")
	if !ok {
		return 0, false
	}
	return o.Etcd.PodOrdinal(pod)
}
