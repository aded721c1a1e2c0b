package cluster

import (
	"reflect"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

// What is looked at for at once. Everything else is found with the next look, at the latest after the
// period of status updates, or of a steady Etcd after a few of them: heartbeats and sizes that change all the time would otherwise be looked at
// all the time.

// etcdChanged: somebody else than we changed the Etcd.
func etcdChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() ||
			!reflect.DeepEqual(e.ObjectOld.GetAnnotations(), e.ObjectNew.GetAnnotations()) ||
			(e.ObjectOld.GetDeletionTimestamp() == nil) != (e.ObjectNew.GetDeletionTimestamp() == nil)
	}}
}

// memberTells: a member changed its state, or what it waits for, or its volume is full or no longer, or its
// backups failed or succeeded again, or it took another full.
func memberTells() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*druidv1alpha1.EtcdMember)
		now, same := e.ObjectNew.(*druidv1alpha1.EtcdMember)
		if !ok || !same || headChanged(before, now) {
			return true
		}
		a, b := before.Status, now.Status
		return a.State != b.State || a.SubState != b.SubState || a.Waiting != b.Waiting || a.VolumeFull != b.VolumeFull || a.BackupLeader != b.BackupLeader ||
			!reflect.DeepEqual(lastTransition(a), lastTransition(b)) || !reflect.DeepEqual(a.Alarms, b.Alarms) || !reflect.DeepEqual(a.PeerTLSEnabled, b.PeerTLSEnabled) ||
			!reflect.DeepEqual(uploadFailure(a.Snapshots), uploadFailure(b.Snapshots)) || !reflect.DeepEqual(bucketOf(a), bucketOf(b)) || (a.Snapshots == nil) != (b.Snapshots == nil) ||
			lastFull(a) != lastFull(b)
	}}
}

// lastTransition is how a member came into its state; the zero value: it is not known. Of those before only so many are kept.
func lastTransition(m druidv1alpha1.MemberReport) (last druidv1alpha1.MemberTransition) {
	if n := len(m.Transitions); n > 0 {
		last = m.Transitions[n-1]
	}
	return last
}

// lastFull is the name of the newest full that a member knows of; empty: none.
func lastFull(m druidv1alpha1.MemberReport) string {
	if m.Snapshots == nil || m.Snapshots.LastFull == nil {
		return ""
	}
	return m.Snapshots.LastFull.Name
}

// bucketOf is what a member found in the bucket, nil if it did not look.
func bucketOf(m druidv1alpha1.MemberReport) *druidv1alpha1.BackupStatus {
	if m.Snapshots == nil {
		return nil
	}
	return m.Snapshots.Bucket
}

func uploadFailure(s *druidv1alpha1.MemberSnapshots) *druidv1alpha1.SnapshotFailure {
	if s == nil {
		return nil
	}
	return s.Failure
}

// notMade: the operator makes these objects itself and knows what it made; that somebody else changed or
// deleted one is what has to be looked at. Their status does not matter.
func notMade() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return e.IsInInitialList },
		UpdateFunc: func(e event.UpdateEvent) bool {
			generation := e.ObjectNew.GetGeneration()
			return generation == 0 || generation != e.ObjectOld.GetGeneration() || headChanged(e.ObjectOld, e.ObjectNew)
		},
	}
}

// headChanged: somebody changed what we write, or the object goes.
func headChanged(a, b client.Object) bool {
	return !reflect.DeepEqual(a.GetLabels(), b.GetLabels()) || !reflect.DeepEqual(a.GetAnnotations(), b.GetAnnotations()) ||
		!reflect.DeepEqual(a.GetOwnerReferences(), b.GetOwnerReferences()) || (a.GetDeletionTimestamp() == nil) != (b.GetDeletionTimestamp() == nil)
}
