package codec

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"maps"
	"os"
	"slices"
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
	MemoryLimit int64                // packed bytes kept in memory before the file is made; 0: 8 MiB, negative: none
	Packers     *Packers             // shared with deltas before and after; nil: its own
}

const (
	defaultDeltaMemory = 8 << 20
	// encodePiece is handed to the compressor at once. Its tables have left the processor's cache by
	// the next time, so that small pieces would cost twice as much.
	encodePiece = 512 << 10
)

// Delta collects watch responses into one delta snapshot. Events are encoded and packed as they
// arrive, so sealing is cheap and memory is bounded by MemoryLimit, the largest event and the
// state of the compressor, about 35 MB. It is not safe for concurrent use.
type Delta struct {
	format      Format
	compression snapshot.Compression
	after       snapshot.Revision // what First must follow
	events      sequence
	earliest    time.Time
	latest      time.Time
	leases      map[int64]struct{} // ids that events refer to

	piece   []byte         // encoded, not yet handed on
	content int64          // bytes encoded and handed on
	sum     hash.Hash      // of the content, where the format ends with it
	packer  io.WriteCloser // nil while the delta rests
	free    func()         // gives the memory of the packer to packers
	packers *Packers
	rested  bool // so what follows is probably little
	packed  *bufio.Writer
	digest  hash.Hash // of the packed bytes
	spool   *spool
	err     error // sticky
	handed  bool  // the spool belongs to a Sealed
}

// NewDelta makes an empty delta.
func NewDelta(o DeltaOptions) (*Delta, error) {
	d := &Delta{format: o.Format, compression: o.Compression, after: o.First - 1, leases: map[int64]struct{}{}, digest: sha256.New(), free: func() {}, packers: o.Packers}
	if d.packers == nil {
		d.packers = new(Packers)
	}
	if d.format == "" {
		d.format = Native
	}
	switch d.format {
	case Native:
		d.compression = snapshot.Zstd
		d.piece = append(d.piece, nativeMagic...)
	case V2JSON:
		d.sum = sha256.New()
		d.piece = append(d.piece, '[')
	default:
		return nil, fmt.Errorf("%w: %q", ErrEncoding, o.Format)
	}
	if o.MemoryLimit == 0 {
		o.MemoryLimit = defaultDeltaMemory
	}
	d.spool = &spool{limit: o.MemoryLimit, dir: o.SpillDir}
	if err := d.unpark(); err != nil {
		return nil, err
	}
	return d, nil
}

// unpark makes the compressor, unless there is one.
func (d *Delta) unpark() (err error) {
	if d.packer != nil {
		return nil
	}
	d.packed = bufio.NewWriterSize(io.MultiWriter(d.spool, d.digest), spoolPage)
	if d.compression != snapshot.Zstd {
		d.packer, err = newPacker(d.packed, d.compression)
		return err
	}
	s := light
	if !d.rested {
		s = d.packers.begins()
	}
	z, err := newZstdPacker(d.packed, d.packers, s)
	if err != nil {
		return err
	}
	d.packer, d.free = z, z.free
	if !d.rested {
		d.free = func() { d.packers.ended(z.is); z.free() }
	}
	return nil
}

// Rest gives back the memory of zstd's compressor of a delta that will not grow soon. Everything can
// be done with the delta as before; what follows begins a new frame.
func (d *Delta) Rest() error {
	if d.compression != snapshot.Zstd {
		return d.err
	}
	return d.rest()
}

// rest ends the frame, where the compression knows frames.
func (d *Delta) rest() error {
	if d.err != nil || d.handed {
		return d.err
	}
	framed := d.compression == snapshot.Zstd || d.compression == snapshot.Gzip
	if !framed || d.packer == nil || d.Empty() {
		return nil
	}
	if err := d.hand(); err != nil {
		return err
	}
	if err := errors.Join(d.packer.Close(), d.packed.Flush()); err != nil {
		d.err = fmt.Errorf("end a frame of a delta: %w", err)
		return d.err
	}
	d.release()
	d.packer, d.packed, d.piece, d.rested = nil, nil, nil, true
	return nil
}

// Park gives back the memory of a delta that will have to wait: the compressor's, as Rest does, and
// that of the packed bytes, which go to the temporary file. If there is no room in the file, the
// bytes stay in memory, and the error says so.
func (d *Delta) Park() error {
	if err := d.rest(); err != nil || d.handed {
		return err
	}
	return d.spool.park()
}

// Append adds one whole watch response that arrived at received. The events must continue what
// was appended before without a gap (*GapError, *OrderError), all events of a revision in the
// same call; if they do not, nothing is added. An error of the temporary file, such as a full
// disk, is returned by every later call too: discard the delta then. A response without events
// is nothing.
func (d *Delta) Append(received time.Time, events []*mvccpb.Event) error {
	if d.err != nil {
		return d.err
	}
	if len(events) == 0 {
		return nil
	}
	if err := d.check(received, events); err != nil {
		return fmt.Errorf("append to delta: %w", err)
	}
	received = received.UTC().Round(0)
	stamp := ""
	switch d.format {
	case Native:
		since := received.UnixNano()
		if !d.Empty() {
			since -= d.latest.UnixNano()
		}
		d.piece = appendTime(d.piece, since)
	case V2JSON:
		stamp = received.Format(time.RFC3339Nano)
	}
	if d.Empty() {
		d.earliest = received
	}
	d.latest = received
	for _, e := range events {
		c, _ := changeOf(e)
		if d.format == Native {
			d.piece = appendEvent(d.piece, c, e.Kv.Key, e.Kv.Value, d.events.following())
		} else {
			if !d.Empty() {
				d.piece = append(d.piece, ',')
			}
			d.piece = appendJSONEvent(d.piece, c, e.Kv.Key, e.Kv.Value, stamp)
		}
		if _, err := d.events.next(snapshot.Revision(c.mod)); err != nil {
			d.err = fmt.Errorf("append to delta: %w", err)
			return d.err
		}
		if c.lease != 0 {
			d.leases[c.lease] = struct{}{}
		}
		if len(d.piece) >= encodePiece {
			if err := d.hand(); err != nil {
				return err
			}
		}
	}
	return nil
}

// check judges a whole response before anything of it is taken.
func (d *Delta) check(received time.Time, events []*mvccpb.Event) error {
	if _, ok := unixNano(received); !ok || received.IsZero() {
		return fmt.Errorf("no usable receive time: %s", received)
	}
	last := d.events.last
	if d.Empty() {
		last = d.after
	}
	for i, e := range events {
		c, reason := changeOf(e)
		if reason != "" {
			return fmt.Errorf("%w: %s", ErrMalformed, reason)
		}
		main := snapshot.Revision(c.mod)
		switch {
		case main == last+1, main == last && i > 0, i == 0 && d.Empty() && d.after < 0:
		case main > last:
			return &GapError{After: last, Next: main}
		default:
			return &OrderError{After: last, Next: main}
		}
		last = main
	}
	return nil
}

// hand passes what is encoded on to the digest and the compressor.
func (d *Delta) hand() error {
	if err := d.unpark(); err != nil {
		d.err = fmt.Errorf("append to delta: %w", err)
		return d.err
	}
	if d.sum != nil {
		d.sum.Write(d.piece)
	}
	d.content += int64(len(d.piece))
	if _, err := d.packer.Write(d.piece); err != nil {
		d.err = fmt.Errorf("append to delta: %w", err)
		return d.err
	}
	if cap(d.piece) > 1<<20 {
		d.piece = nil
	}
	d.piece = d.piece[:0]
	return nil
}

// Leases is the number of leases that appended events refer to.
func (d *Delta) Leases() int { return len(d.leases) }

// LeaseIDs are the ids of the leases that appended events refer to, in the order of
// [snapshot.CompareLeases].
func (d *Delta) LeaseIDs() []int64 {
	return slices.SortedFunc(maps.Keys(d.leases), snapshot.CompareLeases)
}

// Format is the encoding of the delta.
func (d *Delta) Format() Format { return d.format }

// Empty reports whether nothing was appended.
func (d *Delta) Empty() bool { return d.events.events == 0 }

// First is the first revision appended, 0 if none.
func (d *Delta) First() snapshot.Revision { return d.events.first }

// Last is the last revision appended, 0 if none.
func (d *Delta) Last() snapshot.Revision { return d.events.last }

// Events is the number of events appended.
func (d *Delta) Events() int64 { return d.events.events }

// Earliest is the receive time of the first response, zero if none.
func (d *Delta) Earliest() time.Time { return d.earliest }

// ContentSize is the number of bytes encoded so far, before compression: what limits on the size
// of a delta are compared with.
func (d *Delta) ContentSize() int64 { return d.content + int64(len(d.piece)) }

// Spilled is the number of packed bytes in the temporary file.
func (d *Delta) Spilled() int64 { return d.spool.spilt }

// Seal finishes the delta. The fields of m that follow from the content are overwritten (Version,
// Snapshot, Digest, Size, ContentSize, LastRevision, Events, Earliest, Latest); the caller gives
// the rest, above all Lineage, Previous and Leases. Afterwards the delta takes no more events and belongs
// to the Sealed. An empty delta gives ErrEmptyDelta and can be appended to.
func (d *Delta) Seal(created time.Time, m snapshot.Manifest) (*Sealed, error) {
	switch {
	case d.err != nil:
		return nil, d.err
	case d.Empty():
		return nil, ErrEmptyDelta
	case created.Unix() < 0:
		return nil, fmt.Errorf("seal delta: created at %s, before names can tell", created)
	}
	if err := d.finish(); err != nil {
		d.err = fmt.Errorf("seal delta: %w", err)
		return nil, d.err
	}
	d.err = errors.New("the delta is sealed already")
	name := snapshot.Name{Kind: snapshot.Delta, Start: d.events.first, Last: d.events.last, Created: created.Unix(), Compression: d.compression}
	m.Version, m.Snapshot = snapshot.ManifestVersion, name.String()
	m.Digest = snapshot.Digest(d.digest.Sum(nil))
	m.Size, m.ContentSize = d.spool.size(), d.content
	m.LastRevision, m.Events = d.events.last, d.events.events
	m.Earliest, m.Latest = d.earliest, d.latest
	s := &Sealed{Name: name, content: d.spool}
	if d.format == Native {
		header, err := appendHeader(&m)
		if err != nil {
			d.err = fmt.Errorf("seal delta: %w", err)
			return nil, d.err
		}
		s.header = header
	}
	s.Manifest = m
	d.handed = true
	return s, nil
}

// finish writes what follows the last event.
func (d *Delta) finish() error {
	switch d.format {
	case Native:
		d.piece = append(d.piece, 0, markEnd)
	case V2JSON:
		d.piece = append(d.piece, ']')
	}
	if err := d.unpark(); err != nil {
		return err
	}
	if d.sum != nil {
		d.sum.Write(d.piece)
		d.piece = d.sum.Sum(d.piece)
	}
	d.content += int64(len(d.piece))
	if _, err := d.packer.Write(d.piece); err != nil {
		return err
	}
	d.piece = nil
	if err := d.packer.Close(); err != nil {
		return err
	}
	d.release()
	return d.packed.Flush()
}

func (d *Delta) release() {
	d.free()
	d.free = func() {}
}

// Discard frees memory and the temporary file. It may be called at any time, repeatedly, and
// leaves a Sealed made of the delta alone.
func (d *Delta) Discard() error {
	d.release()
	if d.handed {
		return nil
	}
	d.err = fmt.Errorf("append to delta: %w", os.ErrClosed)
	return d.spool.Close()
}
