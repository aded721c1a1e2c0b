package datadir

import (
	"bytes"
	"context"
	"encoding/binary"
	"path/filepath"
	"strings"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
)

// raftLog is what the write-ahead log says. It keeps a bit per entry and nothing of the requests.
type raftLog struct {
	segments            []segment
	metadata            []byte // as in the log, the same in every segment
	clusterID, memberID uint64
	state               raftpb.HardState
	snapshots           []walpb.Snapshot
	// The entries first..last follow each other. Before them something is missing, which only a
	// snapshot from first-1 on can replace.
	first, last uint64
	lastTerm    uint64
	writes      bitset        // by index-first: the entry may add a revision
	changes     []memberEntry // of the members, among first..last
	client      bool          // some client changed something
	torn        *tornEnd

	in      string // segment being read
	records int    // read of it
}

// bytes is the size of all segments.
func (l *raftLog) bytes() (n int64) {
	for _, s := range l.segments {
		n += s.size
	}
	return n
}

// complete tells whether the log has everything from the beginning of the cluster.
func (l *raftLog) complete() bool { return len(l.segments) > 0 && l.segments[0].sequence == 0 }

// read reads all segments.
func (l *raftLog) read(ctx context.Context, progress func(int64)) (err error) {
	l.torn, err = walkLog(ctx, l.segments, progress, l.take)
	if t := l.torn; err == nil && t != nil && t.commit > l.last {
		return damaged("%s is damaged at offset %d: intact records behind it call everything up to entry %d committed, and entry %d is the last before it", t.path, t.offset, t.commit, l.last)
	}
	if err == nil && l.records < 2 && len(l.segments) > 0 {
		return damaged("%s does not say which member it belongs to", l.in)
	}
	return err
}

// take takes the next record. Its checksum does not cover its kind, so the order of kinds is
// checked as well: a segment begins with its checksum and the metadata.
func (l *raftLog) take(at segment, r logRecord) error {
	if at.path != l.in {
		if l.in != "" && l.records < 2 {
			return damaged("%s does not say which member it belongs to", l.in)
		}
		l.in, l.records = at.path, 0
	}
	l.records++
	if (l.records == 1) != (r.kind == wal.CrcType) || l.records == 2 && r.kind != wal.MetadataType {
		return damaged("%s: record %d is of the wrong kind %d", at.path, l.records, r.kind)
	}
	ok := true
	switch r.kind {
	case wal.CrcType:
		ok = len(r.data) == 0
	case wal.MetadataType:
		return l.takeMetadata(r.data)
	case wal.SnapshotType:
		var s walpb.Snapshot
		if ok = s.Unmarshal(r.data) == nil; ok {
			l.takeSnapshot(s)
		}
	case wal.StateType:
		var s raftpb.HardState
		ok = s.Unmarshal(r.data) == nil && s.Term >= l.state.Term && s.Commit >= l.state.Commit && s.Term >= l.lastTerm
		l.state = s
	case wal.EntryType:
		var e entryHead
		if e, ok = parseEntry(r.data); ok {
			ok = l.takeEntry(e)
		}
	}
	if !ok {
		return damaged("%s: record %d, of kind %d, says what cannot be", at.path, l.records, r.kind)
	}
	return nil
}

func (l *raftLog) takeMetadata(data []byte) error {
	if l.metadata != nil {
		if !bytes.Equal(l.metadata, data) {
			return damaged("%s belongs to another member or cluster than the segments before it", l.in)
		}
		return nil
	}
	var m etcdserverpb.Metadata
	if err := m.Unmarshal(data); err != nil || m.NodeID == 0 || m.ClusterID == 0 {
		return damaged("%s does not say which member it belongs to", l.in)
	}
	l.metadata, l.clusterID, l.memberID = bytes.Clone(data), m.ClusterID, m.NodeID
	return nil
}

func (l *raftLog) takeSnapshot(s walpb.Snapshot) {
	l.snapshots = append(l.snapshots, s)
	if s.Index > l.last { // one that the leader sent: entries up to there never come
		l.begin(s.Index + 1)
	}
}

// begin forgets all entries: the next one is index.
func (l *raftLog) begin(index uint64) {
	l.first, l.last = index, index-1
	l.writes.reset()
	l.changes = l.changes[:0]
}

func (l *raftLog) takeEntry(e entryHead) bool {
	if e.index == 0 || e.term == 0 || e.term < l.lastTerm {
		return false
	}
	switch {
	case e.index <= l.last && e.index <= l.state.Commit: // what is committed is never replaced
		return false
	case l.first == 0 || e.index > l.last+1 || e.index < l.first:
		l.begin(e.index)
	case e.index <= l.last: // all from here on were never committed, and are replaced
		for len(l.changes) > 0 && l.changes[len(l.changes)-1].index >= e.index {
			l.changes = l.changes[:len(l.changes)-1]
		}
	}
	l.last, l.lastTerm = e.index, e.term
	effect, c, ok := effectless, memberEntry{}, false
	switch e.kind {
	case raftpb.EntryNormal:
		effect, c, ok = effectOf(e)
	case raftpb.EntryConfChange:
		c, ok = memberChange(e.index, e.data)
	}
	if !ok {
		return false
	}
	if c.index > 0 {
		l.changes = append(l.changes, c)
	}
	l.client = l.client || effect != effectless
	l.writes.put(e.index-l.first, effect == write)
	return true
}

// writesAfter counts the entries after index that may add a revision.
func (l *raftLog) writesAfter(index uint64) int64 {
	n := int64(0)
	for i := max(index+1, l.first); l.first > 0 && i <= l.last; i++ {
		if l.writes.has(i - l.first) {
			n++
		}
	}
	return n
}

// has tells whether the log records the snapshot and has committed it.
func (l *raftLog) has(m raftpb.SnapshotMetadata) bool {
	for _, s := range l.snapshots {
		if s.Index == m.Index && s.Term == m.Term && s.Index <= l.state.Commit {
			return true
		}
	}
	return false
}

// segmentOf is the segment in which the entry after index begins; ok is false if it is gone.
func (l *raftLog) segmentOf(index uint64) (segment, bool) {
	for i := len(l.segments) - 1; i >= 0; i-- {
		if l.segments[i].first <= index {
			return l.segments[i], true
		}
	}
	return segment{}, false
}

// lastName is the name of the newest segment, for messages.
func (l *raftLog) lastName() string {
	return filepath.Base(l.segments[len(l.segments)-1].path)
}

// bitset is a set of small numbers that grows.
type bitset []uint64

func (b *bitset) put(i uint64, in bool) {
	for uint64(len(*b)) <= i/64 {
		*b = append(*b, 0)
	}
	if in {
		(*b)[i/64] |= 1 << (i % 64)
	} else {
		(*b)[i/64] &^= 1 << (i % 64)
	}
}

func (b bitset) has(i uint64) bool { return i/64 < uint64(len(b)) && b[i/64]&(1<<(i%64)) != 0 }

func (b *bitset) reset() { *b = (*b)[:0] }

// entryHead is a marshalled raftpb.Entry, taken apart without copying.
type entryHead struct {
	kind        raftpb.EntryType
	term, index uint64
	data        []byte
}

func parseEntry(b []byte) (e entryHead, ok bool) {
	ok = eachField(b, func(field uint64, number uint64, data []byte) bool {
		switch {
		case field == 1 && data == nil && number <= uint64(raftpb.EntryConfChangeV2):
			e.kind = raftpb.EntryType(number)
		case field == 2 && data == nil:
			e.term = number
		case field == 3 && data == nil:
			e.index = number
		case field == 4 && data != nil:
			e.data = data
		default:
			return false
		}
		return true
	})
	return e, ok
}

// eachField takes a protobuf message apart. data is nil for a number and never for bytes. fn ends it
// with false.
func eachField(b []byte, fn func(field, number uint64, data []byte) bool) bool {
	for len(b) > 0 {
		tag, n := binary.Uvarint(b)
		if n <= 0 || tag>>3 == 0 {
			return false
		}
		b = b[n:]
		var number uint64
		var data []byte
		switch tag & 7 {
		case 0:
			if number, n = binary.Uvarint(b); n <= 0 {
				return false
			}
			b = b[n:]
		case 1:
			if len(b) < 8 {
				return false
			}
			number, b = binary.LittleEndian.Uint64(b), b[8:]
		case 5:
			if len(b) < 4 {
				return false
			}
			number, b = uint64(binary.LittleEndian.Uint32(b)), b[4:]
		case 2:
			size, n := binary.Uvarint(b)
			if n <= 0 || size > uint64(len(b)-n) {
				return false
			}
			b = b[n:]
			data, b = b[:size:size], b[size:]
		default:
			return false
		}
		if !fn(tag>>3, number, data) {
			return false
		}
	}
	return true
}

// effect is what a request in the log does when it is applied.
type effect int

const (
	effectless effect = iota // etcd's own book-keeping, nothing of a client
	other                    // a client's, but no change of a key
	write                    // may change keys: at most one revision
)

// The fields of an etcdserverpb.InternalRaftRequest that matter here.
const (
	requestV2            = 2
	requestPut           = 4
	requestDeleteRange   = 5
	requestTxn           = 6
	requestLeaseRevoke   = 9
	requestHeader        = 100
	requestMemberNamed   = 1301
	requestClusterFirst  = 1300 // cluster version, attributes of members, downgrade
	requestClusterLast   = 1302
	requestVersionTested = 9900
)

// effectOf tells what a request does, and what it says about a member, if it does. etcd before 3.6
// also writes requests of version 2, without the wrapping; on such the fields mean other things.
func effectOf(e entryHead) (effect, memberEntry, bool) {
	found, version2, strange, named := effectless, false, false, memberEntry{}
	ok := eachField(e.data, func(field, number uint64, b []byte) bool {
		switch field {
		case 1, requestHeader, requestVersionTested:
		case requestV2:
			version2 = true
		case requestPut, requestDeleteRange, requestTxn, requestLeaseRevoke:
			found = write
			strange = strange || b == nil
		case requestMemberNamed:
			var whole bool
			named, whole = nameChange(e.index, b)
			strange = strange || !whole
		default:
			if field < requestClusterFirst || field > requestClusterLast {
				found = max(found, other)
			}
		}
		return true
	})
	if !ok {
		return 0, memberEntry{}, false
	}
	if !version2 {
		return found, named, !strange
	}
	return effectOfVersion2(e)
}

// effectOfVersion2 is effectOf for a request of version 2: it never touches the keys of version 3.
func effectOfVersion2(e entryHead) (effect, memberEntry, bool) {
	var wrapped etcdserverpb.InternalRaftRequest
	var r etcdserverpb.Request
	if wrapped.Unmarshal(e.data) == nil && wrapped.V2 != nil {
		r = *wrapped.V2
	} else if r.Unmarshal(e.data) != nil {
		return 0, memberEntry{}, false
	}
	const cluster = "/0/"
	if strings.HasPrefix(r.Path, cluster) || r.Method == "SYNC" {
		named, _ := nameChangeVersion2(e.index, &r)
		return effectless, named, true
	}
	return other, memberEntry{}, true
}
