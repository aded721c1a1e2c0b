package snapshotter

import (
	"fmt"
	"time"

	"druid.internal/druid/internal/backup/snapshot"
)

// Prior is what a start knows about the newest usable full of its lineage.
type Prior struct {
	Full    snapshot.Name
	Exists  bool
	Found   bool          // in the bucket, where a full of one's own is wanted first
	Failed  bool          // the last attempt to take a full failed
	Unclear string        // why deltas cannot simply go on; empty: they can
	Window  time.Duration // see Schedule.Window; 0: without a schedule age does not matter
}

// FullReason says why a full has to be taken at a start, or "" if deltas may simply go on. next
// is the schedule's first time after t; nil without a schedule. The rules, first match:
//
//	there is no full                                a delta alone restores nothing
//	the newest full is final                        etcd was to stop after it, so this is a new life
//	one's own is wanted, and it was found           whoever may write put it there, perhaps
//	deltas cannot continue                          the caller says why
//	the last attempt failed                         it is still owed
//	the newest full is older than the window
//	a scheduled one was missed, also by another that began it
func FullReason(p Prior, now time.Time, next func(time.Time) time.Time) string {
	switch {
	case !p.Exists:
		return "there is no full snapshot of this lineage yet"
	case p.Full.Final:
		return "the newest full snapshot is a final one"
	case p.Found:
		return fmt.Sprintf("the cluster has woken up, and nobody here took %s", p.Full)
	case p.Unclear != "":
		return p.Unclear
	case p.Failed:
		return "the last full snapshot failed"
	}
	if next == nil || p.Window <= 0 {
		return ""
	}
	created := p.Full.CreatedAt()
	if age := now.Sub(created); age > p.Window {
		return fmt.Sprintf("the newest full snapshot is %s old, more than %s", age.Round(time.Second), p.Window)
	}
	if missed := next(created); missed.Before(now) {
		return fmt.Sprintf("the full snapshot scheduled for %s was missed", missed.UTC().Format(time.RFC3339))
	}
	return ""
}
