package codec

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"math"

	"druid.internal/druid/internal/backup/snapshot"
)

// The header is a skippable zstd frame, so the whole object is an ordinary zstd stream:
//
//	offset  bytes
//	     0      4  0x184D2A50, little endian: a skippable frame
//	     4      4  number of bytes that follow, little endian
//	     8      8  "DRUIDHDR"
//	    16      4  version of the header, 1, little endian
//	    20      4  CRC-32C of all other bytes of the frame, little endian
//	    24      -  the manifest as JSON, a newline, spaces up to a multiple of 64 bytes
const (
	headerFrame   = 0x184D2A50
	headerMagic   = "DRUIDHDR"
	headerVersion = 1
	headerFixed   = 24
	headerAlign   = 64
	maxHeader     = headerFixed + snapshot.MaxManifestSize
)

// HeaderProbe is how many bytes of an object are worth asking for to see a whole header with
// one ranged read: nearly every header is shorter.
const HeaderProbe = 4 << 10

// ErrNoHeader is returned by ParseHeader for objects that do not begin with the header of a
// native delta.
var ErrNoHeader = errors.New("not a native delta with a header")

// ParseHeader reads the manifest in front of a native delta from the first bytes of the object.
// If they do not suffice, m and err are nil and need is the number of bytes from the object's
// beginning that bring the next answer; an object shorter than that is truncated. Otherwise
// length is where the packed events begin.
//
// The manifest's Size is that of the whole object. Its Digest cannot cover itself: it is the
// SHA-256 of everything behind the header, from byte length on.
func ParseHeader(first []byte) (m *snapshot.Manifest, length, need int, err error) {
	var start [headerFixed]byte
	binary.LittleEndian.PutUint32(start[0:], headerFrame)
	copy(start[8:], headerMagic)
	for _, fixed := range [][2]int{{0, 4}, {8, 16}} {
		from, to := min(fixed[0], len(first)), min(fixed[1], len(first))
		if !bytes.Equal(first[from:to], start[from:to]) {
			return nil, 0, 0, ErrNoHeader
		}
	}
	if len(first) < headerFixed {
		return nil, 0, headerFixed, nil
	}
	bad := func(format string, args ...any) (*snapshot.Manifest, int, int, error) {
		return nil, 0, 0, fmt.Errorf("header of the delta: %w", &MalformedError{Reason: fmt.Sprintf(format, args...)})
	}
	if v := binary.LittleEndian.Uint32(first[16:]); v != headerVersion {
		return nil, 0, 0, fmt.Errorf("%w: header of version %d; this program knows version %d", ErrEncoding, v, headerVersion)
	}
	size := uint64(binary.LittleEndian.Uint32(first[4:])) + 8
	if size < headerFixed || size > maxHeader {
		return bad("%d bytes, want %d to %d", size, headerFixed, maxHeader)
	}
	length = int(size)
	if len(first) < length {
		return nil, 0, length, nil
	}
	frame := first[:length]
	if headerCRC(frame) != binary.LittleEndian.Uint32(frame[20:]) {
		return nil, 0, 0, fmt.Errorf("header of the delta: %w", ErrDigest)
	}
	var named struct {
		Snapshot string `json:"snapshot"`
	}
	content := frame[headerFixed:]
	if err := json.Unmarshal(content, &named); err != nil {
		return bad("%v", err)
	}
	name, err := snapshot.ParseName(named.Snapshot)
	if err != nil {
		return bad("%v", err)
	}
	if name.Kind != snapshot.Delta {
		return bad("it describes %s", name)
	}
	parsed, err := snapshot.ParseManifest(name, content)
	if err != nil {
		return bad("%v", err)
	}
	return &parsed, length, length, nil
}

func headerCRC(frame []byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	return crc32.Update(crc32.Checksum(frame[:20], table), table, frame[headerFixed:])
}

// appendHeader makes the header for m, whose Size is so far that of the packed events, and adds
// the header's own size to it. The padding makes room for the digits of the sum.
func appendHeader(m *snapshot.Manifest) ([]byte, error) {
	packed := m.Size
	m.Size = math.MaxInt64
	longest := len(m.Encode())
	length := (headerFixed + longest + headerAlign - 1) / headerAlign * headerAlign
	if length > maxHeader {
		return nil, fmt.Errorf("manifest of %d bytes, at most %d fit into the header", longest, snapshot.MaxManifestSize)
	}
	m.Size = packed + int64(length)
	frame := binary.LittleEndian.AppendUint32(nil, headerFrame)
	frame = binary.LittleEndian.AppendUint32(frame, uint32(length-8))
	frame = append(frame, headerMagic...)
	frame = binary.LittleEndian.AppendUint32(frame, headerVersion)
	frame = append(frame, 0, 0, 0, 0)
	frame = append(frame, m.Encode()...)
	frame = append(frame, bytes.Repeat([]byte{' '}, length-len(frame))...)
	binary.LittleEndian.PutUint32(frame[20:], headerCRC(frame))
	return frame, nil
}
