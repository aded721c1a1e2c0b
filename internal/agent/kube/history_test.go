package kube

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/agentapi"
)

func minute(n int) metav1.Time { return metav1.NewTime(epoch.Add(time.Duration(n) * time.Minute)) }

func ref[T any](v T) *T { return &v }

func moved(state druidv1alpha1.MemberState, sub druidv1alpha1.MemberSubState, reason druidv1alpha1.MemberReason, at int) druidv1alpha1.MemberTransition {
	return druidv1alpha1.MemberTransition{State: state, SubState: sub, Reason: reason, TransitionTime: minute(at)}
}

func TestWhatAnEarlierLifeSaidIsContinued(t *testing.T) {
	leads := moved(druidv1alpha1.MemberStarted, druidv1alpha1.MemberLeader, druidv1alpha1.MemberReasonNewClusterCreated, 1)
	found := func(sub druidv1alpha1.MemberSubState) druidv1alpha1.MemberTransition {
		return moved(druidv1alpha1.MemberStarted, sub, druidv1alpha1.MemberReasonDBValidationSucceeded, 9)
	}
	validates := moved(druidv1alpha1.MemberInitializing, druidv1alpha1.MemberDBValidationFull, druidv1alpha1.MemberReasonDetectedPreviousUncleanExit, 8)
	follows := found(druidv1alpha1.MemberFollower)
	full := &druidv1alpha1.MemberSnapshot{Name: "Full-1", Timestamp: minute(2), EndRevision: 7}
	failure := &druidv1alpha1.SnapshotFailure{Since: minute(8), Reason: "StoreNotReachable", Message: "no"}
	because := func(tr druidv1alpha1.MemberTransition, reason druidv1alpha1.MemberReason) druidv1alpha1.MemberTransition {
		tr.Reason = reason
		return tr
	}
	type R = druidv1alpha1.MemberReport
	type T = []druidv1alpha1.MemberTransition
	for phrase, c := range map[string]struct{ before, now, want R }{
		"nothing is known yet": {R{ID: ref("a"), Transitions: T{leads}, Version: "3.6.16", Alarms: []string{"NOSPACE"}}, R{},
			R{ID: ref("a"), Transitions: T{leads}, State: "Started", SubState: "Leader"}},
		"etcd ran on, and leads still": {R{Transitions: T{leads}}, R{Transitions: T{found("Leader")}},
			R{Transitions: T{leads}, State: "Started", SubState: "Leader"}},
		"etcd ran on, and lost the leadership": {R{Transitions: T{leads}}, R{Transitions: T{follows}},
			R{Transitions: T{leads, because(follows, "LostClusterLeadership")}, State: "Started", SubState: "Follower"}},
		"etcd ran on, and was promoted": {R{Transitions: T{moved("Starting", "Learner", "JoinedAsLearner", 1)}}, R{Transitions: T{follows}},
			R{Transitions: T{moved("Starting", "Learner", "JoinedAsLearner", 1), because(follows, "PromotedAsVotingMember")}, State: "Started", SubState: "Follower"}},
		"the pod was started anew": {R{Transitions: T{leads}}, R{Transitions: T{validates, follows}},
			R{Transitions: T{leads, validates, follows}, State: "Started", SubState: "Follower"}},
		"it does not make the backups any more": {R{Snapshots: &druidv1alpha1.MemberSnapshots{LastFull: full, Failure: failure}, BackupLeader: true}, R{},
			R{Snapshots: &druidv1alpha1.MemberSnapshots{LastFull: full}}},
		"it makes them, and has not read the bucket": {R{Snapshots: &druidv1alpha1.MemberSnapshots{LastFull: full}}, R{Snapshots: &druidv1alpha1.MemberSnapshots{Failure: failure}},
			R{Snapshots: &druidv1alpha1.MemberSnapshots{LastFull: full, Failure: failure}}},
		"it read a bucket that is empty": {R{Snapshots: &druidv1alpha1.MemberSnapshots{LastFull: full}}, R{Snapshots: &druidv1alpha1.MemberSnapshots{AccumulatedDeltaSize: resource.NewQuantity(0, resource.DecimalSI)}},
			R{Snapshots: &druidv1alpha1.MemberSnapshots{AccumulatedDeltaSize: resource.NewQuantity(0, resource.DecimalSI)}}},
		"a failure alone is not kept": {R{Snapshots: &druidv1alpha1.MemberSnapshots{Failure: failure}}, R{}, R{}},
		"a restoration was under way, and the member works": {
			R{LastRestoration: &druidv1alpha1.Restoration{Type: "FromLeader", Status: "In-Progress", StartTime: minute(1)}}, R{Transitions: T{follows}},
			R{LastRestoration: &druidv1alpha1.Restoration{Type: "FromLeader", Status: "Success", StartTime: minute(1), EndTime: ref(minute(9))}, Transitions: T{follows}, State: "Started", SubState: "Follower"}},
		"a restoration was under way, and nothing is known": {
			R{LastRestoration: &druidv1alpha1.Restoration{Type: "FromLeader", Status: "In-Progress", StartTime: minute(1)}}, R{},
			R{LastRestoration: &druidv1alpha1.Restoration{Type: "FromLeader", Status: "In-Progress", StartTime: minute(1)}}},
		"a defragmentation was under way": {
			R{LastDefragmentation: &druidv1alpha1.Defragmentation{Status: "In-Progress", StartTime: minute(1)}}, R{},
			R{LastDefragmentation: &druidv1alpha1.Defragmentation{Status: "Failed", StartTime: minute(1), Message: "the sidecar ended before it"}}},
		"the wrong volume again": {
			R{VolumeMismatches: []druidv1alpha1.VolumeMismatch{{VolumeID: "v", IdentifiedAt: minute(1), NumRestarts: 1}}},
			R{VolumeMismatches: []druidv1alpha1.VolumeMismatch{{VolumeID: "v", IdentifiedAt: minute(5), NumRestarts: 1}}},
			R{VolumeMismatches: []druidv1alpha1.VolumeMismatch{{VolumeID: "v", IdentifiedAt: minute(1), NumRestarts: 2}}}},
		"the right volume is back": {
			R{VolumeMismatches: []druidv1alpha1.VolumeMismatch{{VolumeID: "v", IdentifiedAt: minute(1), NumRestarts: 1}}}, R{Transitions: T{follows}},
			R{VolumeMismatches: []druidv1alpha1.VolumeMismatch{{VolumeID: "v", IdentifiedAt: minute(1), FixedAt: ref(minute(9)), NumRestarts: 1}}, Transitions: T{follows}, State: "Started", SubState: "Follower"}},
	} {
		before := c.before.DeepCopy()
		got := since(c.before, c.now)
		if diff := cmp.Diff(text(c.want), text(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", phrase, diff)
		}
		if !equal(*before, c.before) {
			t.Errorf("%s: what was said before changed", phrase)
		}
	}
}

func TestEverythingThatIsKnownIsDescribed(t *testing.T) {
	at := epoch.Add(time.Minute)
	m := working()
	m.Waiting, m.VolumeFull, m.BackupLeader = "for a person", "nothing is free", true
	m.Etcd.Alarms = []string{"NOSPACE", "CORRUPT", "NOSPACE"}
	m.Snapshots = &agentapi.Snapshots{LastFull: &agentapi.Uploaded{Timestamp: at, Name: "Full-1", Size: 10, EndRevision: 5},
		LastDelta: &agentapi.Uploaded{Timestamp: at, Name: "Incr-6", Size: 3, StartRevision: 6, EndRevision: 7}, AccumulatedDeltaSize: 3, NothingNew: &at,
		Proof: &agentapi.Proof{EndedAt: at, Result: agentapi.ProofProven, Base: "Full-1", EndRevision: 7, Seconds: 1.5, Message: "m"},
		Bucket: &agentapi.Bucket{LookedAt: at, First: &agentapi.Restorable{Time: epoch, Revision: 5}, Last: &agentapi.Restorable{Time: at, Revision: 7}, Level: "governance", Until: &at, Inferred: true, Period: 345600,
			Protection: "governance until then", Tampering: []agentapi.Tampering{{Code: "marker", Text: "it has a delete marker"}}, TamperingCount: 11, Excluded: []string{"Full-0"}, ExcludedCount: 12}}
	m.BackupFailure = &agentapi.BackupFailure{Since: at, Reason: agentapi.StoreNotReachable, Message: "no"}
	m.LastRestoration = &agentapi.Restored{Type: agentapi.FromSnapshot, Status: agentapi.Success, Start: epoch, End: &at, Message: "why"}
	m.LastDefragmentation = &agentapi.Defragmentation{Start: epoch, End: &at, Status: agentapi.Success, Reason: "schedule", Message: "ok", InitialDBSize: 9, FinalDBSize: 4}
	m.VolumeMismatches = []agentapi.Mismatch{{IdentifiedAt: epoch, FixedAt: &at, VolumeID: "v", Restarts: 1}, {IdentifiedAt: at, VolumeID: "v", Restarts: 2}}
	q := func(n int64) *resource.Quantity { return resource.NewQuantity(n, resource.DecimalSI) }
	want := druidv1alpha1.MemberReport{
		ID: ref("4c37667312a3912b"), ClusterID: ref("cdf818194e3a8c32"), PeerTLSEnabled: ref(true), PeerURLs: []string{"https://main-0:2380"},
		State: "Started", SubState: "Leader", Version: "3.6.16", Revision: 7, Alarms: []string{"CORRUPT", "NOSPACE"}, DBSize: q(1 << 20), DBSizeInUse: q(1 << 19),
		Waiting: "for a person", VolumeFull: "nothing is free", BackupLeader: true,
		Snapshots: &druidv1alpha1.MemberSnapshots{
			LastFull:             &druidv1alpha1.MemberSnapshot{Timestamp: minute(1), Name: "Full-1", Size: q(10), EndRevision: 5},
			LastDelta:            &druidv1alpha1.MemberSnapshot{Timestamp: minute(1), Name: "Incr-6", Size: q(3), StartRevision: 6, EndRevision: 7},
			AccumulatedDeltaSize: q(3), NothingNew: ref(minute(1)),
			Proof:   &druidv1alpha1.SnapshotProof{EndedAt: minute(1), Result: "Proven", Base: "Full-1", EndRevision: 7, Took: &metav1.Duration{Duration: 1500 * time.Millisecond}, Message: "m"},
			Failure: &druidv1alpha1.SnapshotFailure{Since: minute(1), Reason: "StoreNotReachable", Message: "no"},
			Bucket: &druidv1alpha1.BackupStatus{
				LookedAt: minute(1), FirstRestorable: &druidv1alpha1.RestorableState{Time: minute(0), Revision: 5}, LastRestorable: &druidv1alpha1.RestorableState{Time: minute(1), Revision: 7},
				ProtectionLevel: "governance", ProtectedUntil: ref(minute(1)), Protection: "governance until then", ProtectionInferred: true, RetentionPeriod: &metav1.Duration{Duration: 96 * time.Hour},
				TamperFindings: []druidv1alpha1.TamperFinding{{Code: "marker", Message: "it has a delete marker"}}, TamperFindingsCount: 11, ExcludedSnapshots: []string{"Full-0"}, ExcludedSnapshotsCount: 12}},
		LastRestoration:     &druidv1alpha1.Restoration{Type: "FromSnapshot", Status: "Success", Message: "why", StartTime: minute(0), EndTime: ref(minute(1))},
		LastDefragmentation: &druidv1alpha1.Defragmentation{StartTime: minute(0), EndTime: ref(minute(1)), Status: "Success", Reason: "schedule", Message: "ok", InitialDBSize: q(9), FinalDBSize: q(4)},
		VolumeMismatches:    []druidv1alpha1.VolumeMismatch{{IdentifiedAt: minute(1), FixedAt: ref(minute(1)), VolumeID: "v", NumRestarts: 3}},
		Transitions:         []druidv1alpha1.MemberTransition{moved("Started", "Leader", "NewSingleNodeClusterCreated", 0)},
	}
	if diff := cmp.Diff(text(want), text(since(druidv1alpha1.MemberReport{}, describe(m)))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestAProofIsToldUntilThereIsANewerOne: a sidecar that begins anew has made none yet, and one that leads no more makes none.
func TestAProofIsToldUntilThereIsANewerOne(t *testing.T) {
	told := &druidv1alpha1.MemberSnapshots{LastFull: &druidv1alpha1.MemberSnapshot{Name: "Full-1"}, AccumulatedDeltaSize: resource.NewQuantity(0, resource.DecimalSI), Proof: &druidv1alpha1.SnapshotProof{Result: "Broken"}}
	newer := told.DeepCopy()
	newer.Proof.Result = "Proven"
	without := told.DeepCopy()
	without.Proof = nil
	for phrase, c := range map[string]struct {
		now  *druidv1alpha1.MemberSnapshots
		want druidv1alpha1.SnapshotProofResult
	}{
		"it leads no more":    {nil, "Broken"},
		"it has made no more": {without, "Broken"},
		"there is another":    {newer, "Proven"},
	} {
		if got := lastSnapshots(told, c.now); got == nil || got.Proof == nil || got.Proof.Result != c.want {
			t.Errorf("%s: %+v, want %s", phrase, got, c.want)
		}
	}
}

// The sidecar's words are those of the resources and conditions.
func TestTheWordsOfBothSidesAreTheSame(t *testing.T) {
	for ours, want := range map[agentapi.BackupReason]string{
		agentapi.BackupFailed: druidv1alpha1.ReasonBackupFailed, agentapi.StoreNotReachable: druidv1alpha1.ReasonStoreNotReachable,
		agentapi.StoreAccessDenied: druidv1alpha1.ReasonStoreAccessDenied, agentapi.StoreContainerMissing: druidv1alpha1.ReasonStoreContainerMissing,
		agentapi.StoreOwnedByAnother: druidv1alpha1.ReasonStoreOwnedByAnother,
	} {
		if string(ours) != want {
			t.Errorf("%s, want %s", ours, want)
		}
	}
}
