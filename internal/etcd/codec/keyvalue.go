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

// appendRevisions writes the fields between key and value as etcd marshals them: ascending, zero ones left out.
func appendRevisions(b []byte, c change) []byte {
	if c.create != 0 {
		b = binary.AppendUvarint(append(b, tagCreate), uint64(c.create))
	}
	b = binary.AppendUvarint(append(b, tagMod), uint64(c.mod))
	if c.version != 0 {
		b = binary.AppendUvarint(append(b, tagVersion), uint64(c.version))
	}
	return b
}

func appendLease(b []byte, lease int64) []byte {
	if lease == 0 {
		return b
	}
	return binary.AppendUvarint(append(b, tagLease), uint64(lease))
}

// appendBytesHeader writes the tag and length of a field of n bytes.
func appendBytesHeader(b []byte, tag byte, n int) []byte {
	return binary.AppendUvarint(append(b, tag), uint64(n))
}

// keyValueOverhead is at least what a marshalled KeyValue needs beside its key and value.
const keyValueOverhead = 6 + 6*binary.MaxVarintLen64

// appendStored writes what etcd stores for the change of key to value: of a tombstone only the key.
func appendStored(b []byte, c change, key, value []byte) []byte {
	b = append(appendBytesHeader(b, tagKey, len(key)), key...)
	if c.tombstone {
		return b
	}
	b = appendRevisions(b, c)
	if len(value) > 0 {
		b = append(appendBytesHeader(b, tagValue, len(value)), value...)
	}
	return appendLease(b, c.lease)
}

// appendEvent writes a marshalled mvccpb.Event preceded by its length.
func appendEvent(b []byte, c change, key, value []byte) []byte {
	kv := 1 + uvarintLen(uint64(len(key))) + len(key) + 1 + uvarintLen(uint64(c.mod))
	if !c.tombstone {
		kv += 1 + uvarintLen(uint64(c.create)) + 1 + uvarintLen(uint64(c.version))
		if len(value) > 0 {
			kv += 1 + uvarintLen(uint64(len(value))) + len(value)
		}
		if c.lease != 0 {
			kv += 1 + uvarintLen(uint64(c.lease))
		}
	}
	event := 1 + uvarintLen(uint64(kv)) + kv
	if c.tombstone {
		b = append(binary.AppendUvarint(b, uint64(event+2)), tagType, byte(mvccpb.DELETE))
	} else {
		b = binary.AppendUvarint(b, uint64(event))
	}
	b = appendBytesHeader(b, tagKV, kv)
	if !c.tombstone {
		return appendStored(b, c, key, value)
	}
	b = appendStored(b, c, key, nil)
	return appendRevisions(b, change{mod: c.mod})
}

// parseEvent cuts a marshalled mvccpb.Event into a record that points into it, or says what is
// wrong. It takes exactly what appendEvent writes (fields ascending, none twice, zero ones left
// out, no other fields), because the bytes go into the database as they are.
func parseEvent(event []byte, r *Record) (reason string) {
	tombstone := false
	if len(event) > 2 && event[0] == tagType {
		if event[1] != byte(mvccpb.DELETE) {
			return fmt.Sprintf("an event of type %d", event[1])
		}
		tombstone, event = true, event[2:]
	}
	kv, rest, ok := cutBytes(event, tagKV)
	if !ok || len(rest) > 0 {
		return "not the event of a key-value pair"
	}
	key, rest, ok := cutBytes(kv, tagKey)
	if !ok {
		return "a key-value pair without a key"
	}
	c := change{tombstone: tombstone}
	stored := kv[: len(kv)-len(rest) : len(kv)-len(rest)]
	for last := byte(tagKey); len(rest) > 0; {
		tag := rest[0]
		if tag <= last {
			return "fields of a key-value pair out of order"
		}
		last = tag
		if tag == tagValue {
			var value []byte
			if value, rest, ok = cutBytes(rest, tagValue); !ok || len(value) == 0 {
				return "a value that is cut off or empty"
			}
			continue
		}
		v, n := uvarint(rest[1:])
		if n <= 0 || v == 0 {
			return "a number in a key-value pair that is cut off, zero or too long"
		}
		rest = rest[1+n:]
		switch tag {
		case tagCreate:
			c.create = int64(v)
		case tagMod:
			c.mod = int64(v)
		case tagVersion:
			c.version = int64(v)
		case tagLease:
			c.lease = int64(v)
		default:
			return fmt.Sprintf("field %d in a key-value pair", tag>>3)
		}
	}
	if reason = c.check(len(key)); reason != "" {
		return reason
	}
	if !tombstone {
		stored = kv[:len(kv):len(kv)]
	} else if len(kv) != len(stored)+1+uvarintLen(uint64(c.mod)) {
		return "a deletion with more than key and revision"
	}
	*r = c.record()
	r.Key, r.Value = key, stored
	return ""
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
