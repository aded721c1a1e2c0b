package main

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/backup/snapshot"
)

// table prints the view for people: what one can restore to, the timeline drawn, every snapshot, and
// what is noteworthy.
func (v listView) table(w io.Writer, width int) error {
	fmt.Fprintf(w, "%s, prefix %s\n", v.Store, orDash(v.Prefix))
	if len(v.Lineages) == 0 {
		fmt.Fprintln(w, "\nno snapshots")
	}
	for i, l := range v.Lineages {
		fmt.Fprintf(w, "\n%s\n", l.heading(i == 0))
		for _, r := range l.Restorable {
			fmt.Fprintf(w, "  restorable  revision %d to %d", r.From, r.To)
			if !r.ToTime.IsZero() {
				fmt.Fprintf(w, ", %s to %s", moment(r.FromTime), moment(r.ToTime))
			}
			fmt.Fprintln(w)
		}
		if len(l.Restorable) == 0 {
			fmt.Fprintln(w, "  restorable  nothing")
		}
		l.draw(w, width)
		rows := [][]string{{"", "SNAPSHOT", "REVISIONS", "CREATED", "SIZE", "PROTECTED", "NOTE"}}
		for _, s := range l.Snapshots {
			rows = append(rows, []string{"", s.Name, s.revisions(), moment(s.Created), bytesString(s.Size), s.Protection.String(), s.note()})
		}
		if err := columns(w, rows); err != nil {
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

// draw prints the lineage over time, one column per slice of it:
//
//	2026-11-20 08:00:00Z                                   2026-11-20 09:00:00Z
//	F---+---+---+---F--+---+---xxxxxF---+---+---+------
//	C   C   C   C   C  C   C        C   C   C   C
//
// F: a full was taken, +: a delta; -: every revision of it can be restored; x: it cannot. Below, the weakest
// protection of what was written: C compliance, G governance, a advisory, . none, ? unknown.
func (l lineageView) draw(w io.Writer, width int) {
	const margin, narrowest, widest = 2, 40, 100
	if width == 0 {
		width = 80
	}
	cells := min(max(width-2*margin, narrowest), widest)
	if len(l.Snapshots) < 2 {
		return
	}
	first, last := l.Snapshots[0].Created, l.Snapshots[0].Created
	for _, s := range l.Snapshots {
		if s.Created.Before(first) {
			first = s.Created
		}
		if s.Created.After(last) {
			last = s.Created
		}
	}
	span := last.Sub(first)
	if span <= 0 {
		return
	}
	at := func(t time.Time) int {
		return min(max(int(int64(cells-1)*int64(t.Sub(first))/int64(span)), 0), cells-1)
	}
	state, lock := fill(cells, 'x'), fill(cells, ' ')
	for _, r := range l.Restorable {
		from, to := l.createdAround(r)
		for i := at(from); i <= at(to); i++ {
			state[i] = '-'
		}
	}
	for _, s := range l.Snapshots {
		i := at(s.Created)
		switch {
		case s.Problem != "" || s.Excluded:
		case s.Kind == snapshot.Full:
			state[i] = 'F'
		case state[i] == '-':
			state[i] = '+'
		}
		if m := s.Protection.mark(); lock[i] == ' ' || weaker(m, lock[i]) {
			lock[i] = m
		}
	}
	left, right := moment(first), moment(last)
	gap := max(cells-utf8.RuneCountInString(left)-utf8.RuneCountInString(right), 1)
	fmt.Fprintf(w, "\n  %s%s%s\n  %s\n  %s\n", left, strings.Repeat(" ", gap), right, string(state), strings.TrimRight(string(lock), " "))
	fmt.Fprintf(w, "  above: F full, + delta, - restorable, x not\n  below: C compliance, G governance, a advisory, . none, ? unknown\n\n")
}

// createdAround bounds a window by the creation of the snapshots at its ends.
func (l lineageView) createdAround(r windowView) (from, to time.Time) {
	for _, s := range l.Snapshots {
		if s.Name == r.Base {
			from = s.Created
		}
		if s.To <= r.To && s.Created.After(to) {
			to = s.Created
		}
	}
	return from, to
}

func fill(n int, r rune) []rune {
	b := make([]rune, n)
	for i := range b {
		b[i] = r
	}
	return b
}

// marks are the letters of protection, weakest first.
const marks = "?.aGC"

func weaker(a, b rune) bool { return strings.IndexRune(marks, a) < strings.IndexRune(marks, b) }

func (p *protectionView) mark() rune {
	if p == nil {
		return '?'
	}
	switch p.Mode {
	case immutability.ModeNone:
		return '.'
	case immutability.ModeAdvisory:
		return 'a'
	case immutability.ModeGovernance:
		return 'G'
	case immutability.ModeCompliance:
		return 'C'
	}
	return '?'
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
