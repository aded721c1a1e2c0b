package immutability

import (
	"hash/fnv"
	"time"
)

// Way is how the protection of one version is prolonged.
type Way string

// The ways, the cheapest first.
const (
	WayRetention Way = "retention in place"  // its own lock gets a later end
	WayHold      Way = "hold"                // it is held until somebody releases it
	WayCopy      Way = "server-side copy"    // a copy of another name begins a period of its own
	WayStream    Way = "download and upload" // the same, with the bytes through us
)

// Moves reports whether the way makes another object instead of changing the one that is there.
func (w Way) Moves() bool { return w == WayCopy || w == WayStream }

// Means are what a store has to prolong protection with, as far as that is known before it is
// tried. A bucket may turn out to lack a way, then the next one is tried.
type Means struct {
	Retention bool // it can lengthen locks of single versions
	Hold      bool // it can hold single versions
	Copy      bool // it copies without our help
	// Default and Period are what the bucket gives to whatever is written into it.
	Default Mode
	Period  time.Duration
}

// Ways are the ways worth trying for a version with this retention, the cheapest first; none: it
// cannot be protected any longer here.
//
// A lock and a hold are worth something only where something locks: on a version that was never
// locked, in a bucket that locks nothing, a hold would protect against nobody who may lift it.
// A copy begins a new period only where the bucket gives one. If its default is not told, a
// version that is locked by something is taken for a sign that it does, and reading back proves it.
func (m Means) Ways(r *Retention) []Way {
	locked := r != nil && r.Mode.Locks()
	gives := m.Default.Locks() && m.Period > 0 || m.Default.rank() == ModeUnknown.rank() && locked
	var ways []Way
	for _, row := range []struct {
		way  Way
		have bool
	}{
		{WayRetention, m.Retention && locked},
		{WayHold, m.Hold && locked},
		{WayCopy, m.Copy && gives},
		{WayStream, gives},
	} {
		if row.have {
			ways = append(ways, row.way)
		}
	}
	return ways
}

// The numbers that tell whether a lock was ever prolonged.
const (
	// originalSlack is how much later than creation and period an original lock may end: an upload
	// that takes long, clocks that differ, whole seconds.
	originalSlack = time.Hour
	// SampleOneIn is how many objects, on average, are extended again for each that is read again.
	SampleOneIn = 10
)

// Original reports whether a lock may be the one with which its version was created, which was
// period long. What was never prolonged was never verified for that. A lock without an end, and
// one that is not told, count as original.
func (r *Retention) Original(created time.Time, period time.Duration) bool {
	return r == nil || r.Until.IsZero() || created.IsZero() || !r.Until.After(created.Add(period+originalSlack))
}

// Sampled chooses one of SampleOneIn of the extensions of a version, by the end of the lock that
// is to be extended. Asked again before the extension it says the same, so what was found damaged
// once is read, and found damaged, by every run until somebody deals with it.
func Sampled(key, version string, until time.Time) bool {
	h := fnv.New64a()
	for _, s := range []string{key, "@", version, "@", until.UTC().Format(time.RFC3339)} {
		_, _ = h.Write([]byte(s))
	}
	x := h.Sum64() // its low bits alone are poorly mixed
	return (x^x>>32)%SampleOneIn == 0
}
