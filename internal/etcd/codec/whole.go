package codec

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"druid.internal/druid/internal/backup/snapshot"
	"github.com/klauspost/compress/zstd"
)

// Whole says which native deltas are unpacked at once instead of in a stream. That is a third
// faster, but all of the content stays in memory until its last batch is released. Any number
// of readers may share one.
type Whole struct {
	// MaxBytes is the largest content, in bytes, and four times the largest packed one, since that
	// is in memory as well for a while.
	MaxBytes int64
	// Memory is where the memory of contents comes from and goes to.
	Memory *Contents
	// Wait is called when the packed content was read, before memory is taken for the content.
	// Its error is the reader's.
	Wait func() error
}

func (w *Whole) fits(m *snapshot.Manifest) bool {
	return w != nil && m != nil && m.ContentSize <= w.MaxBytes && m.Size <= w.MaxBytes/4
}

// Contents is memory that is used again and again. The zero value is empty.
type Contents struct {
	mu    sync.Mutex
	spare []*content
	packs [][]byte // packed contents
}

// content is all of an unpacked delta, shared by its reader and the batches made of it. Its
// memory goes back when the last of them has released it.
type content struct {
	bytes []byte
	users atomic.Int32
	home  *Contents
}

// wholeSlack is room that the decoder wants beyond what it will write.
const wholeSlack = 256 << 10

func (p *Contents) content(size int64) *content {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := &content{home: p}
	if n := len(p.spare); n > 0 {
		c, p.spare = p.spare[n-1], p.spare[:n-1]
	}
	c.bytes = grown(c.bytes, size+wholeSlack)
	c.users.Store(1)
	return c
}

// pack is memory for a packed content.
func (p *Contents) pack(size int64) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	var b []byte
	if n := len(p.packs); n > 0 {
		b, p.packs = p.packs[n-1], p.packs[:n-1]
	}
	return grown(b, size)[:size]
}

func (p *Contents) giveBack(b []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.packs = append(p.packs, b)
}

// memory is that of a batch whose records point into c.
func (c *content) memory() *memory {
	m := newMemory(0)
	m.shared = c
	c.users.Add(1)
	return m
}

func (c *content) release() {
	if c.users.Add(-1) > 0 {
		return
	}
	c.home.mu.Lock()
	defer c.home.mu.Unlock()
	c.home.spare = append(c.home.spare, c)
}

// grown is b, emptied, or other memory if b has no room for size bytes.
func grown(b []byte, size int64) []byte {
	if int64(cap(b)) >= size {
		return b[:0]
	}
	return make([]byte, 0, size+size/8) // the next one is about as large
}

// whole reads and unpacks everything behind the header m at once. The digest is verified before
// anything is unpacked.
func (u *unpacker) whole(m *snapshot.Manifest, how *Whole) (*content, error) {
	size := m.Size - u.size()
	if size <= 0 || m.ContentSize <= 0 {
		return nil, fmt.Errorf("%w: the header says size %d, content size %d", ErrMalformed, m.Size, m.ContentSize)
	}
	packed := how.Memory.pack(size)
	defer how.Memory.giveBack(packed)
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
	if err := how.Wait(); err != nil {
		return nil, err
	}
	z, pooled := zstdDecoders.Get().(*zstd.Decoder)
	if !pooled {
		var err error
		if z, err = newZstdDecoder(nil, 1); err != nil {
			return nil, err
		}
	}
	c := how.Memory.content(m.ContentSize)
	var err error
	c.bytes, err = z.DecodeAll(packed, c.bytes)
	zstdDecoders.Put(z)
	if err == nil && int64(len(c.bytes)) != m.ContentSize {
		err = fmt.Errorf("%w: the header says content size %d, the content has %d", ErrMalformed, m.ContentSize, len(c.bytes))
	} else if err != nil {
		err = u.judge(err)
	}
	if err != nil {
		c.release()
		return nil, err
	}
	return c, nil
}
