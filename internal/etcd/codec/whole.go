package codec

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"sync"

	"druid.internal/druid/internal/backup/snapshot"
	"github.com/klauspost/compress/zstd"
)

// Whole says which native deltas are unpacked at once instead of in a stream. That is a quarter
// faster, but all of the content is in memory until its reader is closed. Any number of readers
// may share one.
type Whole struct {
	// MaxBytes is the largest content, in bytes, and four times the largest packed one, since that
	// is in memory as well for a while.
	MaxBytes int64
	// Memory is where the memory of contents comes from and goes to.
	Memory *Contents
	// Newest leaves out the Value of every record whose key has a newer one in the same delta.
	Newest bool
}

func (w *Whole) fits(m *snapshot.Manifest) bool {
	return w != nil && m != nil && m.ContentSize <= w.MaxBytes && m.Size <= w.MaxBytes/4
}

// Contents is memory that is used again and again, by any number of readers. The zero value is
// empty.
type Contents struct {
	mu    sync.Mutex
	spare [][]byte // by capacity
}

// wholeSlack is room that the decoder wants beyond what it will write.
const wholeSlack = 256 << 10

// take returns memory with room for size bytes: the smallest there is, or new one, in place of the
// largest that is too small.
func (c *Contents) take(size int64) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	i, _ := slices.BinarySearchFunc(c.spare, size, func(b []byte, size int64) int { return cmp.Compare(int64(cap(b)), size) })
	if i < len(c.spare) {
		b := c.spare[i]
		c.spare = slices.Delete(c.spare, i, i+1)
		return b[:0]
	}
	if i > 0 {
		c.spare = slices.Delete(c.spare, i-1, i)
	}
	return make([]byte, 0, size+size/8) // the next one is about as large
}

func (c *Contents) giveBack(b []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i, _ := slices.BinarySearchFunc(c.spare, cap(b), func(b []byte, size int) int { return cmp.Compare(cap(b), size) })
	c.spare = slices.Insert(c.spare, i, b)
}

// whole reads and unpacks everything behind the header m at once. The digest is verified before
// anything is unpacked.
func (u *unpacker) whole(m *snapshot.Manifest, o ReaderOptions) ([]byte, error) {
	memory := o.Whole.Memory
	size := m.Size - u.size()
	if size <= 0 || m.ContentSize <= 0 {
		return nil, fmt.Errorf("%w: the header says size %d, content size %d", ErrMalformed, m.Size, m.ContentSize)
	}
	packed := memory.take(size)[:size]
	defer memory.giveBack(packed)
	if _, err := io.ReadFull(u.in, packed); err != nil {
		return nil, u.judge(err)
	}
	u.sum.Write(packed)
	if got := u.digest(); got != m.Digest {
		return nil, fmt.Errorf("%w: the header says %s, the packed content has %s", ErrDigest, m.Digest, got)
	}
	if _, err := u.in.Peek(1); err != io.EOF {
		return nil, u.judge(io.EOF)
	}
	if err := o.Wait(); err != nil {
		return nil, err
	}
	z, pooled := zstdDecoders.Get().(*zstd.Decoder)
	if !pooled {
		var err error
		if z, err = newZstdDecoder(nil, 1, maxDeltaWindow); err != nil {
			return nil, err
		}
	}
	content := memory.take(m.ContentSize + wholeSlack)
	unpacked, err := z.DecodeAll(packed, content)
	zstdDecoders.Put(z)
	if err == nil && int64(len(unpacked)) != m.ContentSize {
		err = fmt.Errorf("%w: the header says content size %d, the content has %d", ErrMalformed, m.ContentSize, len(unpacked))
	} else if err != nil {
		err = u.judge(err)
	}
	if err != nil {
		memory.giveBack(content)
		return nil, err
	}
	return unpacked, nil
}
