package health

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/operator/hibernation"
)

// Hibernation is what is known of the hibernation, with what the last run of the extension told; nil: nothing. The
// pods of runs go some time after their end, so what they told is remembered.
func Hibernation(o Observation) *druidv1alpha1.HibernationStatus {
	h := o.Etcd.Status.Hibernation
	if h == nil {
		return nil
	}
	newest, found := lastNotice(o)
	if left := !newest.Released && (newest.Held || h.HoldsLeft); found && left != h.HoldsLeft {
		h = h.DeepCopy()
		h.HoldsLeft = left
	}
	if h.FinalSnapshot == nil {
		return h
	}
	at := metav1.NewTime(newest.At.UTC().Truncate(time.Second))
	switch known := h.FinalSnapshot.LookedAt; {
	case !found, known != nil && !known.Before(&at):
		return h
	case !about(newest, h.FinalSnapshot) && (newest.Recorded != "" || newest.At.Before(h.FinalSnapshot.VerifiedAt.Time) || newest.Released && h.AwakeSince == nil):
		return h // of a former sleep, of which a run may tell that began before this one, or of the time between them
	}
	h = h.DeepCopy()
	f := h.FinalSnapshot
	damaged, known := tells(newest, f)
	f.LookedAt, f.Damaged, f.Newer = &at, damaged, ""
	switch less := lacks(newest, f); {
	case less != "":
		f.Suspect = cmp.Or(f.Suspect, less)
	case newest.Whole && about(newest, f) && damaged == "":
		f.ReadAt = &at
	}
	f.Held = f.Held && !newest.Released
	if h.AwakeSince == nil {
		f.Newer = newer(newest, f, o.Etcd.Status.LastKnownRevision)
	}
	if damaged != "" || f.Newer != "" && !about(newest, f) {
		return h // the dates are of another one
	}
	f.Held, f.ProtectedUntil = known && newest.Held && !newest.Released, nil
	if known && !newest.Until.IsZero() {
		until := metav1.NewTime(newest.Until.UTC().Truncate(time.Second))
		f.ProtectedUntil = &until
	}
	if newest.Inferred != nil { // an older program does not tell, and the store is the same
		f.Inferred = *newest.Inferred
	}
	return h
}

// lastNotice is what the last run left of which there is a pod; false: none.
func lastNotice(o Observation) (newest immutability.Notice, found bool) {
	if o.Extension == nil {
		return newest, false
	}
	for _, p := range o.ExtensionPods {
		if p.CreationTimestamp.Before(&o.Extension.CreationTimestamp) {
			continue // of a task of the same name, of an earlier hibernation
		}
		for _, c := range p.Status.ContainerStatuses {
			if c.State.Terminated == nil {
				continue
			}
			if n, is := immutability.ParseNotice(c.State.Terminated.Message); is && n.At.After(newest.At) {
				newest, found = n, true
			}
		}
	}
	return newest, found
}

// tells says whether a run kept everything that the final full has: what is damaged if it did not, and known if it did.
// A copy has another name and the same revisions, so it is these that count. An older program tells no end: then the
// names tell, if they can be read.
func tells(n immutability.Notice, final *druidv1alpha1.FinalSnapshot) (damaged string, known bool) {
	switch {
	case n.Damaged != "":
		return n.Damaged, true
	case about(n, final):
		return "", true
	case n.End >= final.Revision && n.End > 0:
		return "", true
	case n.End > 0:
		return fmt.Sprintf("%s is gone or excluded: %s is kept, which restores to revision %d of %d", final.Name, n.Snapshot, n.End, final.Revision), true
	case n.Snapshot == final.Name:
		return "", true
	}
	kept, err := snapshot.ParseName(n.Snapshot)
	of, ofErr := snapshot.ParseName(final.Name)
	switch {
	case err != nil, ofErr != nil:
		return "", false
	case kept.Last < of.Last:
		return fmt.Sprintf("%s is gone or excluded: %s is kept", final.Name, n.Snapshot), true
	}
	return "", true
}

// lacks is what a run that has read the final full did not find in it, although its bytes are right; empty: nothing. That members had
// a revision is told by the member that took it, as everything else of it: it may have written another one.
func lacks(n immutability.Notice, final *druidv1alpha1.FinalSnapshot) string {
	switch {
	case !about(n, final):
		return ""
	case n.Unproven != "":
		return fmt.Sprintf("the run of %s read every byte of it, and %s", at(n.At), n.Unproven)
	case n.Whole && n.End < final.Revision:
		return fmt.Sprintf("the run of %s found that it ends at revision %d, and the members stopped at revision %d", at(n.At), n.End, final.Revision)
	}
	return ""
}

// about: the run was told to keep the final full, so what it tells is about that.
func about(n immutability.Notice, final *druidv1alpha1.FinalSnapshot) bool {
	return n.Recorded == final.Name
}

// newer is what there is in the bucket of a cluster that sleeps that goes on where no member was there to write; empty:
// nothing. A run tells of every full that is not the final one. Of deltas, as members upload when they stop, and of an older
// program, which keeps the newest alone and does not tell whose that is, the revisions tell.
func newer(n immutability.Notice, final *druidv1alpha1.FinalSnapshot, highest *int64) string {
	base, end := final.Name, n.NewestEnd
	if !about(n, final) {
		base, end = n.Snapshot, n.End
	}
	switch {
	case n.Newer != "":
		return n.Newer
	case highest == nil, end <= max(*highest, final.Revision):
		return ""
	}
	return fmt.Sprintf("%s and its deltas, which go to revision %d, and no member told of more than %d", base, end, max(*highest, final.Revision))
}

// readPatience is how long after a cluster was told to sleep, or its volumes to go, a run should have read the final full.
const readPatience = 15 * time.Minute

// taskPatience is how long a task may be there before somebody acts on it.
const taskPatience = 5 * time.Minute

// hibernationProtected is true while the lock of the final full of a hibernated cluster ends later than the next
// extension can be through:
//
//	last known       next run       through                    lock ends
//	    |---------------|--- takes ----|--- clocks differ ---|------|
//
// So it is false before the lock ends, by that margin at least, and by a whole interval of the schedule if a run
// failed. A run that should be under way counts as the next one until it should be through.
//
// It is told for as long as the final full is all that is known to be good: until a member has taken another one. After that it is
// told of a hold that ought to be released by then.
func (v view) hibernationProtected() (f finding, applies bool) {
	h := Hibernation(v.Observation)
	awake := h != nil && h.EtcdUID == v.Etcd.UID && h.AwakeSince != nil
	wakes := awake && h.NewFull == ""
	switch {
	case awake && !wakes && v.wanted() > 0 && h.Holds():
		return v.unreleased(h)
	case v.StatefulSet == nil, replicasOf(v.StatefulSet) > 0 && !wakes:
		return finding{}, false
	case v.wanted() > 0 && h == nil: // it never slept; one that did sleeps on until what is wanted is applied
		return finding{}, false
	}
	live := v.Etcd
	v.Etcd = live.AsApplied()
	if v.immutability() == nil && (v.Extension == nil || v.Extension.Status.State.Ended()) { // a person's task may prolong without
		return v.removed(h)
	}
	f = v.lockOfFinal(h)
	f.message += unapplied(live, h)
	return f, true
}

// releasePatience is how long after a new full a hold may stay: runs that release it come every hour.
const releasePatience = 3 * time.Hour

// byHand is how a person releases what runs hold, for the end of a message.
const byHand = "etcdbrctl extend-snapshot-immutability --release-holds once there is a newer backup, or gcloud storage objects update --no-event-based-hold"

// unreleased is while a cluster is awake and has taken a new full, and something is held still: nothing is told as long as the next
// run may release it.
func (v view) unreleased(h *druidv1alpha1.HibernationStatus) (f finding, applies bool) {
	why, full := "", h.AwakeSince.Time
	if n, err := snapshot.ParseName(h.NewFull); err == nil && n.CreatedAt().After(full) {
		full = n.CreatedAt()
	}
	switch last := v.lastFailure(); {
	case v.NoExtension != "":
		why = "there is no EtcdOperatorTask for that: " + v.NoExtension
	case v.idle() != "":
		why = fmt.Sprintf("the EtcdOperatorTask %s does not: %s", v.Extension.Name, v.idle())
	case last != nil && last.ObservedAt.After(full):
		why = "the last run failed: " + last.Description
	case v.now.Sub(full) <= releasePatience:
		return finding{}, false
	case last != nil: // as when it has no credentials since the cluster slept
		why = "no run has since " + at(full) + ": " + last.Description
	default:
		why = fmt.Sprintf("no run has since %s: kubectl get cronjobs,jobs says whether they run, and their logs why it stays", at(full))
	}
	mended := "a run releases it within an hour of when that is mended, or do it by " + byHand
	if !finalIsHeld(h) {
		mended = "a run releases what is held here within an hour of when that is mended; what is in a former store is released by hand alone: " + byHand
	}
	return fails(druidv1alpha1.ReasonHoldNotReleased, "%s still, although %s is newer, and cannot be collected: %s; %s", whatIsHeld(h), h.NewFull, why, mended), true
}

// lastFailure is that of the task, if its last run failed or none can run; nil: not as far as is known.
func (v view) lastFailure() *druidv1alpha1.LastError {
	t := v.Extension
	if t == nil || t.Status.LastOperation == nil || t.Status.LastOperation.State != druidv1alpha1.OperationFailed || len(t.Status.LastErrors) == 0 {
		return nil
	}
	return &t.Status.LastErrors[len(t.Status.LastErrors)-1]
}

// Unread is why no run of the extension reads the final full; empty: one does, as far as is known.
func Unread(o Observation, now time.Time) string {
	v := view{Observation: o, now: now}
	if v.NoExtension != "" {
		return v.NoExtension
	}
	if why := v.idle(); why != "" {
		return why
	}
	if last := v.lastFailure(); last != nil {
		return last.Description
	}
	h := o.Etcd.Status.Hibernation
	if h == nil || h.FinalSnapshot == nil {
		return ""
	}
	for _, p := range o.ExtensionPods {
		if _, why := PodHindered(p); why != "" && now.Sub(p.CreationTimestamp.Time) > taskPatience {
			return fmt.Sprintf("the pod %s does not begin: %s; when that is mended in the Etcd, kubectl delete job/%s has the next one begin", p.Name, why, p.Labels[batchv1.JobNameLabel])
		}
	}
	awake := druidv1alpha1.FindCondition(o.Etcd.Status.Conditions, druidv1alpha1.ConditionHibernated)
	if awake == nil || awake.Status != druidv1alpha1.ConditionFalse {
		return ""
	}
	since := awake.LastTransitionTime.Time
	switch n, found := lastNotice(o); {
	case found && about(n, h.FinalSnapshot) && !n.Whole && n.Damaged == "" && n.At.After(since.Add(readPatience)): // and was told to read
		return fmt.Sprintf("the run of %s does not tell that it read it: is etcdbrctl in the image of spec.backup.image older than the operator?", at(n.At))
	case now.Sub(since) > readPatience:
		return fmt.Sprintf("none has since %s, and one may be at work: kubectl describe etcdoperatortask %s says how they are", at(since), o.Etcd.HibernationTaskName())
	}
	return ""
}

func finalIsHeld(h *druidv1alpha1.HibernationStatus) bool {
	return h.FinalSnapshot != nil && h.FinalSnapshot.Held
}

// whatIsHeld is that, for the beginning of a message.
func whatIsHeld(h *druidv1alpha1.HibernationStatus) string {
	if finalIsHeld(h) {
		return h.FinalSnapshot.Name + " is held"
	}
	return "what runs of the extension held, here or in a former store, is held"
}

// idle is why nobody carries the task out that there is; empty: it is carried out, or there is none.
func (v view) idle() string {
	t := v.Extension
	switch {
	case t == nil, !t.Status.State.Ended() && (t.Status.State != "" || v.now.Sub(t.CreationTimestamp.Time) <= taskPatience):
		return ""
	case t.Status.LastOperation != nil:
		return t.Status.LastOperation.Reason
	}
	return "nobody acts on it: switch controllers.etcdOpsTask on"
}

// removed is while something is kept from being deleted by what was asked for before, and is not any more. What is held is, whoever
// asked for it and however long ago.
func (v view) removed(h *druidv1alpha1.HibernationStatus) (f finding, applies bool) {
	if h == nil || h.EtcdUID != v.Etcd.UID {
		return finding{}, false
	}
	const gone = "spec.backup.store.immutability does not ask for locks any more, and nothing prolongs them: "
	told := druidv1alpha1.FindCondition(v.Etcd.Status.Conditions, druidv1alpha1.ConditionHibernationBackupProtected) != nil
	var what []string
	if h.Holds() {
		what = append(what, whatIsHeld(h)+", and nobody can delete it until it is released: after the cluster has woken up and taken a full snapshot where that is, or by "+byHand)
	}
	if final := h.FinalSnapshot; told && final != nil && !final.Held && final.ProtectedUntil != nil && final.ProtectedUntil.After(v.now) {
		what = append(what, fmt.Sprintf("%s is %s, and after that whoever may delete in the bucket can delete it", final.Name, lockOf(final)))
	}
	if len(what) == 0 {
		return finding{}, false
	}
	return fails(druidv1alpha1.ReasonImmutabilityRemoved, "%s", gone+strings.Join(what, "; ")), true
}

// unapplied says that extensions do not go by the specification, for the end of a message; empty: they do.
func unapplied(e *druidv1alpha1.Etcd, h *druidv1alpha1.HibernationStatus) string {
	if h == nil || h.Applied == nil || h.EtcdUID != e.UID {
		return ""
	}
	e = e.DeepCopy()
	e.SetDefaults()
	if b := e.Spec.Backup; equality.Semantic.DeepEqual(&druidv1alpha1.AppliedBackup{Store: b.Store, FullSnapshotSchedule: b.FullSnapshotSchedule}, h.Applied) {
		return ""
	}
	return "; the extension goes by status.hibernation.applied, and not by spec.backup, which was changed: the change is refused (status.lastErrors), nobody asked for it, or it names another store than that of the final snapshot (condition Hibernated)"
}

// lockOfFinal is what is known of it, of an Etcd that asks for locks.
func (v view) lockOfFinal(h *druidv1alpha1.HibernationStatus) finding {
	switch {
	case h == nil, h.EtcdUID != v.Etcd.UID:
		return unclear(druidv1alpha1.ReasonFinalSnapshotDateNotKnown, "no final full snapshot of this hibernation is known: it may have begun under another operator; wake the cluster and have it sleep again, or look with etcdbrctl list")
	case h.FinalSnapshot == nil:
		why := "the members stopped without a final full snapshot, as that was allowed; what came after the last backup is on the volumes alone"
		if h.HoldsLeft {
			why += "; " + whatIsHeld(h) + " until the cluster has woken up and taken a full snapshot"
		}
		return fails(druidv1alpha1.ReasonFinalSnapshotMissing, "%s", why)
	}
	final, takes := h.FinalSnapshot, snapshotTimeout(v.Etcd)
	kept := "held"
	switch until := final.ProtectedUntil; {
	case final.Damaged != "":
		return fails(druidv1alpha1.ReasonFinalSnapshotDamaged, "what is kept locked, if anything, is not the final full snapshot: %s; wake the cluster, whose volumes may have everything, and have it take a full snapshot", final.Damaged)
	case final.Held:
	case until == nil:
		kept = "locked, nobody has told until when"
	case !until.After(v.now):
		return fails(druidv1alpha1.ReasonProtectionEnded, "the lock of %s ended at %s: whoever may delete in the bucket can delete it; %s", final.Name, at(until.Time), v.extensionRemedy())
	default:
		kept = lockOf(final)
	}
	if why := v.idle(); why != "" {
		return fails(druidv1alpha1.ReasonExtensionNotRunning, "%s is %s, and the EtcdOperatorTask %s does not prolong that: %s", final.Name, kept, v.Extension.Name, why)
	}
	if v.NoExtension != "" {
		return fails(druidv1alpha1.ReasonExtensionNotRunning, "%s is %s, and no EtcdOperatorTask prolongs that: %s", final.Name, kept, v.NoExtension)
	}
	looked := final.VerifiedAt.Time
	if final.LookedAt != nil {
		looked = final.LookedAt.Time
	}
	switch {
	case final.Held && v.next(v.next(looked)).Add(takes+hibernation.Clocks).Before(v.now): // two runs had time to tell
		return unclear(druidv1alpha1.ReasonFinalSnapshotDateNotKnown, "%s was held, and nobody has told since %s that it still is; %s", final.Name, at(looked), v.extensionRemedy())
	case final.Held && final.Newer != "":
		return notNewest(final, kept)
	case final.Held:
		return holds(druidv1alpha1.ReasonFinalSnapshotHeld, "%s is held until somebody releases it", final.Name)
	case final.ProtectedUntil == nil:
		return unclear(druidv1alpha1.ReasonFinalSnapshotDateNotKnown, "nobody has told until when %s is locked", final.Name)
	}
	until := final.ProtectedUntil.Time
	since := v.now.Add(-takes)
	if l := final.LookedAt; l != nil && l.After(since) {
		since = l.Time
	}
	next := v.next(since)
	if next.Add(takes + hibernation.Clocks).After(until) {
		return fails(druidv1alpha1.ReasonProtectionEnds, "%s is %s, and the extension of %s may be through after that; %s", final.Name, kept, at(next), v.extensionRemedy())
	}
	if final.Newer != "" {
		return notNewest(final, kept)
	}
	if final.Inferred {
		return holds(druidv1alpha1.ReasonFinalSnapshotInferred, "%s is %s: the store does not tell dates of objects, so that is likely, and not proven; the next extension is at %s", final.Name, kept, at(next))
	}
	return holds(druidv1alpha1.ReasonFinalSnapshotProtected, "%s is %s; the next extension is at %s", final.Name, kept, at(next))
}

// notNewest: what is kept is safe, and nobody gets it who restores the newest state.
func notNewest(final *druidv1alpha1.FinalSnapshot, kept string) finding {
	return fails(druidv1alpha1.ReasonFinalSnapshotNotNewest, "%s is %s, and there is something newer that no member wrote: %s; a restore of the newest state would use it, so leave it out with etcdbrctl exclude, unless you know who wrote it",
		final.Name, kept, final.Newer)
}

// lockOf is a lock with an end, for the middle of a sentence.
func lockOf(final *druidv1alpha1.FinalSnapshot) string {
	text := "locked until " + at(final.ProtectedUntil.Time)
	if final.Inferred {
		text += " as inferred from the bucket's policy"
	}
	return text
}

// extensionRemedy is what to do about locks that end, for the end of a message.
func (v view) extensionRemedy() string {
	if t := v.Extension; t != nil && t.Status.LastOperation != nil && t.Status.LastOperation.State == druidv1alpha1.OperationFailed {
		return "the last one failed: " + t.Status.LastOperation.Reason
	}
	t, often := &druidv1alpha1.EtcdOperatorTask{ObjectMeta: metav1.ObjectMeta{Name: v.Etcd.HibernationTaskName()}}, "spec.backup.fullSnapshotSchedule"
	if v.Extension != nil {
		t = v.Extension
	}
	if t.ExtensionSchedule() != nil {
		often = "another task with another schedule"
	}
	return "run it now (kubectl create job --from=cronjob/" + t.CronJobName() + " NAME), or run it more often (" + often + ")"
}

// RunsTooRarely says why a task that prolongs locks on a schedule, each time for a period, leaves moments without a lock; empty: it
// leaves none.
func RunsTooRarely(schedule string, period time.Duration) string {
	if u := (immutability.Upkeep{Period: period, Every: parsed(schedule).AsCronJob().Longest()}); !u.Holds() {
		return fmt.Sprintf("with %q %s", schedule, u)
	}
	return ""
}

// next is the first time at which locks are prolonged after t, in a hundred years if there is none.
func (v view) next(t time.Time) time.Time {
	text := scheduleOf(v.Etcd)
	if v.Extension != nil {
		if own := v.Extension.ExtensionSchedule(); own != nil {
			text = *own
		}
	}
	if at := parsed(text).AsCronJob().Next(t); !at.IsZero() {
		return at
	}
	return t.AddDate(100, 0, 0)
}
