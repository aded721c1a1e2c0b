package retention

import "time"

// applyKeepers asks the keepers about the head of every stream. A head stays if any of them
// keeps it.
func (c *contents) applyKeepers(p Policy, now time.Time) {
	if p.Method == LimitBased {
		c.limitBased(p.MaxBackups)
	}
	if p.Method == Exponential {
		for _, h := range c.histories {
			h.exponential(now)
		}
	}
	if p.Keep != (Counts{}) {
		c.counts(p.Keep)
	}
	for _, h := range c.histories {
		for _, s := range h.streams {
			s.head.settle()
		}
	}
}

// settle makes one decision of what several keepers said: one that keeps is enough.
func (it *item) settle() {
	var keeps, drops []Reason
	for _, r := range it.policy {
		if r.drops() {
			drops = append(drops, r)
		} else {
			keeps = append(keeps, r)
		}
	}
	it.policy, it.gone = keeps, false
	if len(keeps) == 0 {
		it.policy, it.gone = drops, len(drops) > 0
	}
}

// drops reports whether the reason is a keeper's for not keeping.
func (r Reason) drops() bool {
	return r == OverMaxBackups || r == NotLastOfPeriod || r == OlderThanWeeks || r == NotCounted
}

// newestFirst ranges over the heads of all streams, the newest lineage first.
func (c *contents) newestFirst(yield func(*history, *item) bool) {
	for _, h := range c.histories {
		for i := len(h.streams) - 1; i >= 0; i-- {
			if !yield(h, h.streams[i].head) {
				return
			}
		}
	}
}

// vote records what one keeper says about a head.
func (it *item) vote(r Reason) { it.policy = append(it.policy, r) }

// limitBased keeps the newest heads, usable or not, as the original does.
func (c *contents) limitBased(maxBackups int) {
	n := 0
	for _, head := range c.newestFirst {
		if n < maxBackups {
			head.vote(WithinMax)
		} else {
			head.vote(OverMaxBackups)
		}
		n++
	}
}

const (
	day  = 24 * time.Hour
	week = 7 * day
)

// exponential thins out the heads of one lineage with growing age, exactly as the original
// does: a head is compared with the next newer one in the listing, whatever becomes of that,
// and stays if a boundary between hours, days or weeks, counted back from the end of today,
// lies between the two.
//
//	end of today        1 day             8 days            35 days
//	|----- hourly -------|----- daily -----|----- weekly -----|---- none ----
//
// Two more habits of the original: in the present hour everything stays, and when the first
// head of the weekly section is met, the point from which is counted back moves to the end
// of yesterday, for that head and all older ones.
func (h *history) exponential(now time.Time) {
	now = now.UTC()
	end := now.Truncate(day).Add(day - time.Second)
	moved := false
	for i := len(h.streams) - 1; i >= 0; i-- {
		head := h.streams[i].head
		age := end.Sub(head.created())
		if i == len(h.streams)-1 {
			// Nothing newer to compare with: the newest always stays, except in a lineage
			// that was left behind, which would otherwise never end.
			if h.left && age >= 35*day {
				head.vote(OlderThanWeeks)
			} else {
				head.vote(NewestFull)
			}
			continue
		}
		section, why := time.Duration(0), LastOfWeek
		switch {
		case age < day && head.created().Hour() == now.Hour():
			head.vote(ThisHour)
			continue
		case age < day:
			section, why = time.Hour, LastOfHour
		case age < 8*day:
			section, why = day, LastOfDay
		case age < 35*day:
			if !moved {
				end, moved = end.Add(-day), true
			}
			section = week
		default:
			head.vote(OlderThanWeeks)
			continue
		}
		if boundaryBetween(end.Sub(head.created()), end.Sub(h.streams[i+1].head.created()), section) {
			head.vote(why)
		} else {
			head.vote(NotLastOfPeriod)
		}
	}
}

// boundaryBetween reports whether two ages are in different sections of the given length, or
// so far apart that they would have to be. Ages are cut to whole hours, days and weeks
// towards zero before they are subtracted, and the difference is cut to whole sections: that
// is how the original counts, and it matters for snapshots of the future.
func boundaryBetween(older, newer, section time.Duration) bool {
	for _, unit := range [...]time.Duration{time.Hour, day, week} {
		apart := older/unit - newer/unit
		if apart*(unit/time.Hour)/(section/time.Hour) != 0 {
			return true
		}
	}
	return false
}

// counts keeps the newest head of each of the last so many periods. A head that cannot be
// used takes no place, but stays where it would have had one.
func (c *contents) counts(k Counts) {
	rules := []struct {
		left   int
		why    Reason
		period func(time.Time) [2]int // nil: every head is a period of its own
		last   place
	}{
		{left: k.Last, why: KeepLast},
		{left: k.Hourly, why: KeepHourly, period: func(t time.Time) [2]int { return [2]int{int(t.Unix() / 3600)} }},
		{left: k.Daily, why: KeepDaily, period: func(t time.Time) [2]int { return [2]int{t.Year(), t.YearDay()} }},
		{left: k.Weekly, why: KeepWeekly, period: func(t time.Time) [2]int { y, w := t.ISOWeek(); return [2]int{y, w} }},
		{left: k.Monthly, why: KeepMonthly, period: func(t time.Time) [2]int { return [2]int{t.Year(), int(t.Month())} }},
	}
	for h, head := range c.newestFirst {
		kept := false
		for i := range rules {
			r := &rules[i]
			at := place{history: h}
			if r.period != nil {
				at.period = r.period(head.created())
			}
			if r.left == 0 || r.period != nil && at == r.last {
				continue
			}
			head.vote(r.why)
			kept = true
			if head.usable {
				r.left--
				r.last = at
			}
		}
		if !kept {
			head.vote(NotCounted)
		}
	}
}

// place is a period of one lineage.
type place struct {
	history *history
	period  [2]int
}
