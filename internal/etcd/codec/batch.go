package codec

import "sync"

// Batch is a run of consecutive records of a delta. It belongs to the caller until Release;
// the keys and values of its records lie in its memory and are invalid afterwards.
type Batch struct {
	Records []Record

	mem *memory
}

// Release gives the batch's memory back for reuse. It may be called from any goroutine, but not
// from two at once; a batch that is never released is simply garbage.
func (b *Batch) Release() {
	m := b.mem
	if m == nil {
		return
	}
	m.records = b.Records
	*b = Batch{}
	m.release()
}

const (
	defaultBatchBytes = 1 << 20
	maxBatchRecords   = 8192      // about as much memory in records as in their bytes
	maxPooledBytes    = 4 << 20   // what one huge event needed is not kept
	defaultEventBytes = 128 << 20 // etcd takes requests of 1.5 MB unless told otherwise
	scanBytes         = 256 << 10 // of JSON text in memory
)

// memory is what a batch is made of: its records, and the bytes they point into.
type memory struct {
	records []Record
	arena   []byte
	shared  *content // what they point into instead, together with other batches
}

// memories keeps released memory for the next batch of any reader. It is a cache without
// meaning: the collector may empty it at any time.
var memories = sync.Pool{New: func() any { return new(memory) }}

// newMemory returns memory with room for at least n bytes.
func newMemory(n int) *memory {
	m := memories.Get().(*memory)
	if cap(m.arena) < n {
		m.arena = make([]byte, 0, n)
	}
	m.arena = m.arena[:0]
	return m
}

func (m *memory) release() {
	if m.shared != nil {
		m.shared.release()
		m.shared = nil
	}
	if cap(m.arena) > maxPooledBytes {
		m.arena = nil
	}
	clear(m.records)
	m.records = m.records[:0]
	memories.Put(m)
}

func (m *memory) batch() *Batch { return &Batch{Records: m.records, mem: m} }
