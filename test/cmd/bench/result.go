package main

import (
	"fmt"
	"slices"
)

// measured are the runs of one program, in the order of the rounds.
type measured struct {
	name string
	runs []run
	note string // what else it told
}

// result is what a group found out.
type result struct {
	criteria []criterion
	programs []*measured
	tables   []table
	remarks  []string
}

// table is what is reported without being held against a target.
type table struct {
	title string
	head  []string
	rows  [][]string
	note  string
}

func (r *result) add(o *result) {
	r.criteria = append(r.criteria, o.criteria...)
	r.programs = append(r.programs, o.programs...)
	r.tables = append(r.tables, o.tables...)
	r.remarks = append(r.remarks, o.remarks...)
}

// criterion is a line of the table of targets.
type criterion struct {
	work  string
	what  string // the quantity
	value float64
	bound bound
	limit float64
	unit  string

	disturbed bool // others were at work in every run that it is taken from
}

type bound string

const (
	atMost  bound = "at most"
	atLeast bound = "at least"
)

func (c criterion) met() bool {
	if c.bound == atMost {
		return c.value <= c.limit
	}
	return c.value >= c.limit
}

// used is how much of what is allowed is used up: 1 is just within, more is a miss.
func (c criterion) used() float64 {
	switch {
	case c.limit == 0: // nothing is allowed
		return c.value
	case c.bound == atMost:
		return c.value / c.limit
	}
	return c.limit / max(c.value, 1e-9)
}

func (c criterion) wanted() string { return fmt.Sprintf("%s %s", c.bound, amount(c.limit, c.unit)) }
func (c criterion) got() string    { return amount(c.value, c.unit) }

func (c criterion) verdict() string {
	v := "MISSED"
	if c.met() {
		v = "met"
	}
	if c.disturbed {
		v += ", disturbed"
	}
	return v
}

// disturbed reports that one of the programs was never left in peace.
func disturbed(all ...*measured) bool {
	for _, m := range all {
		if _, quiet := m.counting(); !quiet {
			return true
		}
	}
	return false
}

// amount is a number for people.
func amount(v float64, unit string) string {
	switch {
	case unit == "x":
		return fmt.Sprintf("%.2f x", v)
	case unit == "%" || unit == "s":
		return fmt.Sprintf("%.2f %s", v, unit)
	case v >= 10_000:
		return fmt.Sprintf("%.0f k %s", v/1000, unit)
	}
	return fmt.Sprintf("%.0f %s", v, unit)
}

// The quantities of a run that are compared.
func wall(r run) float64         { return r.wall.Seconds() }
func cpu(r run) float64          { return r.cpu.Seconds() }
func rss(r run) float64          { return float64(r.rss) / 1e6 }
func others(r run) float64       { return 100 * r.others }
func anon(r run) float64         { return float64(r.anon) / 1e6 }
func bytesRead(r run) float64    { return float64(r.read) / 1e6 }
func bytesWritten(r run) float64 { return float64(r.written) / 1e6 }

// spread is the median of the wall time, with the least and the most of the runs that count.
func (m *measured) spread() string {
	runs, _ := m.counting()
	if len(runs) == 1 {
		return fmt.Sprintf("%.2f", wall(runs[0]))
	}
	least, most := wall(runs[0]), 0.0
	for _, r := range runs {
		least, most = min(least, wall(r)), max(most, wall(r))
	}
	return fmt.Sprintf("%.2f (%.2f-%.2f)", m.median(wall), least, most)
}

// quietShare is how much of all processors others may take without a run counting as disturbed.
const quietShare = 0.1

// counting are the runs that times are taken from: those that nobody disturbed, if there are any.
// They are chosen by what others did, never by how fast they were.
func (m *measured) counting() (runs []run, quiet bool) {
	for _, r := range m.runs {
		if r.others <= quietShare {
			runs = append(runs, r)
		}
	}
	if len(runs) > 0 {
		return runs, true
	}
	return m.runs, false
}

// rounds tells how many runs counted, of how many.
func (m *measured) rounds() string {
	runs, quiet := m.counting()
	if !quiet {
		return fmt.Sprintf("%d, all disturbed", len(runs))
	}
	return fmt.Sprintf("%d of %d", len(runs), len(m.runs))
}

// median of a quantity over the runs that count.
func (m *measured) median(of func(run) float64) float64 {
	runs, _ := m.counting()
	values := make([]float64, len(runs))
	for i, r := range runs {
		values[i] = of(r)
	}
	return median(values)
}

// ratio of candidate to baseline. If one of them was never left in peace it is the median of the
// ratios of all rounds: both ran one after the other, so a machine that was busy in one round
// was, more or less, busy for both.
func ratio(candidate, baseline *measured, of func(run) float64) float64 {
	_, quiet := candidate.counting()
	if _, also := baseline.counting(); quiet && also {
		return candidate.median(of) / max(baseline.median(of), 1e-9)
	}
	values := make([]float64, len(candidate.runs))
	for i := range values {
		values[i] = of(candidate.runs[i]) / max(of(baseline.runs[i]), 1e-9)
	}
	return median(values)
}

// worst is the largest of a quantity: memory is bounded only if it always is.
func (m *measured) worst(of func(run) float64) float64 {
	worst := 0.0
	for _, r := range m.runs {
		worst = max(worst, of(r))
	}
	return worst
}

func median(values []float64) float64 {
	v := slices.Sorted(slices.Values(values))
	n := len(v)
	if n%2 == 1 {
		return v[n/2]
	}
	return (v[n/2-1] + v[n/2]) / 2
}

// rate is so many things per second of wall time.
func (m *measured) rate(things int) float64 { return float64(things) / m.median(wall) }

func bytesString(n int64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.2f GB", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.0f MB", float64(n)/1e6)
	}
	return fmt.Sprintf("%d B", n)
}
