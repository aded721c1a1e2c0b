package codec

import (
	"bytes"
	"math"
	"time"
)

// scan decodes the element at the beginning of b if it has exactly the usual shape and is
// sound; used is 0 if not. What it accepts, parse accepts with the same result.
func (j *jsonReader) scan(b []byte, m *memory) (used int, fits bool) {
	p := scanner{b: b}
	var c change
	if !p.literal(`{"etcdEvent":{`) {
		return 0, true
	}
	c.tombstone = p.literal(`"type":1,`)
	if !p.literal(`"kv":{"key":"`) {
		return 0, true
	}
	key64 := p.text()
	if p.literal(`,"create_revision":`) {
		c.create = p.number()
	}
	if p.literal(`,"mod_revision":`) {
		c.mod = p.number()
	}
	if p.literal(`,"version":`) {
		c.version = p.number()
	}
	var value64 []byte
	if p.literal(`,"value":"`) {
		value64 = p.text()
	}
	if p.literal(`,"lease":`) {
		c.lease = p.number()
	}
	if !p.literal(`}},"time":"`) {
		return 0, true
	}
	received, ok := j.clock.read(p.text())
	if !ok || !p.literal(`}`) || p.odd {
		return 0, true
	}
	keyLen, valueLen := decodedLen(key64), decodedLen(value64)
	if keyLen < 0 || valueLen < 0 || c.check(keyLen) != "" {
		return 0, true
	}
	if !m.reserve(keyLen + valueLen + keyValueOverhead) {
		return 0, false
	}
	// As appendStored, decoding in place.
	start := len(m.arena)
	a := appendBytesHeader(m.arena, tagKey, keyLen)
	key := len(a)
	if a, ok = appendDecoded(a, key64, keyLen); !ok {
		return 0, true
	}
	if !c.tombstone {
		a = appendRevisions(a, c)
		if valueLen > 0 {
			a = appendBytesHeader(a, tagValue, valueLen)
			if a, ok = appendDecoded(a, value64, valueLen); !ok {
				return 0, true
			}
		}
		a = appendNumber(a, tagLease, c.lease)
	} else if valueLen > 0 {
		return 0, true // nobody writes this; parse validates the value before dropping it
	}
	m.arena = a
	if err := j.add(m, c, received, start, key, keyLen); err != nil {
		m.arena = a[:start]
		return 0, true // parse finds it again and says where
	}
	return p.i, true
}

// decodedLen is the number of bytes that base64 text stands for, -1 if its length is impossible.
func decodedLen(text []byte) int {
	n := len(text)
	if n%4 != 0 {
		return -1
	}
	size := n / 4 * 3
	for k := 0; k < 2 && n > 0 && text[n-1] == '='; k++ {
		n--
		size--
	}
	return size
}

// appendDecoded appends the size bytes that the base64 text stands for.
func appendDecoded(a, text []byte, size int) ([]byte, bool) {
	from := len(a)
	ok := decodeBase64(a[from:cap(a)], text, size)
	return a[:from+size], ok
}

// scanner reads the pieces of an element. After something unexpected odd is true, and what it
// returns means nothing.
type scanner struct {
	b   []byte
	i   int
	odd bool
}

func (p *scanner) literal(s string) bool {
	if len(p.b)-p.i < len(s) || string(p.b[p.i:p.i+len(s)]) != s {
		return false
	}
	p.i += len(s)
	return true
}

// text reads up to the next quotation mark. Callers refuse every text with an escape in it.
func (p *scanner) text() []byte {
	n := bytes.IndexByte(p.b[p.i:], '"')
	if n < 0 {
		p.odd = true
		return nil
	}
	s := p.b[p.i : p.i+n]
	p.i += n + 1
	return s
}

// number reads digits without a sign or a needless zero, as far as an int64 goes. Ids of leases
// do have 19 digits.
func (p *scanner) number() int64 {
	var v uint64
	start := p.i
	for p.i < len(p.b) && p.b[p.i]-'0' <= 9 && p.i-start < 19 {
		v = v*10 + uint64(p.b[p.i]-'0')
		p.i++
	}
	if n := p.i - start; n == 0 || n > 1 && p.b[start] == '0' || v > math.MaxInt64 {
		p.odd = true
	}
	return int64(v)
}

// clock reads the times of consecutive events, which mostly share all but the seconds.
type clock struct {
	minute [len("2006-01-02T15:04:")]byte
	unix   int64 // of that minute, in nanoseconds
}

// read is ok for RFC 3339 in UTC with at most nine digits of a second's fraction.
func (c *clock) read(text []byte) (unixNanos int64, ok bool) {
	const prefix, seconds = len("2006-01-02T15:04:"), len("2006-01-02T15:04:05")
	if len(text) <= seconds || len(text) > seconds+len(".000000000Z") || text[len(text)-1] != 'Z' {
		return 0, false
	}
	tens, ones := text[prefix]-'0', text[prefix+1]-'0'
	if tens > 5 || ones > 9 {
		return 0, false
	}
	nanos := int64(0)
	if fraction := text[seconds : len(text)-1]; len(fraction) > 0 {
		if fraction[0] != '.' || len(fraction) == 1 {
			return 0, false
		}
		unit := int64(time.Second)
		for _, digit := range fraction[1:] {
			if digit -= '0'; digit > 9 {
				return 0, false
			}
			unit /= 10
			nanos += int64(digit) * unit
		}
	}
	if !bytes.Equal(c.minute[:], text[:prefix]) {
		var t time.Time
		if err := t.UnmarshalText(append(bytes.Clone(text[:prefix]), "00Z"...)); err != nil {
			return 0, false
		}
		unix, ok := unixNano(t)
		if !ok || unix == 0 {
			return 0, false
		}
		c.unix = unix
		copy(c.minute[:], text)
	}
	return c.unix + int64(tens*10+ones)*int64(time.Second) + nanos, true
}

// unixNano is t in nanoseconds, 0 for no time, and not ok outside of the years that fit.
func unixNano(t time.Time) (int64, bool) {
	if t.IsZero() {
		return 0, true
	}
	if y := t.UTC().Year(); y < 1970 || y > 2261 {
		return 0, false
	}
	return t.UnixNano(), true
}
