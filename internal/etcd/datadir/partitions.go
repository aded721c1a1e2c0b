package datadir

import (
	"errors"
	"fmt"
	"os"
	"unsafe"
)

const (
	partitionCount = 256
	// partitionBuffer is the memory per partition: whole marks, about 16 KiB.
	partitionBuffer = 409 * markBytes
)

// partitions holds marks on disk, divided by key. Within a partition they keep their order.
type partitions struct {
	file    *os.File
	room    *reserve
	memory  []byte
	fill    [partitionCount]int
	extents [partitionCount][]int64 // offsets of full buffers in the file
	bytes   int64
}

func newPartitions(scratch string, room *reserve) (*partitions, error) {
	f, err := nameless(scratch, "marks-*")
	if err != nil {
		return nil, fmt.Errorf("spill: %w", err)
	}
	memory, err := mapMemory(partitionCount * partitionBuffer)
	if err != nil {
		f.Close()
		return nil, err
	}
	return &partitions{file: f, room: room, memory: memory}, nil
}

// close frees memory and file. It may be called again.
func (p *partitions) close() {
	unmapMemory(p.memory)
	p.memory = nil
	p.file.Close()
}

// nameless makes a temporary file that is gone with the process, however that ends.
func nameless(dir, pattern string) (*os.File, error) {
	f, err := os.CreateTemp(dir, pattern)
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (p *partitions) buffer(n int) []byte {
	return p.memory[n*partitionBuffer:][:partitionBuffer]
}

func (p *partitions) add(m *mark) error {
	n := int(m.sum[1] >> 56)
	copy(p.buffer(n)[p.fill[n]:], unsafe.Slice((*byte)(unsafe.Pointer(m)), markBytes))
	if p.fill[n] += markBytes; p.fill[n] == partitionBuffer {
		return p.write(n)
	}
	return nil
}

func (p *partitions) write(n int) error {
	if err := p.room.take(int64(partitionBuffer)); err != nil {
		return fmt.Errorf("spill: %w", err)
	}
	if _, err := p.file.WriteAt(p.buffer(n), p.bytes); err != nil {
		return fmt.Errorf("spill: %w", err)
	}
	p.extents[n] = append(p.extents[n], p.bytes)
	p.bytes += int64(partitionBuffer)
	p.fill[n] = 0
	return nil
}

// flush writes the buffers that are not full yet, so that reading needs no other memory; what
// is behind the last mark of each stays zero, which is no mark.
func (p *partitions) flush() error {
	for n := range partitionCount {
		clear(p.buffer(n)[p.fill[n]:])
		if p.fill[n] > 0 {
			if err := p.write(n); err != nil {
				return err
			}
		}
	}
	return nil
}

// each calls fn for the marks of one partition in the order they were added.
func (p *partitions) each(n int, fn func(*mark) error) error {
	buf := p.buffer(n)
	for _, at := range p.extents[n] {
		if _, err := p.file.ReadAt(buf, at); err != nil {
			return fmt.Errorf("read spilled marks: %w", err)
		}
		for i := 0; i < len(buf); i += markBytes {
			m := (*mark)(unsafe.Pointer(&buf[i]))
			if m.ordinal == 0 {
				break
			}
			if err := fn(m); err != nil {
				return err
			}
		}
	}
	return nil
}
