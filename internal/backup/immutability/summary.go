package immutability

import (
	"fmt"
	"time"
)

// Summary is the protection of several objects that are only worth something together, such
// as a chain: as strong as the weakest, as long as the first to end. It is for reporting, so
// what is unknown counts as not protected: the opposite of Retention.Protected.
type Summary struct {
	// Mode is the weakest protection that any of the objects has now. An ended lock is
	// ModeNone; a hold alone is worth ModeGovernance, because whoever may set it may lift it.
	Mode Mode `json:"mode"`
	// Until is the earliest end among the locks that count; zero unless Protected, and zero
	// when holds alone protect, which have no end.
	Until time.Time `json:"until,omitzero"`
	// Inferred: the end of some of the locks was computed, not told.
	Inferred bool `json:"inferred,omitempty"`
	// Held: every object is under a hold, so protection goes on after Until.
	Held bool `json:"held,omitempty"`

	Objects     int `json:"objects"`
	Unprotected int `json:"unprotected,omitempty"` // of them: neither a running lock nor a hold
	Unknown     int `json:"unknown,omitempty"`     // of them: the store did not tell
}

// Protected reports whether every object is known to be protected, at least by advice.
func (s Summary) Protected() bool { return s.Objects > 0 && s.Mode.Locks() }

// String is one phrase for people.
func (s Summary) String() string {
	switch {
	case s.Objects == 0:
		return "nothing to protect"
	case s.Unprotected > 0 && s.Unknown > 0:
		return fmt.Sprintf("not protected: %d of %d objects have no lock, of %d it is unknown", s.Unprotected, s.Objects, s.Unknown)
	case s.Unprotected > 0:
		return fmt.Sprintf("not protected: %d of %d objects have no lock", s.Unprotected, s.Objects)
	case s.Unknown > 0:
		return fmt.Sprintf("not protected as far as we know: of %d of %d objects the lock is unknown", s.Unknown, s.Objects)
	case s.Until.IsZero():
		return fmt.Sprintf("%s by hold, until it is released", s.Mode)
	}
	text := fmt.Sprintf("%s until %s", s.Mode, s.Until.UTC().Format(time.RFC3339))
	if s.Inferred {
		text += ", as inferred from the bucket's policy"
	}
	if s.Held {
		text += ", then by hold"
	}
	return text
}

// Summarize combines the retentions of objects at now, which is Clock.ForExtension: the
// later clock, by which less is protected. Nil entries are objects the store did not tell
// about. No object at all is ModeNone, and so is every lock if now is zero.
func Summarize(rs []*Retention, now time.Time) Summary {
	s := Summary{Mode: ModeNone, Objects: len(rs), Held: len(rs) > 0}
	for i, r := range rs {
		mode, until := r.standing(now)
		switch {
		case i == 0:
			s.Mode = mode
		default:
			s.Mode = Weakest(s.Mode, mode)
		}
		switch {
		case mode == ModeUnknown:
			s.Unknown++
		case mode == ModeNone:
			s.Unprotected++
		case !until.IsZero() && (s.Until.IsZero() || until.Before(s.Until)):
			s.Until = until
		}
		s.Inferred = s.Inferred || r != nil && r.Inferred
		s.Held = s.Held && r != nil && r.Hold
	}
	if !s.Protected() {
		s.Until, s.Held, s.Inferred = time.Time{}, false, false
	}
	return s
}

// standing is what protects one object at now, and until when; a zero end is a hold's.
func (r *Retention) standing(now time.Time) (Mode, time.Time) {
	if r == nil {
		return ModeUnknown, time.Time{}
	}
	running := r.Mode.Locks() && !now.IsZero() && r.Until.After(now)
	switch {
	case running && (!r.Hold || Compare(r.Mode, ModeGovernance) > 0):
		return modes[r.Mode.rank()], r.Until
	case r.Hold:
		return ModeGovernance, time.Time{}
	case r.Mode.rank() == ModeUnknown.rank(), r.Mode.Locks() && r.Until.IsZero():
		return ModeUnknown, time.Time{}
	}
	return ModeNone, time.Time{}
}
