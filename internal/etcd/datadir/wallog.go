package datadir

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/raft/v3/raftpb"
	"golang.org/x/sys/unix"
)

// segment is one file of the write-ahead log. Its name says at which entry it begins:
//
//	0000000000000002-0000000000004e21.wal
//	sequence         first entry
type segment struct {
	path            string
	sequence, first uint64
	size            int64
}

const segmentSuffix = ".wal"

// listSegments lists the log of a data directory in its order.
func listSegments(dir string) ([]segment, error) {
	root := filepath.Join(dir, memberDir, "wal")
	entries, err := os.ReadDir(root)
	if err != nil {
		if st, serr := os.Stat(root); serr == nil && !st.IsDir() {
			return nil, damaged("%s is not a directory; move it away", root)
		}
		return nil, err
	}
	var all []segment
	for _, e := range entries {
		s := segment{path: filepath.Join(root, e.Name())}
		name, ok := strings.CutSuffix(e.Name(), segmentSuffix)
		if !ok {
			continue
		}
		if n, err := fmt.Sscanf(name, "%016x-%016x", &s.sequence, &s.first); err != nil || n != 2 || len(name) != 33 {
			return nil, damaged("%s is not named like a segment of a write-ahead log; move it away", s.path)
		}
		st, err := os.Stat(s.path)
		if err != nil {
			return nil, err
		}
		if !st.Mode().IsRegular() {
			return nil, damaged("%s is not a regular file", s.path)
		}
		s.size = st.Size()
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b segment) int { return strings.Compare(a.path, b.path) })
	for i := 1; i < len(all); i++ {
		if all[i].sequence != all[i-1].sequence+1 {
			return nil, damaged("a segment of the write-ahead log is missing between %s and %s", all[i-1].path, filepath.Base(all[i].path))
		}
	}
	return all, nil
}

// logRecord is one record of the log; its data lie in the mapped file.
type logRecord struct {
	kind int64
	crc  uint32
	data []byte
}

// tornEnd is where the last write before a crash did not reach the disk as a whole.
type tornEnd struct {
	path   string
	offset int64
	commit uint64 // the highest that intact records behind it call committed, 0 without any
}

// The length of a record is written in 8 bytes, the upper of which says how many bytes fill it up to a
// multiple of 8: 0x80 plus their number, or 0.
const (
	frameBytes = 8
	walSector  = 512
	// maxRecord bounds a record. etcd refuses requests far below it.
	maxRecord = 512 << 20
)

func frame(n int64) uint64 {
	pad := (8 - n%8) % 8
	if pad == 0 {
		return uint64(n)
	}
	return uint64(n) | uint64(0x80|pad)<<56
}

// walkLog hands out every record of the segments in order. It says where the log is torn, nil if
// it is not. Only the last write can be torn, at the end of the last segment: of its 512-byte
// sectors some are on the disk and the others still zero, or the file ends too early. Any other
// record that does not fit its checksum is damage. So is one with sectors of zeros of its own, when
// what follows it calls committed what would be cut off with it: etcd itself would cut it off.
//
// The checksum of a record covers all records before it, across segments, so nothing can be
// missing unnoticed but the end.
func walkLog(ctx context.Context, segments []segment, progress func(int64), fn func(at segment, r logRecord) error) (*tornEnd, error) {
	crc, begun := uint32(0), false
	for i, s := range segments {
		last := i == len(segments)-1
		if s.size == 0 {
			if last {
				return nil, damaged("%s is empty", s.path)
			}
			return nil, damaged("%s is empty, and more segments follow it", s.path)
		}
		f, err := os.Open(s.path)
		if err != nil {
			return nil, err
		}
		d, err := unix.Mmap(int(f.Fd()), 0, int(s.size), unix.PROT_READ, unix.MAP_SHARED)
		f.Close()
		if err != nil {
			return nil, &fs.PathError{Op: "map", Path: s.path, Err: err}
		}
		end, err := walkSegment(ctx, s, d, last, &crc, &begun, progress, fn)
		if uerr := unix.Munmap(d); err == nil {
			err = uerr
		}
		if err != nil || end != nil {
			return end, err
		}
	}
	return nil, nil
}

func walkSegment(ctx context.Context, s segment, d []byte, last bool, crc *uint32, begun *bool, progress func(int64), fn func(at segment, r logRecord) error) (*tornEnd, error) {
	at, told := int64(0), int64(0)
	for n := 0; ; n++ {
		if n%4096 == 0 {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			progress(at - told)
			told = at
		}
		rest := d[at:]
		if len(rest) == 0 || len(rest) >= frameBytes && binary.LittleEndian.Uint64(rest) == 0 {
			if n == 0 {
				return nil, damaged("%s holds no record", s.path)
			}
			progress(int64(len(d)) - told)
			return nil, nil
		}
		r, size, ok := nextRecord(rest, *crc)
		if !ok {
			if last && torn(rest, at, *crc) {
				if n == 0 {
					return nil, damaged("%s holds no whole record", s.path)
				}
				return &tornEnd{s.path, at, commitBehind(rest)}, nil
			}
			return nil, damaged("%s is damaged at offset %d: the record there does not fit its checksum or its length", s.path, at)
		}
		at += size
		switch {
		case r.kind == wal.CrcType:
			if *begun && r.crc != *crc {
				return nil, damaged("%s does not continue the log at offset %d: records before it are missing or damaged", s.path, at-size)
			}
			*crc = r.crc
		default:
			*crc = r.crc
		}
		*begun = true
		if err := fn(s, r); err != nil {
			return nil, err
		}
	}
}

// nextRecord reads the record at the beginning of b and tells its size with all that belongs to
// it. crc is the checksum of everything before it.
func nextRecord(b []byte, crc uint32) (r logRecord, size int64, ok bool) {
	r, size, ok = framedRecord(b)
	if !ok || !r.fits(crc) {
		return r, 0, false
	}
	return r, size, true
}

// framedRecord is nextRecord without a look at the checksum.
func framedRecord(b []byte) (r logRecord, size int64, ok bool) {
	n, size, ok := frameOf(b)
	if !ok || size > int64(len(b)) {
		return r, 0, false
	}
	r, used, ok := parseRecord(b[frameBytes:][:n])
	return r, size, ok && used == n
}

// frameOf reads the length of the record at the beginning of b, and tells its size with all that
// belongs to it, which may be more than there is.
func frameOf(b []byte) (n, size int64, ok bool) {
	if len(b) < frameBytes {
		return 0, 0, false
	}
	length := binary.LittleEndian.Uint64(b)
	n = int64(length & (1<<56 - 1))
	return n, frameBytes + n + (8-n%8)%8, length == frame(n) && n <= maxRecord
}

// fits tells whether the record goes with everything before it.
func (r logRecord) fits(crc uint32) bool {
	return r.kind == wal.CrcType || r.crc == crc32.Update(crc, castagnoli(), r.data)
}

// parseRecord reads a marshalled walpb.Record as etcd writes it, and tells how long it is.
func parseRecord(b []byte) (r logRecord, used int64, ok bool) {
	rest := b
	number := func(tag byte) (uint64, bool) {
		if len(rest) == 0 || rest[0] != tag {
			return 0, false
		}
		x, n := binary.Uvarint(rest[1:])
		if n <= 0 {
			return 0, false
		}
		rest = rest[1+n:]
		return x, true
	}
	kind, ok1 := number(0x08)
	crc, ok2 := number(0x10)
	if !ok1 || !ok2 || kind < uint64(wal.MetadataType) || kind > uint64(wal.SnapshotType) || crc > 1<<32-1 {
		return r, 0, false
	}
	r.kind, r.crc = int64(kind), uint32(crc)
	if size, ok := number(0x1a); ok {
		if size > uint64(len(rest)) {
			return r, 0, false
		}
		r.data, rest = rest[:size:size], rest[size:]
	}
	return r, int64(len(b) - len(rest)), true
}

// torn tells whether b, the rest of the last segment from the offset at, is a write that did not
// reach the disk as a whole.
func torn(b []byte, at int64, crc uint32) bool {
	if len(b) < frameBytes {
		return true
	}
	// The length would be damaged, not the write torn, if what follows is a record that fits.
	if r, _, ok := parseRecord(b[frameBytes:]); ok && r.kind != wal.CrcType && r.fits(crc) {
		return false
	}
	_, size, ok := frameOf(b)
	if !ok || size > int64(len(b)) {
		return ok
	}
	for from := int64(frameBytes); from < size; {
		to := min(size, from+walSector-(at+from)%walSector)
		if allZero(b[from:to]) {
			return true
		}
		from = to
	}
	return false
}

// commitBehind is the highest commit in the records behind the damaged one at the beginning of b, as
// far as they go with each other.
func commitBehind(b []byte) (commit uint64) {
	n, size, ok := frameOf(b)
	if !ok || size > int64(len(b)) {
		return 0
	}
	before, _, _ := parseRecord(b[frameBytes:][:n])
	crc, sure := before.crc, false // what is damaged may be the checksum itself
	for {
		b = b[size:]
		var r logRecord
		if r, size, ok = framedRecord(b); !ok || sure && !r.fits(crc) {
			return commit
		}
		var s raftpb.HardState
		if r.kind == wal.StateType && r.fits(crc) && s.Unmarshal(r.data) == nil {
			commit = max(commit, s.Commit)
		}
		crc, sure = r.crc, true
	}
}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}
