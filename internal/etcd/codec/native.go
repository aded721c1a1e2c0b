package codec

import (
	"encoding/binary"
	"io"
	"math"
	"unsafe"

	"druid.internal/druid/internal/backup/snapshot"
)

// nativeMagic begins the unpacked content of a native delta; its last byte is the version.
const nativeMagic = "DRUIDEV\x01"

// What a zero in the place of an event's length introduces.
const (
	markEnd   = 0 // the end
	markTime  = 1 // zigzag varint: nanoseconds since the previous time, at first since 1970
	markLease = 2 // zigzag varint: id; varint: granted seconds; no longer written, see snapshot.LeaseRecord
)

// maxLeases bounds the table of leases in one delta.
const maxLeases = 1 << 16

// nativeReader reads our own form.
type nativeReader struct {
	w        *window
	seq      *sequence
	maxEvent int
	batch    int // bytes
	begun    bool
	ended    bool // the end mark was consumed
	received int64
	at       int64 // time of the current revision
	leases   snapshot.LeaseStates
	// superseded are the events whose values nobody needs; nil: there are none
	superseded []bool
}

func (n *nativeReader) next() (*Batch, error) {
	if !n.begun {
		n.begun = true
		n.w.pos += len(nativeMagic)
	}
	m := newMemory(n.batch)
	for !n.ended && len(m.records) < maxBatchRecords {
		used, want, full, err := n.entry(n.w.rest(), m)
		if full {
			break
		}
		if n.w.pos += used; err == nil && used == 0 {
			err = n.w.more(want, n.maxEvent)
		}
		if err != nil {
			m.release()
			return nil, err
		}
	}
	if len(m.records) == 0 {
		m.release()
		if err := n.w.end(); err != nil {
			return nil, err
		}
		return nil, io.EOF
	}
	return m.batch(), nil
}

// entry decodes what is at the beginning of b and returns its size, 0 if its end is not in b: want
// is the size then, if it is known. It reports full if the event does not fit into what m has left.
func (n *nativeReader) entry(b []byte, m *memory) (used, want int, full bool, err error) {
	c, key, value, used, err := n.parse(b)
	if used == 0 && err == nil {
		return 0, eventSize(b), false, nil
	}
	if key == nil || err != nil {
		return used, 0, false, err
	}
	superseded := n.superseded != nil && n.superseded[n.seq.events]
	need := len(key) + len(value) + keyValueOverhead
	if superseded {
		need = len(key)
	}
	if need > cap(m.arena) && len(m.records) == 0 {
		if err := n.w.mayGrow(need); err != nil {
			return 0, 0, false, err
		}
	}
	if !m.reserve(need) {
		return 0, 0, true, nil
	}
	r := c.record()
	if r.Sub, err = n.seq.next(r.Main); err != nil {
		return 0, 0, false, err
	}
	if r.Sub == 0 {
		n.at = n.received
	}
	r.Received = n.at
	if superseded {
		start := len(m.arena)
		m.arena = append(m.arena, key...)
		r.Key = m.arena[start:len(m.arena):len(m.arena)]
		m.records = append(m.records, r)
		return used, 0, false, nil
	}
	start, at := m.store(c, key, value)
	m.add(r, start, at, len(key))
	return used, 0, false, nil
}

// eventSize is the size of the event of which b has the beginning, with its length; 0: not known.
func eventSize(b []byte) int {
	length, at := uvarint(b)
	if at <= 0 {
		return 0
	}
	return at + int(length)
}

// parse takes apart what is at the beginning of b, an event or a mark, which has no key.
func (n *nativeReader) parse(b []byte) (c change, key, value []byte, used int, err error) {
	length, at := uvarint(b)
	switch {
	case at < 0:
		return c, nil, nil, 0, n.w.malformed("the length of an event is too long")
	case at == 0:
		return c, nil, nil, 0, nil
	case length == 0:
		used, err = n.mark(b)
		return c, nil, nil, used, err
	case length > uint64(n.maxEvent):
		return c, nil, nil, 0, n.w.tooLarge(int(min(length, math.MaxInt)), n.maxEvent)
	case length > uint64(len(b)-at):
		return c, nil, nil, 0, nil
	}
	end := at + int(length)
	c, key, value, reason := parseEvent(b[at:end], n.seq.following())
	if reason != "" {
		return c, nil, nil, 0, n.w.malformed("%s", reason)
	}
	return c, key, value, end, nil
}

// findSuperseded tells of each event in the content, all of which is in memory, whether its key has
// a newer one. What is wrong with the content is left to be found when it is read.
func (n *nativeReader) findSuperseded() []bool {
	scan := nativeReader{w: n.w, seq: new(sequence), maxEvent: n.maxEvent}
	newest := map[string]int64{}
	var superseded []bool
	for b := n.w.buf[len(nativeMagic):]; !scan.ended; {
		c, key, _, used, err := scan.parse(b)
		if err != nil || used == 0 {
			return nil
		}
		b = b[used:]
		if key == nil {
			continue
		}
		at := scan.seq.events
		if _, err := scan.seq.next(snapshot.Revision(c.mod)); err != nil {
			return nil
		}
		superseded = append(superseded, false)
		// The map is gone before the content is.
		name := unsafe.String(unsafe.SliceData(key), len(key))
		if older, known := newest[name]; known {
			superseded[older] = true
		}
		newest[name] = at
	}
	return superseded
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
		if k < 0 || k > 0 && (ttl == 0 || ttl > snapshot.MaxLeaseTTL) || id == 0 {
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
		n.leases = append(n.leases, snapshot.LeaseState{ID: id, TTL: int64(ttl)})
		return 2 + i + k, nil
	}
	return 0, n.w.malformed("an entry of the unknown kind %d", b[1])
}

func appendTime(b []byte, sincePrevious int64) []byte {
	return binary.AppendVarint(append(b, 0, markTime), sincePrevious)
}
