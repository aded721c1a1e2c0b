package restoreplan

import (
	"fmt"
	"time"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
)

// TargetKind is how a target names a state.
type TargetKind string

// The kinds of targets.
const (
	ToLatest   TargetKind = ""
	ToSnapshot TargetKind = "snapshot"
	ToRevision TargetKind = "revision"
	ToTime     TargetKind = "time"
)

// Target is the state to restore. The zero value is the latest. Kind decides which field counts, so a
// target that was given never becomes the latest because its value is zero.
type Target struct {
	Kind     TargetKind
	Snapshot snapshot.Name     // ToSnapshot: the state at the end of the snapshot of this name
	Revision snapshot.Revision // ToRevision: the state at this revision
	Time     time.Time         // ToTime: the state after the last revision received at or before this time
}

// Latest is the newest state that is known.
func Latest() Target { return Target{} }

// Snapshot is the state at the end of the snapshot called n.
func Snapshot(n snapshot.Name) Target { return Target{Kind: ToSnapshot, Snapshot: n} }

// AtRevision is the state at revision r, from 1.
func AtRevision(r snapshot.Revision) Target { return Target{Kind: ToRevision, Revision: r} }

// AtTime is the state after the last revision received at or before t.
func AtTime(t time.Time) Target { return Target{Kind: ToTime, Time: t} }

// IsLatest reports whether the target is the newest state, whatever it is.
func (t Target) IsLatest() bool { return t.Kind == ToLatest }

// String is how messages call the target.
func (t Target) String() string {
	switch t.Kind {
	case ToSnapshot:
		return "snapshot " + t.Snapshot.String()
	case ToRevision:
		return "revision " + t.Revision.String()
	case ToTime:
		return "time " + t.Time.UTC().Format(time.RFC3339Nano)
	}
	return "latest"
}

// instant is how messages write a time. The end of a second, which is the bound that a name gives, is
// written as that second.
func instant(t time.Time) string {
	if t.Nanosecond() == int(time.Second-1) {
		t = t.Truncate(time.Second)
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// check returns an error if the fields of the target contradict its kind.
func (t Target) check() error {
	bad := func(format string, args ...any) error {
		return &NoWayError{Target: t, Why: fmt.Sprintf(format, args...)}
	}
	want := Target{Kind: t.Kind}
	switch t.Kind {
	case ToLatest:
	case ToSnapshot:
		want.Snapshot = t.Snapshot
		if t.Snapshot.Kind == "" {
			return bad("the target is a snapshot without a name")
		}
	case ToRevision:
		want.Revision = t.Revision
		if t.Revision < 1 {
			return bad("there is no revision %d, the first is 1", t.Revision)
		}
	case ToTime:
		want.Time = t.Time
	default:
		return bad("%q is not a kind of target", t.Kind)
	}
	if t != want {
		return bad("a target is one of a snapshot, a revision and a time")
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
