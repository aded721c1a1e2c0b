package dbstream

import (
	"container/heap"
	"encoding/binary"
	"hash/fnv"
)

// The format of bbolt's files, version 2. Numbers are little endian, except within keys.
const (
	magic   = 0xED0CDAED
	version = 2

	pageHeadSize   = 16 // id uint64, flags uint16, count uint16, overflow uint32
	elementSize    = 16
	metaSize       = 64
	bucketHeadSize = 16 // root uint64, sequence uint64

	branchPage = 0x01
	leafPage   = 0x02
	bucketFlag = 0x01 // of a leaf element: its value is a bucket
)

// head is the head of a page. A page with overflow goes on over that many more pages.
type head struct {
	id       uint64
	flags    uint16
	count    int
	overflow uint32
}

func readHead(page []byte) head {
	return head{
		id: binary.LittleEndian.Uint64(page), flags: binary.LittleEndian.Uint16(page[8:]),
		count: int(binary.LittleEndian.Uint16(page[10:])), overflow: binary.LittleEndian.Uint32(page[12:]),
	}
}

func (h head) length(pageSize int64) int64 { return (int64(h.overflow) + 1) * pageSize }

// metaPageSize is the page size of the file that begins with b, or 0 if b is no intact meta page.
func metaPageSize(b []byte) int64 {
	if len(b) < pageHeadSize+metaSize {
		return 0
	}
	m := b[pageHeadSize : pageHeadSize+metaSize]
	sum := fnv.New64a()
	sum.Write(m[:56])
	size := binary.LittleEndian.Uint32(m[8:])
	switch {
	case binary.LittleEndian.Uint32(m) != magic, binary.LittleEndian.Uint32(m[4:]) != version,
		binary.LittleEndian.Uint64(m[56:]) != sum.Sum64(), size < 512, size > 1<<20, size&(size-1) != 0:
		return 0
	}
	return int64(size)
}

type branchEntry struct {
	key   []byte
	child uint64
}

func branchElement(page []byte, h head, i int) (branchEntry, bool) {
	at := pageHeadSize + elementSize*i
	if i < 0 || i >= h.count || at+elementSize > len(page) {
		return branchEntry{}, false
	}
	e := page[at:]
	from := at + int(binary.LittleEndian.Uint32(e))
	to := from + int(binary.LittleEndian.Uint32(e[4:]))
	if to > len(page) {
		return branchEntry{}, false
	}
	return branchEntry{key: page[from:to], child: binary.LittleEndian.Uint64(e[8:])}, true
}

// element is the head of one entry of a leaf: key and value lie pos bytes behind its beginning.
type element struct{ flags, pos, ksize, vsize uint32 }

func leafHead(b []byte) element {
	return element{
		flags: binary.LittleEndian.Uint32(b), pos: binary.LittleEndian.Uint32(b[4:]),
		ksize: binary.LittleEndian.Uint32(b[8:]), vsize: binary.LittleEndian.Uint32(b[12:]),
	}
}

type leafEntry struct {
	flags      uint32
	key, value []byte
}

func leafElement(page []byte, h head, i int) (leafEntry, bool) {
	at := pageHeadSize + elementSize*i
	if i < 0 || i >= h.count || at+elementSize > len(page) {
		return leafEntry{}, false
	}
	e := leafHead(page[at:])
	key := at + int(e.pos)
	value := key + int(e.ksize)
	end := value + int(e.vsize)
	if end > len(page) {
		return leafEntry{}, false
	}
	return leafEntry{flags: e.flags, key: page[key:value], value: page[value:end]}, true
}

// A key of the bucket "key" is a revision: main in 8 bytes, '_', sub in 8 bytes, big endian,
// and perhaps a mark for a tombstone.
const revisionSize = 17

func isRevisionSize(n uint32) bool { return n == revisionSize || n == revisionSize+1 }

func mainRevision(key []byte) (int64, bool) {
	if !isRevisionSize(uint32(len(key))) || key[8] != '_' {
		return 0, false
	}
	main := int64(binary.BigEndian.Uint64(key))
	return main, main >= 0
}

// read is a piece of the file that is looked at when it has come.
type read struct {
	next int64  // file offset of the next byte of it
	buf  []byte // what has come; its capacity is what is wanted
	then func(page, piece []byte)
}

// reads is a heap by offset.
type reads []*read

var _ heap.Interface = (*reads)(nil)

func (r reads) Len() int           { return len(r) }
func (r reads) Less(i, j int) bool { return r[i].next < r[j].next }
func (r reads) Swap(i, j int)      { r[i], r[j] = r[j], r[i] }
func (r *reads) Push(x any)        { *r = append(*r, x.(*read)) }
func (r *reads) Pop() any {
	old := *r
	x := old[len(old)-1]
	*r = old[:len(old)-1]
	return x
}

// bits is a set of page numbers.
type bits []uint64

func (b *bits) set(i uint64) {
	for uint64(len(*b)) <= i/64 {
		*b = append(*b, 0)
	}
	(*b)[i/64] |= 1 << (i % 64)
}

func (b bits) has(i uint64) bool {
	return i/64 < uint64(len(b)) && b[i/64]&(1<<(i%64)) != 0
}
