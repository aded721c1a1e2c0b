// Package restoreplan decides how to restore: which full to begin with, which deltas to apply
// in which order and where to stop, or why there is no way.
//
// It reads no object. A restorer that finds something damaged or ahead of its name while
// reading says so in Options and plans again.
package restoreplan

import (
	"time"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
)

// Target is the state to restore. The zero value is the latest.
type Target struct {
	Snapshot snapshot.Name     // the state at the end of the snapshot of this name, if its Kind is set
	Revision snapshot.Revision // the state at this revision, if above 0
	Time     time.Time         // the state after the last revision received at or before this time, unless zero
}

// The targets. At most one field of a Target may be set.
func Latest() Target                        { return Target{} }
func Snapshot(n snapshot.Name) Target       { return Target{Snapshot: n} }
func AtRevision(r snapshot.Revision) Target { return Target{Revision: r} }
func AtTime(t time.Time) Target             { return Target{Time: t} }

// Options narrow or widen what a plan may do.
type Options struct {
	// Lineage to restore from; nil: the newest with a restorable full.
	Lineage *snapshot.LineageID
	// AcceptLossTo permits a plan that ends at this revision or later, though earlier than the
	// target or the newest known revision. 0 permits no loss.
	AcceptLossTo snapshot.Revision
	// Unusable versions, with the reason: what a restorer found damaged on reading.
	Unusable map[timeline.Ref]string
	// Measured is the true last revision of fulls that a restorer has opened.
	Measured map[timeline.Ref]snapshot.Revision
}

// Step is a delta to apply.
type Step struct {
	timeline.Link      // From and To are the revisions it contributes; others of its content are skipped
	Stops         bool // the plan's stop revision or time lies inside: later revisions of it are skipped
}

// Plan is a way to restore, in one lineage and without a gap.
type Plan struct {
	Target  Target
	Lineage snapshot.Lineage
	Base    timeline.Snapshot // Base.Ref is the version to read
	Deltas  []Step            // in the order of application
	// End is the last revision of the result: exact unless the target is a time, or no delta
	// proves how far an uncertain base reaches.
	End    snapshot.Revision
	Newest snapshot.Revision // newest known revision of the lineage
	// StopRevision ends the restore inside the last delta, 0: no such limit. A base beyond it must
	// be refused by the restorer.
	StopRevision snapshot.Revision
	// StopTime ends the restore before the first revision received after it; zero: no limit.
	StopTime time.Time
	Notes    []string // what a person should know, one sentence each
}

// Make plans a restore. Its errors are *NoWayError and *LossError.
func Make(t timeline.Timeline, target Target, opts Options) (Plan, error) { return Plan{}, nil }

// String describes the plan in several lines for people.
func (p Plan) String() string { return "" }
