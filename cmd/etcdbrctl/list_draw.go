package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/backup/snapshot"
)

// draw prints the lineage over time, one column per slice of it, and below it what its chains are
// protected by and until when:
//
//	2026-11-20 08:00:00Z                                   2026-11-20 09:00:00Z
//	F---+---+---+---F--+---+---xxxxxF---+---+---+------
//	a               b               c
//	F full, + deltas, - can be restored, x cannot; a, b, ...: the chains below
//
//	   FULL TAKEN (UTC)  DELTAS  REVISIONS  SIZE     PROTECTED AT LEAST UNTIL
//	a  2026-11-20 08:00  3       10 to 40   1.2 MiB  2026-12-20 08:00 compliance
func (l lineageView) draw(w io.Writer, width int) error {
	groups := l.groups()
	if line, marks := l.line(width, groups); line != "" {
		first, last := l.span()
		left, right := moment(first), moment(last)
		gap := max(len(line)-len(left)-len(right), 1)
		fmt.Fprintf(w, "\n  %s%s%s\n  %s\n  %s\n", left, strings.Repeat(" ", gap), right, line, marks)
		fmt.Fprintf(w, "  F full, + deltas, - can be restored, x cannot; a, b, ...: the chains below\n")
	}
	if len(groups) == 0 {
		return nil
	}
	if slices.ContainsFunc(groups, func(g group) bool { return len(g.fulls) > 1 }) {
		fmt.Fprintf(w, "  +N: and N more fulls with their deltas\n")
	}
	fmt.Fprintln(w)
	rows := [][]string{{"", "", "FULL TAKEN (UTC)", "DELTAS", "REVISIONS", "SIZE", "PROTECTED AT LEAST UNTIL"}}
	for i, g := range groups {
		rows = append(rows, []string{"", mark(i), g.taken(), g.counted(), g.revisions(), bytesString(g.size), g.protected()})
	}
	if narrow(width) {
		for i, r := range rows {
			rows[i] = slices.Delete(r, 5, 6)
		}
	}
	return columns(w, rows)
}

// group is a chain, or several neighbouring ones where there are many.
type group struct {
	fulls       []snapshotView
	deltas      int            // those that are excluded left out
	excluded    int            // of all
	snapshots   []snapshotView // all of them that can be used
	size        int64
	first, last snapshot.Revision
}

// The chains that are told apart: the newest one by one, the others in so many equal parts.
const (
	newestGroups = 13
	olderGroups  = 13
)

// mark names the i-th group in the drawing.
func mark(i int) string { return string(rune('a' + i)) }

// groups are the chains in the order of application, at most one per letter.
func (l lineageView) groups() []group {
	var chains []group
	for _, s := range l.Snapshots {
		if s.Kind == snapshot.Full || len(chains) == 0 {
			chains = append(chains, group{})
		}
		g := &chains[len(chains)-1]
		if s.Kind == snapshot.Full {
			g.fulls = append(g.fulls, s)
		}
		g.size += s.Size
		if s.Excluded { // nothing reaches so far by it
			g.excluded++
			continue
		}
		if s.Kind != snapshot.Full {
			g.deltas++
		}
		if s.Problem == "" && !s.Excluded {
			g.snapshots = append(g.snapshots, s)
		}
		if g.first == 0 {
			if g.first = s.From; s.Kind == snapshot.Full {
				g.first = s.To
			}
		}
		g.last = max(g.last, s.To)
	}
	older := len(chains) - newestGroups
	if len(chains) <= newestGroups+olderGroups {
		return chains
	}
	var all []group
	for i := range olderGroups {
		part := chains[i*older/olderGroups : (i+1)*older/olderGroups]
		g := part[0]
		for _, next := range part[1:] {
			g.fulls = append(g.fulls, next.fulls...)
			g.snapshots = append(g.snapshots, next.snapshots...)
			g.deltas, g.excluded, g.size, g.last = g.deltas+next.deltas, g.excluded+next.excluded, g.size+next.size, max(g.last, next.last)
		}
		all = append(all, g)
	}
	return append(all, chains[older:]...)
}

func (g group) taken() string {
	switch len(g.fulls) {
	case 0:
		return "no full"
	case 1:
		return minute(g.fulls[0].Created)
	}
	return fmt.Sprintf("%s +%d", minute(g.fulls[0].Created), len(g.fulls)-1)
}

// counted are the deltas, and how many snapshots restores leave out.
func (g group) counted() string {
	if g.excluded == 0 {
		return fmt.Sprint(g.deltas)
	}
	return fmt.Sprintf("%d, %d excluded", g.deltas, g.excluded)
}

// revisions are those that the group reaches with what is not excluded.
func (g group) revisions() string {
	if g.last == 0 {
		return "-"
	}
	if g.first == g.last {
		return fmt.Sprint(g.last)
	}
	return fmt.Sprintf("%d to %d", g.first, g.last)
}

// protected says by what and until when all of the group is protected at least.
func (g group) protected() string {
	type part struct {
		n, holds int
		until    time.Time // the earliest
	}
	parts := map[immutability.Mode]part{}
	for _, s := range g.snapshots {
		mode, p := immutability.ModeUnknown, part{}
		if s.Protection != nil {
			mode = s.Protection.Mode
			p = parts[mode]
			if until := s.Protection.Until; p.n == 0 || until.Before(p.until) {
				p.until = until
			}
			if s.Protection.Hold {
				p.holds++
			}
		} else {
			p = parts[mode]
		}
		p.n++
		parts[mode] = p
	}
	var told []string
	for _, mode := range weakestFirst {
		p := parts[mode]
		if p.n == 0 {
			continue
		}
		text := (&protectionView{mode, p.until, p.holds == p.n}).short(minutes)
		if p.n < len(g.snapshots) {
			text = fmt.Sprintf("%d: %s", p.n, text)
		}
		told = append(told, text)
	}
	return strings.Join(told, "; ")
}

// weakestFirst are the modes of protection. What nobody tells may be none.
var weakestFirst = []immutability.Mode{immutability.ModeUnknown, immutability.ModeNone, immutability.ModeAdvisory,
	immutability.ModeGovernance, immutability.ModeCompliance}

// span is when the first and the last snapshot were created.
func (l lineageView) span() (first, last time.Time) {
	for i, s := range l.Snapshots {
		if i == 0 || s.Created.Before(first) {
			first = s.Created
		}
		if s.Created.After(last) {
			last = s.Created
		}
	}
	return first, last
}

// line is the line of time and the letters of the groups below it, or nothing if there is no
// time to draw.
func (l lineageView) line(width int, groups []group) (line, letters string) {
	const margin, narrowest, widest = 2, 40, 116
	cells := min(max(columnsOf(width)-2*margin, narrowest), widest)
	first, last := l.span()
	span := last.Sub(first)
	if span <= 0 {
		return "", ""
	}
	at := func(t time.Time) int {
		return min(max(int(float64(cells-1)*float64(t.Sub(first))/float64(span)), 0), cells-1)
	}
	state, marks := []byte(strings.Repeat("x", cells)), []byte(strings.Repeat(" ", cells))
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
	}
	for i := range max(len(l.Restorable)-1, 0) { // a gap is seen, however short it is
		_, before := l.createdAround(l.Restorable[i])
		after, _ := l.createdAround(l.Restorable[i+1])
		if at(after)-at(before) < 2 {
			state[at(after)] = 'x'
		}
	}
	for i, g := range groups {
		if len(g.fulls) > 0 {
			marks[at(g.fulls[0].Created)] = mark(i)[0]
		}
	}
	return string(state), strings.TrimRight(string(marks), " ")
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
