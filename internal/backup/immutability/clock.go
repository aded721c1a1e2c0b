package immutability

import "time"

// MaxSkew is how far a local clock is trusted when the store does not tell its own. S3
// refuses requests of clients that are further off, so a client that can write at all is
// inside it.
const MaxSkew = 15 * time.Minute

// Clock is what is known about the present: the store's clock, by which locks end, and ours.
//
// The store's clock is the authority, and its refusal to delete is final. Of two clocks that
// disagree each use takes the one by which it errs on the safe side:
//
//	deleting   the earlier: a lock is never judged ended before it has ended for the
//	           store, and a store date from a stale or lying proxy deletes nothing early;
//	           the price is some storage for some minutes
//	extending  the later, but at most MaxSkew after the store's: a lock is renewed too soon
//	           rather than too late, and a clock that shows another year locks nothing
//	           for that long
//
// A store that does not tell its time is assumed to be MaxSkew away, again on the safe side.
type Clock struct {
	Server time.Time // as the store told with its answer; zero if it did not
	Local  time.Time // of the machine that asks; zero if it is not to be trusted at all
}

// ForDeletion is the moment by which it is judged whether a lock has ended. It is never
// later than the store's clock; zero, by which nothing has ended, if no clock is known.
func (c Clock) ForDeletion() time.Time {
	switch {
	case c.Server.IsZero() && c.Local.IsZero():
		return time.Time{}
	case c.Server.IsZero():
		return c.Local.Add(-MaxSkew)
	case !c.Local.IsZero() && c.Local.Before(c.Server):
		return c.Local
	}
	return c.Server
}

// ForExtension is the moment by which it is judged whether a lock is due for extension, and
// from which the new period counts. It is never earlier than the store's clock and at most
// MaxSkew later; zero, by which nothing is planned, if no clock is known.
func (c Clock) ForExtension() time.Time {
	switch {
	case c.Server.IsZero() && c.Local.IsZero():
		return time.Time{}
	case c.Server.IsZero():
		return c.Local.Add(MaxSkew)
	case c.Local.After(c.Server.Add(MaxSkew)):
		return c.Server.Add(MaxSkew)
	case c.Local.After(c.Server):
		return c.Local
	}
	return c.Server
}

// Skew is by how much the local clock is ahead of the store's (negative: behind); ok is
// false if either is unknown. More than MaxSkew in either direction deserves a warning.
func (c Clock) Skew() (ahead time.Duration, ok bool) {
	if c.Server.IsZero() || c.Local.IsZero() {
		return 0, false
	}
	return c.Local.Sub(c.Server), true
}
