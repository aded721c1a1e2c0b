package health

import (
	"time"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/backup/immutability"
)

// Backup is what was found by the last look through the bucket; nil: nobody looked. It stays while nobody
// looks, as while the cluster sleeps, but for what is excluded from restores: extensions tell that, too.
func Backup(o Observation) *druidv1alpha1.BackupStatus {
	if !o.Etcd.BackupsEnabled() {
		return nil
	}
	var newest *druidv1alpha1.BackupStatus
	if known := o.Etcd.Status.Backup; known != nil {
		newest = &known.BackupStatus
	}
	for i := range o.Members {
		s := o.Members[i].Status.Snapshots
		if s != nil && s.Bucket != nil && (newest == nil || newest.LookedAt.Before(&s.Bucket.LookedAt)) {
			newest = s.Bucket
		}
	}
	if n, told := lastNotice(o); told && newest != nil && n.ExcludedCount != nil && n.At.After(newest.LookedAt.Time) {
		newest = newest.DeepCopy()
		newest.ExcludedSnapshots, newest.ExcludedSnapshotsCount = n.Excluded, int32(*n.ExcludedCount) //nolint:gosec // a number of objects below a prefix
	}
	return newest
}

// Proof is the newest proof that anybody told of, as those of former backup leaders count too; nil: there was none.
func Proof(o Observation) *druidv1alpha1.SnapshotProof {
	return newestProof(o, func(*druidv1alpha1.SnapshotProof) bool { return true })
}

// newestProof is the newest of those that count.
func newestProof(o Observation, counts func(*druidv1alpha1.SnapshotProof) bool) (newest *druidv1alpha1.SnapshotProof) {
	see := func(p *druidv1alpha1.SnapshotProof) {
		if p != nil && counts(p) && (newest == nil || newest.EndedAt.Before(&p.EndedAt)) {
			newest = p
		}
	}
	if known := o.Etcd.Status.Backup; known != nil {
		see(known.Proof)
	}
	for i := range o.Members {
		if s := o.Members[i].Status.Snapshots; s != nil {
			see(s.Proof)
		}
	}
	return newest
}

// Coverage is whether a period of locks leaves no moment without one, by the schedule of fulls and how long
// one may take.
func Coverage(e *druidv1alpha1.Etcd, period time.Duration) immutability.Coverage {
	return immutability.Coverage{Period: period, Between: parsed(scheduleOf(e)).Longest(), Takes: snapshotTimeout(e)}
}

// protected is true while the newest chain is locked, and will be until the next full is in the bucket.
// It is left out unless immutability is asked for; where it was, until the last lock has ended.
func (v view) protected() (f finding, applies bool) {
	found, asked := Backup(v.Observation), v.immutability()
	locked := found != nil && found.ProtectedUntil != nil && found.ProtectedUntil.After(v.now)
	told := druidv1alpha1.FindCondition(v.Etcd.Status.Conditions, druidv1alpha1.ConditionBackupsProtected) != nil
	if (asked == nil && told || asked != nil && !locked) && v.fromBefore(found) {
		if f, applies := v.hibernationProtected(); applies && f.reason != druidv1alpha1.ReasonHoldNotReleased { // which says nothing of the newest
			return asBackups(f), true
		}
	}
	switch {
	case asked != nil:
	case locked && told:
		return fails(druidv1alpha1.ReasonImmutabilityRemoved, "spec.backup.store.immutability is not there any more: nothing keeps the newest backups from being deleted after %s", at(found.ProtectedUntil.Time)), true
	default:
		return finding{}, false
	}
	if found == nil {
		return unclear(druidv1alpha1.ReasonProtectionNotKnown, "nobody has looked through the bucket yet"), true
	}
	level := immutability.Mode(found.ProtectionLevel)
	switch {
	case level == immutability.ModeUnknown:
		return unclear(druidv1alpha1.ReasonProtectionNotKnown, "%s; the credentials may lack the right to read locks", found.Protection), true
	case v.wanted() == 0 && !locked && found.ProtectedUntil != nil:
		return unclear(druidv1alpha1.ReasonProtectionNotKnown, "the locks that are known of ended at %s, and nobody has looked since the cluster sleeps", at(found.ProtectedUntil.Time)), true
	case !locked || immutability.Compare(level, immutability.ModeGovernance) < 0:
		return fails(druidv1alpha1.ReasonNotProtected, "%s%s", found.Protection, remedyFor(asked)), true
	case asked.RetentionType == druidv1alpha1.RetentionObject && immutability.Compare(level, immutability.Mode(modeOf(asked))) < 0:
		return fails(druidv1alpha1.ReasonNotProtected, "%s, and %s is asked for (spec.backup.store.immutability.mode); it comes with the next full snapshot, unless the bucket does not give it", found.Protection, modeOf(asked)), true
	}
	if p := found.RetentionPeriod; p != nil {
		if c := Coverage(v.Etcd, p.Duration); !c.Holds() {
			return fails(druidv1alpha1.ReasonRetentionTooShort, "%s; lengthen the retention of the bucket (etcdbrctl bucket ensure), or take fulls more often (spec.backup.fullSnapshotSchedule)", c), true
		}
	}
	if found.ProtectionInferred {
		return holds(druidv1alpha1.ReasonProtectionInferred, "%s", found.Protection), true
	}
	return holds(druidv1alpha1.ReasonProtected, "%s", found.Protection), true
}

// fromBefore: what was found in the bucket is from before the cluster slept. The final full is the newest backup since, and runs tell
// of its lock.
func (v view) fromBefore(found *druidv1alpha1.BackupStatus) bool {
	h := v.Etcd.Status.Hibernation
	if h == nil || h.FinalSnapshot == nil {
		return false
	}
	return h.AwakeSince == nil || found == nil || found.LookedAt.Before(h.AwakeSince)
}

// asBackups is what is known of the lock of the final full, in the words of BackupsProtected.
func asBackups(f finding) finding {
	f.message += " (HibernationBackupProtected)"
	switch {
	case f.reason == druidv1alpha1.ReasonImmutabilityRemoved:
	case f.reason == druidv1alpha1.ReasonFinalSnapshotInferred:
		f.reason = druidv1alpha1.ReasonProtectionInferred
	case f.status == druidv1alpha1.ConditionTrue:
		f.reason = druidv1alpha1.ReasonProtected
	case f.status == druidv1alpha1.ConditionFalse:
		f.reason = druidv1alpha1.ReasonNotProtected
	default:
		f.reason = druidv1alpha1.ReasonProtectionNotKnown
	}
	return f
}

func (v view) immutability() *druidv1alpha1.ImmutabilitySpec {
	if !v.hasStore() {
		return nil
	}
	return v.Etcd.Spec.Backup.Store.Immutability
}

func modeOf(i *druidv1alpha1.ImmutabilitySpec) druidv1alpha1.RetentionMode {
	if i.Mode != nil {
		return *i.Mode
	}
	return druidv1alpha1.RetentionCompliance
}

// remedyFor is what to do about a newest chain without locks, for the end of a message.
func remedyFor(i *druidv1alpha1.ImmutabilitySpec) string {
	if i.RetentionType == druidv1alpha1.RetentionObject {
		return "; what is uploaded from now on is locked, so the next full snapshot is; take one to not wait for it"
	}
	return "; make the bucket lock new objects (etcdbrctl bucket ensure), and take a full snapshot"
}

// scheduleOf is that of the fulls.
func scheduleOf(e *druidv1alpha1.Etcd) string {
	if s := e.Spec.Backup.FullSnapshotSchedule; s != nil {
		return *s
	}
	return defaultSchedule
}

// snapshotTimeout is how long one full may take.
func snapshotTimeout(e *druidv1alpha1.Etcd) time.Duration {
	if t := e.Spec.Backup.EtcdSnapshotTimeout; t != nil && t.Duration > 0 {
		return t.Duration
	}
	return defaultSnapshotTimeout
}
