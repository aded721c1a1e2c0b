package immutability

import (
	"fmt"
	"time"
)

// Upkeep is the arithmetic of whether runs that prolong locks keep them from ending:
//
//	a run                     the next one is due      has prolonged the lock
//	 |---------- Every ------------|------ RunMargin ------|
//	 |=========================== Period ===============================...
//
// It is that of ExtensionPolicy, by which a run leaves alone what lasts for Every and RunMargin at least.
type Upkeep struct {
	Period time.Duration // how long a lock lasts from the run that prolongs it
	Every  time.Duration // the longest time between the starts of two runs
}

// Needs is the shortest period that runs so far apart keep alive.
func (u Upkeep) Needs() time.Duration {
	if short := u.Every * 10 / 9; short < 10*RunMargin { // of a short period the margin is a tenth
		return short
	}
	return u.Every + RunMargin
}

// Holds reports whether no lock ends before the next run has prolonged it.
func (u Upkeep) Holds() bool { return u.Period >= u.Needs() }

// String is the arithmetic as one phrase.
func (u Upkeep) String() string {
	s := fmt.Sprintf("locks last for %s from a run, and the next one may be through after %s (%s between two, %s for one that is late or takes long, and for clocks)",
		brief(u.Period), brief(u.Needs()), brief(u.Every), brief(u.Needs()-u.Every))
	if !u.Holds() {
		s += fmt.Sprintf(": they may be missing for up to %s", brief(u.Needs()-u.Period))
	}
	return s
}
