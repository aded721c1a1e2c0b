package codec

import (
	"encoding/base64"
	"encoding/binary"
)

// base64Table holds, for each of the four characters of a group, the bits it stands for at
// their place in the group's 24, and invalid for anything but the standard alphabet.
type base64Table [4][256]uint32

const invalid = 1 // no character of a group has bits below the 24

var base64Bits = func() *base64Table {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	var t base64Table
	for place := range t {
		for c := range t[place] {
			t[place][c] = invalid
		}
		for bits, c := range []byte(alphabet) {
			t[place][c] = uint32(bits) << (8 + 6*(3-place))
		}
	}
	return &t
}()

// decodeBase64 decodes padded standard base64 to dst and reports whether src stands for exactly
// size bytes. Values are most of a JSON delta, and this takes half the time of encoding/base64, which
// decodes the last groups. dst must have room for 8 bytes more than size.
func decodeBase64(dst, src []byte, size int) bool {
	t := base64Bits
	done := 0
	for len(src) > 8 { // the last group may be padded
		bits := t[0][src[0]] | t[1][src[1]] | t[2][src[2]] | t[3][src[3]]
		next := t[0][src[4]] | t[1][src[5]] | t[2][src[6]] | t[3][src[7]]
		if (bits|next)&1 != 0 {
			return false
		}
		binary.BigEndian.PutUint64(dst[done:], uint64(bits)<<32|uint64(next)<<8)
		done += 6
		src = src[8:]
	}
	n, err := base64.StdEncoding.Decode(dst[done:], src)
	return err == nil && done+n == size
}
