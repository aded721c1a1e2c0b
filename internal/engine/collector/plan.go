package collector

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/backup/retention"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/engine/catalog"
	"druid.internal/druid/internal/store"
)

// Plan is what is to happen to every version below the prefix, and why. It prints as a table
// and, being a struct with tags, as JSON.
type Plan struct {
	Location string          `json:"location"`
	Prefix   snapshot.Prefix `json:"prefix"`
	retention.Plan
	// Waiting sums up what could be deleted if a newer chain were proven by reading it.
	Waiting retention.Total `json:"waiting,omitzero"`
	// Notes are sentences for people about what could not be found out, and about what is damaged.
	Notes []string `json:"notes,omitempty"`

	seen  map[timeline.Ref]store.Object            // all of the snapshots of which something goes; nil: not made by a Collector
	locks map[timeline.Ref]*immutability.Retention // that were asked for
	// proofs are those that were given or made. They count again in Execute, if they still hold.
	proofs []retention.Proof
}

// see keeps what was told of the snapshots of which something goes. The rest, of which there may be a hundred
// thousand, is not needed any more.
func (p *Plan) see(c *catalog.Catalog) {
	goes := p.going()
	p.seen = make(map[timeline.Ref]store.Object, len(goes))
	for _, d := range p.Decisions {
		if goes[d.Snapshot] {
			p.seen[d.Ref], _ = c.Objects.Find(d.Ref)
		}
	}
}

// going are the snapshots of which something is to be deleted.
func (p *Plan) going() map[string]bool {
	all := map[string]bool{}
	for _, d := range p.Decisions {
		if d.Action == retention.Delete {
			all[d.Snapshot] = true
		}
	}
	return all
}

// WriteTable prints the plan for people: one line per version, then the sums.
func (p Plan) WriteTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "OBJECT\tVERSION\tKIND\tACTION\tNOT BEFORE\tREASON")
	for _, d := range p.Decisions {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", below(p.Prefix, d.Key), dash(d.Version), d.Kind, d.Action, protectedUntil(d), texts(d.Reasons))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, c := range p.Proven {
		fmt.Fprintf(w, "proven: %s and %d deltas of %s, to revision %d, read until %s\n", c.Base, c.Deltas, timeline.Title(c.Lineage), c.End, moment(c.ReadAt))
	}
	if p.Waiting.Objects > 0 {
		fmt.Fprintf(w, waitingLine, sum(p.Waiting))
	}
	for _, n := range p.Notes {
		fmt.Fprintf(w, "note: %s\n", n)
	}
	_, err := fmt.Fprintf(w, "%s: delete %s, blocked %s, keep %s (policy: %s)\n", where(p.Location, p.Prefix),
		sum(p.Total(retention.Delete)), sum(p.Total(retention.Blocked)), sum(p.Total(retention.Keep)), p.Policy)
	return err
}

// waitingLine names what the lack of a proof keeps.
const waitingLine = "waiting: %s could be deleted if a newer chain were proven by reading it\n"

func below(prefix snapshot.Prefix, key string) string {
	return strings.TrimPrefix(strings.TrimPrefix(key, string(prefix)), "/")
}

func where(location string, prefix snapshot.Prefix) string {
	if prefix == "" {
		return location
	}
	return location + " below " + string(prefix)
}

func sum(t retention.Total) string { return fmt.Sprintf("%d (%d bytes)", t.Objects, t.Bytes) }

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func protectedUntil(d retention.Decision) string {
	switch {
	case d.Action != retention.Blocked:
		return "-"
	case d.Until.IsZero():
		return "unknown"
	}
	return moment(d.Until)
}

func moment(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func texts(reasons []retention.Reason) string {
	words := make([]string, len(reasons))
	for i, r := range reasons {
		words[i] = r.Text()
	}
	return strings.Join(words, "; ")
}

// compare tells what stands against deleting d, of which the plan said that it may go, as far
// as a fresh decision knows. No result means nothing.
func (p Plan) compare(d retention.Decision, fresh freshPlan) (Result, string) {
	now, listed := fresh.byRef[d.Ref]
	switch {
	case !listed:
		return Gone, "not listed any more"
	case now.Action == retention.Blocked:
		return Blocked, texts(now.Reasons)
	case now.Action != retention.Delete:
		return Spared, "no longer to be deleted: " + texts(now.Reasons)
	}
	if !same(p.seen[d.Ref], fresh.seen[d.Ref]) {
		return Spared, "changed since it was planned"
	}
	for _, ref := range fresh.bySnapshot[d.Snapshot] {
		if _, known := p.seen[ref]; !known {
			return Spared, fmt.Sprintf("%s appeared since it was planned", ref)
		}
	}
	return "", ""
}

// same reports whether two answers are about the same bytes. Answers of one store may differ
// in how exactly they tell the time.
func same(a, b store.Object) bool {
	return a.Version == b.Version && a.Marker == b.Marker && a.Size == b.Size &&
		a.Modified.Sub(b.Modified).Abs() < time.Second
}

// freshPlan is a plan with an index of all that concerns what an earlier one lets go.
type freshPlan struct {
	Plan
	byRef      map[timeline.Ref]retention.Decision
	bySnapshot map[string][]timeline.Ref
}

func index(p, earlier Plan) freshPlan {
	f := freshPlan{Plan: p, byRef: map[timeline.Ref]retention.Decision{}, bySnapshot: map[string][]timeline.Ref{}}
	goes := earlier.going()
	for _, d := range p.Decisions {
		if goes[d.Snapshot] {
			f.byRef[d.Ref] = d
			f.bySnapshot[d.Snapshot] = append(f.bySnapshot[d.Snapshot], d.Ref)
		}
	}
	return f
}

// steps are the deletions of the fresh decision, in its order, that the plan allows.
func (f freshPlan) steps(allowed map[timeline.Ref]retention.Decision) []retention.Decision {
	return slices.DeleteFunc(f.Deletions(), func(d retention.Decision) bool {
		_, is := allowed[d.Ref]
		return !is
	})
}
