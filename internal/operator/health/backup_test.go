package health

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

// snapshots changes what the backup leader of three says, which is main-2.
func snapshots(change func(*druidv1alpha1.MemberSnapshots)) func(*Observation) {
	return func(o *Observation) { change(o.Members[len(o.Members)-1].Status.Snapshots) }
}

func fullAgo(d time.Duration) func(*Observation) {
	return snapshots(func(s *druidv1alpha1.MemberSnapshots) { s.LastFull.Timestamp = ago(d) })
}

func deltaAgo(d time.Duration) func(*Observation) {
	return snapshots(func(s *druidv1alpha1.MemberSnapshots) { s.LastDelta.Timestamp = ago(d) })
}

func nothingNew(d time.Duration) func(*Observation) {
	return snapshots(func(s *druidv1alpha1.MemberSnapshots) { s.NothingNew = ptr(ago(d)) })
}

func failing(d time.Duration, reason, message string) func(*Observation) {
	return snapshots(func(s *druidv1alpha1.MemberSnapshots) {
		s.Failure = &druidv1alpha1.SnapshotFailure{Since: ago(d), Reason: reason, Message: message}
	})
}

func denied(d time.Duration) func(*Observation) {
	return failing(d, "StoreAccessDenied", "403 Forbidden")
}

// store changes which one the specification names.
func store(change func(*druidv1alpha1.StoreSpec)) func(*Observation) {
	return func(o *Observation) { change(o.Etcd.Spec.Backup.Store) }
}

func period(d *metav1.Duration) func(*Observation) {
	return func(o *Observation) { o.Etcd.Spec.Backup.DeltaSnapshotPeriod = d }
}

func fullSchedule(s string) func(*Observation) {
	return func(o *Observation) { o.Etcd.Spec.Backup.FullSnapshotSchedule = &s }
}

func leadsSince(d time.Duration) func(*Observation) {
	return func(o *Observation) {
		m := &o.Members[len(o.Members)-1].Status
		m.Transitions[len(m.Transitions)-1].TransitionTime = ago(d)
	}
}

// newestFull is the name of the newest full of a cluster.
const newestFull = "Full-00000000-00000900-1"

// proven has a member tell how a proof of a chain ended, so long ago.
func proven(i int, r druidv1alpha1.SnapshotProofResult, base string, d time.Duration) func(*Observation) {
	return func(o *Observation) {
		if o.Members[i].Status.Snapshots == nil {
			o.Members[i].Status.Snapshots = &druidv1alpha1.MemberSnapshots{}
		}
		o.Members[i].Status.Snapshots.Proof = &druidv1alpha1.SnapshotProof{EndedAt: ago(d), Result: r, Base: base, Message: "a hole at 7"}
	}
}

func noFull(o *Observation) {
	snapshots(func(s *druidv1alpha1.MemberSnapshots) { s.LastFull, s.LastDelta = nil, nil })(o)
}

func noSnapshots(o *Observation) { o.Members[len(o.Members)-1].Status.Snapshots = nil }

// now is 03:00, fulls are due at midnight, deltas every 5 minutes.
func TestBackupReady(t *testing.T) {
	check(t, druidv1alpha1.ConditionBackupReady, map[string]conditionCase{
		"recent":                                   {cluster(3), isTrue, "BackupSucceeded", "2025-06-01T00:00:00Z; later changes are uploaded within 5m0s"},
		"the last delta is almost too old":         {cluster(3, deltaAgo(13*time.Minute-1)), isTrue, "BackupSucceeded", ""},
		"the last delta is too old":                {cluster(3, deltaAgo(13*time.Minute)), isUnknown, "BackupOverdue", "2025-06-01T02:47:00Z"},
		"the last delta is much too old":           {cluster(3, deltaAgo(18*time.Minute)), isFalse, "BackupOverdue", "main-2, which made the backups last"},
		"an idle cluster, nothing was new":         {cluster(3, deltaAgo(90*24*time.Hour), nothingNew(30*time.Second)), isTrue, "BackupSucceeded", ""},
		"an idle cluster, its sidecar went silent": {cluster(3, deltaAgo(90*24*time.Hour), nothingNew(time.Hour)), isFalse, "BackupOverdue", ""},
		"an idle cluster without a newer full":     {cluster(3, fullAgo(72*time.Hour), deltaAgo(73*time.Hour), nothingNew(30*time.Second)), isTrue, "BackupSucceeded", ""},
		"the newest chain is broken":               {cluster(3, proven(2, "Broken", newestFull, time.Hour)), isFalse, "BackupBroken", "a hole at 7"},
		"the newest is, by a former leader":        {cluster(3, proven(1, "Broken", newestFull, time.Hour)), isFalse, "BackupBroken", newestFull},
		"it was, and is proven since":              {cluster(3, proven(1, "Broken", newestFull, time.Hour), proven(2, "Proven", newestFull, time.Minute)), isTrue, "BackupSucceeded", ""},
		"a former chain is broken":                 {cluster(3, proven(2, "Broken", "Full-of-before", time.Hour)), isTrue, "BackupSucceeded", ""},
		"it was, and a later proof told nothing":   {cluster(3, proven(1, "Broken", newestFull, time.Hour), proven(2, "Unknown", newestFull, time.Minute)), isFalse, "BackupBroken", ""},
		"whether the newest is is not known":       {cluster(3, proven(2, "Unknown", newestFull, time.Hour)), isTrue, "BackupSucceeded", ""},
		"the full of last night is missing":        {cluster(3, fullAgo(27*time.Hour)), isFalse, "BackupOverdue", "one was due at 2025-06-01T00:00:00Z"},
		"the full is still being taken":            {cluster(3, fullAgo(24*time.Hour+15*time.Minute), fullSchedule("45 2 * * *")), isTrue, "BackupSucceeded", ""},
		"the full takes too long":                  {cluster(3, fullAgo(24*time.Hour+30*time.Minute), fullSchedule("30 2 * * *")), isFalse, "BackupOverdue", "02:30:00Z"},
		"woken after a week":                       {cluster(3, fullAgo(170*time.Hour), leadsSince(time.Minute)), isTrue, "BackupSucceeded", ""},
		"woken after a week, deltas missing":       {cluster(3, fullAgo(170*time.Hour), deltaAgo(169*time.Hour), leadsSince(time.Minute)), isUnknown, "BackupOverdue", "main-2 makes the backups since"},
		"woken a while ago":                        {cluster(3, fullAgo(170*time.Hour), leadsSince(time.Hour)), isFalse, "BackupOverdue", ""},
		"no period of deltas is named":             {cluster(3, period(nil), deltaAgo(30*time.Second)), isTrue, "BackupSucceeded", "within 20s"},
		"no period, and the delta is old":          {cluster(3, period(nil), deltaAgo(4*time.Minute)), isFalse, "BackupOverdue", ""},
		"no deltas are taken":                      {cluster(3, period(&metav1.Duration{}), deltaAgo(90*24*time.Hour)), isTrue, "BackupSucceeded", "in no backup"},
		"no deltas, and the full is old":           {cluster(3, period(&metav1.Duration{}), fullAgo(27*time.Hour)), isFalse, "BackupOverdue", ""},
		"no schedule is named":                     {cluster(3, func(o *Observation) { o.Etcd.Spec.Backup.FullSnapshotSchedule = nil }, fullAgo(27*time.Hour)), isFalse, "BackupOverdue", ""},
		"a schedule that nobody can read":          {cluster(3, fullSchedule("never"), fullAgo(23*time.Hour)), isTrue, "BackupSucceeded", ""},
		"an upload fails since a moment":           {cluster(3, failing(5*time.Second, "StoreNotReachable", "no route")), isTrue, "BackupSucceeded", ""},
		"uploads fail":                             {cluster(3, failing(30*time.Second, "StoreNotReachable", "no route")), isFalse, "StoreNotReachable", "main-2 cannot use the store since 2025-06-01T02:59:30Z: no route"},
		"the very first upload fails":              {cluster(3, noFull, failing(0, "", "no route")), isFalse, "BackupFailed", "no route"},
		"the store refuses the credentials since a moment": {cluster(3, denied(0), store(func(s *druidv1alpha1.StoreSpec) { s.SecretRef = &corev1.SecretReference{Name: "keys"} })),
			isFalse, "StoreAccessDenied", "main-2 cannot use the store since 2025-06-01T03:00:00Z: 403 Forbidden; correct the credentials in the Secret keys (spec.backup.store.secretRef), or"},
		"the store refuses what the pod may": {cluster(3, denied(0)), isFalse, "StoreAccessDenied", "name a Secret with credentials in spec.backup.store.secretRef, or"},
		"the bucket is gone since a moment": {cluster(3, failing(0, "StoreContainerMissing", "404"), store(func(s *druidv1alpha1.StoreSpec) { s.Container = ptr("backups") })),
			isFalse, "StoreContainerMissing", "404; make the bucket backups, or correct spec.backup.store.container"},
		"no bucket is named": {cluster(3, failing(0, "StoreContainerMissing", "404")), isFalse, "StoreContainerMissing", "name a bucket in spec.backup.store.container"},
		"another Etcd came":  {cluster(3, failing(0, "StoreOwnedByAnother", "it belongs to b; choose another --store-prefix, or if the other one is gone for good, start once with --take-over")), isFalse, "StoreOwnedByAnother", "it belongs to b; change spec.backup.store.prefix, or, if the other owner is gone for good, annotate the Etcd with druid.gardener.cloud/take-over-backups=true"},
		"a member that never uploaded is refused": {cluster(1, noSnapshots, unheard(0), reports(0, func(m *druidv1alpha1.MemberReport) {
			m.Snapshots = &druidv1alpha1.MemberSnapshots{Failure: &druidv1alpha1.SnapshotFailure{Since: ago(0), Reason: "StoreContainerMissing", Message: "404"}}
		})), isFalse, "StoreContainerMissing", "main-0 cannot use the store"},
		"the first full is being taken": {cluster(3, noFull, leadsSince(time.Minute)), isUnknown, "NoBackupYet", "main-2"},
		"the first full never comes":    {cluster(3, noFull), isFalse, "BackupOverdue", "nothing can be restored"},
		"nobody makes backups":          {cluster(3, noSnapshots), isUnknown, "BackupNotKnown", ""},
		"nobody is there to":            {cluster(3, noSnapshots, unheard(2)), isUnknown, "BackupNotKnown", "main-2: it never reported"},
		"members wait for the store": {cluster(3, noSnapshots, unheard(0), reports(0, state(druidv1alpha1.MemberNew, "", druidv1alpha1.MemberReasonWaitingForStore, "no such bucket"))),
			isFalse, "StoreNotReachable", "main-0: no such bucket"},
		"the data are of another history": {cluster(1, noSnapshots, unheard(0), reports(0, state(druidv1alpha1.MemberNew, "", druidv1alpha1.MemberReasonOtherLineage, "restore explicitly"))),
			isFalse, "BackupFailed", "restore explicitly"},
	})
}

// Who looks at a condition may see its beginning only, and owners are long.
func TestTheRemedyOfAnEtcdIsInTheFirst500BytesHoweverLongTheRefusalIs(t *testing.T) {
	owner := func(uid string) string {
		return strings.Join([]string{"0b8f3f0e-8ae3-4d8b-9d0e-6f1a0f3c2b11", strings.Repeat("n", 63), "main", uid}, "/")
	}
	refusal := fmt.Sprintf("the prefix is owned by another writer: %s (the sidecar of main-1) since 2025-05-01 00:00:00 UTC, and this is %s; choose another --store-prefix, or if the other one is gone for good, start once with --take-over",
		owner("7d0c6b5f-52a5-4b5e-8a9a-0a4f6f8d1e22"), owner("91f3c7aa-0d9d-4a93-9f27-3f5f1f1c9d33"))
	got := find(t, cluster(3, failing(0, "StoreOwnedByAnother", refusal)), druidv1alpha1.ConditionBackupReady)
	for _, want := range []string{"is owned by another writer: " + owner("7d0c6b5f-52a5-4b5e-8a9a-0a4f6f8d1e22"), "change spec.backup.store.prefix", druidv1alpha1.AnnotationTakeOverBackups + "=true"} {
		if !strings.Contains(got.Message[:min(len(got.Message), 500)], want) {
			t.Errorf("%q is not in the first 500 bytes of %q", want, got.Message)
		}
	}
}

// A cluster was restored from revision 1000, having been at 5000. Who led before still says so.
func TestAfterARollbackTheHigherRevisionsOfTheFormerLeaderDoNotCount(t *testing.T) {
	former := func(leads bool) func(*Observation) {
		return reports(0, func(m *druidv1alpha1.MemberReport) {
			m.BackupLeader = leads
			m.Snapshots = &druidv1alpha1.MemberSnapshots{
				LastFull:  &druidv1alpha1.MemberSnapshot{Timestamp: ago(30 * time.Hour), EndRevision: 4900},
				LastDelta: &druidv1alpha1.MemberSnapshot{Timestamp: ago(26 * time.Hour), EndRevision: 5000},
				Failure:   &druidv1alpha1.SnapshotFailure{Since: ago(26 * time.Hour), Message: "the node is down"},
			}
		})
	}
	check(t, druidv1alpha1.ConditionBackupReady, map[string]conditionCase{
		"it still says that it leads": {cluster(3, former(true)), isTrue, "BackupSucceeded", "2025-06-01T00:00:00Z"},
		"it says that it does not":    {cluster(3, former(false)), isTrue, "BackupSucceeded", "2025-06-01T00:00:00Z"},
	})
	// As soon as another one leads it is asked, though the former has the newer snapshots.
	for _, says := range []bool{true, false} {
		o := cluster(3, former(says), noFull, leadsSince(time.Second))
		o.Members[0].Status.Snapshots.LastDelta.Timestamp = ago(30 * time.Second)
		if got := find(t, o, druidv1alpha1.ConditionBackupReady); got.Reason != druidv1alpha1.ReasonNoBackupYet {
			t.Errorf("a new leader, and the former says that it leads: %t: %+v", says, got)
		}
	}
}
