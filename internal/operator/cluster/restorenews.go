package cluster

import (
	"fmt"
	"time"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

// restoredWithin is for how long it is told that a member was restored: by an operator that started meanwhile once more.
const restoredWithin = 10 * time.Minute

// restoreNews tells of members whose data were made from the backup since the last look. The cluster works, so that nothing else does.
func (r *Reconciler) restoreNews(o *Observed) (all []news) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range o.Members {
		last := m.Status.LastRestoration
		if last == nil || last.Type != druidv1alpha1.RestorationFromSnapshot || last.Status != druidv1alpha1.OutcomeSuccess || last.EndTime == nil ||
			r.now().Sub(last.EndTime.Time) > restoredWithin || r.restored[o.Etcd.UID][m.Name].Equal(last.EndTime.Time) {
			continue
		}
		if r.restored[o.Etcd.UID] == nil {
			r.restored[o.Etcd.UID] = map[string]time.Time{}
		}
		r.restored[o.Etcd.UID][m.Name] = last.EndTime.Time
		all = append(all, news{MemberRestored, fmt.Sprintf("%s was restored from the backup: %s", m.Name, last.Message)})
	}
	return all
}
