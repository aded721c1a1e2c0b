package codec

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"strconv"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
)

// jsonEvent is one element of the original's delta: a JSON array of these, followed by the 32
// raw bytes of the array's SHA-256.
type jsonEvent struct {
	EtcdEvent *mvccpb.Event `json:"etcdEvent"`
	Time      time.Time     `json:"time"`
}

// jsonReader streams the original's form. Elements of exactly the shape that encoding/json gives
// them, which is all that the original and we write, are scanned by hand, straight into
// the record's bytes. Any other element goes through encoding/json and means the same.
type jsonReader struct {
	w        *window
	seq      *sequence
	maxEvent int
	batch    int // bytes
	begun    bool
	ended    bool // the ']' was consumed and the digest verified
	received int64
	clock    clock
}

func (j *jsonReader) next() (*Batch, error) {
	if j.ended {
		return nil, io.EOF
	}
	m := newMemory(j.batch)
	for len(m.records) < maxBatchRecords {
		full, err := j.element(m)
		if err != nil {
			m.release()
			return nil, err
		}
		if full || j.ended {
			break
		}
	}
	if len(m.records) == 0 {
		m.release()
		return nil, io.EOF // only of an empty array: every other call finds a record first
	}
	return m.batch(), nil
}

// element decodes one element with the separator in front of it, or the end of the array. It
// reports full, and consumes nothing, when the element does not fit into what m has left.
func (j *jsonReader) element(m *memory) (full bool, err error) {
	if !j.begun {
		if err := j.token(); err != nil {
			return false, err
		}
		if j.w.rest()[0] != '[' {
			return false, j.w.malformed("not a JSON array")
		}
		j.w.pos++
		if err := j.token(); err != nil {
			return false, err
		}
		j.begun = true
		if j.w.rest()[0] == ']' {
			return false, j.end()
		}
	}
	for {
		used, fits := j.scan(j.w.rest(), m)
		if !fits {
			return true, nil
		}
		if used > 0 {
			j.w.pos += used
			return false, j.separator()
		}
		// Another shape, or not all of it in memory yet.
		if err := j.token(); err != nil {
			return false, err
		}
		size := elementSize(j.w.rest())
		switch {
		case size > 0:
			full, err := j.parse(j.w.rest()[:size], m)
			if err != nil || full {
				return full, err
			}
			j.w.pos += size
			return false, j.separator()
		case size < 0:
			return false, j.w.malformed("the element is not a JSON object")
		}
		if err := j.w.more(0, j.maxEvent); err != nil {
			return false, err
		}
	}
}

// separator consumes what follows an element: a comma, or the end.
func (j *jsonReader) separator() error {
	if rest := j.w.rest(); len(rest) == 0 || rest[0] != ',' {
		if err := j.token(); err != nil {
			return err
		}
	}
	switch j.w.rest()[0] {
	case ',':
		j.w.pos++
		return nil
	case ']':
		return j.end()
	}
	return j.w.malformed("neither a comma nor the end of the array after an element")
}

func (j *jsonReader) end() error {
	j.w.pos++
	j.ended = true
	return j.w.finish(true)
}

// token skips white space up to a byte that is none.
func (j *jsonReader) token() error {
	for {
		for _, c := range j.w.rest() {
			if !isSpace(c) {
				return nil
			}
			j.w.pos++
		}
		if err := j.w.more(0, j.maxEvent); err != nil {
			return err
		}
	}
}

// elementSize is the size of the JSON object at the beginning of b, 0 if its end is not in b, and
// negative if there is no object. Whether it is well formed is for encoding/json to say; of a
// well-formed object this finds exactly the end.
func elementSize(b []byte) int {
	if len(b) > 0 && b[0] != '{' {
		return -1
	}
	depth := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return i + 1
			}
		case '"':
			for i++; ; {
				n := bytes.IndexAny(b[i:], `"\`)
				if n < 0 {
					return 0
				}
				if i += n; b[i] == '"' {
					break
				}
				if i += 2; i > len(b) {
					return 0
				}
			}
		}
	}
	return 0
}

// parse decodes an element of any shape.
func (j *jsonReader) parse(element []byte, m *memory) (full bool, err error) {
	var e jsonEvent
	if err := json.Unmarshal(element, &e); err != nil {
		return false, j.w.malformed("%v", err)
	}
	c, reason := changeOf(e.EtcdEvent)
	if reason != "" {
		return false, j.w.malformed("%s", reason)
	}
	received, ok := unixNano(e.Time)
	if !ok {
		return false, j.w.malformed("a time in the year %d", e.Time.Year())
	}
	kv := e.EtcdEvent.Kv
	need := len(kv.Key) + len(kv.Value) + keyValueOverhead
	if !m.reserve(need) {
		return true, nil
	}
	start, key := m.store(c, kv.Key, kv.Value)
	return false, j.add(m, c, received, start, key, len(kv.Key))
}

// add appends the record whose bytes were written to the arena from start on.
func (j *jsonReader) add(m *memory, c change, received int64, start, key, keyLen int) error {
	r := c.record()
	sub, err := j.seq.next(r.Main)
	if err != nil {
		return err
	}
	if sub == 0 {
		j.received = received
	}
	r.Sub, r.Received = sub, j.received
	m.add(r, start, key, keyLen)
	return nil
}

// appendJSONEvent writes one element exactly as encoding/json does.
func appendJSONEvent(b []byte, c change, key, value []byte, received string) []byte {
	b = append(b, `{"etcdEvent":{`...)
	if c.tombstone {
		b = append(b, `"type":1,`...)
	}
	b = append(b, `"kv":{"key":"`...)
	b = append(base64.StdEncoding.AppendEncode(b, key), '"')
	b = appendJSONNumber(b, `,"create_revision":`, c.create)
	b = appendJSONNumber(b, `,"mod_revision":`, c.mod)
	b = appendJSONNumber(b, `,"version":`, c.version)
	if !c.tombstone && len(value) > 0 {
		b = append(b, `,"value":"`...)
		b = append(base64.StdEncoding.AppendEncode(b, value), '"')
	}
	b = appendJSONNumber(b, `,"lease":`, c.lease)
	b = append(b, `}},"time":"`...)
	return append(append(b, received...), `"}`...)
}

func appendJSONNumber(b []byte, name string, v int64) []byte {
	if v == 0 {
		return b
	}
	return strconv.AppendInt(append(b, name...), v, 10)
}
