package restoreplan

import (
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
)

// NoWayError says why a target cannot be reached.
type NoWayError struct {
	Target  Target
	Lineage *snapshot.LineageID // nil: it failed before one was chosen
	Why     string              // one clause
	Missing *timeline.Missing   // the revisions that no usable object holds, if that is the reason
	Highest snapshot.Revision   // highest revision that can be restored, 0: none
	Lowest  snapshot.Revision   // lowest one
}

func (e *NoWayError) Error() string { return e.Why }

// LossError says that a plan without an explicit target would end before what is known to
// have been uploaded.
type LossError struct {
	Lineage snapshot.LineageID
	End     snapshot.Revision // where the restore would end
	Newest  snapshot.Revision // the newest revision known
	Known   string            // name of a snapshot that tells of Newest
	Missing *timeline.Missing // what keeps it from getting there
}

func (e *LossError) Error() string { return "" }
