package health

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/backup/immutability"
)

func asks(i *druidv1alpha1.ImmutabilitySpec) func(*Observation) {
	return func(o *Observation) { o.Etcd.Spec.Backup.Store.Immutability = i }
}

var (
	ofBucket = asks(&druidv1alpha1.ImmutabilitySpec{RetentionType: druidv1alpha1.RetentionBucket})
	ofObject = asks(&druidv1alpha1.ImmutabilitySpec{RetentionType: druidv1alpha1.RetentionObject, RetentionPeriod: &metav1.Duration{Duration: 96 * time.Hour}})
)

// looked is what the backup leader found in the bucket: objects locked for four days, if nothing else is said.
func looked(change ...func(*druidv1alpha1.BackupStatus)) func(*Observation) {
	return snapshots(func(s *druidv1alpha1.MemberSnapshots) {
		s.Bucket = &druidv1alpha1.BackupStatus{
			LookedAt: ago(5 * time.Minute), ProtectionLevel: "compliance", Protection: "compliance until 2025-06-05T00:00:00Z",
			ProtectedUntil: ptr(ago(-93 * time.Hour)), RetentionPeriod: &metav1.Duration{Duration: 96 * time.Hour},
		}
		for _, c := range change {
			c(s.Bucket)
		}
	})
}

func locksFor(d time.Duration) func(*druidv1alpha1.BackupStatus) {
	return func(b *druidv1alpha1.BackupStatus) { b.RetentionPeriod = &metav1.Duration{Duration: d} }
}

func level(l, text string) func(*druidv1alpha1.BackupStatus) {
	return func(b *druidv1alpha1.BackupStatus) {
		b.ProtectionLevel, b.Protection = l, text
		if l != "governance" {
			b.ProtectedUntil, b.RetentionPeriod = nil, nil
		}
	}
}

// now is 03:00, fulls are due at midnight.
func TestBackupsProtected(t *testing.T) {
	inferred := func(b *druidv1alpha1.BackupStatus) { b.ProtectionInferred = true }
	ended := func(b *druidv1alpha1.BackupStatus) { b.ProtectedUntil = ptr(ago(time.Second)) }
	untold := func(b *druidv1alpha1.BackupStatus) { b.RetentionPeriod = nil }
	check(t, druidv1alpha1.ConditionBackupsProtected, map[string]conditionCase{
		"locked":                  {cluster(3, ofBucket, looked()), isTrue, "Protected", "compliance until 2025-06-05"},
		"nobody looked":           {cluster(3, ofBucket), isUnknown, "ProtectionNotKnown", "nobody has looked"},
		"the store does not tell": {cluster(3, ofBucket, looked(level("unknown", "not protected as far as we know"))), isUnknown, "ProtectionNotKnown", "right to read locks"},
		"no locks":                {cluster(3, ofBucket, looked(level("none", "not protected: 2 of 2 objects have no lock"))), isFalse, "NotProtected", "etcdbrctl bucket ensure"},
		"advice is no lock":       {cluster(3, ofBucket, looked(level("advisory", "advisory until 2025-06-05T00:00:00Z"))), isFalse, "NotProtected", "advisory"},
		"the locks have ended":    {cluster(3, ofBucket, looked(ended)), isFalse, "NotProtected", ""},
		"governance":              {cluster(3, ofBucket, looked(level("governance", "governance until then"))), isTrue, "Protected", "governance until then"},
		"compliance is asked for, governance given": {cluster(3, ofObject, looked(level("governance", "governance until then"))), isFalse, "NotProtected", "compliance is asked for"},
		"as inferred":                            {cluster(3, ofBucket, looked(inferred)), isTrue, "ProtectionInferred", ""},
		"one day of locks, and a full each day":  {cluster(3, ofBucket, looked(locksFor(24*time.Hour))), isFalse, "RetentionTooShort", "objects are locked for 24h, and a full is the newest for up to 24h30m"},
		"one day of locks, and a full each hour": {cluster(3, ofBucket, fullSchedule("0 * * * *"), looked(locksFor(24*time.Hour))), isTrue, "Protected", ""},
		"a full takes long": {cluster(3, ofBucket, looked(locksFor(25*time.Hour)), func(o *Observation) {
			o.Etcd.Spec.Backup.EtcdSnapshotTimeout = &metav1.Duration{Duration: time.Hour}
		}), isFalse, "RetentionTooShort", "1h until the next is in the bucket"},
		"the period is not told":             {cluster(3, ofBucket, looked(untold)), isTrue, "Protected", ""},
		"each object, without locks so far":  {cluster(3, ofObject, looked(level("none", "not protected"))), isFalse, "NotProtected", "the next full snapshot is"},
		"asleep, and locked":                 {cluster(3, ofBucket, looked(), remembered, wantReplicas(0), noMembers), isTrue, "Protected", "compliance until"},
		"asleep for longer than the locks":   {cluster(3, ofBucket, looked(ended), remembered, wantReplicas(0), noMembers), isUnknown, "ProtectionNotKnown", "ended at 2025-06-01T02:59:59Z"},
		"no longer asked for":                {cluster(3, looked(), wasProtected), isFalse, "ImmutabilityRemoved", "after 2025-06-05T00:00:00Z"},
		"of the look before, nobody reports": {cluster(3, ofBucket, looked(), remembered, noSnapshots), isTrue, "Protected", ""},
	})
}

func wasProtected(o *Observation) {
	o.Etcd.Status.Conditions = append(o.Etcd.Status.Conditions, druidv1alpha1.Condition{Type: druidv1alpha1.ConditionBackupsProtected, Status: druidv1alpha1.ConditionTrue})
}

func remembered(o *Observation) {
	o.Etcd.Status.Backup = &druidv1alpha1.EtcdBackupStatus{BackupStatus: *Backup(*o)}
}

func TestBackupsProtectedIsLeftOutUnlessAskedFor(t *testing.T) {
	ended := func(b *druidv1alpha1.BackupStatus) { b.ProtectedUntil = ptr(ago(time.Second)) }
	for phrase, o := range map[string]Observation{
		"never asked for": cluster(3, looked()),
		"no longer asked for, and the last lock has ended": cluster(3, looked(ended), wasProtected),
		"no store any more": cluster(3, looked(), wasProtected, func(o *Observation) { o.Etcd.Spec.Backup.Store = nil }),
	} {
		if c := druidv1alpha1.FindCondition(Conditions(o, Members(o, DefaultThresholds(), testNow), testNow), druidv1alpha1.ConditionBackupsProtected); c != nil {
			t.Errorf("%s: %+v", phrase, *c)
		}
	}
}

func TestTheNewestLookThroughTheBucketCounts(t *testing.T) {
	o := cluster(3, looked(), remembered)
	o.Members[0].Status.Snapshots = &druidv1alpha1.MemberSnapshots{Bucket: &druidv1alpha1.BackupStatus{LookedAt: ago(time.Minute), ProtectionLevel: "none"}}
	o.Members[1].Status.Snapshots = &druidv1alpha1.MemberSnapshots{Bucket: &druidv1alpha1.BackupStatus{LookedAt: ago(time.Hour), ProtectionLevel: "unknown"}}
	if got := Backup(o); got == nil || got.ProtectionLevel != "none" {
		t.Errorf("got %+v, want the one of a minute ago", got)
	}
	o.Members = nil
	if got := Backup(o); got == nil || got.ProtectionLevel != "compliance" {
		t.Errorf("asleep: got %+v, want what was known", got)
	}
}

// Somebody excludes a snapshot while the cluster sleeps.
func TestRunsOfAnExtensionTellWhatIsExcluded(t *testing.T) {
	for phrase, c := range map[string]struct {
		at   time.Time
		told []string
		old  bool // a program that does not tell
		want []string
	}{
		"excluded":                  {testNow, []string{"Full-9"}, false, []string{"Full-9"}},
		"included again":            {testNow, nil, false, nil},
		"an older program":          {testNow, nil, true, []string{"Full-1"}},
		"members have looked since": {testNow.Add(-time.Hour), []string{"Full-9"}, false, []string{"Full-1"}},
	} {
		n := immutability.Notice{At: c.at, Snapshot: "Full-9", End: 9}
		if !c.old {
			n.Exclude(c.told)
		}
		o := sleeping(druidv1alpha1.FinalSnapshot{Name: "Full-9", Revision: 9}, func(o *Observation) {
			o.Etcd.Status.Backup = &druidv1alpha1.EtcdBackupStatus{BackupStatus: druidv1alpha1.BackupStatus{LookedAt: ago(time.Minute), ExcludedSnapshots: []string{"Full-1"}, ExcludedSnapshotsCount: 1}}
			o.ExtensionPods = []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: ago(time.Minute)},
				Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: n.String()}}}}}}}
		})
		if got := Backup(o); !slices.Equal(got.ExcludedSnapshots, c.want) || int(got.ExcludedSnapshotsCount) != len(c.want) {
			t.Errorf("%s: %q, of %d, want %q", phrase, got.ExcludedSnapshots, got.ExcludedSnapshotsCount, c.want)
		}
	}
}
