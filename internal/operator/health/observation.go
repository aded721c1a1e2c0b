package health

import (
	"cmp"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

// Observation is what was seen of a cluster. Objects of others in it are ignored.
type Observation struct {
	Etcd        *druidv1alpha1.Etcd // its status is what was found before
	StatefulSet *appsv1.StatefulSet // nil: there is none
	Pods        []*corev1.Pod
	Leases      []coordinationv1.Lease
	Members     []druidv1alpha1.EtcdMember
	Claims      []*corev1.PersistentVolumeClaim
	ClaimEvents []corev1.Event
	SetEvents   []corev1.Event // warnings about the StatefulSet, while it makes too few pods

	// ClaimName is what the volume claims of the members are called before the name of the pod, if there is no StatefulSet that says so
	// and it is not what the specification has: one of the original, or of a former specification, had another name. Empty: it is.
	ClaimName string

	// Extension is the task that keeps the newest backup locked while the cluster is hibernated, nil: there is none;
	// ExtensionPods are those of its Jobs.
	Extension     *druidv1alpha1.EtcdOperatorTask
	ExtensionPods []*corev1.Pod
	// NoExtension is why there is no such task, and none is made; empty: one is as soon as it is needed.
	NoExtension string

	// RolloutWaits is why no pod with a former template is replaced at the moment. Empty: one is, or
	// there is none.
	RolloutWaits string
	// Volumes is what is done about the volumes at the moment.
	Volumes VolumeNote
}

// VolumeNote is what is done about the volumes; the zero value is nothing.
type VolumeNote struct {
	// Reason of DataVolumesReady: VolumeResizing or VolumeCannotBeResized. Empty: it is about a volume
	// that a member cannot work with.
	Reason string
	Text   string // for people
}

// Thresholds say when a member whose Lease is not renewed does not work.
type Thresholds struct {
	Unknown  time.Duration // after which a Lease is expired
	NotReady time.Duration // after which, from then on, its member is given up
}

// DefaultThresholds are those of the original.
func DefaultThresholds() Thresholds {
	return Thresholds{Unknown: time.Minute, NotReady: 5 * time.Minute}
}

// wanted is how many members the specification wants.
func (o Observation) wanted() int { return int(o.Etcd.WantedMembers()) }

// expected is how many members there shall be at the moment: as many as wanted or, while none is wanted and they
// have not been stopped for that, which may be held or wait for somebody to ask for it, as many as have pods.
func (o Observation) expected() int {
	switch {
	case o.wanted() > 0:
		return o.wanted()
	case o.StatefulSet != nil:
		return int(replicasOf(o.StatefulSet))
	}
	n := 0 // the StatefulSet is made anew around them
	for i := range o.Pods {
		if p, ours := o.Etcd.PodOrdinal(o.Pods[i].Name); ours {
			n = max(n, p+1)
		}
	}
	return n
}

// ordinals are those of the expected members, and of those that are to leave but have not left: the
// operator deletes the EtcdMember of a member when etcd does not list it any more.
func (o Observation) ordinals() []int {
	var out []int
	for i := range o.expected() {
		out = append(out, i)
	}
	for i := range o.Members {
		if n, ours := o.Etcd.MemberOrdinal(o.Members[i].Name); ours && n >= o.expected() && started(&o.Members[i]) {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// size is how many members vote, or would if all wanted ones worked. New members of a cluster that
// grows count once they vote: until then the cluster has a quorum without them.
func (o Observation) size() int {
	n := 0
	for _, i := range o.ordinals() {
		if !o.joining(i) {
			n++
		}
	}
	return n
}

// ClaimTemplateName is what the volume claims of the members are called, before the name of the pod.
func (o Observation) ClaimTemplateName() string {
	if o.StatefulSet != nil && len(o.StatefulSet.Spec.VolumeClaimTemplates) > 0 {
		return o.StatefulSet.Spec.VolumeClaimTemplates[0].Name
	}
	return cmp.Or(o.ClaimName, o.Etcd.VolumeClaimTemplateName())
}

// joining says that a member is wanted, but is known not to vote yet: it is new, or it lost its data and receives them from the others.
func (o Observation) joining(ordinal int) bool {
	if m := o.member(ordinal); m != nil {
		_, learner := m.Annotations[druidv1alpha1.AnnotationCreateAsLearner]
		return learner && !started(m) || m.Status.SubState == druidv1alpha1.MemberLearner
	}
	// The operator has not come to it yet.
	return len(o.Members) > 0 && o.StatefulSet != nil && ordinal >= int(replicasOf(o.StatefulSet))
}

func started(m *druidv1alpha1.EtcdMember) bool {
	return m.Status.State == druidv1alpha1.MemberStarted
}

func replicasOf(s *appsv1.StatefulSet) int32 {
	if s.Spec.Replicas == nil {
		return 1
	}
	return *s.Spec.Replicas
}

func (o Observation) member(ordinal int) *druidv1alpha1.EtcdMember {
	return named(o.Members, o.Etcd.MemberName(ordinal), func(m *druidv1alpha1.EtcdMember) string { return m.Name })
}

func (o Observation) pod(ordinal int) *corev1.Pod {
	return pointed(o.Pods, o.Etcd.PodName(ordinal))
}

func (o Observation) lease(ordinal int) *coordinationv1.Lease {
	return named(o.Leases, o.Etcd.MemberLeaseName(ordinal), func(l *coordinationv1.Lease) string { return l.Name })
}

// named is the object with the name, or nil.
func named[T any](all []T, name string, of func(*T) string) *T {
	for i := range all {
		if of(&all[i]) == name {
			return &all[i]
		}
	}
	return nil
}

// pointed is the object with the name, or nil.
func pointed[T interface {
	*O
	GetName() string
}, O any](all []T, name string) T {
	for _, o := range all {
		if o.GetName() == name {
			return o
		}
	}
	return nil
}
