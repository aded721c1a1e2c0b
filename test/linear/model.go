package linear

import (
	"fmt"

	"github.com/anishathalye/porcupine"
)

// state is what a key is between two operations.
type state struct {
	found bool
	value string
	// mod is its mod revision; 0: not known, since the answer to the write was lost.
	mod int64
	// least is the last revision known to have changed the key.
	least int64
}

// model is one key.
//
// An operation without an answer takes effect where it can. That it never took effect need not be
// tried: it may come after all others, where it changes nothing that anybody saw.
var model = porcupine.Model{
	Init:              func() any { return state{} },
	Step:              func(s, in, _ any) (bool, any) { return s.(state).step(in.(Operation)) },
	DescribeOperation: func(in, _ any) string { return in.(Operation).String() },
	DescribeState:     func(s any) string { return s.(state).String() },
}

func (s state) step(o Operation) (bool, state) {
	if !o.Unknown && o.Revision < s.least {
		return false, s // it was answered by a past that is over
	}
	switch o.Kind {
	case Get:
		return s.sees(o)
	case Put:
		return s.written(o)
	case Swap:
		if o.Unknown {
			if !s.may(o.Expect) {
				return true, s
			}
			return s.written(o)
		}
		if o.Done {
			if !s.may(o.Expect) {
				return false, s
			}
			return s.written(o)
		}
		ok, s := s.sees(o)
		return ok && !s.is(o.Expect), s
	case Delete:
		if o.Unknown {
			return true, state{least: s.least}
		}
		if o.Done != s.found || o.Done && o.Revision == s.least {
			return false, s
		}
		if !o.Done {
			return true, s
		}
		return true, state{least: o.Revision}
	}
	return false, s
}

// sees holds what was read against the state and learns the mod revision from it.
func (s state) sees(o Operation) (bool, state) {
	if o.Found != s.found || o.Read != s.value {
		return false, s
	}
	if !s.found || s.mod != 0 {
		return o.Mod == s.mod, s
	}
	if o.Mod <= s.least {
		return false, s
	}
	s.mod, s.least = o.Mod, o.Mod
	return true, s
}

func (s state) written(o Operation) (bool, state) {
	if o.Unknown {
		return true, state{found: true, value: o.Value, least: s.least}
	}
	if o.Revision == s.least {
		return false, s // two writes at one revision
	}
	return true, state{found: true, value: o.Value, mod: o.Revision, least: o.Revision}
}

// is reports whether the key certainly has the mod revision; 0: there is none.
func (s state) is(mod int64) bool {
	if mod == 0 || !s.found {
		return mod == 0 && !s.found
	}
	return s.mod == mod
}

// may reports whether the key can have the mod revision.
func (s state) may(mod int64) bool {
	return s.is(mod) || s.found && s.mod == 0 && mod > s.least
}

func (s state) String() string {
	switch {
	case !s.found:
		return fmt.Sprintf("no such key since %d", s.least)
	case s.mod == 0:
		return fmt.Sprintf("%q written after %d", s.value, s.least)
	}
	return fmt.Sprintf("%q mod %d", s.value, s.mod)
}
