package snapshotter

import (
	"fmt"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
)

// agreement is what comparing a recorded HashKV with a running etcd's says.
type agreement int

const (
	unknown agreement = iota // nothing recorded, compacted meanwhile, or not asked
	agrees
	differs
)

// evidence is all that is known about which history an etcd holds.
type evidence struct {
	file     *snapshot.Lineage // beside the data; nil: none
	bucket   []known           // newest first
	cluster  uint64            // id of the etcd
	revision snapshot.Revision // of the etcd
	// compare asks etcd whether its past has the hash that the bucket recorded.
	compare func(known) agreement
	// retrace asks etcd whether the last revision of the deltas in the bucket is the one it has.
	retrace func(known) agreement
	mint    func() snapshot.LineageID
}

// known is a lineage of the bucket.
type known struct {
	snapshot.Lineage
	newest  snapshot.Revision
	cluster uint64 // of its newest manifest that tells one; 0: none does
	hash    *snapshot.HashKV
	tail    *timeline.Snapshot // the delta at the end of its newest chain; nil: none
}

// verdict is which lineage the etcd's data are, and why.
type verdict struct {
	lineage snapshot.Lineage
	minted  bool
	foreign bool // nothing shows that the data come from the lineage's parent
	events  []Event
}

// judge decides which lineage an etcd's data are.
//
// Data with a lineage file are of that lineage, or of one that forked from it while the file
// was elsewhere (each member of a cluster has a file, and only the one beside the snapshotter
// that forked was written), or of one that another member began in its place, because it could
// not know of ours: then all members go on with the newest, or each would write a history of
// its own. Data without one are recognised in the bucket by three facts that
// must all hold for the newest lineage: the same cluster id, an etcd that is not behind it, and
// the same past as far as etcd can still tell: a recorded HashKV that it computes alike, and the
// last revision in a delta. Anything else is a new lineage.
//
// An etcd that is behind its own lineage, or has another past, is not continued: revisions would
// be told twice with different content. It is not refused either, because then its new writes
// would not be backed up at all. It gets a new lineage, the old one stays in the bucket as it
// is, and an event says so. Where a new lineage left its parent is not known (Fork 0): the
// common past may end before the revision etcd is at now.
func judge(e evidence) verdict {
	if e.file != nil {
		return e.withFile(*e.file)
	}
	if len(e.bucket) > 0 {
		b := e.bucket[0]
		if b.ID != "" && b.cluster != 0 && b.cluster == e.cluster {
			if why := e.quarrel(b); why != "" {
				return e.fork(b.ID, why)
			}
			return verdict{lineage: b.Lineage, events: []Event{{Code: LineageAdopted, Revision: e.revision,
				Text: fmt.Sprintf("the data have no lineage file and are recognised as %s by the cluster id %x", timeline.Title(b.ID), e.cluster)}}}
		}
		return e.begin(b.ID, fmt.Sprintf("nothing shows that this etcd continues %s, the newest in the bucket", timeline.Title(b.ID)))
	}
	return e.begin("", "the bucket has no snapshots yet")
}

// withFile judges data that name their lineage.
func (e evidence) withFile(own snapshot.Lineage) verdict {
	for _, b := range e.bucket {
		switch {
		case b.ID == own.ID:
			if why := e.quarrel(b); why != "" {
				return e.fork(own.ID, why)
			}
			return verdict{lineage: own}
		case e.descends(b.Lineage, own.ID) && b.cluster == e.cluster && e.quarrel(b) == "":
			return verdict{lineage: b.Lineage, events: []Event{{Code: StaleLineage, Revision: e.revision,
				Text: fmt.Sprintf("the data directory says %s, from which this cluster has forked %s since", timeline.Title(own.ID), timeline.Title(b.ID))}}}
		case e.beside(b.Lineage, own) && b.cluster == e.cluster && e.quarrel(b) == "":
			return verdict{lineage: b.Lineage, events: []Event{{Code: StaleLineage, Revision: e.revision,
				Text: fmt.Sprintf("the data directory says %s, but another member of this cluster began %s in its place", timeline.Title(own.ID), timeline.Title(b.ID))}}}
		}
	}
	return verdict{lineage: own} // of a restore, or never uploaded yet
}

// quarrel says why the etcd cannot be the continuation of b, or "".
func (e evidence) quarrel(b known) string {
	if e.revision < b.newest {
		return fmt.Sprintf("etcd is at revision %d, but %s was backed up to %d", e.revision, timeline.Title(b.ID), b.newest)
	}
	if b.hash != nil && e.compare(b) == differs {
		return fmt.Sprintf("etcd's content at revision %d is not what was backed up of %s", b.hash.Revision, timeline.Title(b.ID))
	}
	if b.tail != nil && e.retrace(b) == differs {
		return fmt.Sprintf("what happened in etcd's revision %d is not what was backed up of %s", b.tail.Last, timeline.Title(b.ID))
	}
	return ""
}

func (e evidence) descends(l snapshot.Lineage, ancestor snapshot.LineageID) bool {
	parents := map[snapshot.LineageID]snapshot.LineageID{}
	for _, b := range e.bucket {
		parents[b.ID] = b.Parent
	}
	at := l.Parent
	for range len(parents) + 1 {
		if at == ancestor {
			return true
		}
		if at == "" {
			return false
		}
		at = parents[at]
	}
	return false
}

// beside reports whether l is another lineage that a snapshotter began after the same parent. A
// restore tells where it left the parent, a snapshotter cannot.
func (evidence) beside(l, own snapshot.Lineage) bool {
	return l.ID != "" && l.Parent == own.Parent && l.Fork == 0 && own.Fork == 0
}

func (e evidence) fork(parent snapshot.LineageID, why string) verdict {
	v := e.begin(parent, why)
	v.foreign = false
	v.events = append([]Event{{Code: RolledBack, Revision: e.revision,
		Text: why + ": it is another history, and is backed up as a lineage of its own; restore the old one with --lineage if this was not intended"}}, v.events...)
	return v
}

func (e evidence) begin(parent snapshot.LineageID, why string) verdict {
	l := snapshot.Lineage{ID: e.mint(), Parent: parent}
	return verdict{lineage: l, minted: true, foreign: true, events: []Event{{Code: LineageMinted, Revision: e.revision,
		Text: fmt.Sprintf("lineage %s begins: %s", l.ID, why)}}}
}

// knownLineages is what the bucket tells about its lineages, newest first; last are those of which somebody excluded everything.
func knownLineages(t timeline.Timeline) []known {
	var all, excluded []known
	for _, l := range t.Lineages {
		k := known{Lineage: l.Lineage, newest: l.Newest, cluster: l.Cluster()}
		for i := len(l.Snapshots) - 1; i >= 0; i-- {
			if m := l.Snapshots[i].Manifest; m != nil && m.HashKV != nil {
				k.hash = m.HashKV
				break
			}
		}
		if c, is := l.NewestChain(); is && len(c.Deltas) > 0 {
			k.tail = &c.Deltas[len(c.Deltas)-1].Snapshot
		}
		if l.Excluded() {
			excluded = append(excluded, k)
		} else {
			all = append(all, k)
		}
	}
	return append(all, excluded...)
}
