package restoreplan

import (
	"fmt"
	"strings"
	"time"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
)

// Plan is a way to restore, in one lineage and without a gap.
type Plan struct {
	Target  Target
	Lineage snapshot.Lineage
	Base    timeline.Snapshot // Base.Ref is the version to read; Base.Last is a lower bound unless Base.Certain
	Deltas  []Step            // in the order of application; Ref is the version to read
	// End is the last revision of the result if EndCertain. Otherwise it is a lower bound where
	// an uncertain base has no deltas, and an upper bound where the target is a time.
	End        snapshot.Revision
	EndCertain bool
	// EndTime is an upper bound of when End was received, and at most StopTime. Zero: unknown.
	EndTime time.Time
	Newest  snapshot.Revision // newest known revision of the lineage
	// StopRevision ends the restore inside the last delta, or inside the history of the base if
	// Base.Last is beyond it; 0: no such limit. A base whose history turns out to begin after it
	// must not be used; measure it and plan again.
	StopRevision snapshot.Revision
	// StopTime ends the restore before the first revision received after it; zero: no limit. If
	// Base is not Certain, its content may be newer: a delta then holds a revision that the
	// base has too and that was received after StopTime. Declare the base unusable and plan again.
	StopTime time.Time
	Notes    []string // what a person should know, one sentence each
}

// Step is a delta to apply. From and To are the revisions it is expected to contribute. An
// applier skips what it has already, by content, because an uncertain base may reach into
// the first deltas or beyond them.
type Step struct {
	timeline.Link
	Stops bool // StopRevision or StopTime lies, or may lie, inside
}

// Size is the number of stored bytes to read.
func (p Plan) Size() int64 {
	n := p.Base.Size
	for _, d := range p.Deltas {
		n += d.Size
	}
	return n
}

// String describes the plan in several lines for people.
func (p Plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "restore %s of %s: %s\n", p.Target, timeline.Title(p.Lineage.ID), p.end())
	fmt.Fprintf(&b, "  base  %s  %s\n", object(p.Base.Ref), atLeast(p.Base.Last, p.Base.Certain))
	for _, d := range p.Deltas {
		fmt.Fprintf(&b, "  delta %s  %d-%d", object(d.Ref), d.From, d.To)
		if d.Name().Start < d.From {
			fmt.Fprintf(&b, ", %d-%d are there already", d.Name().Start, d.From-1)
		}
		if d.Stops && p.StopRevision != 0 {
			fmt.Fprintf(&b, ", stops after %d", p.StopRevision)
		} else if d.Stops {
			b.WriteString(", stops inside")
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "  reads %d objects, %d bytes\n", 1+len(p.Deltas), p.Size())
	for _, n := range p.Notes {
		fmt.Fprintf(&b, "  note  %s\n", n)
	}
	return b.String()
}

func (p Plan) end() string {
	end := fmt.Sprintf("revision %d", p.End)
	switch {
	case p.EndCertain:
	case !p.StopTime.IsZero() && len(p.Deltas) > 0:
		end += " at most"
	default:
		end += " or later"
	}
	if !p.EndTime.IsZero() {
		end += ", received by " + instant(p.EndTime)
	}
	if p.EndCertain && p.End == p.Newest {
		return end + ", the newest known"
	}
	return end + fmt.Sprintf(", the newest known is %d", p.Newest)
}

// endTime is the EndTime of a plan whose other fields are set. The time of the last object is also
// the best bound there is for a revision inside it.
func (p Plan) endTime() time.Time {
	last := p.Base
	if n := len(p.Deltas); n > 0 {
		last = p.Deltas[n-1].Snapshot
	}
	by := last.CoveredUntil()
	if !p.StopTime.IsZero() && (by.IsZero() || by.After(p.StopTime)) {
		return p.StopTime
	}
	return by
}

func atLeast(r snapshot.Revision, certain bool) string {
	if certain {
		return fmt.Sprintf("revision %d", r)
	}
	return fmt.Sprintf("revision %d or later", r)
}

// object is the last part of a key, with its version if there are versions.
func object(r timeline.Ref) string {
	s := r.Key.Name.String()
	if r.Key.Dir != "" {
		s = r.Key.Dir + "/" + s
	}
	if r.Version != "" {
		s += "@" + r.Version
	}
	return s
}
