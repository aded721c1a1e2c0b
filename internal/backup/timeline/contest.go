package timeline

import (
	"fmt"
	"time"

	"druid.internal/druid/internal/backup/snapshot"
)

// contestAfter is for how long a lineage may still be written after another one began, without it
// being a contest: an upload under way, clocks that differ, the leader of a cluster that is left
// behind.
const contestAfter = 10 * time.Minute

// Contenders are the lineages of other clusters that were still written when a lineage had been there
// for a while: two clusters share the prefix, and which of them is meant cannot be told from the
// backups. The newest is the first. Lineages that do not name their cluster are passed over.
func (t Timeline) Contenders(id snapshot.LineageID) []Lineage {
	l, known := t.Lineage(id)
	cluster := l.Cluster()
	if !known || cluster == 0 {
		return nil
	}
	var contend []Lineage
	for _, o := range t.Lineages {
		if c := o.Cluster(); c == 0 || c == cluster {
			continue
		}
		if o.LastWrite().Sub(time.Unix(l.born(), 0)) > contestAfter {
			contend = append(contend, o)
		}
	}
	return contend
}

// Contest says in one clause why a lineage is not certainly the one that is meant: it has contenders;
// empty: it has none.
func (t Timeline) Contest(id snapshot.LineageID) string {
	others := t.Contenders(id)
	if len(others) == 0 {
		return ""
	}
	l, _ := t.Lineage(id)
	tell := func(l Lineage) string {
		return fmt.Sprintf("cluster %x wrote %s up to revision %d, the last at %s", l.Cluster(), Title(l.ID), l.Newest, l.LastWrite().Format(time.RFC3339))
	}
	return fmt.Sprintf("two clusters wrote to this prefix, and which one is meant cannot be told: %s, and %s", tell(l), tell(others[0]))
}

// Cluster is the id of the etcd cluster that the newest manifest tells; 0: none does.
func (l Lineage) Cluster() uint64 {
	for i := len(l.Snapshots) - 1; i >= 0; i-- {
		if m := l.Snapshots[i].Manifest; m != nil && m.ClusterID != 0 {
			return m.ClusterID
		}
	}
	return 0
}

// LastWrite is when the latest of the snapshots was taken that are there and not excluded; the zero time if there are none. Who still writes an older lineage has not left it,
// whatever began since.
func (l Lineage) LastWrite() time.Time {
	var last time.Time
	for _, s := range l.Snapshots {
		if at := (snapshot.Name{Created: s.Taken()}).CreatedAt(); !s.Excluded && at.After(last) {
			last = at
		}
	}
	return last
}
