// Package fetch reads stored objects whole: with several ranged requests at a time, in order,
// with bounded memory, and proven against the size and digest a manifest told.
//
// It chooses no object and unpacks nothing.
package fetch

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"sync"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/store"
)

// ErrDamaged is wrapped by every error that says the stored bytes are not those that were
// written. Other errors are the store's: the object may be whole.
var ErrDamaged = errors.New("stored object is damaged")

// Options tune Open. The zero value reads in one stream.
type Options struct {
	// Size is the expected number of bytes; negative: unknown.
	Size int64
	// Digest of all bytes, checked at the end unless zero.
	Digest snapshot.Digest
	// Parallel is how many ranges are requested at the same time; below 2, or with an unknown or
	// small size, one stream is read.
	Parallel int
	// RangeBytes is the size of one range; 0 means DefaultRangeBytes. Memory is about
	// Parallel x RangeBytes until the end was read.
	RangeBytes int64
	// OnRead, if set, is told of every read how many bytes it brought. It may be called from
	// any goroutine that reads.
	OnRead func(n int)
}

// DefaultRangeBytes keeps the requests of a large object few and the buffers small: a full and
// the first delta, five ranges each, take 40 MB of what a memory limit leaves.
const DefaultRangeBytes = 4 << 20

// smallRanges is how many ranges long an object may be and still be read in one stream: usual
// deltas are, of which several are read at a time, and buffers of their own would only be garbage.
const smallRanges = 2

// Open reads the version v. Read returns io.EOF only when as many bytes came as expected and
// their digest is the expected one; until then nothing read may be taken for true.
func Open(ctx context.Context, s store.Reader, v store.Version, o Options) (io.ReadCloser, error) {
	if o.RangeBytes <= 0 {
		o.RangeBytes = DefaultRangeBytes
	}
	var src io.ReadCloser
	if o.Parallel > 1 && o.Size > smallRanges*o.RangeBytes {
		src = openRanges(ctx, s, v, o)
	} else {
		r, err := s.Open(ctx, v, 0, -1)
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", v, err)
		}
		src = r
	}
	p := &proven{src: src, version: v, size: o.Size, digest: o.Digest, onRead: o.OnRead}
	if !o.Digest.IsZero() {
		p.sum = sha256.New()
	}
	return p, nil
}

// proven checks size and digest of what passes through.
type proven struct {
	src     io.ReadCloser
	version store.Version
	size    int64
	digest  snapshot.Digest
	sum     hash.Hash
	onRead  func(int)
	read    int64
	err     error
}

func (p *proven) Read(b []byte) (int, error) {
	if p.err != nil {
		return 0, p.err
	}
	n, err := p.src.Read(b)
	if n > 0 {
		p.read += int64(n)
		if p.sum != nil {
			p.sum.Write(b[:n])
		}
		if p.onRead != nil {
			p.onRead(n)
		}
	}
	switch {
	case err == nil:
		return n, nil
	case err != io.EOF:
		p.err = fmt.Errorf("read %s at byte %d: %w", p.version, p.read, err)
	case p.size >= 0 && p.read != p.size:
		p.err = fmt.Errorf("%w: %s has %d bytes, %d were written", ErrDamaged, p.version, p.read, p.size)
	case p.sum != nil && snapshot.Digest(p.sum.Sum(nil)) != p.digest:
		p.err = fmt.Errorf("%w: %s does not match the SHA-256 in its manifest", ErrDamaged, p.version)
	default:
		p.err = io.EOF
	}
	return n, p.err
}

func (p *proven) Close() error { return p.src.Close() }

// ranges yields the parts of an object in order while later ones are under way.
//
//	requests   [0..8M) [8M..16M) [16M..24M)     at most Parallel at a time
//	Read       ───────>
type ranges struct {
	ctx    context.Context
	cancel context.CancelFunc
	wait   sync.WaitGroup
	parts  chan chan part // in order; its capacity bounds the requests under way
	free   chan []byte
	cur    []byte
	whole  []byte // the buffer cur lies in
	err    error
}

type part struct {
	buf []byte
	err error
}

func openRanges(ctx context.Context, s store.Reader, v store.Version, o Options) *ranges {
	ctx, cancel := context.WithCancel(ctx)
	r := &ranges{ctx: ctx, cancel: cancel, parts: make(chan chan part, o.Parallel-1), free: make(chan []byte, o.Parallel+1)}
	r.wait.Add(1)
	go func() {
		defer r.wait.Done()
		defer close(r.parts)
		for off := int64(0); off < o.Size && ctx.Err() == nil; off += o.RangeBytes {
			c := make(chan part, 1)
			select {
			case r.parts <- c:
			case <-ctx.Done():
				return
			}
			r.wait.Add(1)
			go func() {
				defer r.wait.Done()
				buf, err := r.request(ctx, s, v, off, min(o.RangeBytes, o.Size-off), o.RangeBytes)
				c <- part{buf, err}
			}()
		}
	}()
	return r
}

func (r *ranges) request(ctx context.Context, s store.Reader, v store.Version, off, n, size int64) ([]byte, error) {
	var buf []byte
	select {
	case buf = <-r.free:
	default:
		buf = make([]byte, size)
	}
	body, err := s.Open(ctx, v, off, n)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	if _, err := io.ReadFull(body, buf[:n]); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return buf[:n], nil
}

func (r *ranges) Read(b []byte) (int, error) {
	for len(r.cur) == 0 {
		if r.err != nil {
			return 0, r.err
		}
		if r.whole != nil {
			select {
			case r.free <- r.whole[:cap(r.whole)]:
			default:
			}
			r.whole = nil
		}
		c, more := <-r.parts
		if !more {
			if r.err = r.ctx.Err(); r.err == nil {
				r.err = io.EOF
			}
			r.release()
			continue
		}
		p := <-c
		if p.err != nil {
			r.err = p.err
			r.cancel()
			continue
		}
		r.cur, r.whole = p.buf, p.buf
	}
	n := copy(b, r.cur)
	r.cur = r.cur[n:]
	return n, nil
}

// release drops the buffers when nothing is under way any more: a reader may stay open long after
// its end was read, for a restore as long as the restore takes.
func (r *ranges) release() {
	for {
		select {
		case <-r.free:
		default:
			return
		}
	}
}

// Close abandons the requests under way and waits for them.
func (r *ranges) Close() error {
	r.cancel()
	r.wait.Wait()
	return nil
}
