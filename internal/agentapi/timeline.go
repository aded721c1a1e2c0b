package agentapi

import (
	"fmt"
	"time"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
)

// MaxFindings bounds the findings in an answer: a bucket can hold any number of foreign objects.
const MaxFindings = 500

// Timeline is what the bucket holds: GET /timeline.
type Timeline struct {
	Lineages []TimelineLineage `json:"lineages"` // newest first
	Findings []TimelineFinding `json:"findings"` // the gravest first
	// MoreFindings is how many findings were left out.
	MoreFindings int `json:"moreFindings,omitempty"`
}

// TimelineLineage is one history.
type TimelineLineage struct {
	snapshot.Lineage
	Newest     snapshot.Revision `json:"newest"`     // newest revision known to have been uploaded
	Fulls      int               `json:"fulls"`      // usable ones
	Deltas     int               `json:"deltas"`     // usable ones
	Bytes      int64             `json:"bytes"`      // stored, of all snapshots, usable or not
	Restorable []TimelineWindow  `json:"restorable"` // ranges one can restore to, oldest first
	// Chain is what a restore to the newest state reads; nil: there is no usable full.
	Chain *TimelineChain `json:"chain,omitempty"`
}

// TimelineWindow is a range of revisions to each of which one can restore.
type TimelineWindow struct {
	From     snapshot.Revision `json:"from"`
	To       snapshot.Revision `json:"to"`
	FromTime time.Time         `json:"fromTime,omitzero"`
	ToTime   time.Time         `json:"toTime,omitzero"`
	Base     string            `json:"base"` // name of the full it begins with
}

// TimelineChain is a full and the deltas that continue it.
type TimelineChain struct {
	Base    string            `json:"base"`
	Created time.Time         `json:"created"` // of the base
	Deltas  int               `json:"deltas"`
	End     snapshot.Revision `json:"end"`
	Bytes   int64             `json:"bytes"`         // stored
	Gap     string            `json:"gap,omitempty"` // what keeps it from reaching the next known snapshot
}

// TimelineFinding is something about the bucket that a person should know.
type TimelineFinding struct {
	Severity string             `json:"severity"`
	Code     timeline.Code      `json:"code"`
	Lineage  snapshot.LineageID `json:"lineage,omitempty"`
	Key      string             `json:"key,omitempty"`
	Version  string             `json:"version,omitempty"`
	Text     string             `json:"text"`
}

// NewTimeline puts a timeline into the form of the interface.
func NewTimeline(t timeline.Timeline) Timeline {
	v := Timeline{Lineages: []TimelineLineage{}, Findings: []TimelineFinding{}}
	for _, l := range t.Lineages {
		v.Lineages = append(v.Lineages, newTimelineLineage(l))
	}
	for i, f := range t.Findings {
		if i == MaxFindings {
			v.MoreFindings = len(t.Findings) - i
			break
		}
		v.Findings = append(v.Findings, TimelineFinding{f.Severity.String(), f.Code, f.Lineage, f.Key, f.Version, f.Text})
	}
	return v
}

func newTimelineLineage(l timeline.Lineage) TimelineLineage {
	v := TimelineLineage{Lineage: l.Lineage, Newest: l.Newest, Restorable: []TimelineWindow{}}
	for _, s := range l.Snapshots {
		v.Bytes += s.Size
		switch {
		case !s.Usable():
		case s.Full():
			v.Fulls++
		default:
			v.Deltas++
		}
	}
	for _, w := range l.Windows() {
		v.Restorable = append(v.Restorable, TimelineWindow{From: w.From, To: w.To, FromTime: w.FromTime, ToTime: w.ToTime, Base: w.Base.Name().String()})
	}
	if c, ok := l.NewestChain(); ok {
		n := c.Base.Name()
		chain := TimelineChain{Base: n.String(), Created: n.CreatedAt(), Deltas: len(c.Deltas), End: c.End, Bytes: c.Base.Size}
		for _, d := range c.Deltas {
			chain.Bytes += d.Size
		}
		if c.Gap != nil {
			chain.Gap = fmt.Sprint(*c.Gap)
		}
		v.Chain = &chain
	}
	return v
}
