package health

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/schedule"
)

// What the judgement of backups allows for.
const (
	// reportDelay is how old what a sidecar last said may be although nothing is wrong: it repeats
	// that nothing is new only now and then.
	reportDelay = 3 * time.Minute
	// failureGrace is how long an upload may fail, as it is tried again, while earlier ones are
	// recent. A store that refuses is no matter of time.
	failureGrace = 30 * time.Second
	// Defaults of fields that an Etcd from before the schema had them may lack.
	defaultDeltaPeriod     = 20 * time.Second
	defaultSnapshotTimeout = 15 * time.Minute
	defaultSchedule        = "0 0 * * *"
	// remedyWithin is how many bytes of a message are certainly seen: a remedy is among them, whatever the store says.
	remedyWithin = 500
	// leastDeltaPeriod is the shortest: what is less means that no deltas are taken.
	leastDeltaPeriod = time.Second
)

func (v view) hasStore() bool {
	s := v.Etcd.Spec.Backup.Store
	return s != nil && s.Provider != nil && *s.Provider != ""
}

// reporter is the member that makes the backups: the backup leader with the newest news.
// One that led before a restore may still say so, with higher revisions, but not with newer times.
func (v view) reporter() *druidv1alpha1.EtcdMember {
	var best *druidv1alpha1.EtcdMember
	for i := range v.Members {
		m := &v.Members[i]
		if _, ours := v.Etcd.MemberOrdinal(m.Name); !ours || m.Status.Snapshots == nil {
			continue
		}
		switch {
		case best == nil, m.Status.BackupLeader && !best.Status.BackupLeader:
			best = m
		case m.Status.BackupLeader == best.Status.BackupLeader && news(m).After(news(best)):
			best = m
		}
	}
	return best
}

// LastFull is the newest full snapshot, by whoever makes the backups now; nil: he told of none.
func LastFull(o Observation) *druidv1alpha1.MemberSnapshot {
	if m := Reporter(o); m != nil {
		return m.Status.Snapshots.LastFull
	}
	return nil
}

// Reporter is the member that tells of the backups: the one that makes them, or made them last; nil: nobody does.
func Reporter(o Observation) *druidv1alpha1.EtcdMember { return look(o, nil, time.Time{}).reporter() }

// news is the newest time in what a member says of the backups.
func news(m *druidv1alpha1.EtcdMember) time.Time {
	at := complete(m.Status.Snapshots)
	if f := m.Status.Snapshots.Failure; f != nil && f.Since.After(at) {
		at = f.Since.Time
	}
	if lead := leads(m); lead.After(at) {
		at = lead
	}
	return at
}

// complete is up to when everything is known to be in the bucket.
func complete(s *druidv1alpha1.MemberSnapshots) (until time.Time) {
	for _, t := range []*metav1.Time{timeOf(s.LastFull), timeOf(s.LastDelta), s.NothingNew} {
		if t != nil && t.After(until) {
			until = t.Time
		}
	}
	return until
}

func timeOf(s *druidv1alpha1.MemberSnapshot) *metav1.Time {
	if s == nil {
		return nil
	}
	return &s.Timestamp
}

// leads is since when the member leads; zero if it does not.
func leads(m *druidv1alpha1.EtcdMember) time.Time {
	if n := len(m.Status.Transitions); n > 0 && m.Status.Transitions[n-1].SubState == druidv1alpha1.MemberLeader {
		return m.Status.Transitions[n-1].TransitionTime.Time
	}
	return time.Time{}
}

// backup is true while the bucket has everything but what is due within moments, and a full that is
// as recent as the schedule promises.
func (v view) backup() finding {
	m := v.reporter()
	if m == nil {
		return v.noReport()
	}
	s := m.Status.Snapshots
	if f := s.Failure; f != nil && (s.LastFull == nil || refused(f.Reason) || v.now.Sub(f.Since.Time) >= failureGrace) {
		reason := f.Reason
		if reason == "" {
			reason = druidv1alpha1.ReasonBackupFailed
		}
		said, remedy := f.Message, v.storeRemedy(reason)
		if end := strings.LastIndex(said, "; "); end > 0 && reason == druidv1alpha1.ReasonStoreOwnedByAnother {
			said = said[:end] // what follows is what to do where there is no operator
		}
		what := fmt.Sprintf("%s cannot use the store since %s: %s", m.Name, at(f.Since.Time), said)
		if remedy != "" {
			what = cut(what, remedyWithin-len(remedy))
		}
		return fails(reason, "%s%s", what, remedy)
	}
	if s.LastFull == nil {
		if f, stopped := v.stopped(); stopped {
			return f
		}
		return v.noFull(m)
	}
	if f := v.deltas(m); f.status != druidv1alpha1.ConditionTrue {
		return f
	}
	if p := newestProof(v.Observation, func(p *druidv1alpha1.SnapshotProof) bool { return p.Result != druidv1alpha1.ProofUnknown }); p != nil && p.Result == druidv1alpha1.ProofBroken && p.Base == s.LastFull.Name {
		return fails(druidv1alpha1.ReasonBackupBroken, "the newest chain of snapshots, from %s, cannot be restored, a proof of %s found: %s; the next full begins another chain, ask for one with an EtcdOpsTask; etcdbrctl list and verify say more",
			p.Base, at(p.EndedAt.Time), cut(p.Message, remedyWithin))
	}
	return v.full(m)
}

// refused says that a failure is the store's answer, which does not pass by itself like one that did
// not come.
func refused(reason string) bool {
	switch reason {
	case druidv1alpha1.ReasonStoreAccessDenied, druidv1alpha1.ReasonStoreContainerMissing, druidv1alpha1.ReasonStoreOwnedByAnother:
		return true
	}
	return false
}

// cut keeps so many bytes of a text.
func cut(text string, most int) string {
	const mark = "..."
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:max(most-len(mark), 0)], "") + mark
}

// storeRemedy is what to do about a store that refuses, for the end of a message.
func (v view) storeRemedy(reason string) string {
	s := v.Etcd.Spec.Backup.Store
	switch {
	case s == nil:
		return ""
	case reason == druidv1alpha1.ReasonStoreOwnedByAnother:
		return fmt.Sprintf("; change spec.backup.store.prefix, or, if the other owner is gone for good, annotate the Etcd with %s=true", druidv1alpha1.AnnotationTakeOverBackups)
	case reason == druidv1alpha1.ReasonStoreContainerMissing && s.Container != nil:
		return fmt.Sprintf("; make the bucket %s, or correct spec.backup.store.container", *s.Container)
	case reason == druidv1alpha1.ReasonStoreContainerMissing:
		return "; name a bucket in spec.backup.store.container"
	case reason == druidv1alpha1.ReasonStoreAccessDenied && s.SecretRef != nil:
		return fmt.Sprintf("; correct the credentials in the Secret %s (spec.backup.store.secretRef), or give them the right to read, list and write there", s.SecretRef.Name)
	case reason == druidv1alpha1.ReasonStoreAccessDenied:
		return "; name a Secret with credentials in spec.backup.store.secretRef, or give those of the pod's environment the right to read, list and write there"
	}
	return ""
}

// noReport is for a cluster of which no member ever said anything about backups.
func (v view) noReport() finding {
	if f, stopped := v.stopped(); stopped {
		return f
	}
	_, no := v.working()
	if len(no) > 0 {
		return unclear(druidv1alpha1.ReasonBackupNotKnown, "no member makes backups yet; %s", v.why(no))
	}
	if v.Etcd.Spec.Etcd.BootstrapWithExistingCluster != nil {
		return unclear(druidv1alpha1.ReasonBackupNotKnown, "no member makes backups yet: the one that leads does, and as long as that is a member outside there are none; one of these leads soon after all of them vote")
	}
	return unclear(druidv1alpha1.ReasonBackupNotKnown, "no member makes backups yet")
}

// stopped is for members that do not start because of their store.
func (v view) stopped() (finding, bool) {
	_, no := v.working()
	for _, i := range no {
		m := v.member(i)
		if m == nil || len(m.Status.Transitions) == 0 {
			continue
		}
		last := m.Status.Transitions[len(m.Status.Transitions)-1]
		why := last.Message
		if m.Status.Waiting != "" {
			why = m.Status.Waiting
		}
		switch last.Reason {
		case druidv1alpha1.MemberReasonWaitingForStore:
			return fails(druidv1alpha1.ReasonStoreNotReachable, "%s: %s", m.Name, why), true
		case druidv1alpha1.MemberReasonOtherLineage:
			return fails(druidv1alpha1.ReasonBackupFailed, "%s: %s", m.Name, why), true
		}
	}
	return finding{}, false
}

// noFull is for a backup leader that has not completed its first full. That may take its time, but
// not longer than until the next one were due.
func (v view) noFull(m *druidv1alpha1.EtcdMember) finding {
	since := m.CreationTimestamp.Time
	if lead := leads(m); lead.After(since) {
		since = lead
	}
	if due := v.due(v.now.Add(-v.fullGrace())); !since.IsZero() && since.Before(due) {
		return fails(druidv1alpha1.ReasonBackupOverdue, "%s has taken no full snapshot since %s: nothing can be restored", m.Name, at(since))
	}
	return unclear(druidv1alpha1.ReasonNoBackupYet, "%s takes the first full snapshot", m.Name)
}

// deltas says whether what changed is uploaded in time. That nothing changed is as good.
func (v view) deltas(m *druidv1alpha1.EtcdMember) finding {
	period := v.deltaPeriod()
	if period == 0 {
		return holds(druidv1alpha1.ReasonBackupSucceeded, "")
	}
	until := complete(m.Status.Snapshots)
	age := v.now.Sub(until)
	switch {
	case age < 2*period+reportDelay:
		return holds(druidv1alpha1.ReasonBackupSucceeded, "")
	case age < 3*period+reportDelay:
		return unclear(druidv1alpha1.ReasonBackupOverdue, "what changed since %s is not known to be in the bucket; it should be after %v", at(until), period)
	case v.now.Sub(leads(m)) < 2*period+reportDelay:
		return unclear(druidv1alpha1.ReasonBackupOverdue, "what changed since %s is not known to be in the bucket; %s makes the backups since %s", at(until), m.Name, at(leads(m)))
	}
	return fails(druidv1alpha1.ReasonBackupOverdue, "what changed since %s is not known to be in the bucket; it should be after %v, and %s, which made the backups last, does not say why", at(until), period, m.Name)
}

// full says whether the newest full is as recent as the schedule wants it, unless nothing came after
// it.
func (v view) full(m *druidv1alpha1.EtcdMember) finding {
	full, delta := m.Status.Snapshots.LastFull, m.Status.Snapshots.LastDelta
	taken := full.Timestamp.Time
	due := v.due(v.now.Add(-v.fullGrace()))
	changed := v.deltaPeriod() == 0 || delta != nil && delta.Timestamp.After(taken)
	switch {
	case !changed, !taken.Before(due), v.now.Sub(leads(m)) < v.fullGrace():
	default:
		return fails(druidv1alpha1.ReasonBackupOverdue, "the last full snapshot is of %s, and one was due at %s", at(taken), at(due))
	}
	if v.deltaPeriod() == 0 {
		return holds(druidv1alpha1.ReasonBackupSucceeded, "the last full snapshot is of %s; later changes are in no backup, as deltaSnapshotPeriod is less than 1s", at(taken))
	}
	return holds(druidv1alpha1.ReasonBackupSucceeded, "the last full snapshot is of %s; later changes are uploaded within %v", at(taken), v.deltaPeriod())
}

// deltaPeriod is how often deltas are taken, 0 if never.
func (v view) deltaPeriod() time.Duration {
	switch p := v.Etcd.Spec.Backup.DeltaSnapshotPeriod; {
	case p == nil:
		return defaultDeltaPeriod
	case p.Duration < leastDeltaPeriod:
		return 0
	default:
		return p.Duration
	}
}

// fullGrace is how long a full that is due may take: one attempt that fails, and one that succeeds.
func (v view) fullGrace() time.Duration {
	return 2 * snapshotTimeout(v.Etcd)
}

// due returns when the last full before a time was due. An invalid schedule, which SchedulesValid reports, counts
// as daily.
func (v view) due(before time.Time) time.Time {
	s, err := schedule.Parse(scheduleOf(v.Etcd))
	if err != nil {
		return before.Add(-24 * time.Hour)
	}
	return s.Previous(before)
}

// parsed returns the schedule in text, or the default one if text is invalid, which SchedulesValid reports.
func parsed(text string) schedule.Schedule {
	s, err := schedule.Parse(text)
	if err != nil {
		s, _ = schedule.Parse(defaultSchedule)
	}
	return s
}
