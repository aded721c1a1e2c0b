package cluster

import (
	"druid.internal/druid/internal/operator/desired"
	"druid.internal/druid/internal/operator/rollout"
)

// held is how many members and pods there are while that may not change, as the StatefulSet is made anew
// around its pods, or a claim goes of which only the pod holds the data.
func (s size) held() (rollout.ScaleStep, bool) {
	set := s.o.StatefulSet
	step := rollout.ScaleStep{Members: s.live.Members, Replicas: s.o.replicas(), PeerTLS: s.live.PeerTLS, PeerCertificates: s.tls || s.live.PeerTLS}
	top := int32(0)
	for _, p := range s.o.Pods {
		step.PeerCertificates = step.PeerCertificates || desired.HasPeerCertificates(p.Spec)
		if n, _ := s.o.Etcd.PodOrdinal(p.Name); p.DeletionTimestamp == nil && n < 100 {
			top = max(top, int32(n)+1)
		}
	}
	switch {
	case s.live.Members == 0:
		return step, false
	case set == nil && top > 0:
		// As many as there are: fewer would have the others deleted, which may still be members.
		step.Replicas, step.Reason = max(top, s.live.Members), "the pods get a StatefulSet again"
	case set != nil && set.DeletionTimestamp != nil:
		step.Reason, step.Waits = "the StatefulSet is made anew", "the former one to be gone"
	case set != nil && s.want > 0 && s.want < s.live.Members && s.goingClaim(s.want) != "":
		step.Reason, step.Waits = "fewer members are wanted", s.goingClaim(s.want)+" to be replaced, which is being deleted: delete its pod when all members are ready"
	case set != nil && s.want == 0 && !s.o.Etcd.BackupsEnabled() && len(s.o.Pods) > 0 && s.goingClaim(s.live.Members) != "":
		step.Reason, step.Waits = "no member is wanted, and without a store the data are on the volumes alone", s.goingClaim(s.live.Members)+" to be replaced, which is being deleted and would go with its pod"
	default:
		return step, false
	}
	return step, true
}

// goingClaim is a claim of one of the members that are to stay, the first n, which is deleted while its pod still
// has it.
func (s size) goingClaim(n int32) string {
	for i := range int(n) {
		if c := s.o.claimGoing(i); c != "" {
			return c
		}
	}
	return ""
}
