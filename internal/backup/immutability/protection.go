package immutability

import "time"

// DeleteMargin is how long after the end of its lock an object is left alone: stores round
// dates, and their machines do not all show the same time.
const DeleteMargin = 15 * time.Minute

// Reason says in one phrase why an object is, or is not, protected from deletion.
type Reason string

// The reasons. The first two mean "may be deleted", the others "may not".
const (
	ReasonNoLock      Reason = "no lock"
	ReasonEnded       Reason = "the lock has ended"
	ReasonLocked      Reason = "locked"
	ReasonMargin      Reason = "the lock ended only just now"
	ReasonHold        Reason = "under a hold"
	ReasonNotTold     Reason = "the store did not tell the lock"
	ReasonUnknownMode Reason = "the kind of lock is unknown"
	ReasonNoEnd       Reason = "locked, but the store did not tell until when"
	ReasonNoClock     Reason = "the time is unknown"
)

// Protection is the answer to "may this be deleted now?".
type Protection struct {
	Protected bool   `json:"protected"`
	Reason    Reason `json:"reason"`
	// Until is the first moment at which deletion is allowed, the margin included: the
	// moment to ask again. Zero when nothing protects or when nobody knows.
	Until time.Time `json:"until,omitzero"`
}

// String is the reason, with the date where there is one.
func (p Protection) String() string {
	if p.Until.IsZero() {
		return string(p.Reason)
	}
	return string(p.Reason) + ", not before " + p.Until.UTC().Format(time.RFC3339)
}

// Protected judges whether a version with this retention may be deleted at now, which is
// Clock.ForDeletion. A lock protects up to and including its end and for margin longer
// (negative margins count as none).
//
// Whatever is unknown protects: a nil retention, a mode that is none of the named ones, a
// lock without an end, a hold, a zero now. A date in the future protects even where the mode
// says that there is no lock, because one of the two must be wrong.
func (r *Retention) Protected(now time.Time, margin time.Duration) Protection {
	blocked := func(why Reason) Protection { return Protection{Protected: true, Reason: why} }
	switch {
	case r == nil:
		return blocked(ReasonNotTold)
	case r.Hold:
		return blocked(ReasonHold)
	case r.Mode.rank() == ModeUnknown.rank():
		return blocked(ReasonUnknownMode)
	case r.Until.IsZero() && r.Mode.Locks():
		return blocked(ReasonNoEnd)
	case r.Until.IsZero():
		return Protection{Reason: ReasonNoLock}
	case now.IsZero():
		return blocked(ReasonNoClock)
	}
	free := r.Until.Add(max(margin, 0))
	switch {
	case now.After(free):
		return Protection{Reason: ReasonEnded}
	case now.After(r.Until):
		return Protection{Protected: true, Reason: ReasonMargin, Until: free}
	}
	return Protection{Protected: true, Reason: ReasonLocked, Until: free}
}
