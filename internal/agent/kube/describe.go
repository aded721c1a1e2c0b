package kube

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/agentapi"
)

// describe is what is known of a member as its EtcdMember has it.
func describe(m agentapi.Member) druidv1alpha1.MemberReport {
	secure := securePeers(m)
	r := druidv1alpha1.MemberReport{
		ID: known(m.ID, m.Data.ID), ClusterID: known(m.ClusterID, m.Data.ClusterID),
		PeerTLSEnabled: &secure, PeerURLs: m.PeerURLs,
		Waiting: agentapi.Clip(m.Waiting, agentapi.MaxText), VolumeFull: agentapi.Clip(m.VolumeFull, agentapi.MaxText), BackupLeader: m.BackupLeader,
		Snapshots: snapshots(m), LastRestoration: restoration(m.LastRestoration), LastDefragmentation: defragmentation(m.LastDefragmentation),
		VolumeMismatches: mismatches(m.VolumeMismatches), Transitions: transitions(m.Transitions),
	}
	if e := m.Etcd; e != nil {
		r.Version, r.Revision, r.DBSize, r.DBSizeInUse = e.Version, e.Revision, size(e.DBSize), size(e.DBSizeInUse)
		r.Alarms = slices.Compact(slices.Sorted(slices.Values(e.Alarms)))
	}
	return r
}

// votes says that the member has a vote now.
func votes(m agentapi.Member) bool {
	n := len(m.Transitions)
	return m.Etcd != nil && !m.Etcd.Learner && n > 0 && m.Transitions[n-1].State == agentapi.Started
}

func known(ids ...string) *string {
	for _, id := range ids {
		if id != "" {
			return &id
		}
	}
	return nil
}

func snapshots(m agentapi.Member) *druidv1alpha1.MemberSnapshots {
	if m.Snapshots == nil && m.BackupFailure == nil {
		return nil
	}
	var out druidv1alpha1.MemberSnapshots
	if s := m.Snapshots; s != nil {
		out = druidv1alpha1.MemberSnapshots{LastFull: snapshot(s.LastFull), LastDelta: snapshot(s.LastDelta),
			AccumulatedDeltaSize: size(s.AccumulatedDeltaSize), NothingNew: at(s.NothingNew), Proof: proof(s.Proof), Bucket: bucket(s.Bucket)}
	}
	if f := m.BackupFailure; f != nil {
		out.Failure = &druidv1alpha1.SnapshotFailure{Since: metav1.NewTime(f.Since), Reason: string(f.Reason), Message: agentapi.Clip(f.Message, agentapi.MaxText)}
	}
	return &out
}

func proof(p *agentapi.Proof) *druidv1alpha1.SnapshotProof {
	if p == nil {
		return nil
	}
	out := &druidv1alpha1.SnapshotProof{EndedAt: metav1.NewTime(p.EndedAt), Result: druidv1alpha1.SnapshotProofResult(p.Result), Base: p.Base, EndRevision: p.EndRevision, Message: agentapi.Clip(p.Message, agentapi.MaxText)}
	if p.Seconds > 0 {
		out.Took = &metav1.Duration{Duration: time.Duration(p.Seconds * float64(time.Second)).Round(time.Millisecond)}
	}
	return out
}

func snapshot(u *agentapi.Uploaded) *druidv1alpha1.MemberSnapshot {
	if u == nil {
		return nil
	}
	return &druidv1alpha1.MemberSnapshot{Timestamp: metav1.NewTime(u.Timestamp), Name: u.Name, Size: size(u.Size), StartRevision: u.StartRevision, EndRevision: u.EndRevision, Taken: u.Taken}
}

func bucket(b *agentapi.Bucket) *druidv1alpha1.BackupStatus {
	if b == nil {
		return nil
	}
	out := &druidv1alpha1.BackupStatus{
		LookedAt: metav1.NewTime(b.LookedAt), FirstRestorable: restorable(b.First), LastRestorable: restorable(b.Last),
		ProtectionLevel: b.Level, ProtectedUntil: at(b.Until), Protection: agentapi.Clip(b.Protection, agentapi.MaxText), ProtectionInferred: b.Inferred,
		TamperFindingsCount: int32(b.TamperingCount), ExcludedSnapshotsCount: int32(b.ExcludedCount), //nolint:gosec // numbers of objects below a prefix
	}
	if b.Period > 0 {
		out.RetentionPeriod = &metav1.Duration{Duration: time.Duration(b.Period) * time.Second}
	}
	for _, f := range b.Tampering[:min(len(b.Tampering), agentapi.MaxListed)] {
		out.TamperFindings = append(out.TamperFindings, druidv1alpha1.TamperFinding{Code: f.Code, Message: agentapi.Clip(f.Text, agentapi.MaxText)})
	}
	for _, name := range b.Excluded[:min(len(b.Excluded), agentapi.MaxListed)] {
		out.ExcludedSnapshots = append(out.ExcludedSnapshots, agentapi.Clip(name, agentapi.MaxText))
	}
	return out
}

func restorable(r *agentapi.Restorable) *druidv1alpha1.RestorableState {
	if r == nil {
		return nil
	}
	return &druidv1alpha1.RestorableState{Time: metav1.NewTime(r.Time), Revision: r.Revision}
}

func restoration(r *agentapi.Restored) *druidv1alpha1.Restoration {
	if r == nil {
		return nil
	}
	return &druidv1alpha1.Restoration{Type: druidv1alpha1.RestorationType(r.Type), Status: druidv1alpha1.OperationOutcome(r.Status),
		Message: agentapi.Clip(r.Message, agentapi.MaxText), StartTime: metav1.NewTime(r.Start), EndTime: at(r.End)}
}

func defragmentation(d *agentapi.Defragmentation) *druidv1alpha1.Defragmentation {
	if d == nil {
		return nil
	}
	out := &druidv1alpha1.Defragmentation{StartTime: metav1.NewTime(d.Start), EndTime: at(d.End), Status: druidv1alpha1.OperationOutcome(d.Status),
		Reason: d.Reason, Message: agentapi.Clip(d.Message, agentapi.MaxText), InitialDBSize: size(d.InitialDBSize)}
	if d.FinalDBSize > 0 {
		out.FinalDBSize = size(d.FinalDBSize)
	}
	return out
}

// mismatches has one entry for each volume, as the resource wants it: the last time it was mounted,
// with all restarts.
func mismatches(all []agentapi.Mismatch) (out []druidv1alpha1.VolumeMismatch) {
	for _, m := range all {
		next := druidv1alpha1.VolumeMismatch{IdentifiedAt: metav1.NewTime(m.IdentifiedAt), FixedAt: at(m.FixedAt), VolumeID: agentapi.Clip(m.VolumeID, agentapi.MaxText), NumRestarts: int32(m.Restarts)}
		out = mergeMismatch(out, next)
	}
	return out
}

func mergeMismatch(all []druidv1alpha1.VolumeMismatch, next druidv1alpha1.VolumeMismatch) []druidv1alpha1.VolumeMismatch {
	if i := slices.IndexFunc(all, func(m druidv1alpha1.VolumeMismatch) bool { return m.VolumeID == next.VolumeID }); i >= 0 {
		next.NumRestarts += all[i].NumRestarts
		if all[i].FixedAt == nil {
			next.IdentifiedAt = all[i].IdentifiedAt
		}
		all = slices.Delete(all, i, i+1)
	}
	return last(append(all, next), agentapi.MaxMismatches)
}

func transitions(all []agentapi.Transition) (out []druidv1alpha1.MemberTransition) {
	for _, t := range last(all, agentapi.MaxTransitions) {
		out = append(out, druidv1alpha1.MemberTransition{State: druidv1alpha1.MemberState(t.State), SubState: druidv1alpha1.MemberSubState(t.SubState),
			Reason: druidv1alpha1.MemberReason(t.Reason), TransitionTime: metav1.NewTime(t.Time), Message: agentapi.Clip(t.Message, agentapi.MaxText)})
	}
	return out
}

// last are the last n of a list.
func last[T any](all []T, n int) []T { return all[max(0, len(all)-n):] }

// size is a number of bytes as it was counted: 6442450944 and not 6Gi, which cannot say every number.
func size(bytes int64) *resource.Quantity {
	return resource.NewQuantity(max(bytes, 0), resource.DecimalSI)
}

func at(t *time.Time) *metav1.Time {
	if t == nil {
		return nil
	}
	out := metav1.NewTime(*t)
	return &out
}
