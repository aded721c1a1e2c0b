package adoption

import (
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/agentapi"
)

// Found is what the original left, as the API server has it.
type Found struct {
	Etcd        *druidv1alpha1.Etcd
	StatefulSet *appsv1.StatefulSet
	ConfigMap   *corev1.ConfigMap // nil: there is none
	// Pods and Claims are those of the StatefulSet, whatever labels they have.
	Pods   []*corev1.Pod
	Claims []*corev1.PersistentVolumeClaim
	// Leases are the heartbeats of snapshots, which ours do not have: they are found by their labels when the last pod of the original
	// has gone, and removed.
	Leases []client.Object
	// Members are what the members' etcds said, by ordinal; who did not answer is left out.
	Members map[int]agentapi.Member
}

// Verdict is what is done about it.
type Verdict struct {
	// Refused is why the cluster is not taken over, each with the way out. Nothing is touched then.
	Refused []string
	// Relabel are pods, claims and Leases as they shall be: with the labels by which the new StatefulSet
	// and the operator find them. The Services find the pods by them too, so all have them before anything else is
	// changed.
	Relabel []client.Object
	// Replace are the fields because of which the StatefulSet has to be made anew around its pods;
	// empty: it is changed in place.
	Replace []string
}

// Judge says what is done about the objects of the original. It depends on its argument alone.
func Judge(f Found) Verdict {
	var v Verdict
	l := readLayout(f.ConfigMap)
	for _, r := range rules {
		v.Refused = append(v.Refused, r.against(f, l)...)
	}
	if len(v.Refused) > 0 {
		return v
	}
	v.Replace = immutable(f.Etcd, f.StatefulSet)
	v.Relabel = unlabelled(f)
	return v
}

// immutable are the fields of the StatefulSet that are not as they shall be and that the API server lets
// nobody change. The templates of the claims are none of them: those that exist stay in force.
func immutable(e *druidv1alpha1.Etcd, s *appsv1.StatefulSet) (fields []string) {
	sel := s.Spec.Selector
	if sel == nil || len(sel.MatchExpressions) > 0 || !maps.Equal(sel.MatchLabels, e.SelectorLabels()) {
		fields = append(fields, "selector")
	}
	if s.Spec.ServiceName != e.PeerServiceName() {
		fields = append(fields, "serviceName")
	}
	if s.Spec.PodManagementPolicy != appsv1.ParallelPodManagement {
		fields = append(fields, "podManagementPolicy")
	}
	return fields
}

// unlabelled are the pods, claims and Leases that lack labels, as they shall be.
func unlabelled(f Found) (all []client.Object) {
	for i := range f.Pods {
		if lacks(f.Pods[i].Labels, f.Etcd.MemberPodLabels()) {
			all = append(all, labelled(f.Pods[i].DeepCopy(), f.Etcd.MemberPodLabels()))
		}
	}
	for i := range f.Claims {
		if lacks(f.Claims[i].Labels, f.Etcd.SelectorLabels()) {
			all = append(all, labelled(f.Claims[i].DeepCopy(), f.Etcd.SelectorLabels()))
		}
	}
	ours := map[string]string{druidv1alpha1.LabelManagedBy: druidv1alpha1.ManagedBy, druidv1alpha1.LabelPartOf: druidv1alpha1.LabelValue(f.Etcd.Name)}
	for _, l := range f.Leases {
		if lacks(l.GetLabels(), ours) {
			all = append(all, labelled(l.DeepCopyObject().(client.Object), ours))
		}
	}
	return all
}

func lacks(has, want map[string]string) bool {
	return slices.ContainsFunc(slices.Collect(maps.Keys(want)), func(k string) bool { return has[k] != want[k] })
}

func labelled(o client.Object, labels map[string]string) client.Object {
	all := maps.Clone(o.GetLabels())
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, labels)
	o.SetLabels(all)
	return o
}
