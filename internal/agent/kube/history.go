package kube

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/agentapi"
)

// since continues what the sidecar's earlier life said with what is known in this one. Before is
// always the same status, the one that stood there when this life began, so that nothing is counted
// twice.
func since(before, now druidv1alpha1.MemberReport) druidv1alpha1.MemberReport {
	if now.ID == nil {
		now.ID = before.ID
	}
	if now.ClusterID == nil {
		now.ClusterID = before.ClusterID
	}
	started := stateOf(now.Transitions) == druidv1alpha1.MemberStarted
	now.VolumeMismatches = allMismatches(before.VolumeMismatches, now, started)
	now.LastRestoration = lastRestoration(before.LastRestoration, now, started)
	if now.LastDefragmentation == nil {
		now.LastDefragmentation = interrupted(before.LastDefragmentation)
	}
	now.Snapshots = lastSnapshots(before.Snapshots, now.Snapshots)
	now.Transitions = allTransitions(before.Transitions, now.Transitions)
	if n := len(now.Transitions); n > 0 {
		now.State, now.SubState = now.Transitions[n-1].State, now.Transitions[n-1].SubState
	}
	return now
}

func stateOf(all []druidv1alpha1.MemberTransition) druidv1alpha1.MemberState {
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1].State
}

// allTransitions joins both lists. A sidecar that is started anew beside a running etcd finds the
// state that it left: that is no transition, and the time since which it stands is the earlier one.
// If it finds another one, it was not there when that changed, but the reason is clear.
func allTransitions(before, now []druidv1alpha1.MemberTransition) []druidv1alpha1.MemberTransition {
	if len(before) == 0 || len(now) == 0 {
		return last(slices.Concat(before, now), agentapi.MaxTransitions)
	}
	left, found := before[len(before)-1], now[0]
	running := found.State == druidv1alpha1.MemberStarted
	if left.State == found.State && left.SubState == found.SubState && (left.Reason == found.Reason || running) {
		return last(slices.Concat(before, now[1:]), agentapi.MaxTransitions)
	}
	switch {
	case running && left.SubState == druidv1alpha1.MemberLearner:
		found.Reason = druidv1alpha1.MemberReasonPromotedAsVotingMember
	case running && left.SubState == druidv1alpha1.MemberFollower:
		found.Reason = druidv1alpha1.MemberReasonGainedClusterLeadership
	case running && left.SubState == druidv1alpha1.MemberLeader:
		found.Reason = druidv1alpha1.MemberReasonLostClusterLeadership
	}
	return last(slices.Concat(before, []druidv1alpha1.MemberTransition{found}, now[1:]), agentapi.MaxTransitions)
}

// lastSnapshots keeps what is known of the bucket until somebody knows better: a member that does not
// make the backups any more does not say that there are none.
func lastSnapshots(before, now *druidv1alpha1.MemberSnapshots) *druidv1alpha1.MemberSnapshots {
	switch {
	case before == nil:
		return now
	case now == nil && before.LastFull == nil && before.NothingNew == nil:
		return nil // it never was one that makes them
	case now == nil:
		return &druidv1alpha1.MemberSnapshots{LastFull: before.LastFull, LastDelta: before.LastDelta, AccumulatedDeltaSize: before.AccumulatedDeltaSize, NothingNew: before.NothingNew, Proof: before.Proof}
	case now.AccumulatedDeltaSize == nil: // the bucket was not read yet
		kept := *before
		kept.Failure = now.Failure
		return &kept
	case now.Proof == nil: // this sidecar has not made one yet
		kept := *now
		kept.Proof = before.Proof
		return &kept
	}
	return now
}

// lastRestoration ends one that was under way when the sidecar ended: if the member works since, the
// data came.
func lastRestoration(before *druidv1alpha1.Restoration, now druidv1alpha1.MemberReport, started bool) *druidv1alpha1.Restoration {
	if now.LastRestoration != nil {
		return now.LastRestoration
	}
	if before == nil || before.Status != druidv1alpha1.OutcomeInProgress || !started {
		return before
	}
	ended := *before
	ended.Status, ended.EndTime = druidv1alpha1.OutcomeSuccess, startedAt(now.Transitions)
	return &ended
}

// interrupted is a defragmentation whose end nobody saw.
func interrupted(d *druidv1alpha1.Defragmentation) *druidv1alpha1.Defragmentation {
	if d == nil || d.Status != druidv1alpha1.OutcomeInProgress {
		return d
	}
	ended := *d
	ended.Status, ended.Message = druidv1alpha1.OutcomeFailed, "the sidecar ended before it"
	return &ended
}

// allMismatches joins both lists. A volume that was wrong is right again when the member works.
func allMismatches(before []druidv1alpha1.VolumeMismatch, now druidv1alpha1.MemberReport, started bool) []druidv1alpha1.VolumeMismatch {
	all := slices.Clone(before)
	for _, m := range now.VolumeMismatches {
		all = mergeMismatch(all, m)
	}
	for i := range all {
		if m := &all[i]; started && m.FixedAt == nil {
			if m.FixedAt = startedAt(now.Transitions); m.FixedAt.Before(&m.IdentifiedAt) {
				m.FixedAt = m.IdentifiedAt.DeepCopy()
			}
		}
	}
	return all
}

// startedAt is when the member began to work.
func startedAt(all []druidv1alpha1.MemberTransition) *metav1.Time {
	var first *metav1.Time
	for i := len(all) - 1; i >= 0 && all[i].State == druidv1alpha1.MemberStarted; i-- {
		first = &all[i].TransitionTime
	}
	return first
}
