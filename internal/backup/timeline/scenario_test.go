package timeline_test

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/backup/timeline/timelinetest"
)

var update = flag.Bool("update", false, "rewrite testdata with what the code gives")

// TestTimelinesAreAsTheScenariosTell plays testdata/*.txt. Commands: timeline (lineages and
// snapshots), findings, chains, windows.
func TestTimelinesAreAsTheScenariosTell(t *testing.T) {
	timelinetest.Run(t, "testdata/*.txt", *update, func(l timeline.Listing, command []string) string {
		return show(timeline.Build(l), command[0])
	})
}

func show(t timeline.Timeline, what string) string {
	var b strings.Builder
	if what == "findings" {
		for _, f := range t.Findings {
			fmt.Fprintf(&b, "%s\n", f)
		}
		if b.Len() == 0 {
			return "none"
		}
		return b.String()
	}
	for _, l := range t.Lineages {
		fmt.Fprintf(&b, "%s, newest known revision %d", timeline.Title(l.ID), l.Newest)
		if l.Parent != "" || l.Fork != 0 {
			fmt.Fprintf(&b, ", left %s at %d", timeline.Title(l.Parent), l.Fork)
		}
		b.WriteString("\n")
		switch what {
		case "timeline":
			for _, s := range l.Snapshots {
				fmt.Fprintf(&b, "  %s\n", describe(s))
			}
			for _, s := range l.Missing {
				fmt.Fprintf(&b, "  missing %s\n", describe(s))
			}
		case "chains":
			for _, c := range l.Chains() {
				fmt.Fprintf(&b, "  %s", c.Base.Name())
				for _, d := range c.Deltas {
					fmt.Fprintf(&b, " + %d-%d", d.From, d.To)
				}
				fmt.Fprintf(&b, " = %d", c.End)
				if c.Gap != nil {
					fmt.Fprintf(&b, ", then missing %s", c.Gap)
				}
				b.WriteString("\n")
			}
		case "windows":
			for _, w := range l.Windows() {
				fmt.Fprintf(&b, "  revisions %d-%d, seconds %d-%d, from %s\n", w.From, w.To, w.FromTime.Unix(), w.ToTime.Unix(), w.Base.Name())
			}
		default:
			return "unknown command " + what
		}
	}
	return b.String()
}

func describe(s timeline.Snapshot) string {
	text := s.Ref.String()
	if s.Last != s.Name().Last {
		text += fmt.Sprintf(" ends at %d", s.Last)
	}
	if !s.Certain {
		text += " or later"
	}
	for _, o := range s.Candidates()[min(1, len(s.Candidates())):] {
		text += " or " + o.Version
	}
	if s.Excluded {
		text += " [excluded]"
	}
	if s.Problem != "" {
		text += " [" + s.Problem + "]"
	}
	return text
}
