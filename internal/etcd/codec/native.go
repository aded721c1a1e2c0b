package codec

import (
	"encoding/binary"
	"io"
	"slices"
)

// nativeMagic begins the unpacked content of a native delta; its last byte is the version.
const nativeMagic = "DRUIDEV\x01"

// What a zero in the place of an event's length introduces.
const (
	markEnd   = 0 // the end
	markTime  = 1 // zigzag varint: nanoseconds since the previous time, at first since 1970
	markLease = 2 // zigzag varint: id; varint: granted seconds
)

// maxLeases bounds the table of leases in one delta. Kubernetes makes one lease for about a
// thousand events; the rest get the default of the restore.
const maxLeases = 1 << 16

// nativeReader streams our own form. Records point into the buffer that the content was read
// into, which is why the window changes buffers with each batch.
type nativeReader struct {
	w        *window
	seq      *sequence
	maxEvent int
	batch    int // bytes
	begun    bool
	ended    bool // the end mark was consumed
	received int64
	at       int64 // time of the current revision
	leases   []Lease
	mem      *memory  // the present buffer of w lies in its arena
	content  *content // all of w; nil: it is streamed
	start    int      // where in content the present batch begins
}

func (n *nativeReader) next() (*Batch, error) {
	if !n.begun {
		n.begun = true
		n.w.pos += len(nativeMagic)
		n.swap()
	}
	for !n.ended && len(n.mem.records) < maxBatchRecords && (n.content == nil || n.w.pos-n.start < n.batch) {
		used, err := n.entry(n.w.rest())
		if err != nil {
			return nil, err
		}
		if n.w.pos += used; used > 0 {
			continue
		}
		if len(n.w.buf) == cap(n.w.buf) && len(n.mem.records) > 0 {
			break
		}
		if err := n.more(); err != nil {
			return nil, err
		}
	}
	if len(n.mem.records) == 0 {
		if err := n.w.end(); err != nil {
			return nil, err
		}
		return nil, io.EOF
	}
	return n.swap().batch(), nil
}

// swap goes on in fresh memory and returns the one used so far.
func (n *nativeReader) swap() *memory {
	used := n.mem
	if n.content != nil {
		n.mem, n.start = n.content.memory(), n.w.pos
		return used
	}
	unread := len(n.w.rest())
	n.mem = newMemory(max(n.batch, 2*unread))
	n.w.move(n.mem.arena)
	return used
}

// more brings more bytes behind the unread ones.
func (n *nativeReader) more() error {
	switch {
	case n.w.err != nil:
		return n.w.ended()
	case len(n.w.buf) == cap(n.w.buf):
		n.swap().release()
	}
	before := len(n.w.buf)
	if n.w.fill(); len(n.w.buf) == before {
		return n.w.ended()
	}
	return nil
}

// entry decodes what is at the beginning of b and returns its size, 0 if its end is not in b.
func (n *nativeReader) entry(b []byte) (used int, err error) {
	length, at := uvarint(b)
	switch {
	case at < 0:
		return 0, n.w.malformed("the length of an event is too long")
	case at == 0:
		return 0, nil
	case length == 0:
		return n.mark(b)
	case length > uint64(n.maxEvent):
		return 0, n.w.malformed("an event of %d bytes, at most %d are expected", length, n.maxEvent)
	case length > uint64(len(b)-at):
		return 0, nil
	}
	end := at + int(length)
	var r Record
	if reason := parseEvent(b[at:end:end], &r); reason != "" {
		return 0, n.w.malformed("%s", reason)
	}
	if r.Sub, err = n.seq.next(r.Main); err != nil {
		return 0, err
	}
	if r.Sub == 0 {
		n.at = n.received
	}
	r.Received = n.at
	n.mem.records = append(n.mem.records, r)
	return end, nil
}

// mark decodes an entry that is not an event; b begins with its zero.
func (n *nativeReader) mark(b []byte) (used int, err error) {
	if len(b) < 2 {
		return 0, nil
	}
	switch b[1] {
	case markEnd:
		n.ended = true
		return 2, nil
	case markTime:
		v, size := binary.Varint(b[2:])
		if size < 0 {
			return 0, n.w.malformed("a time that is too long")
		}
		if size == 0 {
			return 0, nil
		}
		n.received += v
		return 2 + size, nil
	case markLease:
		id, i := binary.Varint(b[2:])
		if i < 0 {
			return 0, n.w.malformed("the id of a lease is too long")
		}
		if i == 0 {
			return 0, nil
		}
		ttl, k := binary.Uvarint(b[2+i:])
		if k < 0 || k > 0 && int64(ttl) <= 0 || id == 0 {
			return 0, n.w.malformed("a lease without an id or with an impossible time to live")
		}
		if k == 0 {
			return 0, nil
		}
		if len(n.leases) == maxLeases {
			return 0, n.w.malformed("more than %d leases", maxLeases)
		}
		if len(n.leases) > 0 && n.leases[len(n.leases)-1].ID >= id {
			return 0, n.w.malformed("leases out of order")
		}
		n.leases = append(n.leases, Lease{ID: id, TTL: int64(ttl)})
		return 2 + i + k, nil
	}
	return 0, n.w.malformed("an entry of the unknown kind %d", b[1])
}

func appendTime(b []byte, sincePrevious int64) []byte {
	return binary.AppendVarint(append(b, 0, markTime), sincePrevious)
}

// appendLeases writes the table of leases, sorted by id.
func appendLeases(b []byte, leases []Lease) []byte {
	slices.SortFunc(leases, func(a, c Lease) int {
		if a.ID < c.ID {
			return -1
		}
		return 1
	})
	for _, l := range leases {
		b = binary.AppendVarint(append(b, 0, markLease), l.ID)
		b = binary.AppendUvarint(b, uint64(l.TTL))
	}
	return b
}
