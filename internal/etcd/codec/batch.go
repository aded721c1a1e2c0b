package codec

import (
	"sync"
	"unsafe"
)

// Batch is a run of consecutive records of a delta. It belongs to the caller until Release;
// the keys and values of its records lie in its memory and are invalid afterwards.
type Batch struct {
	Records []Record

	mem *memory
}

// Bytes is about how much memory the batch takes.
func (b *Batch) Bytes() int64 {
	if b.mem == nil {
		return 0
	}
	return int64(cap(b.mem.arena)) + int64(len(b.Records))*int64(unsafe.Sizeof(Record{}))
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
	usualEventBytes   = 2 << 20   // what any delta may take for one
	scanBytes         = 256 << 10 // of JSON text in memory
	// eventShare is the part of a memory limit that one event may need: its text, its record, the
	// one that waits and the one that is being replayed.
	eventShare    = 8
	minEventBytes = 16 << 20
)

// MaxEventBytes is the largest event that is read within a memory limit, which 1/8 of it may hold,
// and 16 MiB at least: etcd warns of requests above 10 MiB.
func MaxEventBytes(memoryLimit int64) int {
	return int(min(max(memoryLimit/eventShare, minEventBytes), defaultEventBytes))
}

// memory is what a batch is made of: its records, and the bytes they point into.
type memory struct {
	records []Record
	arena   []byte
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
	if cap(m.arena) > maxPooledBytes {
		m.arena = nil
	}
	clear(m.records)
	m.records = m.records[:0]
	memories.Put(m)
}

func (m *memory) batch() *Batch { return &Batch{Records: m.records, mem: m} }

// reserve makes sure that n bytes can be appended to the arena without moving it. It reports
// false if they do not fit behind records that are already there.
func (m *memory) reserve(n int) bool {
	if cap(m.arena)-len(m.arena) >= n {
		return true
	}
	if len(m.records) > 0 {
		return false
	}
	m.arena = make([]byte, 0, n)
	return true
}

// store appends what etcd stores for a change to the arena, and says where it and its key begin.
func (m *memory) store(c change, key, value []byte) (start, keyStart int) {
	start = len(m.arena)
	m.arena = appendStored(m.arena, c, key, value)
	return start, start + 1 + uvarintLen(uint64(len(key)))
}

// add appends the record whose bytes were written to the arena from start on.
func (m *memory) add(r Record, start, key, keyLen int) {
	end := len(m.arena)
	r.Key, r.Value = m.arena[key:key+keyLen:key+keyLen], m.arena[start:end:end]
	m.records = append(m.records, r)
}
