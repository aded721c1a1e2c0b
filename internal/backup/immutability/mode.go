package immutability

import "fmt"

// modes in their order of strength. The position is the rank.
var modes = [...]Mode{ModeNone, ModeUnknown, ModeAdvisory, ModeGovernance, ModeCompliance}

// rank is the mode's place among modes. Whatever is none of them, the empty mode included,
// ranks as unknown: a word we do not understand is not an answer.
func (m Mode) rank() int {
	for i, mode := range modes {
		if m == mode {
			return i
		}
	}
	return 1
}

// Compare orders modes by strength: negative if a is weaker than b, 0 if they are equally
// strong, positive if a is stronger. Unknown stands between none and advisory.
func Compare(a, b Mode) int { return a.rank() - b.rank() }

// Weakest is the weaker of two modes; of two equally strong ones it is a known name.
func Weakest(a, b Mode) Mode { return modes[min(a.rank(), b.rank())] }

// Locks reports whether the mode refuses deletion until a date.
func (m Mode) Locks() bool { return m.rank() >= ModeAdvisory.rank() }

// String is the mode's name; "unknown" for what is no mode.
func (m Mode) String() string { return string(modes[m.rank()]) }

// ParseMode is the inverse of String.
func ParseMode(s string) (Mode, error) {
	for _, mode := range modes {
		if s == string(mode) {
			return mode, nil
		}
	}
	return "", fmt.Errorf("lock mode %q: want one of none, unknown, advisory, governance, compliance", s)
}
