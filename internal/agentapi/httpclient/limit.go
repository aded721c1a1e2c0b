package httpclient

import (
	"encoding/json"
	"fmt"
)

// Limit is what an answer may hold at most.
type Limit struct {
	Bytes int64
	// Elements limits what a JSON document consists of: each object, array, member and comma counts.
	// Documents of many small elements decode to many times their size.
	Elements int
}

// maxDepth limits how deep objects and arrays are nested. No answer of ours has more than eight levels.
const maxDepth = 16

// What reading and decoding may allocate. A buffer that grows is copied, and strings are copied out
// of it. An element is at least two characters long, and the largest structure in a list has about
// 300 bytes, in a slice that grows.
const (
	perByte    = 6
	perElement = 256
)

// Cost is how many bytes of memory reading and decoding such an answer takes at most.
func (l Limit) Cost() int64 { return perByte*l.Bytes + perElement*int64(l.Elements) }

// Decode decodes a JSON document. It refuses a document that exceeds the limit before it decodes
// anything.
func Decode(content []byte, l Limit, into any) error {
	if int64(len(content)) > l.Bytes {
		return fmt.Errorf("the document is larger than %d bytes", l.Bytes)
	}
	elements, depth := shape(content)
	switch {
	case elements > l.Elements:
		return fmt.Errorf("the document has %d elements, more than %d", elements, l.Elements)
	case depth > maxDepth:
		return fmt.Errorf("the document is nested %d levels deep, more than %d", depth, maxDepth)
	}
	return json.Unmarshal(content, into)
}

// shape counts the elements of a JSON document and its deepest level, without decoding it. Of what
// is not JSON the numbers mean nothing.
func shape(content []byte) (elements, depth int) {
	level, text := 0, false
	for i := 0; i < len(content); i++ {
		switch c := content[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case text:
		case c == '{' || c == '[':
			elements++
			level++
			depth = max(depth, level)
		case c == '}' || c == ']':
			level--
		case c == ',' || c == ':':
			elements++
		}
	}
	return elements, depth
}
