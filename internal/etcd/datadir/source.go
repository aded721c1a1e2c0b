package datadir

import (
	"io"
	"math"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/etcd/codec"
)

// Source is what a database is rebuilt from.
type Source struct {
	// Base is an unpacked full snapshot: an etcd database file and its SHA-256 trailer. It is
	// read once, to its end. Nil is the empty store, whose revision is 1.
	Base     io.Reader
	BaseName string // for messages
	// BaseHashKV is what was recorded about the base. It is compared if the base really has that
	// compact revision and reaches that revision; Report.BaseHashKVChecked tells.
	BaseHashKV *snapshot.HashKV
	// BaseLast is the lowest last revision that the base may have ([ErrBaseBehind]); 0: any.
	BaseLast snapshot.Revision
	// BaseSize is the size that the base has at most ([ErrBaseSize]); 0: any.
	BaseSize int64
	// BaseInTime says that the base is known to hold nothing received after Options.TargetTime.
	// Otherwise a delta that repeats one of its revisions may show the contrary ([*LateError]).
	BaseInTime bool
	// Deltas in the order of their revisions. They may overlap the base and each other.
	Deltas []Delta
}

// Delta is one delta snapshot.
type Delta struct {
	Name  string            // for messages
	First snapshot.Revision // the first revision it should have, which Open answers for; 0: not known
	Last  snapshot.Revision // the last revision it must have; 0: not known
	// Open begins to read it, as the options say where they can be heeded. It is called at most
	// once, from its own goroutine; several deltas are open at the same time. Errors of Open and of the Records come out of Rebuild wrapped
	// with the Name.
	Open func(codec.ReaderOptions) (Records, error)
}

// Records yields the content of a delta; a [codec.DeltaReader] is one. Next returns io.EOF only
// when the content turned out whole. Leases is asked after that.
type Records interface {
	Next() (*codec.Batch, error)
	Leases() []snapshot.LeaseRecord
	Close() error
}

// overlap reports whether a delta may repeat revisions of another one.
func overlap(deltas []Delta) bool {
	last := snapshot.Revision(0)
	for i, d := range deltas {
		if i > 0 && (d.First == 0 || d.First <= last) {
			return true
		}
		if last = max(last, d.Last); d.Last == 0 {
			last = math.MaxInt64
		}
	}
	return false
}
