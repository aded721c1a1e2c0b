package restoreplan

import (
	"fmt"
	"time"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
)

// Target is the state to restore. The zero value is the latest; at most one field may be set.
type Target struct {
	Snapshot snapshot.Name     // the state at the end of the snapshot of this name, if its Kind is set
	Revision snapshot.Revision // the state at this revision, if above 0
	Time     time.Time         // the state after the last revision received at or before this time, unless zero
}

// Latest is the newest state that is known.
func Latest() Target { return Target{} }

// Snapshot is the state at the end of the snapshot called n.
func Snapshot(n snapshot.Name) Target { return Target{Snapshot: n} }

// AtRevision is the state at revision r, from 1.
func AtRevision(r snapshot.Revision) Target { return Target{Revision: r} }

// AtTime is the state after the last revision received at or before t.
func AtTime(t time.Time) Target { return Target{Time: t} }

// IsLatest reports whether the target is the newest state, whatever it is.
func (t Target) IsLatest() bool { return t == Target{} }

// String is how messages call the target.
func (t Target) String() string {
	switch {
	case t.Snapshot.Kind != "":
		return "snapshot " + t.Snapshot.String()
	case t.Revision != 0:
		return "revision " + t.Revision.String()
	case !t.Time.IsZero():
		return "time " + t.Time.UTC().Format(time.RFC3339Nano)
	}
	return "latest"
}

func (t Target) check() error {
	set := 0
	for _, is := range []bool{t.Snapshot.Kind != "", t.Revision != 0, !t.Time.IsZero()} {
		if is {
			set++
		}
	}
	switch {
	case set > 1:
		return &NoWayError{Target: t, Why: "a target is a snapshot, a revision or a time, not several of them"}
	case t.Revision < 0:
		return &NoWayError{Target: t, Why: fmt.Sprintf("there is no revision %d", t.Revision)}
	}
	return nil
}

// Options narrow or widen what a plan may do.
type Options struct {
	// Lineage to restore from; nil: that of the named snapshot, or else the newest with a
	// restorable full.
	Lineage *snapshot.LineageID
	// AcceptLossTo permits a plan that ends at this revision or later, although the target or
	// the newest known revision is later still. It never permits to end beyond the target. 0
	// permits no loss.
	AcceptLossTo snapshot.Revision
	// Unusable versions, with the reason: what a restorer found damaged on reading.
	Unusable map[timeline.Ref]string
	// Measured is the true last revision of fulls that a restorer has opened.
	Measured map[timeline.Ref]snapshot.Revision
}
