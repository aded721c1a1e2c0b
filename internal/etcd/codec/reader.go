package codec

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

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
	// MaxEventBytes bounds a single event as it is encoded; 0 means 128 MiB. It protects against
	// damaged lengths, and memory is taken only as the bytes arrive.
	MaxEventBytes int
	// Wait is called before memory is taken to unpack zstd; nil: go on. Its error is the reader's.
	Wait func() error
	// Grow is called before more memory is taken than a usual event needs, with its number of bytes,
	// and before zstd unpacks with a larger window than ours; nil: go on. Its error is the reader's.
	Grow func(n int) error
	// Whole lets contents be unpacked at once instead of in a stream; nil: never.
	Whole *Whole

	headless bool // tests read a native content without its header
}

// DeltaReader decodes one delta snapshot in a stream. It is not safe for concurrent use; any
// number of readers can work side by side.
type DeltaReader struct {
	in      *unpacker
	window  *window
	scan    *memory // the window's first buffer
	content func()  // gives it back, if it was unpacked at once
	format  Format
	header  *snapshot.Manifest
	events  sequence
	native  *nativeReader // one of these two
	json    *jsonReader
	stopped error
}

// NewDeltaReader begins to read the object r whose name has the suffix c. It reads as far as
// needed to recognise the encoding and to return the header.
func NewDeltaReader(r io.Reader, c snapshot.Compression, o ReaderOptions) (*DeltaReader, error) {
	in, err := newUnpacker(r, c, 1)
	if err != nil {
		return nil, err
	}
	d := &DeltaReader{in: in}
	if err := d.open(c, o); err != nil {
		in.Close()
		return nil, fmt.Errorf("read delta: %w", err)
	}
	return d, nil
}

func (d *DeltaReader) open(c snapshot.Compression, o ReaderOptions) (err error) {
	if c == snapshot.Zstd {
		if d.header, err = d.in.header(); err != nil {
			return err
		}
	}
	if o.BatchBytes <= 0 {
		o.BatchBytes = defaultBatchBytes
	}
	if o.MaxEventBytes <= 0 {
		o.MaxEventBytes = defaultEventBytes
	}
	w, err := d.first(c, o)
	if err != nil {
		return err
	}
	d.window, w.grow = w, o.Grow
	switch first := w.rest(); {
	case len(first) >= len(nativeMagic) && string(first[:len(nativeMagic)]) == nativeMagic:
		d.format = Native
		w.sum = nil
		d.native = &nativeReader{w: w, seq: &d.events, maxEvent: o.MaxEventBytes, batch: max(o.BatchBytes, 128)}
		if d.content != nil && o.Whole.Newest {
			d.native.superseded = d.native.findSuperseded()
		}
	case len(first) >= len(nativeMagic) && string(first[:len(nativeMagic)-1]) == nativeMagic[:len(nativeMagic)-1]:
		return fmt.Errorf("%w: version %d of the native form; this program knows version %d", ErrEncoding, first[len(nativeMagic)-1], nativeMagic[len(nativeMagic)-1])
	case looksLikeJSON(first):
		d.format = V2JSON
		d.json = &jsonReader{w: w, seq: &d.events, maxEvent: o.MaxEventBytes, batch: max(o.BatchBytes, 128)}
	case len(first) < len(nativeMagic):
		return w.ended()
	default:
		return fmt.Errorf("%w: the content begins with %q", ErrEncoding, first[:len(nativeMagic)])
	}
	if d.format == Native && d.header == nil && !o.headless {
		return fmt.Errorf("%w: a native delta without its header, which holds the digest, proves nothing", ErrEncoding)
	}
	if d.header != nil && d.format != Native {
		return fmt.Errorf("%w: the header of a native delta in front of %s", ErrMalformed, d.format)
	}
	return nil
}

// first is the window at the beginning of the content.
func (d *DeltaReader) first(c snapshot.Compression, o ReaderOptions) (_ *window, err error) {
	if o.Wait == nil || c != snapshot.Zstd {
		o.Wait = func() error { return nil }
	}
	if o.Whole.fits(d.header) {
		content, err := d.in.whole(d.header, o)
		if err != nil {
			return nil, err
		}
		d.content = func() { o.Whole.Memory.giveBack(content) }
		return &window{buf: content, err: io.EOF}, nil
	}
	if err := o.Wait(); err != nil {
		return nil, err
	}
	if n := d.in.zstdWindow(); c == snapshot.Zstd && n > packWindow && o.Grow != nil {
		if err := o.Grow(int(min(n, maxDeltaWindow))); err != nil {
			return nil, err
		}
	}
	d.scan = newMemory(scanBytes)
	w := newWindow(d.in, d.scan.arena[:0:scanBytes])
	if w.fill(); w.err != nil && w.err != io.EOF {
		return nil, w.err
	}
	return w, nil
}

func looksLikeJSON(b []byte) bool {
	for _, c := range b {
		if !isSpace(c) {
			return c == '['
		}
	}
	return false
}

// Format is the encoding found in the content.
func (d *DeltaReader) Format() Format { return d.format }

// Header is the manifest in front of a native delta, nil for the JSON form. That its digest, sizes, counts and revisions
// agree with the content is verified before Next returns io.EOF; that it names the object that
// was read is for the caller to compare.
func (d *DeltaReader) Header() *snapshot.Manifest { return d.header }

// Next returns the next records, at least one, in the order of (Main, Sub). It returns io.EOF
// only after all of the content was read and its digest verified: until then nothing that was
// returned before may be taken for true. A revision with many events may span batches; its Sub
// goes on counting. After any error the reader is finished and returns the same error again.
func (d *DeltaReader) Next() (*Batch, error) {
	if d.stopped != nil {
		return nil, d.stopped
	}
	b, err := d.next()
	if err == io.EOF {
		err = d.verify()
	}
	if err == nil {
		return b, nil
	}
	if err != io.EOF {
		err = fmt.Errorf("read delta: %w", err)
	}
	d.stopped = err
	return nil, err
}

func (d *DeltaReader) next() (b *Batch, err error) {
	if d.native != nil {
		b, err = d.native.next()
	} else {
		b, err = d.json.next()
	}
	if suspicious(err) {
		err = d.blame(err)
	}
	return b, err
}

// blame tells damage from content that was written wrong.
func (d *DeltaReader) blame(cause error) error {
	if d.native == nil {
		return d.window.blame(cause)
	}
	if err := d.window.drain(); err != nil {
		return fmt.Errorf("%w (%w)", err, cause)
	}
	if d.header != nil && d.in.digest() != d.header.Digest {
		return fmt.Errorf("%w (%w)", ErrDigest, cause)
	}
	return cause
}

// suspicious reports whether err may be the consequence of damage that only the digest shows.
func suspicious(err error) bool {
	var gap *GapError
	var order *OrderError
	return errors.Is(err, ErrTooLarge) || errors.Is(err, ErrMalformed) && !errors.Is(err, ErrDigest) || errors.As(err, &gap) || errors.As(err, &order)
}

// verify compares the header with what followed it. It returns io.EOF if all is well.
func (d *DeltaReader) verify() error {
	m := d.header
	if m == nil {
		return io.EOF
	}
	bad := func(what string, want, got any) error {
		return fmt.Errorf("%w: the header says %s %v, the content has %v", ErrMalformed, what, want, got)
	}
	name, err := snapshot.ParseName(m.Snapshot)
	if err != nil {
		return err
	}
	if got := d.in.digest(); got != m.Digest {
		return fmt.Errorf("%w: the header says %s, the packed content has %s", ErrDigest, m.Digest, got)
	}
	switch {
	case m.Size != d.in.size():
		return bad("size", m.Size, d.in.size())
	case m.ContentSize != d.window.offset():
		return bad("content size", m.ContentSize, d.window.offset())
	case m.Events != d.events.events:
		return bad("events", m.Events, d.events.events)
	case m.LastRevision != d.events.last:
		return bad("last revision", m.LastRevision, d.events.last)
	case name.Start != d.events.first:
		return bad("first revision", name.Start, d.events.first)
	}
	return io.EOF
}

// First is the revision of the first event read so far, 0 before.
func (d *DeltaReader) First() snapshot.Revision { return d.events.first }

// Last is the revision of the last event read so far, 0 before.
func (d *DeltaReader) Last() snapshot.Revision { return d.events.last }

// Events is the number of events read so far.
func (d *DeltaReader) Events() int64 { return d.events.events }

// ContentSize is the number of unpacked bytes read so far.
func (d *DeltaReader) ContentSize() int64 { return d.window.offset() }

// Leases are the records in the header of a native delta, or what its content holds in place of
// them: older ones list the leases at their end there. Complete after io.EOF; nil for the JSON form,
// whose manifest is another object.
func (d *DeltaReader) Leases() []snapshot.LeaseRecord {
	switch {
	case d.native == nil:
		return nil
	case len(d.native.leases) == 0:
		if d.header == nil {
			return nil
		}
		return d.header.Leases
	}
	states := slices.Clone(d.native.leases) // those are sorted as signed numbers
	slices.SortFunc(states, func(a, b snapshot.LeaseState) int { return snapshot.CompareLeases(a.ID, b.ID) })
	return []snapshot.LeaseRecord{{Revision: d.events.last, States: states}}
}

// Close gives memory back. It does not close the source, and may be called at any time and
// repeatedly. Batches not yet released stay valid.
func (d *DeltaReader) Close() error {
	d.stopped = fmt.Errorf("read delta: %w", os.ErrClosed)
	if d.scan != nil {
		d.scan.release()
		d.scan = nil
	}
	if d.content != nil {
		d.content()
		d.content = nil
	}
	return d.in.Close()
}
