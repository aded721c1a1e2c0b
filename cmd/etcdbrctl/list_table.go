package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/backup/snapshot"
)

// manySnapshots is how many of one lineage are listed one by one without being asked: about
// what fits on two screens.
const manySnapshots = 60

// table prints the view for people: what one can restore to, the timeline drawn with its chains, every
// snapshot (of a lineage with many only if all), and what is noteworthy.
func (v listView) table(w io.Writer, width int, all bool) error {
	fmt.Fprintf(w, "%s, prefix %s\n", v.Store, orDash(v.Prefix.String()))
	if len(v.Lineages) == 0 {
		fmt.Fprintln(w, "\nno snapshots")
	}
	for i, l := range v.Lineages {
		fmt.Fprintf(w, "\n%s\n", l.heading(i == 0))
		l.writeWindows(w, width)
		if err := l.draw(w, width); err != nil {
			return err
		}
		if len(l.Snapshots) > manySnapshots && !all {
			fmt.Fprintf(w, "\n  %d snapshots; --all lists each of them, and so does -o json\n", len(l.Snapshots))
			continue
		}
		fmt.Fprintln(w)
		if err := columns(w, l.rows(width)); err != nil {
			return err
		}
	}
	if len(v.Findings) > 0 {
		fmt.Fprintln(w, "\nfindings")
		for _, f := range v.Findings {
			fmt.Fprintf(w, "  %-7s  %-16s  %s\n", f.Severity, f.Code, f.Text)
		}
	}
	return nil
}

// manyWindows is how many windows are printed, the newest.
const manyWindows = 10

// writeWindows says plainly what one can restore to.
func (l lineageView) writeWindows(w io.Writer, width int) {
	const lead, indent = "  restore to  ", "              "
	if len(l.Restorable) == 0 {
		fmt.Fprintf(w, "%snothing\n", lead)
	}
	older := max(len(l.Restorable)-manyWindows, 0)
	if older > 0 {
		fmt.Fprintf(w, "%s%d earlier windows, which -o json lists, and\n", lead, older)
	}
	for _, r := range l.Restorable[older:] {
		revisions, moments := r.told()
		switch {
		case moments == "":
			fmt.Fprintf(w, "%s%s\n", lead, revisions)
		case len(lead)+len(revisions)+2+len(moments) > columnsOf(width):
			fmt.Fprintf(w, "%s%s,\n%s%s\n", lead, revisions, indent, moments)
		default:
			fmt.Fprintf(w, "%s%s, %s\n", lead, revisions, moments)
		}
	}
}

// told says what a window lets one restore to, by revision and by time.
func (r windowView) told() (revisions, moments string) {
	if r.From == r.To {
		return fmt.Sprintf("revision %d", r.To), "taken " + moment(r.FromTime)
	}
	if !r.ToTime.IsZero() {
		moments = fmt.Sprintf("any moment from %s to %s", moment(r.FromTime), moment(r.ToTime))
	}
	return fmt.Sprintf("any revision from %d to %d", r.From, r.To), moments
}

// columnsOf is the width to fill: that of the terminal, or 80.
func columnsOf(width int) int {
	if width == 0 {
		return 80
	}
	return width
}

// narrow: on a terminal of fewer columns the tables are without what is told elsewhere as well.
func narrow(width int) bool { return width > 0 && width < 118 }

const minutes = "2006-01-02 15:04"

func minute(t time.Time) string { return t.UTC().Format(minutes) }

// rows are the snapshots one by one.
func (l lineageView) rows(width int) [][]string {
	if narrow(width) {
		rows := [][]string{{"", "SNAPSHOT", "CREATED (UTC)", "PROTECTED UNTIL", "NOTE"}}
		for _, s := range l.Snapshots {
			rows = append(rows, []string{"", s.Name, minute(s.Created), s.Protection.short(time.DateOnly), s.note()})
		}
		return rows
	}
	rows := [][]string{{"", "SNAPSHOT", "REVISIONS", "CREATED", "SIZE", "PROTECTED UNTIL", "NOTE"}}
	for _, s := range l.Snapshots {
		rows = append(rows, []string{"", s.Name, s.revisions(), moment(s.Created), bytesString(s.Size), s.Protection.short(minutes), s.note()})
	}
	return rows
}

// short is until when a snapshot is protected, in that form, and by what.
func (p *protectionView) short(form string) string {
	if p == nil || p.Until.IsZero() {
		return p.String()
	}
	s := p.Until.UTC().Format(form) + " " + string(p.Mode)
	if p.Hold {
		s += ", on hold"
	}
	return s
}

func (l lineageView) heading(newest bool) string {
	s := "lineage " + string(l.ID)
	if l.ID == "" {
		s = "unnamed lineage (written without lineage, as the original does)"
	}
	if newest {
		s += ", the newest"
	}
	if l.Fork > 0 {
		parent := string(l.Parent)
		if parent == "" {
			parent = "the unnamed lineage"
		}
		s += fmt.Sprintf("; left %s after revision %d", parent, l.Fork)
	}
	return s
}

func (s snapshotView) revisions() string {
	if s.Kind == snapshot.Delta {
		return fmt.Sprintf("%d-%d", s.From, s.To)
	}
	if !s.Certain {
		return fmt.Sprintf("%d or later", s.To)
	}
	return fmt.Sprint(s.To)
}

func (s snapshotView) note() string {
	var notes []string
	if s.Final {
		notes = append(notes, "final")
	}
	if s.Excluded {
		notes = append(notes, "excluded")
	}
	if s.Problem != "" {
		notes = append(notes, s.Problem)
	}
	return strings.Join(notes, "; ")
}

func (p *protectionView) String() string {
	switch {
	case p == nil || p.Mode == immutability.ModeUnknown:
		return "unknown"
	case p.Hold:
		return string(p.Mode) + ", on hold"
	case p.Mode == immutability.ModeNone:
		return "none"
	}
	return string(p.Mode) + " until " + moment(p.Until)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
