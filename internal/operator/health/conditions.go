package health

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

// decided are the conditions that this package decides, in the order in which they are shown.
var decided = [...]druidv1alpha1.ConditionType{
	druidv1alpha1.ConditionReady,
	druidv1alpha1.ConditionAllMembersReady,
	druidv1alpha1.ConditionAllMembersUpdated,
	druidv1alpha1.ConditionBackupReady,
	druidv1alpha1.ConditionBackupsProtected,
	druidv1alpha1.ConditionHibernationBackupProtected,
	druidv1alpha1.ConditionDataVolumesReady,
	druidv1alpha1.ConditionClusterIDMismatch,
	druidv1alpha1.ConditionQuorumLost,
	druidv1alpha1.ConditionBootstrappedWithExistingCluster,
}

// unattended are those of them that are decided without members as well: locks go on, and end.
var unattended = [...]druidv1alpha1.ConditionType{
	druidv1alpha1.ConditionAllMembersUpdated,
	druidv1alpha1.ConditionBackupsProtected,
	druidv1alpha1.ConditionHibernationBackupProtected,
}

// Conditions are the conditions that hold now, with the members that [Members] found. The times of
// one that did not change are those in the Etcd's status; lastTransitionTime changes with the
// status only. BackupReady is left out without a store, BackupsProtected and
// BootstrappedWithExistingCluster unless they are asked for, see [Merge].
//
// Of a cluster without members nothing is checked but how long backups are locked, and no pod is out of date: the other
// statuses stay what they were, and when members are there again, count from then. One whose members are to stop is looked at
// until they do.
func Conditions(o Observation, members []druidv1alpha1.EtcdMemberStatus, now time.Time) []druidv1alpha1.Condition {
	v := look(o, members, now)
	out := make([]druidv1alpha1.Condition, 0, len(decided))
	for _, of := range decided {
		before := druidv1alpha1.FindCondition(o.Etcd.Status.Conditions, of)
		f, applies := v.find(of)
		if !applies {
			continue
		}
		if o.expected() == 0 && !slices.Contains(unattended[:], of) {
			f = unclear(druidv1alpha1.ReasonNotChecked, "the cluster has no members (%s)", o.Etcd.NoMembers())
			if before != nil {
				f.status = before.Status
			}
		}
		c := druidv1alpha1.Condition{Type: of, Status: f.status, Reason: f.reason, Message: f.message}
		out = append(out, c.After(Former(o.Etcd.Status.Conditions, c), metav1.NewTime(now)))
	}
	return out
}

// Former is the condition of before from which one goes on that was found now; nil: there was none, or nobody looked for as long as it
// says, as there were no members.
func Former(before []druidv1alpha1.Condition, now druidv1alpha1.Condition) *druidv1alpha1.Condition {
	c := druidv1alpha1.FindCondition(before, now.Type)
	if c != nil && c.Reason == druidv1alpha1.ReasonNotChecked && now.Reason != c.Reason && c.Type != druidv1alpha1.ConditionBootstrappedWithExistingCluster {
		return nil
	}
	return c
}

// Merge puts what [Conditions] found in the place of what it found before, and keeps the conditions
// that others decide. Neither argument is changed.
func Merge(before, found []druidv1alpha1.Condition) []druidv1alpha1.Condition {
	out := append(make([]druidv1alpha1.Condition, 0, len(found)+len(before)), found...)
	for _, c := range before {
		if !slices.Contains(decided[:], c.Type) {
			out = append(out, c)
		}
	}
	return out
}

// finding is a condition without its times.
type finding struct {
	status  druidv1alpha1.ConditionStatus
	reason  string
	message string
}

func holds(reason, format string, args ...any) finding {
	return finding{druidv1alpha1.ConditionTrue, reason, fmt.Sprintf(format, args...)}
}

func fails(reason, format string, args ...any) finding {
	return finding{druidv1alpha1.ConditionFalse, reason, fmt.Sprintf(format, args...)}
}

func unclear(reason, format string, args ...any) finding {
	return finding{druidv1alpha1.ConditionUnknown, reason, fmt.Sprintf(format, args...)}
}

// view is an observation with its members.
type view struct {
	Observation
	members []druidv1alpha1.EtcdMemberStatus
	now     time.Time
	all     []int // the ordinals
}

func look(o Observation, members []druidv1alpha1.EtcdMemberStatus, now time.Time) view {
	return view{Observation: o, members: members, now: now, all: o.ordinals()}
}

// ordinals are those of the observation.
func (v view) ordinals() []int { return v.all }

// find decides a condition, and says whether it applies to this Etcd at all.
func (v view) find(of druidv1alpha1.ConditionType) (f finding, applies bool) {
	switch of {
	case druidv1alpha1.ConditionReady:
		return v.ready(), true
	case druidv1alpha1.ConditionAllMembersReady:
		return v.allReady(), true
	case druidv1alpha1.ConditionAllMembersUpdated:
		return v.allUpdated(), true
	case druidv1alpha1.ConditionBackupReady:
		return v.backup(), v.hasStore()
	case druidv1alpha1.ConditionBackupsProtected:
		return v.protected()
	case druidv1alpha1.ConditionHibernationBackupProtected:
		return v.hibernationProtected()
	case druidv1alpha1.ConditionDataVolumesReady:
		return v.volumes(), true
	case druidv1alpha1.ConditionClusterIDMismatch:
		return v.clusterIDs(), true
	case druidv1alpha1.ConditionQuorumLost:
		return v.quorumLost(), true
	case druidv1alpha1.ConditionBootstrappedWithExistingCluster:
		return v.bootstrapped(), v.Etcd.Spec.Etcd.BootstrapWithExistingCluster != nil || v.Etcd.Status.BootstrapWithExistingCluster != nil
	}
	return finding{}, false
}

// status of a member, nil if its Lease was never renewed.
func (v view) status(ordinal int) *druidv1alpha1.EtcdMemberStatus {
	return named(v.members, v.Etcd.MemberName(ordinal), func(s *druidv1alpha1.EtcdMemberStatus) string { return s.Name })
}

// those are the ordinals of members for which it is so.
func (v view) those(is func(ordinal int, s *druidv1alpha1.EtcdMemberStatus) bool) (out []int) {
	for _, i := range v.ordinals() {
		if is(i, v.status(i)) {
			out = append(out, i)
		}
	}
	return out
}

// quorum of so many members.
func quorum(size int) int { return size/2 + 1 }

// MinAvailable is how many pods of so many must stay when a node is drained: a majority while the
// cluster is healthy and what it acknowledged is in the bucket, or would be if there were one; else
// all. A single pod may go, as a node could never be drained otherwise.
func MinAvailable(replicas int32, healthy, backedUp bool) int32 {
	switch {
	case replicas <= 1:
		return 0
	case healthy && backedUp:
		return replicas/2 + 1
	}
	return replicas
}
