package restoreplan

import (
	"fmt"
	"strings"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
)

// NoWayError says why a target cannot be reached.
type NoWayError struct {
	Target  Target
	Lineage *snapshot.LineageID // nil: it failed before one was chosen
	Why     string              // one clause
	Missing *timeline.Missing   // the revisions that no usable object holds, if that is the reason
	Lowest  snapshot.Revision   // lowest revision of the lineage that can be restored, 0: none
	Highest snapshot.Revision   // highest one: for a revision or time as target, the highest not beyond it, 0: none
	After   snapshot.Name       // for a revision or time before all that can be restored: the first full
	Accept  snapshot.Revision   // Options.AcceptLossTo that permits to end at Highest, before the target; 0: none does
	Remedy  string              // what may help; empty: nothing is known
}

func (e *NoWayError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "no way to restore %s", e.Target)
	if e.Lineage != nil {
		fmt.Fprintf(&b, " of %s", timeline.Title(*e.Lineage))
	}
	b.WriteString(": " + e.Why)
	if e.Missing != nil {
		fmt.Fprintf(&b, ": missing %s", e.Missing)
	}
	if e.Remedy != "" {
		b.WriteString("; " + e.Remedy)
	}
	return b.String()
}

// LossError says that the latest state that can be restored is not the newest one known to
// have been uploaded, and nobody accepted that yet.
type LossError struct {
	Lineage snapshot.LineageID  // whose End it is
	End     snapshot.Revision   // where the restore would end
	Newest  snapshot.Revision   // the newest revision known
	Known   string              // name of the snapshot that tells of Newest
	Other   *snapshot.LineageID // the lineage of Known where it is not Lineage
	Why     string              // why Known is not restored, one clause; may be empty if Missing tells
	Missing *timeline.Missing   // what keeps the restore from getting there
}

func (e *LossError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "restoring the latest of %s would end at revision %d, but revision %d is known from %s", timeline.Title(e.Lineage), e.End, e.Newest, e.Known)
	if e.Other != nil {
		fmt.Fprintf(&b, " of %s", timeline.Title(*e.Other))
	}
	if e.Why != "" && e.Other != nil {
		b.WriteString(", " + e.Why)
	} else if e.Why != "" {
		b.WriteString("; " + e.Why)
	}
	if e.Missing != nil {
		fmt.Fprintf(&b, ": missing %s", e.Missing)
	}
	if e.Other != nil {
		b.WriteString("; choose a lineage or a target")
	} else {
		fmt.Fprintf(&b, "; accept the loss down to revision %d or choose a target", e.End)
	}
	return b.String()
}
