package health

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

// allUpdated compares the pods with the StatefulSet's newest revision themselves: a StatefulSet
// that replaces no pods by itself does not tell when the last one was replaced.
func (v view) allUpdated() finding {
	s := v.StatefulSet
	switch {
	case s == nil:
		return unclear(druidv1alpha1.ReasonNotReconciled, "there is no StatefulSet yet")
	case s.Status.ObservedGeneration < s.Generation || s.Status.UpdateRevision == "":
		return fails(druidv1alpha1.ReasonNotAllMembersUpdated, "the StatefulSet's controller has not seen the newest template yet")
	case int(replicasOf(s)) != v.wanted():
		return fails(druidv1alpha1.ReasonNotAllMembersUpdated, "pods at the moment: %d, wanted: %d", replicasOf(s), v.wanted())
	}
	var missing, former []string
	for i := range v.wanted() {
		switch p := v.pod(i); {
		case p == nil || p.DeletionTimestamp != nil:
			missing = append(missing, v.Etcd.PodName(i))
		case p.Labels[appsv1.ControllerRevisionHashLabelKey] != s.Status.UpdateRevision:
			former = append(former, v.Etcd.PodName(i))
		}
	}
	switch {
	case len(former) > 0 && v.RolloutWaits != "":
		return fails(druidv1alpha1.ReasonRolloutWaiting, "pods with a former template: %s; %s", strings.Join(former, ", "), v.RolloutWaits)
	case len(former) > 0:
		return fails(druidv1alpha1.ReasonNotAllMembersUpdated, "pods with a former template: %s", strings.Join(former, ", "))
	case len(missing) > 0:
		return fails(druidv1alpha1.ReasonNotAllMembersUpdated, "pods that do not exist: %s", strings.Join(missing, ", "))
	}
	return holds(druidv1alpha1.ReasonAllMembersUpdated, "pods that have the newest template: %d of %d", v.wanted(), v.wanted())
}
