package datadir

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Large buffers lie outside of the Go heap: the collector would let the heap grow to twice
// their size before it frees what they replace, and a memory limit would be missed by that much.

// mapMemory returns n bytes of zeroed memory, to be given back with unmapMemory.
func mapMemory(n int) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("reserve %d bytes of memory: %w", n, err)
	}
	return b, nil
}

func unmapMemory(b []byte) {
	if b != nil {
		_ = unix.Munmap(b) // fails only for memory that was never mapped
	}
}

// mapMarks is mapMemory for n marks.
func mapMarks(n int) ([]mark, []byte, error) {
	b, err := mapMemory(n * markBytes)
	if err != nil {
		return nil, nil, err
	}
	return unsafe.Slice((*mark)(unsafe.Pointer(unsafe.SliceData(b))), n), b, nil
}

// bitmap is a growing set of ordinals.
type bitmap []uint64

func (b *bitmap) set(i uint64) {
	word := int(i / 64)
	if word >= len(*b) {
		grown := make(bitmap, max(word+1, len(*b)*5/4))
		copy(grown, *b)
		*b = grown
	}
	(*b)[word] |= 1 << (i % 64)
}

func (b bitmap) has(i uint64) bool {
	word := int(i / 64)
	return word < len(b) && b[word]&(1<<(i%64)) != 0
}
