package health

import (
	"fmt"
	"slices"
	"strings"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

// working says that a member counts for the quorum. One whose Lease has expired while its pod is
// ready does, until it is given up: its sidecar may only have lost the API server.
func working(s *druidv1alpha1.EtcdMemberStatus) bool {
	return s != nil && s.Status != druidv1alpha1.EtcdMemberStatusNotReady
}

// working members that vote, and those that should and do not.
func (v view) working() (yes, no []int) {
	for _, i := range v.ordinals() {
		switch {
		case v.joining(i):
		case working(v.status(i)):
			yes = append(yes, i)
		default:
			no = append(no, i)
		}
	}
	return yes, no
}

// ready counts against the size of the cluster and not against the members that reported: one of
// three is no quorum, even if nothing was ever heard of the others.
func (v view) ready() finding {
	yes, no := v.working()
	size := v.size()
	switch {
	case len(v.members) == 0:
		return unclear(druidv1alpha1.ReasonNoMembersYet, "no member works yet; %s", v.why(no))
	case size == 0: // of a cluster outside that they join
		return unclear(druidv1alpha1.ReasonNoMembersYet, "no member votes yet; %s", v.why(v.ordinals()))
	case len(yes) < quorum(size):
		return fails(druidv1alpha1.ReasonQuorumLost, "members that work: %d of %d, %d are needed; %s", len(yes), size, quorum(size), v.why(no))
	case len(no) > 0:
		return holds(druidv1alpha1.ReasonQuorate, "members that work: %d of %d; %s", len(yes), size, v.why(no))
	}
	return holds(druidv1alpha1.ReasonQuorate, "members that work: %d of %d%s", size, size, v.alarms())
}

// alarms are those of etcds, which serve nonetheless.
func (v view) alarms() string {
	var out []string
	for _, i := range v.ordinals() {
		if m := v.member(i); m != nil && len(m.Status.Alarms) > 0 {
			out = append(out, m.Name+" raised "+strings.Join(m.Status.Alarms, " and "))
		}
	}
	if len(out) == 0 {
		return ""
	}
	return "; " + strings.Join(out, "; ")
}

func (v view) allReady() finding {
	ready := v.those(func(i int, s *druidv1alpha1.EtcdMemberStatus) bool {
		return i < v.expected() && !v.joining(i) && s != nil && s.Status == druidv1alpha1.EtcdMemberStatusReady
	})
	rest := v.those(func(i int, _ *druidv1alpha1.EtcdMemberStatus) bool {
		return i < v.expected() && !slices.Contains(ready, i)
	})
	if len(rest) == 0 {
		return holds(druidv1alpha1.ReasonAllMembersReady, "members that are ready: %d of %d%s", v.expected(), v.expected(), v.alarms())
	}
	return fails(v.unreadyReason(rest), "members that are ready: %d of %d; %s", len(ready), v.expected(), v.why(rest))
}

// unreadyReason is the first cause that is known of one of the members.
func (v view) unreadyReason(ordinals []int) string {
	for _, i := range ordinals {
		if reason, _ := podTrouble(v.pod(i)); reason != "" {
			return reason
		}
	}
	for _, i := range ordinals {
		if m := v.member(i); m != nil && m.Status.Waiting != "" {
			return druidv1alpha1.ReasonMemberWaiting
		}
	}
	return druidv1alpha1.ReasonNotAllMembersReady
}

// quorumLost is true when those who are given up leave no majority: then it does not come back by
// itself.
func (v view) quorumLost() finding {
	yes, no := v.working()
	size := v.size()
	var gone, say []int
	for _, i := range no {
		if s := v.status(i); s != nil && s.Reason == druidv1alpha1.ReasonUnknownGracePeriodExceeded {
			gone = append(gone, i)
		}
		// A sidecar says so after it asked all others. It counts while the cluster has no majority:
		// what a member said last stays when it ends.
		if m := v.member(i); m != nil && len(m.Status.Transitions) > 0 && m.Status.Transitions[len(m.Status.Transitions)-1].Reason == druidv1alpha1.MemberReasonQuorumLost {
			say = append(say, i)
		}
	}
	switch {
	case len(v.members) > 0 && size == 0:
		return unclear(druidv1alpha1.ReasonNoMembersYet, "no member votes yet")
	case len(yes) >= quorum(size):
		return fails(druidv1alpha1.ReasonQuorate, "members that work: %d of %d", len(yes), size)
	case len(say) > 0:
		return holds(druidv1alpha1.ReasonQuorumLost, "of %d members a majority has lost its data, and some member has any: a person decides; %s", size, v.why(say))
	case len(v.members) == 0:
		return unclear(druidv1alpha1.ReasonNoMembersYet, "no member has reported yet")
	case size-len(gone) < quorum(size):
		return holds(druidv1alpha1.ReasonQuorumLost, "members that are gone: %d of %d, for longer than the thresholds allow: bring back their nodes or volumes, or restore the backup; %s", len(gone), size, v.why(gone))
	}
	return unclear(druidv1alpha1.ReasonQuorumMayReturn, "members that work: %d of %d, %d are needed, and the others may come back; %s", len(yes), size, quorum(size), v.why(no))
}

// clusterIDs compares the members that are ready. What others said last may be of data that they
// have given up since.
func (v view) clusterIDs() finding {
	by := map[string][]string{}
	for i := range v.members {
		s := &v.members[i]
		n, ours := v.Etcd.MemberOrdinal(s.Name)
		if !ours || s.Status != druidv1alpha1.EtcdMemberStatusReady {
			continue
		}
		if id := v.clusterID(n); id != "" {
			by[id] = append(by[id], s.Name)
		}
	}
	switch len(by) {
	case 0:
		return unclear(druidv1alpha1.ReasonClusterIDsNotKnown, "no ready member says which cluster it is of")
	case 1:
		return fails(druidv1alpha1.ReasonClusterIDsMatch, "the ready members are of one cluster")
	}
	var parts []string
	for id, names := range by {
		parts = append(parts, fmt.Sprintf("%s of cluster %s", strings.Join(names, " and "), id))
	}
	slices.Sort(parts)
	return holds(druidv1alpha1.ReasonClusterIDsDiffer, "members are of different clusters: %s; find out which has the right data before anything else, no member may be removed by guess", strings.Join(parts, ", "))
}

// clusterID is what the Lease says, else the EtcdMember, with sixteen digits.
func (v view) clusterID(ordinal int) string {
	id, _ := identity(v.lease(ordinal))
	if m := v.member(ordinal); id.ClusterID == "" && m != nil && m.Status.ClusterID != nil {
		id.ClusterID = *m.Status.ClusterID
	}
	text := strings.ToLower(id.ClusterID)
	if !hexadecimal(text) {
		return ""
	}
	if text = strings.TrimLeft(text, "0"); text == "" {
		return "" // 0 is none
	}
	return strings.Repeat("0", max(0, 16-len(text))) + text
}
