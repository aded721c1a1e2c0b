package immutability

import (
	"fmt"
	"time"
)

// Coverage is the arithmetic of whether the newest chain is locked at every moment while backups are made:
//
//	full                        next full begins      is in the bucket
//	 |---------- Between -------------|------ Takes -------|-- DeleteMargin --|
//	 |=========================== Period =============================...
//
// Until the next full is in the bucket the chain of this one is the newest. Its deltas are younger than it,
// so that the full's lock is the first to end.
type Coverage struct {
	Period  time.Duration // how long an object is locked from its upload
	Between time.Duration // the longest time between two fulls
	Takes   time.Duration // how long a full may take until it is in the bucket
}

// Needs is the shortest period that leaves no moment without a lock, as DeleteMargin allows for clocks that
// differ.
func (c Coverage) Needs() time.Duration { return c.Between + c.Takes + DeleteMargin }

// Holds reports whether the newest chain is locked at every moment.
func (c Coverage) Holds() bool { return c.Period >= c.Needs() }

// String is the arithmetic as one phrase.
func (c Coverage) String() string {
	s := fmt.Sprintf("objects are locked for %s, and a full is the newest for up to %s (%s between two, %s until the next is in the bucket, %s for clocks)",
		brief(c.Period), brief(c.Needs()), brief(c.Between), brief(c.Takes), brief(DeleteMargin))
	if !c.Holds() {
		s += fmt.Sprintf(": it would be without a lock for up to %s", brief(c.Needs()-c.Period))
	}
	return s
}

// brief is a duration without the units that are 0: 24h30m, not 24h30m0s.
func brief(d time.Duration) string {
	d = d.Round(time.Second)
	h, m, s := d/time.Hour, d%time.Hour/time.Minute, d%time.Minute/time.Second
	switch {
	case d < 0 || s != 0:
		return d.String()
	case m == 0 && h > 0:
		return fmt.Sprintf("%dh", h)
	case h == 0:
		return fmt.Sprintf("%dm", m)
	}
	return fmt.Sprintf("%dh%dm", h, m)
}
