package health

import (
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

// templateUnseen is said of a StatefulSet whose pods cannot be compared with its template yet.
const templateUnseen = "the StatefulSet's controller has not seen the newest template yet"

// TemplateChanged is what holds of the conditions that were found when the StatefulSet was changed after
// that: no pod is known to be of the newest template. before are those of the Etcd's status. Neither is changed.
func TemplateChanged(found, before []druidv1alpha1.Condition, now time.Time) []druidv1alpha1.Condition {
	const of = druidv1alpha1.ConditionAllMembersUpdated
	var one []druidv1alpha1.Condition
	if was := druidv1alpha1.FindCondition(before, of); was != nil {
		one = append(one, *was)
	}
	one = druidv1alpha1.SetCondition(one, druidv1alpha1.Condition{
		Type: of, Status: druidv1alpha1.ConditionFalse, Reason: druidv1alpha1.ReasonNotAllMembersUpdated, Message: templateUnseen,
	}, metav1.NewTime(now))
	out := slices.Clone(found)
	if c := druidv1alpha1.FindCondition(out, of); c != nil {
		*c = one[0]
	}
	return out
}

// allUpdated compares the pods with the StatefulSet's newest revision themselves: a StatefulSet
// that replaces no pods by itself does not tell when the last one was replaced.
func (v view) allUpdated() finding {
	s := v.StatefulSet
	switch {
	case v.expected() == 0: // those of its next life begin with the newest template
		return holds(druidv1alpha1.ReasonAllMembersUpdated, "the cluster has no members (%s)", v.Etcd.NoMembers())
	case s == nil:
		return unclear(druidv1alpha1.ReasonNotReconciled, "there is no StatefulSet yet")
	case s.Status.ObservedGeneration < s.Generation || s.Status.UpdateRevision == "":
		return fails(druidv1alpha1.ReasonNotAllMembersUpdated, templateUnseen)
	case int(replicasOf(s)) != v.expected():
		return fails(druidv1alpha1.ReasonNotAllMembersUpdated, "pods at the moment: %d, wanted: %d", replicasOf(s), v.expected())
	}
	var missing, former []string
	for i := range v.expected() {
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
	return holds(druidv1alpha1.ReasonAllMembersUpdated, "pods that have the newest template: %d of %d", v.expected(), v.expected())
}
