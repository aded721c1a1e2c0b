package cluster

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

// Members report all the time: what is told is looked at at once, and everything else with the next look.
func TestAMemberTellsOfWhatHappensToIt(t *testing.T) {
	member := func(change func(*druidv1alpha1.MemberReport)) *druidv1alpha1.EtcdMember {
		m := running(t, 3).Members[2].DeepCopy()
		if change != nil {
			change(&m.Status)
		}
		return m
	}
	for phrase, c := range map[string]struct {
		change func(*druidv1alpha1.MemberReport)
		want   bool
	}{
		"nothing": {nil, false},
		"its revision and that nothing is new": {func(m *druidv1alpha1.MemberReport) {
			m.Revision++
			m.Snapshots.NothingNew = &metav1.Time{Time: testNow.Add(time.Minute)}
		}, false},
		"another full":            {func(m *druidv1alpha1.MemberReport) { m.Snapshots.LastFull.Name = "Full-2" }, true},
		"the first full":          {func(m *druidv1alpha1.MemberReport) { m.Snapshots.LastFull = nil }, true},
		"it does not back up":     {func(m *druidv1alpha1.MemberReport) { m.Snapshots = nil }, true},
		"an upload failed":        {func(m *druidv1alpha1.MemberReport) { m.Snapshots.Failure = &druidv1alpha1.SnapshotFailure{} }, true},
		"its state":               {func(m *druidv1alpha1.MemberReport) { m.State = druidv1alpha1.MemberNew }, true},
		"why it is in that state": {func(m *druidv1alpha1.MemberReport) { m.Transitions[0].Reason = "Other" }, true},
		"no transition is known":  {func(m *druidv1alpha1.MemberReport) { m.Transitions = nil }, true},
		"its volume is full":      {func(m *druidv1alpha1.MemberReport) { m.VolumeFull = "full" }, true},
		"another leader":          {func(m *druidv1alpha1.MemberReport) { m.BackupLeader = false }, true},
	} {
		if got := memberTells().Update(event.UpdateEvent{ObjectOld: member(nil), ObjectNew: member(c.change)}); got != c.want {
			t.Errorf("%s: told %t", phrase, got)
		}
	}
}
