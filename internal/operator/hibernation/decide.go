package hibernation

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

// Step is what is done now. The zero value is a cluster that is awake.
type Step struct {
	// Reason and Message are those of the condition Hibernated, which is True with Asleep; empty: it is absent.
	Reason, Message string
	Asleep          bool

	// Hold is what must be so before the members stop; empty: they may.
	Hold string
	// Take is what a final snapshot is to be taken for now; empty: none is.
	Take string
	// Closed: the client Service has none of etcd's ports.
	Closed bool
	// Refuse: members are asked to refuse clients for RefuseFor from now on. Admit: they are asked to serve them again.
	Refuse, Admit bool
	// Waits is what volumes that are to go wait for; empty: nothing.
	Waits string
	// DeleteClaims: the volumes go now.
	DeleteClaims bool
	// Extend: the locks of the newest backup are to be prolonged.
	Extend bool
	// Record is status.hibernation as it has to be before anything else of the step is done.
	Record *druidv1alpha1.HibernationStatus
}

// Decide says what is done.
func Decide(f Facts) Step {
	switch {
	case f.Wanted:
		return f.admit(f.wake())
	case f.Replicas > 0:
		return f.fall()
	}
	return f.sleep()
}

// admit has members serve clients again that refuse them, and says so where nothing else is done. Who does not answer is
// asked again, for as long as he may refuse them.
func (f Facts) admit(s Step) Step {
	s.Admit = len(f.Refusing) > 0
	switch {
	case s.Reason != "":
	case s.Admit:
		s.Reason, s.Message = druidv1alpha1.ReasonWakingUp, "members serve clients again that refused them: "+strings.Join(f.Refusing, ", ")
	case len(f.Silent) > 0:
		s.Reason, s.Message = druidv1alpha1.ReasonWakingUp, fmt.Sprintf("members that refused clients do not answer, and may refuse them for %s: %s", duration(RefuseFor), strings.Join(f.Silent, ", "))
	}
	return s
}

// fall is before the members stop.
func (f Facts) fall() Step {
	s := Step{Closed: true, Record: f.mine()}
	// What protected an earlier hibernation does so until there is something newer.
	s.Extend = s.Record != nil && f.extends()
	switch {
	case f.Shared != "":
		return f.admit(s.hold(druidv1alpha1.ReasonSharedWithOthers, f.Shared))
	case f.Untouched:
		return f.stop(s, nil, "no member ever had data")
	case f.Store == "":
		return f.stop(s, nil, "there are no backups, so that the volumes alone have the data")
	case f.Skip != "":
		return f.stop(s, nil, f.Skip+" wants no final full snapshot")
	case len(f.Elsewhere) > 0 && f.Unprotected:
		return f.stop(s, nil, "spec.hibernation.allowUnprotected has it so, although sidecars write their backups elsewhere than the specification says")
	case len(f.Elsewhere) > 0:
		return f.admit(s.hold(druidv1alpha1.ReasonStoreChanged, fmt.Sprintf("sidecars that write their backups where the specification says, %s: those of %s do not yet; set replicas back until all members are updated, then to 0 again", f.Store, strings.Join(f.Elsewhere, ", "))))
	}
	s.Refuse = f.refuse()
	s = f.prove(s)
	s.Message += f.writable()
	return s
}

// prove has a final snapshot be taken and compared while the members refuse clients.
func (f Facts) prove(s Step) Step {
	reason, why, after := f.unfit()
	ended := f.ended()
	switch a := f.Attempt; {
	case reason == "" && f.Unprotected && len(f.unfenced(f.final())) > 0:
		return f.stop(s, nil, fmt.Sprintf("spec.hibernation.allowUnprotected has it so, although %s served clients after %s was asked for", strings.Join(f.unfenced(f.final()), ", "), f.final().Name))
	case reason == "":
		return f.stop(s, f.final(), "")
	case a.Running:
		return s.hold(druidv1alpha1.ReasonTakingFinalSnapshot, "the final full snapshot, which is being taken and proven")
	case f.Unprotected && !ended.IsZero() && (a.Failed != "" || f.Now.Sub(ended) >= Again):
		return f.stop(s, nil, "spec.hibernation.allowUnprotected has it so, although "+why)
	}
	s = s.hold(reason, why)
	if after == 0 || !f.Attempt.Ended.IsZero() && f.Now.Sub(f.Attempt.Ended) < after {
		return s
	}
	open, early := f.closing(), f.early()
	switch {
	case f.Unprotected && len(open)+len(early) > 0 && (f.ClosingSince.IsZero() || f.Now.Sub(f.ClosingSince) < ClosingAtMost):
		return s.hold(druidv1alpha1.ReasonClosingToClients, fmt.Sprintf("the members to refuse clients, for %v at most as spec.hibernation.allowUnprotected is set, before the final full snapshot is taken", ClosingAtMost))
	case f.Unprotected:
	case len(open) > 0:
		return s.hold(druidv1alpha1.ReasonClosingToClients, fmt.Sprintf("%s to refuse clients, before the final full snapshot is taken", strings.Join(open, ", ")))
	case len(early) > 0:
		return s.hold(druidv1alpha1.ReasonClosingToClients, fmt.Sprintf("some seconds in which %s refuse clients, before the final full snapshot is taken", strings.Join(early, ", ")))
	}
	s.Take = f.purpose()
	return s
}

// again is when another full is taken because members served clients. What is locked cannot be removed, so that a member which is
// started anew again and again must not fill a bucket.
func (f Facts) again() time.Duration {
	if f.Locks && f.Attempt.Repeated {
		return AgainLocked
	}
	return Again
}

// unfit is why the members may not stop with the final snapshot that there is, and when after the last attempt another
// one helps; 0: it does not. An empty reason: they may.
func (f Facts) unfit() (reason, why string, after time.Duration) {
	final := f.final()
	switch {
	case final == nil && f.Attempt.Failed != "":
		return druidv1alpha1.ReasonFinalSnapshotFailed, fmt.Sprintf("the final full snapshot failed at %s, and is tried again: %s", at(f.Attempt.Ended), f.Attempt.Failed), Again
	case final == nil:
		return druidv1alpha1.ReasonTakingFinalSnapshot, "the final full snapshot of this hibernation", Again
	case f.Locks && !final.Held && final.ProtectedUntil == nil:
		return druidv1alpha1.ReasonFinalSnapshotNoLock, fmt.Sprintf("%s is not known to be locked, and spec.backup.store.immutability asks for that: make the bucket lock new objects (etcdbrctl bucket ensure)", final.Name), AgainLocked
	case f.Locks && f.weak():
		return druidv1alpha1.ReasonFinalSnapshotNoLock, fmt.Sprintf("the lock of %s is of mode %s, and spec.backup.store.immutability.mode asks for %s: let the bucket and the credentials give that; another one is taken", final.Name, f.Attempt.Mode, f.Mode), AgainLocked
	case f.Locks && !f.locked(final):
		return druidv1alpha1.ReasonFinalSnapshotNoLock, fmt.Sprintf("the lock of %s ends at %s, which is too soon, as clocks may differ by %s: another one is taken", final.Name, at(final.ProtectedUntil.Time), duration(Clocks)), AgainLocked
	case !f.fresh(final):
		return druidv1alpha1.ReasonTakingFinalSnapshot, fmt.Sprintf("another proof, as %s was proven at %s", final.Name, at(final.VerifiedAt.Time)), Again
	case len(f.served(final)) > 0:
		return druidv1alpha1.ReasonTakingFinalSnapshot, fmt.Sprintf("another snapshot, as members served clients after %s was asked for, which was proven at %s: %s", final.Name, at(final.VerifiedAt.Time), strings.Join(f.served(final), ", ")), f.again()
	case f.Now.Sub(f.ended()) < f.Settle: // also if the clock was set back since
		return druidv1alpha1.ReasonTakingFinalSnapshot, fmt.Sprintf("members to tell that they have nothing that %s has not, some seconds after it was proven", final.Name), 0
	case len(f.Differ) > 0:
		return druidv1alpha1.ReasonRevisionsNotKnown, fmt.Sprintf("data that do not differ: etcd has raised the alarm CORRUPT for %s; set replicas back and replace the data of the member that is wrong", strings.Join(f.Differ, ", ")), 0
	}
	open := f.closing()
	early := f.early()
	var unknown, behind, ahead []string
	for _, m := range f.Members {
		text := fmt.Sprintf("%s at %d", m.Name, m.Revision)
		switch {
		case !m.Known:
			unknown = append(unknown, m.Name)
		case m.Revision < final.Revision:
			behind = append(behind, text)
		case m.Revision > final.Revision:
			ahead = append(ahead, text)
		}
	}
	switch {
	case len(ahead) > 0:
		return druidv1alpha1.ReasonWritesAfterSnapshot, fmt.Sprintf("%s has everything up to revision %d, and %s: something was written before the members refused clients, or by etcd itself, as when leases end; another snapshot is taken, and the members stop when nothing is written", final.Name, final.Revision, strings.Join(ahead, ", ")), Again
	case len(unknown)+len(f.Members) == 0, len(unknown) > 0:
		return druidv1alpha1.ReasonRevisionsNotKnown, fmt.Sprintf("members that do not tell whether they have more than revision %d of %s: %s; make them work, or allow it with spec.hibernation.allowUnprotected", final.Revision, final.Name, strings.Join(unknown, ", ")), 0
	case len(behind) > 0:
		return druidv1alpha1.ReasonRevisionsNotKnown, fmt.Sprintf("%s to catch up with revision %d of %s", strings.Join(behind, ", "), final.Revision, final.Name), 0
	case len(open) > 0:
		return druidv1alpha1.ReasonClosingToClients, fmt.Sprintf("%s to refuse clients until the members have stopped", strings.Join(open, ", ")), 0
	case len(early) > 0: // what is told may be from before
		return druidv1alpha1.ReasonClosingToClients, fmt.Sprintf("members to tell their revisions anew, some seconds after they began to refuse clients: %s", strings.Join(early, ", ")), 0
	}
	return "", "", 0
}

// stop lets the members stop: the record is written first. A former one is not this hibernation's, but what it protects goes on
// to be if there is nothing newer.
func (f Facts) stop(s Step, final *druidv1alpha1.FinalSnapshot, without string) Step {
	former := f.mine()
	if final == nil && former != nil && former.FinalSnapshot != nil && former.AwakeSince != nil && former.NewFull == "" && !f.Unprotected {
		s.Record, s.Extend = former.DeepCopy(), f.extends()
		s.Record.VolumesGoSince = nil // those that there are have been made since
		s.Reason, s.Message = druidv1alpha1.ReasonScalingToZero, fmt.Sprintf("the members stop: %s; what protects %s stays", without, former.FinalSnapshot.Name)
		return s
	}
	r := &druidv1alpha1.HibernationStatus{EtcdUID: f.UID, Generation: f.Generation, FinalSnapshot: final}
	if former != nil {
		r.HoldsLeft = former.Holds()
		r.Applied = former.Applied.DeepCopy() // until what applies now is known to be good
	}
	if r.FinalSnapshot != nil {
		r.FinalSnapshot = final.DeepCopy()
		r.FinalSnapshot.Store = f.Store
	}
	s.Record, s.Extend = r, f.Store != "" && f.Locks
	s.Reason, s.Message = druidv1alpha1.ReasonScalingToZero, "the members stop: "+without
	if final != nil {
		s.Message = fmt.Sprintf("the members stop: %s can be restored and has everything up to revision %d", final.Name, final.Revision)
	}
	return s
}

// sleep is after the members were told to stop.
func (f Facts) sleep() Step {
	s := Step{Closed: true, Record: f.mine(), Extend: f.extends()}
	var final *druidv1alpha1.FinalSnapshot
	if s.Record != nil && s.Record.AwakeSince == nil {
		final = s.Record.FinalSnapshot
	}
	becomes, why := f.claims(s.Record, final)
	keeps := ""
	if becomes == claimsStay && why != "" && !f.Keep {
		keeps = "; the volumes stay although spec.hibernation.volumes is Delete, as " + why
	}
	switch {
	case f.Pods > 0:
		s.Reason, s.Message = druidv1alpha1.ReasonScalingToZero, fmt.Sprintf("the members stop: pods that are left: %d%s", f.Pods, f.Unending)
		s.Refuse = final != nil && f.refuse()
		return s
	case becomes == claimsGo:
		return f.deleteClaims(s, final)
	case becomes == claimsWait:
		s.Reason, s.Message = druidv1alpha1.ReasonDeletingVolumes, fmt.Sprintf("volume claims that are to go: %d; %s", f.Claims, why)
		s.Waits = s.Message
		return s
	}
	s.Asleep = true
	switch {
	case final == nil && f.Untouched:
		s.Reason, s.Message = druidv1alpha1.ReasonHibernated, "the cluster has no members, and never had data"
	case f.Store == "" && f.Claims > 0 && !f.Kept:
		s.Reason, s.Message = druidv1alpha1.ReasonHibernated, "the cluster has no members, and there are no backups: the volumes alone wake it"
	case final == nil:
		s.Reason, s.Message = druidv1alpha1.ReasonHibernatedUnproven, "the cluster has no members, and no final full snapshot of this hibernation is known; what it had is on the volumes"
	case !f.reaches(final):
		s.Reason, s.Message = druidv1alpha1.ReasonStoreChanged, "the cluster has no members; "+f.elsewhere(final)
	case final.Doubt() != "":
		s.Reason, s.Message = druidv1alpha1.ReasonHibernatedUnproven, fmt.Sprintf("the cluster has no members, and of the bucket is known: %s; volumes that have everything: %d", final.Doubt(), f.Claims)
	case f.Claims == 0:
		s.Reason, s.Message = druidv1alpha1.ReasonHibernated, fmt.Sprintf("the cluster has neither members nor volumes; %s, up to revision %d, wakes it", final.Name, final.Revision)
	case f.remnant(s.Record):
		s.Reason, s.Message = druidv1alpha1.ReasonHibernatedUnproven, fmt.Sprintf("the cluster has no members; volumes that are left: %d of %d, no cluster any more, so that %s, up to revision %d, alone wakes it, and they stay, as %s", f.Claims-f.Going, f.Slept, final.Name, final.Revision, why)
	default:
		s.Reason, s.Message = druidv1alpha1.ReasonHibernated, fmt.Sprintf("the cluster has no members; the volumes and %s, up to revision %d, wake it%s", final.Name, final.Revision, keeps)
	}
	return s
}

// claimsVerdict is what becomes of the volumes.
type claimsVerdict int

const (
	claimsStay claimsVerdict = iota
	claimsWait               // they go when somebody else than a member has read the final full
	claimsGo
)

// claims says what becomes of the volumes, and if they were to go, why they do not. What a member told is not enough where locks are
// asked for: it may be broken, or not be what it seems, and a run of the extension reads the full in a pod of its own. When so many have gone
// that those which are left are no cluster any more, they go as well, whatever is wanted now. Before that, and in any case as long as
// nobody knows that the final full is there, they stay: it may be a long time since the first was to go.
func (f Facts) claims(r *druidv1alpha1.HibernationStatus, final *druidv1alpha1.FinalSnapshot) (becomes claimsVerdict, why string) {
	switch {
	case f.Claims == 0, final == nil:
		return claimsStay, ""
	case f.remnant(r) && f.Unprotected: // which was set since: it keeps volumes of which none has gone
		return claimsGo, ""
	case !f.reaches(final):
		return claimsStay, ""
	case final.Doubt() != "":
		return claimsStay, "of the bucket is known: " + final.Doubt()
	case f.Revision > final.Revision:
		return claimsStay, fmt.Sprintf("some member had revision %d", f.Revision)
	case f.Keep && !f.remnant(r):
		return claimsStay, ""
	case f.Unprotected && !f.remnant(r):
		return claimsStay, "spec.hibernation.allowUnprotected is set"
	case f.Locks && final.ReadAt != nil && !f.locked(final):
		return claimsStay, final.Name + " is not known to be locked any more"
	case f.Locks && final.ReadAt == nil && f.Unread != "":
		return claimsWait, fmt.Sprintf("nobody but the member that took %s has read it, and no run of the extension does: %s", final.Name, f.Unread)
	case f.Locks && final.ReadAt == nil: // without locks nobody reads it: whoever may write could remove it in any case
		return claimsWait, fmt.Sprintf("nobody but the member that took %s has read it, and a run of the extension does within minutes", final.Name)
	case !f.fresh(final) && (!f.locked(final) || !f.Locks && final.ReadAt == nil && r.VolumesGoSince == nil):
		why = fmt.Sprintf("nobody looked whether %s is there since %s", final.Name, at(final.VerifiedAt.Time))
		if !f.remnant(r) { // else there is no cluster that could be woken from them
			why += ": wake the cluster and have it sleep again"
		}
		return claimsStay, why
	}
	return claimsGo, ""
}

// remnant: the volumes that are left, after some have gone, are no majority of the members that slept.
func (f Facts) remnant(r *druidv1alpha1.HibernationStatus) bool {
	return r.VolumesGoSince != nil && f.Claims-f.Going < f.Slept/2+1
}

// deleteClaims has the volumes go. That it began is written down before.
func (f Facts) deleteClaims(s Step, final *druidv1alpha1.FinalSnapshot) Step {
	if s.Record.VolumesGoSince == nil {
		s.Record = s.Record.DeepCopy()
		s.Record.VolumesGoSince = f.moment()
	}
	s.Reason, s.DeleteClaims = druidv1alpha1.ReasonDeletingVolumes, true
	s.Message = fmt.Sprintf("volume claims that go: %d; ", f.Claims)
	if f.reaches(final) {
		s.Message += final.Name + " wakes the cluster"
	} else {
		s.Message += "the members begin with what is in " + cmp.Or(f.Store, "no store")
	}
	return s
}

// elsewhere says that the snapshot is not where the specification looks for it, and what to do.
func (f Facts) elsewhere(final *druidv1alpha1.FinalSnapshot) string {
	kept := ""
	if f.Kept {
		kept = ", where it is kept locked as before"
	}
	return fmt.Sprintf("its final full snapshot %s is in %s%s, and the specification names %s: set spec.backup.store back, and change it when the cluster is awake",
		final.Name, final.Store, kept, cmp.Or(f.Store, "no store"))
}

// moment is now as it is written down.
func (f Facts) moment() *metav1.Time {
	t := metav1.NewTime(f.Now.UTC().Truncate(time.Second))
	return &t
}

// wake is while members are wanted. The record says that the cluster wakes up before the first one starts: from then on it
// is no proof for anything, and what it protects stays protected until there is something newer.
//
// The record goes when members have taken a new full, or, if the final one is held, when the extension has told that it is
// released. Meanwhile the cluster is awake like any other. Without a store no new one is ever taken, so that a final one which
// is kept locked in a former store stays so until that is given up.
func (f Facts) wake() Step {
	r := f.mine()
	switch {
	case r == nil, f.Replicas > 0 && f.Store == "" && (!f.Kept || f.Unprotected):
		return Step{}
	case f.Replicas > 0 && f.NewFull != "" && f.releases(r):
		r = r.DeepCopy()
		r.NewFull = f.NewFull
		return Step{Record: r, Extend: true}
	case f.Replicas > 0 && f.NewFull != "":
		return Step{}
	}
	s := Step{Record: r, Extend: f.extends(), Reason: druidv1alpha1.ReasonWakingUp, Message: "the members start; what protects the former backups stays until a new full snapshot is in the bucket"}
	if final := r.FinalSnapshot; final != nil && f.Store == "" {
		s.Message = fmt.Sprintf("the members start, and there is no store for a new full snapshot: %s in %s is kept locked until there is; set spec.backup.store, or spec.hibernation.allowUnprotected to let that lock end", final.Name, final.Store)
	}
	if final := r.FinalSnapshot; final != nil && f.Replicas == 0 {
		const left = "the volume claims that are left to go, as some are gone already: "
		switch becomes, why := f.claims(r, final); {
		case r.VolumesGoSince == nil || r.AwakeSince != nil:
		case becomes == claimsGo:
			s = f.deleteClaims(s, final)
			s.Hold = left + s.Message
			return s
		case becomes == claimsWait && f.remnant(r):
			return s.hold(druidv1alpha1.ReasonDeletingVolumes, left+why+"; to let them go at once and begin with what is in the bucket, set spec.hibernation.allowUnprotected")
		case why != "" && f.remnant(r) && f.Claims > 0:
			return s.hold(druidv1alpha1.ReasonDeletingVolumes, fmt.Sprintf("somebody to decide: volumes that are left: %d of %d, no cluster any more, and %s; "+
				"to let them go and begin with what is in the bucket, set spec.hibernation.allowUnprotected; to save what they have, do that before", f.Claims-f.Going, f.Slept, why))
		}
		if (f.Claims == 0 || r.VolumesGoSince != nil) && !f.reaches(final) && !f.Unprotected {
			return s.hold(druidv1alpha1.ReasonStoreChanged, "the store: without volumes the members would begin with what is in another place, or with nothing; "+f.elsewhere(final)+"; or set spec.hibernation.allowUnprotected to begin so")
		}
	}
	if r.AwakeSince == nil {
		s.Record = r.DeepCopy()
		s.Record.AwakeSince = f.moment()
	}
	return s
}

// releases: something is held, also if locks are not asked for any more, and an extension can release it: a new full is where that
// is.
func (f Facts) releases(r *druidv1alpha1.HibernationStatus) bool {
	return r.AwakeSince != nil && r.Holds() && f.Store != "" && !f.Kept && (r.FinalSnapshot == nil || f.reaches(r.FinalSnapshot))
}

func (f Facts) extends() bool { return f.Store != "" && f.Locks || f.Kept }

// hold keeps the members going.
func (s Step) hold(reason, why string) Step {
	s.Reason, s.Message, s.Hold = reason, why, why
	return s
}

// afterAnother is in the purpose of a snapshot that takes the place of another one, before the name of that.
const afterAnother = "/after-"

// Repeated says whether a snapshot of that purpose takes the place of another one.
func Repeated(purpose string) bool { return strings.Contains(purpose, afterAnother) }

// purpose names this hibernation to the sidecar, which gives a final snapshot again only for the same purpose.
// After one that was no good it is another purpose, so that another snapshot is taken.
func (f Facts) purpose() string {
	p := fmt.Sprintf("%s/%d", f.UID, f.Generation)
	var spoilt []string
	if f.Attempt.Spoilt != "" {
		spoilt = append(spoilt, f.Attempt.Spoilt)
	}
	if final := f.final(); final != nil && (f.Locks || len(f.served(final)) > 0) {
		spoilt = append(spoilt, final.Name)
	}
	if len(spoilt) > 0 {
		p += afterAnother + slices.Max(spoilt)
	}
	return p
}

func duration(d time.Duration) string { return fmt.Sprintf("%d minutes", int(d.Minutes())) }

func at(t time.Time) string { return t.UTC().Format(time.RFC3339) }
