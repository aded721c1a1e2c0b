package health

import (
	"strings"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

// bootstrapped is true when every member votes in the cluster outside and is healthy. It stays true
// then, whatever becomes of the members.
func (v view) bootstrapped() finding {
	done, spec := v.Etcd.Status.BootstrapWithExistingCluster, v.Etcd.Spec.Etcd.BootstrapWithExistingCluster
	switch {
	case done == nil && spec == nil:
		return finding{} // it does not apply
	case done != nil && spec == nil:
		return holds(druidv1alpha1.ReasonBootstrapCompleted, "all members had joined the cluster at %s; members outside that were left in it are removed by the sidecars, one at a time", at(done.JoinedAt.Time))
	case done != nil:
		return holds(druidv1alpha1.ReasonBootstrapCompleted, "all members had joined the cluster at %s; %s", at(done.JoinedAt.Time), next(spec))
	}
	var rest []int
	for i := range v.expected() {
		if s, m := v.status(i), v.member(i); s == nil || s.Status != druidv1alpha1.EtcdMemberStatusReady || m == nil || !started(m) {
			rest = append(rest, i)
		}
	}
	if len(rest) == 0 {
		return holds(druidv1alpha1.ReasonBootstrapCompleted, "all members have joined the cluster; %s", next(spec))
	}
	return fails(druidv1alpha1.ReasonBootstrapInProgress, "members that have joined the cluster and vote: %d of %d, one after the other; %s", v.expected()-len(rest), v.expected(), v.why(rest))
}

// next is what is to be done by people when all members have joined.
func next(b *druidv1alpha1.BootstrapWithExistingCluster) string {
	var names []string
	for _, m := range b.Members {
		names = append(names, m.Name)
	}
	return "next: have the clients use these members, remove " + strings.Join(names, ", ") + " from the cluster one after the other (etcdctl member remove), " +
		"then remove spec.etcd.bootstrapWithExistingCluster: members outside that are still in the cluster then are removed by the sidecars, " +
		"and as long as it is there no backup is restored"
}
