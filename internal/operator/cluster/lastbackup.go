package cluster

import (
	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/operator/health"
)

// lastBackup is the last full that a member took, and in which store: in the present one if its pod has that. What a sidecar
// found there, and did not take, says nothing, and neither does what its EtcdMember still tells of the store of before.
func lastBackup(o *Observed) *druidv1alpha1.LastBackup {
	before := o.Etcd.Status.LastBackup
	m := health.Reporter(o.Observation)
	if m == nil {
		return before
	}
	full, store := m.Status.Snapshots.LastFull, storeOf(o.Etcd)
	if full == nil || !full.Taken || before != nil && before.Name == full.Name {
		return before
	}
	name, err := snapshot.ParseName(full.Name)
	if err != nil {
		return before
	}
	switch writes, known := o.writesHere(m.Name); {
	case !known || store == "":
		return before
	case !writes && before == nil:
		return nil
	case !writes:
		store = before.Store
	}
	return &druidv1alpha1.LastBackup{Store: store, Name: full.Name, Revision: int64(name.Last)}
}

// writesHere says whether a member's pod writes the backups where the specification says; not known: it has no pod, or one that
// does not tell.
func (o *Observed) writesHere(member string) (writes, known bool) {
	for _, p := range o.Pods {
		n, ours := o.Etcd.PodOrdinal(p.Name)
		if has := p.Annotations[druidv1alpha1.AnnotationBackupChecksum]; ours && o.Etcd.MemberName(n) == member && has != "" {
			return has == o.wantedBackup(), true
		}
	}
	return false, false
}

// heldBefore is the revision that the backups must reach for members without data to begin from them: where they are in the store
// of before, and the present one has none of a member yet, what they held there. In the present one less may be what somebody wants, as
// fulls can be excluded, but nothing at all is what another account, another endpoint or an emptied bucket has: 1. 0: no member took one
// yet, or what is there is accepted.
func heldBefore(e *druidv1alpha1.Etcd) int64 {
	b := e.Status.LastBackup
	switch {
	case b == nil || e.AllowsUnprotectedHibernation() || e.TakesOverBackups():
		return 0
	case b.Store == storeOf(e):
		return 1
	}
	return b.Revision
}
