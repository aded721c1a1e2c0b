package codec

import (
	"errors"
	"io"
	"time"

	"druid.internal/druid/internal/backup/snapshot"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// DeltaOptions say how a Delta is encoded and where it may grow.
type DeltaOptions struct {
	Format      Format               // empty: Native
	Compression snapshot.Compression // of V2JSON; Native is always packed with zstd and ignores it
	First       snapshot.Revision    // the revision the first event must have; 0: any
	SpillDir    string               // where a temporary file may be made; empty: the system's
	MemoryLimit int64                // packed bytes kept in memory before the file is made; 0 means 8 MiB
}

// Delta collects watch responses into one delta snapshot. Events are encoded and packed as they
// arrive, so sealing is cheap and memory is bounded by MemoryLimit and the state of the
// compressor, about 12 MiB. It is not safe for concurrent use.
type Delta struct{}

// NewDelta makes an empty delta.
func NewDelta(o DeltaOptions) (*Delta, error) { return nil, errors.ErrUnsupported }

// Append adds one whole watch response that arrived at received. The events must continue what
// was appended before without a gap (*GapError, *OrderError), all events of a revision in the
// same call; if they do not, nothing is added. An error of the temporary file, such as a full
// disk, is returned by every later call too: discard the delta then.
func (d *Delta) Append(received time.Time, events []*mvccpb.Event) error {
	return errors.ErrUnsupported
}

// UnknownLeases are the ids of leases that appended events refer to and for which NoteLease
// has not been called, sorted.
func (d *Delta) UnknownLeases() []int64 { return nil }

// NoteLease records the granted time to live of a lease, in seconds. Native deltas carry it.
func (d *Delta) NoteLease(l Lease) {}

// Empty reports whether nothing was appended.
func (d *Delta) Empty() bool { return true }

// First is the first revision appended, 0 if none.
func (d *Delta) First() snapshot.Revision { return 0 }

// Last is the last revision appended, 0 if none.
func (d *Delta) Last() snapshot.Revision { return 0 }

// Events is the number of events appended.
func (d *Delta) Events() int64 { return 0 }

// ContentSize is the number of bytes encoded so far, before compression: what limits on the size
// of a delta are compared with.
func (d *Delta) ContentSize() int64 { return 0 }

// Spilled is the number of packed bytes in the temporary file.
func (d *Delta) Spilled() int64 { return 0 }

// Seal finishes the delta. The fields of m that follow from the content are overwritten (Version,
// Snapshot, Digest, Size, ContentSize, LastRevision, Events, Earliest, Latest); the caller gives the rest, above all
// Lineage and Previous. The delta can only be discarded afterwards, which also the Sealed does.
func (d *Delta) Seal(created time.Time, m snapshot.Manifest) (*Sealed, error) {
	return nil, errors.ErrUnsupported
}

// Discard frees memory and the temporary file. It may be called at any time, repeatedly.
func (d *Delta) Discard() error { return nil }

// Sealed is a finished delta, ready to be uploaded, repeatedly if need be.
type Sealed struct {
	Name snapshot.Name
	// Manifest describes the object. A native delta carries it in its header, where Digest covers
	// everything behind the header (see ParseHeader); of the JSON form Digest covers all bytes.
	Manifest snapshot.Manifest
}

// Size is the number of bytes of the object.
func (s *Sealed) Size() int64 { return 0 }

// Reader reads the object from its beginning. Any number of readers may be used at once, until
// Close.
func (s *Sealed) Reader() *io.SectionReader { return nil }

// Close frees memory and the temporary file.
func (s *Sealed) Close() error { return nil }
