package snapshot

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Revision is an etcd main revision. The empty store has revision 1; 0 means "none".
type Revision int64

// String is the plain decimal form.
func (r Revision) String() string { return strconv.FormatInt(int64(r), 10) }

// Kind says what an object holds.
type Kind string

// The kinds that appear in object names.
const (
	Full  Kind = "Full" // a whole etcd database file with its SHA-256 trailer
	Delta Kind = "Incr" // every event of a range of revisions
)

// Compression is the suffix of an object's name that tells how its content is packed.
type Compression string

// The suffixes this project reads. All but Zstd are read by the original too.
const (
	None Compression = ""
	Gzip Compression = ".gz"
	Zlib Compression = ".zlib"
	LZW  Compression = ".Z" // Go's compress/lzw, LSB order, 8 bit literals; not Unix compress
	Zstd Compression = ".zst"
)

// Known reports whether this project can unpack the suffix.
func (c Compression) Known() bool {
	switch c {
	case None, Gzip, Zlib, LZW, Zstd:
		return true
	}
	return false
}

// finalSuffix follows the compression suffix of the last full before a planned stop.
const finalSuffix = ".final"

// Name is the last element of a snapshot's key:
//
//	Full-00000000-00009002-1565021494.gz.final
//	Incr-00009003-00009120-1565021514.zst
//
// For a full Start is 0 and Last is a revision read before the stream began: the
// content may be ahead of it. For a delta both ends are exact and inclusive.
type Name struct {
	Kind        Kind
	Start, Last Revision
	Created     int64 // Unix seconds, by the writer's clock: a hint, never used to judge protection
	Compression Compression
	Final       bool
}

// ErrNotSnapshot is wrapped by every error of ParseName and ParseKey.
var ErrNotSnapshot = errors.New("not a snapshot name")

// CreatedAt is Created as a time in UTC. A number of seconds beyond the year 9999, which no
// time in text can hold, gives the last second of that year.
func (n Name) CreatedAt() time.Time { return time.Unix(min(n.Created, lastSecond), 0).UTC() }

const lastSecond = 253402300799 // 9999-12-31T23:59:59Z

// String formats the name. Revisions are padded to 8 digits and grow beyond that, so
// names do not sort lexically; see Compare.
func (n Name) String() string {
	s := fmt.Sprintf("%s-%08d-%08d-%d%s", n.Kind, n.Start, n.Last, n.Created, n.Compression)
	if n.Final {
		s += finalSuffix
	}
	return s
}

// ParseName is the inverse of String: it accepts exactly what String can produce, so
// that a foreign object is never taken for a snapshot. A suffix we cannot unpack is
// accepted here (the object exists and must be kept or collected) and refused when read.
func ParseName(s string) (Name, error) {
	bad := func(why string) (Name, error) {
		return Name{}, fmt.Errorf("%w: %q: %s", ErrNotSnapshot, s, why)
	}
	parts := strings.Split(s, "-")
	if len(parts) != 4 {
		return bad("want KIND-START-LAST-SECONDS")
	}
	var n Name
	switch n.Kind = Kind(parts[0]); n.Kind {
	case Full, Delta:
	default:
		return bad("kind is neither Full nor Incr")
	}
	start, err1 := parseNumber(parts[1])
	last, err2 := parseNumber(parts[2])
	if err1 != nil || err2 != nil {
		return bad("revisions are not decimal numbers")
	}
	n.Start, n.Last = Revision(start), Revision(last)
	if n.Start > n.Last {
		return bad("first revision is after the last")
	}
	seconds, suffix, dotted := strings.Cut(parts[3], ".")
	if n.Created, err1 = parseNumber(seconds); err1 != nil {
		return bad("time is not a number of seconds")
	}
	if dotted {
		suffix = "." + suffix
		if n.Final = strings.HasSuffix(suffix, finalSuffix); n.Final {
			suffix = strings.TrimSuffix(suffix, finalSuffix)
		}
		if n.Compression = Compression(suffix); suffix != "" && (strings.Count(suffix, ".") != 1 || len(suffix) == 1) {
			return bad("more than one suffix")
		}
	}
	if n.String() != s {
		return bad("not in canonical form")
	}
	return n, nil
}

// parseNumber accepts only digits: no sign, no space, no other base.
func parseNumber(s string) (int64, error) {
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return 0, strconv.ErrSyntax
		}
	}
	return strconv.ParseInt(s, 10, 64)
}

// Compare orders names as a restore applies them: by last revision as a number, then by
// time of creation, so that a compacted full follows the last delta it contains. The rest
// only makes the order total.
func Compare(a, b Name) int {
	switch {
	case a.Last != b.Last:
		return sign(a.Last < b.Last)
	case a.Created != b.Created:
		return sign(a.Created < b.Created)
	case a.Start != b.Start:
		return sign(a.Start > b.Start)
	}
	return strings.Compare(a.String(), b.String())
}

func sign(less bool) int {
	if less {
		return -1
	}
	return 1
}
