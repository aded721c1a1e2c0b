package codec

import (
	"errors"
	"io"

	"druid.internal/druid/internal/backup/snapshot"
)

// Format is how the events of a delta are encoded, before compression.
type Format string

// The formats of deltas. Both are read, whatever the name of the object says.
const (
	Native Format = "native"  // docs/format/delta.md; packed with zstd when written
	V2JSON Format = "v2-json" // what the original reads and writes
)

// ReaderOptions tune a DeltaReader. The zero value is good.
type ReaderOptions struct {
	// BatchBytes is about how many bytes of records one batch holds; 0 means 1 MiB. A single
	// larger event makes a larger batch.
	BatchBytes int
	// MaxEventBytes bounds a single event as it is encoded; 0 means 1 GiB. It protects against
	// damaged lengths, and memory is taken only as the bytes arrive.
	MaxEventBytes int
}

// Batch is a run of consecutive records of a delta. It belongs to the caller until Release;
// the keys and values of its records lie in its memory and are invalid afterwards.
type Batch struct {
	Records []Record

	arena []byte
}

// Release gives the batch's memory back for reuse. It may be called from any goroutine, once;
// a batch that is never released is simply garbage.
func (b *Batch) Release() {}

// Lease is the time to live that the writer learned for a lease seen in a delta.
type Lease struct {
	ID  int64
	TTL int64 // granted seconds
}

// DeltaReader decodes one delta snapshot in a stream. It is not safe for concurrent use; any
// number of readers can work side by side.
type DeltaReader struct{}

// NewDeltaReader begins to read the object r whose name has the suffix c. It reads as far as
// needed to recognise the encoding and to return the header.
func NewDeltaReader(r io.Reader, c snapshot.Compression, o ReaderOptions) (*DeltaReader, error) {
	return nil, errors.ErrUnsupported
}

// Format is the encoding found in the content.
func (d *DeltaReader) Format() Format { return "" }

// Header is the manifest in front of a native delta. It is nil for the JSON form and for a
// native delta that somebody repacked without it.
func (d *DeltaReader) Header() *snapshot.Manifest { return nil }

// Next returns the next records, in the order of (Main, Sub). It returns io.EOF only after all of the
// content was read and its digest verified: until then nothing that was returned before may be
// taken for true. A revision with many events may span batches; its Sub goes on counting.
// After any error the reader is finished and returns the same error again.
func (d *DeltaReader) Next() (*Batch, error) { return nil, errors.ErrUnsupported }

// First is the revision of the first event read so far, 0 before.
func (d *DeltaReader) First() snapshot.Revision { return 0 }

// Last is the revision of the last event read so far, 0 before.
func (d *DeltaReader) Last() snapshot.Revision { return 0 }

// Events is the number of events read so far.
func (d *DeltaReader) Events() int64 { return 0 }

// Leases are the known times to live of leases, sorted by id. Complete after io.EOF; the JSON
// form has none.
func (d *DeltaReader) Leases() []Lease { return nil }

// Close gives memory back. It does not close the source, and may be called at any time and
// repeatedly. Batches not yet released stay valid.
func (d *DeltaReader) Close() error { return nil }
