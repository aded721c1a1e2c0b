package snapshotter

import (
	"time"

	"druid.internal/druid/internal/backup/snapshot"
)

// EventCode names something a person should know. The set is closed.
type EventCode string

// The events.
const (
	HistoryLost     EventCode = "history-lost"     // etcd compacted or cut revisions before they were backed up; a full repairs it
	RolledBack      EventCode = "rolled-back"      // etcd is behind what was backed up, or its past differs: a new lineage begins
	LineageMinted   EventCode = "lineage-minted"   // a new lineage begins
	LineageAdopted  EventCode = "lineage-adopted"  // the data had no lineage; it was recognised in the bucket
	OwnerClaimed    EventCode = "owner-claimed"    // the prefix had no owner
	OwnerReplaced   EventCode = "owner-replaced"   // we took the prefix over
	BufferDropped   EventCode = "buffer-dropped"   // events that were buffered found no room, or were not uploaded in time; they are fetched from etcd again
	BucketGap       EventCode = "bucket-gap"       // the bucket misses revisions; they are fetched again if etcd still has them
	RevisionUnknown EventCode = "revision-unknown" // the true last revision of a full could not be told
	StaleLineage    EventCode = "stale-lineage"    // the data directory names a lineage that was forked since
)

// Event is one such thing.
type Event struct {
	Code     EventCode
	Time     time.Time
	Revision snapshot.Revision // where, 0 if it has no place
	Text     string            // one sentence
}
