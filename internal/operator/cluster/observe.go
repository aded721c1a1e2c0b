package cluster

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	// ClaimsOf is another Etcd whose volume claims have the names that those of this one would have: template, name and ordinal with
	// dashes between them, which each may have in itself. Empty: there is none.
	ClaimsOf string
	// TokenFault: it is ours, and what somebody wrote into it is no token; why.
	TokenFault string
	// MissingSecrets are those that the specification names and that are not there, LackingSecrets those
	// without a key that they must have, FaultySecrets those that hold what cannot be used. They are looked for only while
	// a pod does not get ready.
	MissingSecrets []druidv1alpha1.SecretUse
	LackingSecrets []LackingSecret
	FaultySecrets  []FaultySecret
	// CertificateFault is why members could not reach each other with the certificates for peers, looked for
	// only before they do.
	CertificateFault string

	// Early: what the operator did a moment ago is not known yet, or the sidecars have not answered yet, so the next pass comes in
	// so long. The rest was not observed.
	Early time.Duration

	// heard is when the Leases were read from the API server.
	heard time.Time

	// Classes are the StorageClasses of claims about which something is to be done, nil: it does not
	// exist. The others are not looked for.
	Classes map[string]*storagev1.StorageClass

	// Asked: the sidecars were asked; Sidecars are those that answered, by ordinal.
	Asked    bool
	Sidecars map[int]agentapi.Member
	Unasked  string // why none could be asked; empty: they could

	// CollectionTaken: somebody else's task has the name of the one that collects.
	CollectionTaken bool

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

// FaultySecret is a Secret that does not serve the field that names it for what it holds.
type FaultySecret struct {
	druidv1alpha1.SecretUse
	Why string
}

// Key is an object of one Etcd: they are all in its namespace.
type Key struct{ Kind, Name string }

func (k Key) String() string { return k.Kind + " " + k.Name }

// usually is how many objects belong to an Etcd by their names, of three members.
const usually = 16

// observe reads everything about an Etcd that the cache holds. It asks nobody.
func (r *Reconciler) observe(e *druidv1alpha1.Etcd) (*Observed, error) {
	o := &Observed{Observation: health.Observation{Etcd: e}, Live: make(map[Key]client.Object, usually)}
	if err := o.readNamed(r.stores); err != nil {
		return nil, err
	}
	for _, name := range []string{e.HibernationTaskName(), e.CollectionTaskName()} {
		if t, there := o.Live[Key{druidv1alpha1.KindEtcdOperatorTask, name}]; there && !metav1.IsControlledBy(t, e) {
			delete(o.Live, Key{druidv1alpha1.KindEtcdOperatorTask, name}) // somebody else's of that name is none
			o.CollectionTaken = o.CollectionTaken || name == e.CollectionTaskName()
		}
	}
	if t, ok := o.Live[Key{druidv1alpha1.KindEtcdOperatorTask, e.HibernationTaskName()}].(*druidv1alpha1.EtcdOperatorTask); ok {
		if err := r.extensions(o, t); err != nil {
			return nil, err
		}
	}
	if err := r.otherExtension(o); err != nil {
		return nil, err
	}
	o.listen(r.heartbeats.last(e))
	return o, o.readParts(r.stores)
}

// readNamed reads the objects of which an Etcd has one each.
func (o *Observed) readNamed(s stores) error {
	e := o.Etcd
	return errors.Join(
		read[*appsv1.StatefulSet](o, s, "StatefulSet", e.StatefulSetName(), func(set *appsv1.StatefulSet) { o.StatefulSet = set }),
		read[*corev1.ConfigMap](o, s, "ConfigMap", e.ConfigMapName(), func(c *corev1.ConfigMap) { o.ConfigMap = c }),
		read[*policyv1.PodDisruptionBudget](o, s, "PodDisruptionBudget", e.PodDisruptionBudgetName(), nil),
		read[*corev1.Service](o, s, "Service", e.ClientServiceName(), nil),
		read[*corev1.Service](o, s, "Service", e.PeerServiceName(), nil),
		read[*corev1.ServiceAccount](o, s, "ServiceAccount", e.ServiceAccountName(), nil),
		read[*rbacv1.Role](o, s, "Role", e.RoleName(), nil),
		read[*rbacv1.RoleBinding](o, s, "RoleBinding", e.RoleBindingName(), nil),
		read[*druidv1alpha1.EtcdOperatorTask](o, s, druidv1alpha1.KindEtcdOperatorTask, e.HibernationTaskName(), nil),
		read[*druidv1alpha1.EtcdOperatorTask](o, s, druidv1alpha1.KindEtcdOperatorTask, e.CollectionTaskName(), nil),
	)
}

// read reads one of them, and takes note of it.
func read[T client.Object](o *Observed, s stores, kind, name string, note func(T)) error {
	object, there, err := named[T](s, o.Etcd.Namespace, name)
	if err != nil || !there {
		return err
	}
	if o.Live[Key{kind, name}] = object; note != nil {
		note(object)
	}
	return nil
}

// readParts reads the objects of which an Etcd has one for each member.
func (o *Observed) readParts(s stores) error {
	e := o.Etcd
	members, membersErr := partsOf[*druidv1alpha1.EtcdMember](s, e.Namespace, e.Name)
	pods, podsErr := partsOf[*corev1.Pod](s, e.Namespace, e.Name)
	claims, claimsErr := partsOf[*corev1.PersistentVolumeClaim](s, e.Namespace, e.Name)
	o.Members, o.Pods, o.Claims = make([]druidv1alpha1.EtcdMember, 0, len(members)), make([]*corev1.Pod, 0, len(pods)), make([]*corev1.PersistentVolumeClaim, 0, len(claims))
	for _, m := range members {
		if _, ours := e.MemberOrdinal(m.Name); ours {
			o.Members = append(o.Members, *m)
		}
		o.Live[Key{druidv1alpha1.KindEtcdMember, m.Name}] = m
	}
	for _, p := range pods {
		if _, ours := e.PodOrdinal(p.Name); ours && p.Labels[druidv1alpha1.LabelComponent] == druidv1alpha1.ComponentStatefulSet {
			o.Pods = append(o.Pods, p)
		}
	}
	if o.StatefulSet == nil {
		o.ClaimName = o.claimName(claims)
	}
	for _, c := range claims {
		if _, ours := o.claimOrdinal(c.Name); ours {
			o.Claims = append(o.Claims, c)
		}
	}
	var err error
	o.ClaimsOf, err = claimsOf(s, e)
	return errors.Join(membersErr, podsErr, claimsErr, err)
}

// claimsOf is the other Etcd whose volume claims have the names that those of this one would have; empty: there is none.
func claimsOf(s stores, e *druidv1alpha1.Etcd) (string, error) {
	name := e.VolumeClaimName(0)
	c, there, err := named[*corev1.PersistentVolumeClaim](s, e.Namespace, name)
	if err != nil || !there {
		return "", err
	}
	owner := c.Labels[druidv1alpha1.LabelPartOf]
	if owner == druidv1alpha1.LabelValue(e.Name) {
		return "", nil
	}
	// A label that somebody changed names nobody, or somebody with other claims.
	all, err := inNamespace[*druidv1alpha1.Etcd](s, e.Namespace)
	for _, other := range all {
		if other.UID != e.UID && owner == druidv1alpha1.LabelValue(other.Name) && other.VolumeClaimName(0) == name {
			return other.Name, nil
		}
	}
	return "", err
}

// listen has the Leases be those that were heard.
func (o *Observed) listen(h heard) {
	for i := range o.Leases {
		delete(o.Live, Key{kindLease, o.Leases[i].Name})
	}
	o.Leases, o.heard = make([]coordinationv1.Lease, 0, len(h.leases)), h.at
	for _, l := range h.leases {
		if _, ours := o.Etcd.MemberOrdinal(l.Name); ours {
			o.Leases = append(o.Leases, *l)
		}
		o.Live[Key{kindLease, l.Name}] = l
	}
}

// extensions reads the pods of the task that prolongs locks.
func (r *Reconciler) extensions(o *Observed, t *druidv1alpha1.EtcdOperatorTask) error {
	o.Extension = t
	pods, err := partsOf[*corev1.Pod](r.stores, t.Namespace, druidv1alpha1.LabelValue(t.Name))
	for _, p := range pods {
		if p.Labels[druidv1alpha1.LabelComponent] == druidv1alpha1.ComponentExtensionJob {
			o.ExtensionPods = append(o.ExtensionPods, p)
		}
	}
	return err
}

// pod is the pod with the ordinal, or nil.
func (o *Observed) pod(ordinal int) *corev1.Pod {
	name := o.Etcd.PodName(ordinal)
	for i := range o.Pods {
		if o.Pods[i].Name == name {
			return o.Pods[i]
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
	if t == nil && o.ClaimName != "" {
		t := desired.ClaimTemplate(e)
		t.Name = o.ClaimName
		return &t
	}
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

// claimName finds [health.Observation.ClaimName]: by what the pods have mounted, and without pods by the claims that the StatefulSet of an Etcd which was
// looked at before has left. Those of a former Etcd of this name are not taken for it: whoever makes one with another name wants others.
func (o *Observed) claimName(claims []*corev1.PersistentVolumeClaim) string {
	e := o.Etcd
	other := func(claim, pod string) string {
		if name, ours := strings.CutSuffix(claim, "-"+pod); ours && name != e.VolumeClaimTemplateName() {
			return name
		}
		return ""
	}
	for _, p := range o.Pods {
		for _, v := range p.Spec.Volumes {
			if v.PersistentVolumeClaim == nil {
				continue
			}
			if name := other(v.PersistentVolumeClaim.ClaimName, p.Name); name != "" {
				return name
			}
		}
	}
	if len(o.Pods) > 0 || e.Status.ObservedGeneration == nil {
		return ""
	}
	found := ""
	for _, c := range claims {
		if c.Labels[druidv1alpha1.LabelManagedBy] != druidv1alpha1.ManagedBy || c.CreationTimestamp.Before(&e.CreationTimestamp) {
			continue
		}
		at := strings.LastIndex(c.Name, "-")
		n, err := strconv.Atoi(c.Name[at+1:])
		switch {
		case at < 0 || err != nil || n < 0:
		case c.Name == e.VolumeClaimName(n):
			return "" // as the specification has it
		default:
			found = cmp.Or(found, other(c.Name, e.PodName(n)))
		}
	}
	return found
}

// claimOrdinal is whose volume claim it is by its name.
func (o *Observed) claimOrdinal(claim string) (int, bool) {
	pod, ok := strings.CutPrefix(claim, o.ClaimTemplateName()+"-")
	if !ok {
		return 0, false
	}
	return o.Etcd.PodOrdinal(pod)
}
