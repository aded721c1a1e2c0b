package codec

import (
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// strength is how much is done to find repetitions.
type strength int

const (
	// strong finds them up to packWindow back: several versions of the objects of a cluster. With
	// 8 MiB Kubernetes deltas are 2 % larger; more than 16 MiB gains next to nothing and costs
	// memory. An encoder takes about 35 MB.
	strong strength = iota
	// light is for content that has next to none, such as text of random letters. It needs half
	// the time there, for 3 % more bytes, and is not disturbed by what else the processor does,
	// because its 3 MB stay in the cache.
	light

	strengths
)

const (
	packWindow  = 16 << 20
	lightWindow = 1 << 20
	// trialBytes of content are looked at before the strength is chosen anew, and what is packed to
	// more than nearly of it gains too little from the strong one; back to that goes what the light
	// one already packs to less than well. They are apart so that nothing alternates.
	trialBytes   = 1 << 20
	nearly, well = 0.5, 0.4
	// A delta begins as the one before it ended, but of so many light ones in a row the next begins
	// strong, in case the content has changed in a way that only the strong one can tell.
	lightInARow = 8
)

// Packers keeps the compressors of deltas that are finished, one of each kind, for deltas to come:
// making one is work, and so is clearing its memory away. The zero value is empty. It may be used
// concurrently.
type Packers struct {
	mu    sync.Mutex
	spare [strengths]*zstd.Encoder
	light int // deltas in a row that ended light
}

// begins is how strong the next delta begins.
func (p *Packers) begins() strength {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.light%lightInARow != 0 {
		return light
	}
	return strong
}

// ended notes how a delta ended.
func (p *Packers) ended(s strength) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.light++; s != light {
		p.light = 0
	}
}

// Drop gives the memory back, when nothing is to come for a while.
func (p *Packers) Drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.spare[:])
}

func (p *Packers) take(s strength, w io.Writer) (*zstd.Encoder, error) {
	p.mu.Lock()
	e := p.spare[s]
	p.spare[s] = nil
	p.mu.Unlock()
	if e != nil {
		e.Reset(w)
		return e, nil
	}
	// One core: Write does the work itself, and there is no goroutine to leave behind.
	options := []zstd.EOption{zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(true)}
	switch s {
	case strong:
		options = append(options, zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithWindowSize(packWindow))
	case light:
		options = append(options, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(lightWindow))
	default:
		return nil, fmt.Errorf("there is no compressor of strength %d", s)
	}
	return zstd.NewWriter(w, options...)
}

func (p *Packers) give(s strength, e *zstd.Encoder) {
	e.Reset(nil)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.spare[s] == nil {
		p.spare[s] = e
	}
}

// zstdPacker writes a zstd stream of one frame or several, each as strong as is worth it.
type zstdPacker struct {
	out     counter
	packers *Packers
	encoder *zstd.Encoder // nil after free
	is      strength
	trial   int64 // bytes of content since the strength was chosen last
	before  int64 // bytes written until then
}

type counter struct {
	io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	c.n += int64(n)
	return n, err
}

func newZstdPacker(w io.Writer, p *Packers, s strength) (*zstdPacker, error) {
	z := &zstdPacker{out: counter{Writer: w}, packers: p, is: s}
	var err error
	z.encoder, err = p.take(s, &z.out)
	return z, err
}

func (z *zstdPacker) Write(p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		if z.trial >= trialBytes {
			if err = z.choose(); err != nil {
				break
			}
		}
		k, werr := z.encoder.Write(p[n:min(len(p), n+int(trialBytes-z.trial))])
		n, z.trial, err = n+k, z.trial+int64(k), werr
	}
	return n, err
}

// choose looks at what became of the trial. What the encoder still holds, less than a block of
// 128 KiB, makes no difference.
func (z *zstdPacker) choose() error {
	share := float64(z.out.n-z.before) / float64(z.trial)
	next := z.is
	switch {
	case z.is == strong && share > nearly:
		next = light
	case z.is == light && share < well:
		next = strong
	}
	if next != z.is {
		if err := z.encoder.Close(); err != nil {
			return err
		}
		z.free()
		var err error
		if z.encoder, err = z.packers.take(next, &z.out); err != nil {
			return err
		}
		z.is = next
	}
	z.trial, z.before = 0, z.out.n
	return nil
}

// Close ends the stream, but does not close the writer.
func (z *zstdPacker) Close() error { return z.encoder.Close() }

// free gives the encoder back. Nothing may be written afterwards.
func (z *zstdPacker) free() {
	if z.encoder != nil {
		z.packers.give(z.is, z.encoder)
		z.encoder = nil
	}
}
