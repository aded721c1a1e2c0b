package codec

import (
	"encoding/binary"
	"fmt"
	"math/bits"

	"druid.internal/druid/internal/backup/snapshot"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// Tags of the protobuf fields of mvccpb.KeyValue and mvccpb.Event: number<<3 | wire type.
const (
	tagKey     = 1<<3 | 2
	tagCreate  = 2 << 3
	tagMod     = 3 << 3
	tagVersion = 4 << 3
	tagValue   = 5<<3 | 2
	tagLease   = 6 << 3

	tagType = 1 << 3
	tagKV   = 2<<3 | 2
)

// change is one event in whatever form it came, for checks and encoders that do not care.
type change struct {
	tombstone            bool
	create, mod, version int64
	lease                int64
}

// check says what no event of an etcd watch can be, or nothing.
func (c change) check(keyLen int) string {
	switch {
	case keyLen == 0:
		return "an event without a key"
	case c.mod <= 0:
		return fmt.Sprintf("an event with revision %d", c.mod)
	case c.tombstone:
	case c.version <= 0:
		return fmt.Sprintf("a put with version %d", c.version)
	case c.create <= 0 || c.create > c.mod:
		return fmt.Sprintf("a put with create revision %d at revision %d", c.create, c.mod)
	}
	return ""
}

// changeOf reads an event of etcd's client; the reason says why it cannot be one.
func changeOf(e *mvccpb.Event) (c change, reason string) {
	switch {
	case e == nil || e.Kv == nil:
		return c, "an event without a key-value pair"
	case e.Type == mvccpb.DELETE:
		return change{tombstone: true, mod: e.Kv.ModRevision}, change{tombstone: true, mod: e.Kv.ModRevision}.check(len(e.Kv.Key))
	case e.Type != mvccpb.PUT:
		return c, fmt.Sprintf("an event of type %d", e.Type)
	}
	c = change{create: e.Kv.CreateRevision, mod: e.Kv.ModRevision, version: e.Kv.Version, lease: e.Kv.Lease}
	return c, c.check(len(e.Kv.Key))
}

// record is the Record of c without its bytes.
func (c change) record() Record {
	r := Record{Main: snapshot.Revision(c.mod), Tombstone: c.tombstone}
	if !c.tombstone {
		r.Create, r.Version, r.Lease = snapshot.Revision(c.create), c.version, c.lease
	}
	return r
}

func uvarintLen(v uint64) int { return (bits.Len64(v|1) + 6) / 7 }

// appendNumber writes a field with a number, unless it is zero.
func appendNumber(b []byte, tag byte, v int64) []byte {
	if v == 0 {
		return b
	}
	return binary.AppendUvarint(append(b, tag), uint64(v))
}

// appendRevisions writes what etcd stores between key and value.
func appendRevisions(b []byte, c change) []byte {
	b = appendNumber(b, tagCreate, c.create)
	b = appendNumber(b, tagMod, c.mod)
	return appendNumber(b, tagVersion, c.version)
}

// fieldNumber is the size of what appendNumber writes.
func fieldNumber(v int64) int {
	if v == 0 {
		return 0
	}
	return 1 + uvarintLen(uint64(v))
}

// fieldBytes is the size of a field of n bytes.
func fieldBytes(n int) int { return 1 + uvarintLen(uint64(n)) + n }

// appendBytesHeader writes the tag and length of a field of n bytes.
func appendBytesHeader(b []byte, tag byte, n int) []byte {
	return binary.AppendUvarint(append(b, tag), uint64(n))
}

// keyValueOverhead is at least what a marshalled KeyValue needs beside its key and value.
const keyValueOverhead = 6 + 6*binary.MaxVarintLen64

// appendStored writes what etcd stores for the change of key to value: fields ascending, zero ones
// left out, of a tombstone only the key.
func appendStored(b []byte, c change, key, value []byte) []byte {
	b = append(appendBytesHeader(b, tagKey, len(key)), key...)
	if c.tombstone {
		return b
	}
	b = appendRevisions(b, c)
	if len(value) > 0 {
		b = append(appendBytesHeader(b, tagValue, len(value)), value...)
	}
	return appendNumber(b, tagLease, c.lease)
}

// appendEvent writes an mvccpb.Event preceded by its length. The fields that change least between
// two events of a key come first, so that they make one long repetition for the compressor, and
// the revision is left out if it is next, which is nearly always.
func appendEvent(b []byte, c change, key, value []byte, next int64) []byte {
	if c.tombstone {
		c, value = change{tombstone: true, mod: c.mod}, nil
	}
	if c.mod == next {
		c.mod = 0
	}
	kv := fieldBytes(len(key)) + fieldNumber(c.create) + fieldNumber(c.lease) + fieldNumber(c.version) + fieldNumber(c.mod)
	if len(value) > 0 {
		kv += fieldBytes(len(value))
	}
	if event := fieldBytes(kv); c.tombstone {
		b = append(binary.AppendUvarint(b, uint64(event+2)), tagType, byte(mvccpb.DELETE))
	} else {
		b = binary.AppendUvarint(b, uint64(event))
	}
	b = appendBytesHeader(b, tagKV, kv)
	b = append(appendBytesHeader(b, tagKey, len(key)), key...)
	b = appendNumber(b, tagCreate, c.create)
	b = appendNumber(b, tagLease, c.lease)
	if len(value) > 0 {
		b = append(appendBytesHeader(b, tagValue, len(value)), value...)
	}
	b = appendNumber(b, tagVersion, c.version)
	return appendNumber(b, tagMod, c.mod)
}

// parseEvent takes an mvccpb.Event apart, or says what is wrong. It takes exactly what appendEvent
// writes: that order of fields, none twice, zero ones left out, no others. Without a revision the
// event has the next one, unless that is 0.
func parseEvent(event []byte, next int64) (c change, key, value []byte, reason string) {
	fail := func(format string, args ...any) (change, []byte, []byte, string) {
		return change{}, nil, nil, fmt.Sprintf(format, args...)
	}
	if len(event) > 2 && event[0] == tagType {
		if event[1] != byte(mvccpb.DELETE) {
			return fail("an event of type %d", event[1])
		}
		c.tombstone, event = true, event[2:]
	}
	kv, rest, ok := cutBytes(event, tagKV)
	if !ok || len(rest) > 0 {
		return fail("not the event of a key-value pair")
	}
	if key, rest, ok = cutBytes(kv, tagKey); !ok {
		return fail("a key-value pair without a key")
	}
	for _, f := range [...]struct {
		tag byte
		to  *int64
	}{{tagCreate, &c.create}, {tagLease, &c.lease}, {tagValue, nil}, {tagVersion, &c.version}, {tagMod, &c.mod}} {
		switch {
		case len(rest) == 0 || rest[0] != f.tag:
		case f.to == nil:
			if value, rest, ok = cutBytes(rest, tagValue); !ok || len(value) == 0 {
				return fail("a value that is cut off or empty")
			}
		default:
			v, n := uvarint(rest[1:])
			if n <= 0 || v == 0 {
				return fail("a number in a key-value pair that is cut off, zero or too long")
			}
			*f.to, rest = int64(v), rest[1+n:]
		}
	}
	switch {
	case len(rest) > 0:
		return fail("field %d of a key-value pair where it does not belong", rest[0]>>3)
	case c.tombstone && (c.create|c.lease|c.version != 0 || len(value) > 0):
		return fail("a deletion with more than key and revision")
	case c.mod == 0 && next == 0:
		return fail("a first event without a revision")
	case c.mod == 0:
		c.mod = next
	case c.mod == next:
		return fail("an event that says its revision %d, which it should leave out", next)
	}
	if reason = c.check(len(key)); reason != "" {
		return fail("%s", reason)
	}
	return c, key, value, ""
}

// cutBytes cuts the field of bytes with the tag from the front of b.
func cutBytes(b []byte, tag byte) (field, rest []byte, ok bool) {
	if len(b) == 0 || b[0] != tag {
		return nil, nil, false
	}
	l, n := uvarint(b[1:])
	if n <= 0 || l > uint64(len(b)-1-n) {
		return nil, nil, false
	}
	b = b[1+n:]
	return b[:l:l], b[l:], true
}

// uvarint is binary.Uvarint that refuses (n < 0) numbers with more bytes than they need.
func uvarint(b []byte) (v uint64, n int) {
	if len(b) > 0 && b[0] < 0x80 {
		return uint64(b[0]), 1
	}
	v, n = binary.Uvarint(b)
	if n > 1 && b[n-1] == 0 {
		return 0, -n
	}
	return v, n
}
