package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/operator/health"
	"druid.internal/druid/internal/operator/hibernation"
)

// finalFor is what the final snapshot is for, as it is known in memory.
func finalFor(e *druidv1alpha1.Etcd) string {
	return fmt.Sprintf("the hibernation of generation %d", e.Generation)
}

// hibernate decides what is done because no member is wanted, or was. What it decides depends on what was
// written down before; whether it is done, on the mode.
func (p *Plan) hibernate(o *Observed, s size, now time.Time) {
	p.Hibernation = health.Hibernation(o.Observation)
	if p.Mode == ModeWatch || p.Mode == ModeTend || o.foreign() {
		return
	}
	p.Sleep = hibernation.Decide(hibernationFacts(o, s, p.Hibernation, now))
	p.Hibernation = p.Sleep.Record
}

func hibernationFacts(o *Observed, s size, record *druidv1alpha1.HibernationStatus, now time.Time) hibernation.Facts {
	e := o.Etcd
	f := hibernation.Facts{
		Now: now, UID: e.UID, Generation: e.Generation,
		Wanted: s.want > 0, Replicas: o.replicas(), Pods: len(o.Pods), Unending: o.unending(now), Store: storeOf(e), Locks: immutabilityOf(e) != nil, Kept: keptElsewhere(e, record), Mode: lockMode(e),
		Skip: e.SkipsHibernationBackup(), Unprotected: e.AllowsUnprotectedHibernation(), Shared: sharedHold(o),
		Record: record, NewFull: newFull(o, record), Keep: e.KeepsVolumes(), Claims: len(o.Claims), Slept: int(s.live.Members), Revision: known(e), Settle: settle,
	}
	f.Unread = health.Unread(o.Observation, now)
	for _, c := range o.Claims {
		if c.DeletionTimestamp != nil {
			f.Going++
		}
	}
	if c := druidv1alpha1.FindCondition(e.Status.Conditions, druidv1alpha1.ConditionHibernated); c != nil && c.Reason == druidv1alpha1.ReasonClosingToClients {
		f.ClosingSince = c.LastUpdateTime.Time
	}
	for i := range o.Members {
		f.Revision = max(f.Revision, o.Members[i].Status.Revision)
	}
	if o.StatefulSet == nil { // its pods get another one
		for i := range o.Pods {
			if o.Pods[i].DeletionTimestamp == nil {
				f.Replicas++
			}
		}
	}
	f.Refusing = refusers(o)
	if f.Wanted {
		f.Silent = mute(o, now)
		return f
	}
	f.Untouched = s.untouched()
	f.Elsewhere = elsewhere(o)
	state := o.Snapshots[finalFor(e)]
	f.Attempt = hibernation.Attempt{Running: state.Running, Taken: state.Final, Mode: state.Mode, Failed: state.Failed, Spoilt: state.Spoilt, Began: state.Began, Ended: state.Ended, Repeated: hibernation.Repeated(state.Purpose)}
	for _, i := range s.mustAgree() {
		m := hibernation.Member{Name: e.MemberName(i)}
		if sidecar, answered := o.Sidecars[i]; answered && participates(sidecar) {
			m.Known, m.Revision = true, sidecar.Etcd.Revision
			m.Refuses, m.Left, m.Cannot = refusal(sidecar)
			if slices.Contains(sidecar.Etcd.Alarms, alarmCorrupt) {
				f.Differ = append(f.Differ, m.Name)
			}
		}
		f.Members = append(f.Members, m)
	}
	return f
}

// atLeast is the revision up to which the backups held everything when the cluster fell asleep, by the name of the final snapshot;
// 0: not known, or less is accepted.
func atLeast(e *druidv1alpha1.Etcd, r *druidv1alpha1.HibernationStatus) int64 {
	if r == nil || r.EtcdUID != e.UID || r.FinalSnapshot == nil || r.FinalSnapshot.Store != storeOf(e) || e.AllowsUnprotectedHibernation() {
		return 0
	}
	n, err := snapshot.ParseName(r.FinalSnapshot.Name)
	if err != nil {
		return 0
	}
	return int64(n.Last)
}

// lockMode is the least that a lock must be. Only with the type object does the specification say how strong one is; what the
// bucket gives is the choice of whoever made it.
func lockMode(e *druidv1alpha1.Etcd) immutability.Mode {
	switch i := immutabilityOf(e); {
	case i == nil || i.RetentionType != druidv1alpha1.RetentionObject:
		return ""
	case i.Mode != nil:
		return immutability.Mode(*i.Mode)
	}
	return immutability.ModeCompliance
}

// refusal is for how long a member has refused clients and still will, and why it cannot be asked to.
func refusal(m agentapi.Member) (since, left time.Duration, cannot string) {
	if m.Refusal == nil {
		return 0, 0, "its sidecar is of a version that does not know how"
	}
	return m.Refusal.For(), m.Refusal.Left(), m.Refusal.Impossible
}

// refusers are the members that refuse clients now.
func refusers(o *Observed) (names []string) {
	for _, n := range slices.Sorted(maps.Keys(o.Sidecars)) {
		if r := o.Sidecars[n].Refusal; r != nil && r.LeftSeconds > 0 {
			names = append(names, o.Etcd.MemberName(n))
		}
	}
	return names
}

// mute are members that do not answer, and may refuse clients: none is asked to any more for longer than it does.
func mute(o *Observed, now time.Time) (names []string) {
	c := druidv1alpha1.FindCondition(o.Etcd.Status.Conditions, druidv1alpha1.ConditionHibernated)
	if !o.Asked || !fallsAsleep(o, now) || c.Reason == druidv1alpha1.ReasonWakingUp && now.Sub(c.LastUpdateTime.Time) >= hibernation.RefuseFor {
		return nil
	}
	for _, p := range o.Pods {
		n, _ := o.Etcd.PodOrdinal(p.Name)
		if _, answered := o.Sidecars[n]; !answered && p.DeletionTimestamp == nil && everRan(p) && wasThere(o, p) {
			names = append(names, o.Etcd.MemberName(n))
		}
	}
	return names
}

// fallsAsleep: what was told last is that members stop, or are to, or a short time ago were to. They may refuse clients,
// whatever is wanted by now.
func fallsAsleep(o *Observed, now time.Time) bool {
	c := druidv1alpha1.FindCondition(o.Etcd.Status.Conditions, druidv1alpha1.ConditionHibernated)
	if c == nil || len(o.Pods) == 0 || c.Status != druidv1alpha1.ConditionFalse {
		return false
	}
	h := o.Etcd.Status.Hibernation
	if c.Reason != druidv1alpha1.ReasonWakingUp || h == nil {
		return true
	}
	return h.AwakeSince != nil && now.Sub(h.AwakeSince.Time) < hibernation.RefuseFor &&
		slices.ContainsFunc(o.Pods, func(p *corev1.Pod) bool { return wasThere(o, p) })
}

// wasThere: a pod is from before the members were wanted again, so that it may have been asked to refuse clients.
func wasThere(o *Observed, p *corev1.Pod) bool {
	h := o.Etcd.Status.Hibernation
	return h == nil || h.AwakeSince == nil || !p.CreationTimestamp.After(h.AwakeSince.Time)
}

// stayOpen has members serve clients again: what is refused, or not applied, does not go on by itself, and nothing is said of it. Those
// that were told to stop do so.
func (p *Plan) stayOpen(o *Observed) {
	p.Sleep.Refuse = false
	if o.replicas() == 0 || o.stops() {
		return
	}
	p.Sleep.Admit = len(refusers(o)) > 0
	p.Conditions = slices.DeleteFunc(p.Conditions, func(c druidv1alpha1.Condition) bool {
		return c.Type == druidv1alpha1.ConditionHibernated && c.Status == druidv1alpha1.ConditionFalse && c.Reason != druidv1alpha1.ReasonWakingUp
	})
}

// stops: it was written down that members are told to stop, and not that they are wanted again. What the cache knows of the
// StatefulSet may be from before that.
func (o *Observed) stops() bool {
	h := o.Etcd.Status.Hibernation
	return h != nil && h.EtcdUID == o.Etcd.UID && h.AwakeSince == nil
}

// mustAgree are the ordinals of the members whose revision has to be that of the final snapshot: those that have a
// pod or are listed, but for those that have left the cluster, which nobody writes to any more.
func (s size) mustAgree() (all []int) {
	list, known := s.o.listed()
	for i := range int(max(s.live.Members, s.o.replicas())) {
		left := known && i >= int(s.live.Members) && !slices.ContainsFunc(list, func(l agentapi.Listed) bool {
			n, ours := s.o.Etcd.MemberOrdinal(l.Name)
			if l.Name == "" {
				n, ours = s.ordinalAt(l.PeerURLs)
			}
			return ours && n == i
		})
		if !left {
			all = append(all, i)
		}
	}
	return all
}

// keptElsewhere: what the record is of is in another store than the specification names, and is kept locked there.
func keptElsewhere(e *druidv1alpha1.Etcd, r *druidv1alpha1.HibernationStatus) bool {
	if r == nil || r.EtcdUID != e.UID || r.Applied == nil {
		return false
	}
	was := e.DeepCopy()
	was.Spec.Backup.Store = r.Applied.Store
	return immutabilityOf(was) != nil && storeOf(was) != storeOf(e)
}

// goBy writes down what the tasks go by that look after the backups of a cluster that sleeps: what is applied now, of which
// nothing is refused. Where the store is another one, the former stays until the cluster is awake: the final snapshot is there.
//
// It is written before anything is done, as all of status.hibernation.
func (p *Plan) goBy(o *Observed, e *druidv1alpha1.Etcd) {
	h := p.Hibernation
	if h == nil || h.EtcdUID != e.UID {
		return
	}
	if g := e.Status.ObservedGeneration; p.Mode == ModeTend && (g == nil || *g != e.Generation) {
		return // what was applied is not what is written by now
	}
	now := &druidv1alpha1.AppliedBackup{Store: e.Spec.Backup.Store.DeepCopy(), FullSnapshotSchedule: e.Spec.Backup.FullSnapshotSchedule}
	stops := p.Size.Replicas == 0 && o.replicas() > 0 && h.AwakeSince == nil // from here on it is the store of this sleep
	if !stops && keptElsewhere(e, h) {
		now.Store = h.Applied.Store
	}
	if !equality.Semantic.DeepEqual(h.Applied, now) {
		p.Hibernation = h.DeepCopy()
		p.Hibernation.Applied = now
	}
}

// storeOf names the place in which the backups are made, for people and for comparison; empty: none are.
func storeOf(e *druidv1alpha1.Etcd) string {
	if !e.BackupsEnabled() {
		return ""
	}
	s := e.Spec.Backup.Store
	text := func(t *string) string {
		if t == nil {
			return ""
		}
		return *t
	}
	where := fmt.Sprintf("%s %s", text((*string)(s.Provider)), path.Join(text(s.Container), s.Prefix))
	if at := text(s.EndpointOverride); at != "" {
		where += " at " + at
	}
	return where
}

// elsewhere are pods whose sidecars write the backups in another place than the specification says, or in
// another name.
func elsewhere(o *Observed) (names []string) {
	if len(o.Pods) == 0 {
		return nil
	}
	want := o.wantedBackup()
	for _, p := range o.Pods {
		if want != "" && p.DeletionTimestamp == nil && p.Annotations[druidv1alpha1.AnnotationBackupChecksum] != want {
			names = append(names, p.Name)
		}
	}
	return names
}

// wantedBackup is [backupChecksum] of what the specification says now.
func (o *Observed) wantedBackup() string {
	e := o.Etcd.DeepCopy()
	e.SetDefaults()
	return backupChecksum(e, ownerOf(o))
}

// sleeps looks past the cache before volumes go, which nothing brings back: another operator may have woken the cluster since.
func (r *Reconciler) sleeps(ctx context.Context, o *Observed) error {
	e, s := &druidv1alpha1.Etcd{}, &appsv1.StatefulSet{}
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(o.Etcd), e); err != nil {
		return fmt.Errorf("look at the Etcd before its volumes go: %w", err)
	}
	if err := r.live.Get(ctx, types.NamespacedName{Namespace: e.Namespace, Name: e.StatefulSetName()}, s); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("look at the StatefulSet before its volumes go: %w", err)
	}
	// Those that are left of some that have gone go also where members are wanted again.
	wanted := func(e *druidv1alpha1.Etcd) bool { return e.NoMembers() == "" }
	if e.UID != o.Etcd.UID || e.Generation != o.Etcd.Generation || wanted(e) != wanted(o.Etcd) || s.UID != "" && (s.Spec.Replicas == nil || *s.Spec.Replicas != 0) {
		return errors.New("no volume is deleted: the Etcd or its StatefulSet is not as it was when that was decided")
	}
	return nil
}

// settle is how old what a sidecar tells of its etcd may be: it asks at least once per second, waits for two, and may miss one time.
const settle = 10 * time.Second

// newFull is the full that a member took since the members started again, as the backup leader tells; empty: none. A sidecar
// takes one first of all. What it found in the bucket counts for nothing: copies of the final one, made to be locked anew, are
// there, and whoever may write can put there what passes for one of a new life.
func newFull(o *Observed, r *druidv1alpha1.HibernationStatus) string {
	if r == nil || r.AwakeSince == nil {
		return ""
	}
	if r.NewFull != "" {
		return r.NewFull
	}
	full, final := health.LastFull(o.Observation), r.FinalSnapshot
	if full == nil || !full.Taken || final != nil && full.Name == final.Name {
		return ""
	}
	if final != nil && full.EndRevision < final.Revision && !o.Etcd.AllowsUnprotectedHibernation() {
		return "" // with less than it had no cluster wakes up, unless that is accepted
	}
	n, err := snapshot.ParseName(full.Name)
	if err == nil && n.Final {
		return ""
	}
	later := !full.Timestamp.Before(r.AwakeSince)
	if final != nil {
		former, formerErr := snapshot.ParseName(final.Name)
		if err == nil && formerErr == nil {
			later = follows(full, n, final, former)
		}
	}
	if !later {
		return "" // taken in the former life, of which the sidecar tells until it is asked anew
	}
	return full.Name
}

// fullFirst: the cluster wakes up, and a member is still to take a full.
func fullFirst(e *druidv1alpha1.Etcd, r *druidv1alpha1.HibernationStatus) bool {
	return r != nil && r.EtcdUID == e.UID && r.AwakeSince != nil && r.NewFull == ""
}

// follows says whether a full was taken after the final one, without asking a clock: the operator's may differ from those of
// the sidecars. Members stopped at the last revision of the final one, so what goes further is of a later life. And a sidecar
// never gives a full an earlier time in its name than the one before has.
func follows(full *druidv1alpha1.MemberSnapshot, name snapshot.Name, final *druidv1alpha1.FinalSnapshot, former snapshot.Name) bool {
	return full.EndRevision > final.Revision || name.Created > former.Created
}

// hibernated is the condition Hibernated; false: it does not apply.
func (p *Plan) hibernated() (c druidv1alpha1.Condition, applies bool) {
	status := druidv1alpha1.ConditionFalse
	if p.Sleep.Asleep {
		status = druidv1alpha1.ConditionTrue
	}
	return druidv1alpha1.Condition{Type: druidv1alpha1.ConditionHibernated, Status: status, Reason: p.Sleep.Reason, Message: p.Sleep.Message}, p.Sleep.Reason != ""
}

// holdNews is an event about what is held in a store in which nobody releases it any more: nothing is known of it from here on, or
// what is known is of another store.
func holdNews(before, now *druidv1alpha1.HibernationStatus) []news {
	if before == nil || !before.Holds() {
		return nil
	}
	where, _ := placeOf(before)
	if now != nil {
		if place, known := placeOf(now); where == "" || !known || place == where {
			return nil
		}
	}
	return []news{{HoldsStay, "what runs of the extension hold in " + cmp.Or(where, "the former store") + " stays held, and is not collected: nobody makes backups there any more that take its place; release it with etcdbrctl extend-snapshot-immutability --release-holds once there is a newer one, or with gcloud storage objects update --no-event-based-hold"}}
}

// placeOf is the store that a record is of, empty for none; false: that is not known.
func placeOf(h *druidv1alpha1.HibernationStatus) (string, bool) {
	switch {
	case h.FinalSnapshot != nil:
		return h.FinalSnapshot.Store, true
	case h.Applied != nil:
		return storeOf(&druidv1alpha1.Etcd{Spec: druidv1alpha1.EtcdSpec{Backup: druidv1alpha1.BackupSpec{Store: h.Applied.Store}}}), true
	}
	return "", false
}

// deleteClaims has the volume claims go that the members had.
func (p *Plan) deleteClaims(o *Observed) {
	if !p.Sleep.DeleteClaims {
		return
	}
	for _, c := range o.Claims {
		if c.DeletionTimestamp == nil {
			p.Remove = append(p.Remove, Removal{c, "PersistentVolumeClaim", "the cluster is hibernated: " + p.Sleep.Message})
		}
	}
}

// hibernationNews are events about steps that are another one than before, and about a lock that is about to end.
func hibernationNews(before, now []druidv1alpha1.Condition) (all []news) {
	changed := func(of druidv1alpha1.ConditionType) *druidv1alpha1.Condition {
		c, was := druidv1alpha1.FindCondition(now, of), druidv1alpha1.FindCondition(before, of)
		if c == nil || was != nil && was.Reason == c.Reason {
			return nil
		}
		return c
	}
	if c := changed(druidv1alpha1.ConditionHibernated); c != nil {
		kind := Hibernating
		switch c.Reason {
		case druidv1alpha1.ReasonFinalSnapshotFailed, druidv1alpha1.ReasonFinalSnapshotNoLock, druidv1alpha1.ReasonWritesAfterSnapshot,
			druidv1alpha1.ReasonRevisionsNotKnown, druidv1alpha1.ReasonStoreChanged, druidv1alpha1.ReasonSharedWithOthers:
			kind = HibernationHeld
		}
		all = append(all, news{kind, c.Message})
	}
	if c := changed(druidv1alpha1.ConditionHibernationBackupProtected); c != nil && c.Status == druidv1alpha1.ConditionFalse {
		kind := ProtectionEnds
		if c.Reason == druidv1alpha1.ReasonHoldNotReleased {
			kind = HoldsStay
		}
		all = append(all, news{kind, c.Message})
	}
	return all
}
