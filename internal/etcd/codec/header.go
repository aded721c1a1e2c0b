package codec

import (
	"errors"

	"druid.internal/druid/internal/backup/snapshot"
)

// HeaderProbe is how many bytes of an object are worth asking for to see a whole header with
// one ranged read: nearly every header is shorter.
const HeaderProbe = 4 << 10

// ErrNoHeader is returned by ParseHeader for objects that do not begin with the header of a
// native delta.
var ErrNoHeader = errors.New("not a native delta with a header")

// ParseHeader reads the manifest in front of a native delta from the first bytes of the object.
// If they do not suffice, need is the number of bytes from the object's beginning that do (or
// bring the next answer), and err is nil. Otherwise length is where the packed events begin.
//
// The manifest's Size is that of the whole object. Its Digest cannot cover itself: it is the
// SHA-256 of everything behind the header, from byte length on.
func ParseHeader(first []byte) (m *snapshot.Manifest, length, need int, err error) {
	return nil, 0, 0, errors.ErrUnsupported
}
