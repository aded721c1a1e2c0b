package immutability

import (
	"fmt"
	"time"
)

// The numbers of extension planning.
const (
	// MinRest is the time between two runs that is counted on where nobody tells it: a day, if locks last longer.
	MinRest = 24 * time.Hour
	// RunMargin is how much later than the interval says the next run may have prolonged a lock: it starts late, takes
	// its time, and clocks differ. A tenth of the period if that is less.
	RunMargin = time.Hour
	// MaxStep bounds the hysteresis: an extension must gain this much, or a tenth of the
	// period if that is less, so that a short period does not mean a request per run.
	MaxStep = time.Hour
	// MaxPeriod bounds how far ahead a lock is ever set: a lock cannot be shortened, so a
	// slip of the pen would be paid for until it ends.
	MaxPeriod = 10 * 365 * 24 * time.Hour
)

// ExtensionPolicy says how long objects are to stay locked, counted from each run.
type ExtensionPolicy struct {
	Period time.Duration // 0 or less: extend nothing
	Limit  time.Duration // never lock further ahead than this; 0 or less, or more than MaxPeriod: MaxPeriod
	// Every is the longest time between the starts of two runs; 0: nobody tells, so it is MinRest, or half of a
	// period that is not longer than that.
	Every time.Duration
	// Copies: nothing but a copy begins another period, which costs far more than a request.
	Copies bool
	// NotAfter, unless zero, is a date beyond which no lock is set, for example the day
	// an owner is to be gone.
	NotAfter time.Time
}

// period is Period as Limit and MaxPeriod allow it.
func (p ExtensionPolicy) period() time.Duration {
	if p.Limit > 0 {
		return min(p.Period, p.Limit, MaxPeriod)
	}
	return min(p.Period, MaxPeriod)
}

// every is the time between two runs.
func (p ExtensionPolicy) every() time.Duration {
	switch {
	case p.Every > 0:
		return p.Every
	case p.period() > MinRest:
		return MinRest
	}
	return p.period() / 2
}

// margin is RunMargin, or less for a short period.
func (p ExtensionPolicy) margin() time.Duration { return min(RunMargin, p.period()/10) }

// Rest is what has to be left of a lock that nothing is done about: it lasts until the next run is through.
func (p ExtensionPolicy) Rest() time.Duration { return p.every() + p.margin() }

// Due is the remaining time under which a lock of this policy is extended. It is never less than Rest, so that a lock
// that is left alone does not end before the next run is through. Whatever more is affordable leaves time in which an
// extension that fails can be noticed and repeated:
//
//	in place   max(half the period, two intervals) + margin: one run may fail, and it costs a request per half period or run
//	copies     two intervals + margin, if the period has twice that; else Rest, as each copy costs its bytes
func (p ExtensionPolicy) Due() time.Duration {
	twice := 2*p.every() + p.margin()
	switch {
	case !p.Copies:
		return max(p.period()/2+p.margin(), twice)
	case p.period() >= 2*twice:
		return twice
	}
	return p.Rest()
}

// step is the least gain worth a request. What is left alone for that lasts until the next run as well.
func (p ExtensionPolicy) step() time.Duration {
	s := min(MaxStep, p.period()/10)
	if spare := p.period() - p.every(); spare > 0 {
		s = min(s, spare/4)
	}
	return max(s, time.Second)
}

// Upkeep is the arithmetic of it.
func (p ExtensionPolicy) Upkeep() Upkeep { return Upkeep{Period: p.period(), Every: p.every()} }

// Subject is one version of one object with what the store told about its lock.
type Subject struct {
	Key       string     `json:"key"`
	Version   string     `json:"version,omitempty"`
	Retention *Retention `json:"retention,omitempty"`
}

// ExtensionReason says why a lock is extended or left alone.
type ExtensionReason string

// The reasons. The first two extend. Those after ExtensionHold are worth a warning: the
// object is less protected than the policy asks for, and extending cannot help.
const (
	ExtensionDue       ExtensionReason = "the lock ends soon"
	ExtensionEnded     ExtensionReason = "the lock has ended"
	ExtensionEnough    ExtensionReason = "enough time is left"
	ExtensionSmallGain ExtensionReason = "the gain is not worth a request yet"
	ExtensionOff       ExtensionReason = "no period is configured"
	ExtensionHold      ExtensionReason = "a hold protects it"
	ExtensionLimit     ExtensionReason = "a date forbids a later end"
	ExtensionNoLock    ExtensionReason = "there is no lock to extend"
	ExtensionUnknown   ExtensionReason = "the store did not tell the lock"
	ExtensionNoClock   ExtensionReason = "the time is unknown"
)

// Extension is the decision about one subject.
type Extension struct {
	Subject
	Extend bool            `json:"extend"`
	Until  time.Time       `json:"until,omitzero"`   // the new end, whole seconds; zero unless Extend
	Capped bool            `json:"capped,omitempty"` // Until is nearer than the period asks, because of a limit
	Reason ExtensionReason `json:"reason"`
	Left   time.Duration   `json:"left,omitempty"` // what remains of the present lock; 0 if ended or unknown
}

// Warn reports whether the object is less protected than asked for and stays so.
func (e Extension) Warn() bool {
	switch e.Reason {
	case ExtensionLimit, ExtensionNoLock, ExtensionUnknown, ExtensionNoClock:
		return true
	}
	return false
}

// String is one line for people.
func (e Extension) String() string {
	verb := "leave"
	if e.Extend {
		verb = "extend to " + e.Until.UTC().Format(time.RFC3339)
	}
	s := fmt.Sprintf("%s: %s: %s", e.Key, verb, e.Reason)
	if e.Left > 0 {
		s += fmt.Sprintf(" (%s left)", e.Left.Round(time.Second))
	}
	if e.Capped {
		s += ", capped by a limit"
	}
	return s
}

// PlanExtension decides for each subject, in the given order, whether its lock is to be
// extended at now (Clock.ForExtension). The new end is now + period, rounded up to a whole
// second, as limits allow; an end that is not later than the present one is never planned.
//
//	now                now+Due                now+Period
//	 |--- extend, if ---|------- enough -------|
//	 |   the end lies   |
//	 |      here        |
//
// A caller extends what is worth something together, such as a chain, in one call, and
// reports the new ends only after it has read them back.
func PlanExtension(subjects []Subject, policy ExtensionPolicy, now time.Time) []Extension {
	plan := make([]Extension, 0, len(subjects))
	for _, s := range subjects {
		plan = append(plan, policy.decide(s, now))
	}
	return plan
}

func (p ExtensionPolicy) decide(s Subject, now time.Time) Extension {
	e := Extension{Subject: s}
	r := s.Retention
	switch {
	case p.Period <= 0:
		e.Reason = ExtensionOff
		return e
	case now.IsZero():
		e.Reason = ExtensionNoClock
		return e
	case r == nil:
		e.Reason = ExtensionUnknown
		return e
	case r.Hold:
		e.Reason = ExtensionHold
		return e
	case r.Mode == ModeNone:
		e.Reason = ExtensionNoLock
		return e
	case !r.Mode.Locks() || r.Until.IsZero():
		// An end that is not known could be later than ours: setting one might shorten.
		e.Reason = ExtensionUnknown
		return e
	}
	e.Left = max(r.Until.Sub(now), 0)
	if e.Left >= p.Due() {
		e.Reason = ExtensionEnough
		return e
	}
	until, dated := p.end(now)
	gain := until.Sub(r.Until)
	switch {
	case dated && (gain < p.step() || !until.After(now)):
		e.Reason = ExtensionLimit
	case e.Left > 0 && gain < p.step():
		e.Reason = ExtensionSmallGain
	case e.Left > 0:
		e.Extend, e.Reason = true, ExtensionDue
	default:
		e.Extend, e.Reason = true, ExtensionEnded
	}
	if e.Extend {
		e.Until, e.Capped = until, dated || p.period() < p.Period
	}
	return e
}

// end is now + period, rounded up to a second, as stores keep it; or NotAfter if that is
// earlier, which dated reports.
func (p ExtensionPolicy) end(now time.Time) (until time.Time, dated bool) {
	until = now.Add(p.period())
	if whole := until.Truncate(time.Second); !whole.Equal(until) {
		until = whole.Add(time.Second)
	}
	if !p.NotAfter.IsZero() && until.After(p.NotAfter) {
		return p.NotAfter.Truncate(time.Second), true
	}
	return until, false
}
