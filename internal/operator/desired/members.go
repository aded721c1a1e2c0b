package desired

import (
	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	coordinationv1 "k8s.io/api/coordination/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// memberLease is empty: the member's sidecar writes who holds it and since when.
func memberLease(e *druidv1alpha1.Etcd, ordinal int) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		TypeMeta:   typeMeta("coordination.k8s.io/v1", "Lease"),
		ObjectMeta: meta(e, druidv1alpha1.ComponentMemberLease, e.MemberLeaseName(ordinal)),
	}
}

// member has no status: the member's sidecar writes it.
func member(e *druidv1alpha1.Etcd, ordinal int) *druidv1alpha1.EtcdMember {
	m := &druidv1alpha1.EtcdMember{
		TypeMeta:   typeMeta(druidv1alpha1.GroupVersion().String(), druidv1alpha1.KindEtcdMember),
		ObjectMeta: meta(e, druidv1alpha1.ComponentMember, e.MemberName(ordinal)),
	}
	m.Labels = e.MemberLabels(ordinal)
	return m
}

// podDisruptionBudget counts the members' pods only: a Job's pod is no vote.
func podDisruptionBudget(in Input) *policyv1.PodDisruptionBudget {
	e := in.Etcd
	available := intstr.FromInt32(in.MinAvailable)
	b := &policyv1.PodDisruptionBudget{
		TypeMeta:   typeMeta("policy/v1", "PodDisruptionBudget"),
		ObjectMeta: meta(e, druidv1alpha1.ComponentPodDisruptionBudget, e.PodDisruptionBudgetName()),
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: &available,
			Selector:     &metav1.LabelSelector{MatchLabels: e.MemberPodLabels()},
		},
	}
	if e.UnhealthyPodEvictionAllowed() {
		always := policyv1.AlwaysAllow
		b.Spec.UnhealthyPodEvictionPolicy = &always
	}
	return b
}
