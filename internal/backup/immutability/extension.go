package immutability

import (
	"fmt"
	"time"
)

// The numbers of extension planning.
const (
	// MinRest is the least remaining time that is left alone, whatever the period: a day
	// in which an extension that fails can be noticed and repeated.
	MinRest = 24 * time.Hour
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

// Due is the remaining time under which a lock of this policy is extended: max(MinRest, half
// the period).
func (p ExtensionPolicy) Due() time.Duration { return max(MinRest, p.period()/2) }

// step is the least gain worth a request.
func (p ExtensionPolicy) step() time.Duration { return min(MaxStep, p.period()/10) }

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
