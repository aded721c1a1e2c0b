// Package parts cuts a stream of unknown size into parts of equal size and sends several of them
// at once, in memory that does not depend on the size of the stream.
//
// What sending a part means, and what makes an object of them, is each provider's affair.
package parts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Stream is a stream that is cut. It is not safe for concurrent use.
type Stream struct {
	ctx  context.Context
	r    io.Reader
	size int
	head [][]byte // read and not yet taken
	done bool     // the stream has ended and must not be read again
}

// Begin reads as much of r as tells whether it fits into one part of so many bytes. The stream
// ends with ctx. Errors of r come wrapped.
func Begin(ctx context.Context, r io.Reader, size int64) (*Stream, error) {
	s := &Stream{ctx: ctx, r: r, size: int(size)}
	for range 2 { // of a full first part only the second tells whether there are several
		part, err := s.cut(nil)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		s.head = append(s.head, part)
	}
	return s, nil
}

// Whole is all of the stream, if it fits into one part.
func (s *Stream) Whole() (all []byte, fits bool) {
	switch len(s.head) {
	case 0:
		return nil, true
	case 1:
		return s.head[0], true
	}
	return nil, false
}

// next is the next part, in buf unless it was read already; io.EOF means there is none.
func (s *Stream) next(buf []byte) ([]byte, error) {
	if len(s.head) == 0 {
		return s.cut(buf)
	}
	buf = s.head[0]
	s.head = s.head[1:]
	return buf, nil
}

// cut reads one part into buf, or into a new one that grows as needed: most objects are much
// smaller than a part. A part that is not full is the last one. Errors never come together with
// data.
func (s *Stream) cut(buf []byte) ([]byte, error) {
	if buf == nil {
		buf = make([]byte, 0, min(s.size, 64<<10))
	}
	buf = buf[:0]
	for len(buf) < s.size && !s.done {
		if err := s.ctx.Err(); err != nil {
			return nil, fmt.Errorf("read the body: %w", err)
		}
		if len(buf) == cap(buf) {
			larger := make([]byte, len(buf), min(s.size, 4*cap(buf)))
			copy(larger, buf)
			buf = larger
		}
		n, err := s.r.Read(buf[len(buf):min(cap(buf), s.size)])
		buf = buf[:len(buf)+n]
		switch {
		case err == io.EOF:
			s.done = true
		case err != nil:
			return nil, fmt.Errorf("read the body: %w", err)
		}
	}
	if len(buf) == 0 {
		return nil, io.EOF
	}
	return buf, nil
}

// Limits bound how a stream is sent.
type Limits struct {
	Parallel int    // parts sent at once; one more is in memory, being read
	Count    int    // parts an object can have
	What     string // the provider's word for a part
}

// Send calls send for every part, numbered from 1, several at once and in no order, and returns
// what it returned in the order of the parts. It returns when no call is under way any more. The
// first error cancels the context of all others, and is the one returned.
func Send[T any](ctx context.Context, s *Stream, l Limits, send func(ctx context.Context, number int, part []byte) (T, error)) ([]T, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		sent []T
	)
	buffers := make(chan []byte, l.Parallel+1)
	for range l.Parallel + 1 {
		buffers <- nil // made when needed
	}
	slots := make(chan struct{}, l.Parallel)
	for number := 1; ; number++ {
		var buf []byte
		select {
		case buf = <-buffers:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
		part, err := s.next(buf)
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil && number > l.Count {
			err = fmt.Errorf("the object is larger than %d %ss of %d bytes, raise --min-chunk-size", l.Count, l.What, s.size)
		}
		if err != nil {
			cancel(err)
			break
		}
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if ctx.Err() != nil {
				return // the context ended while this part waited
			}
			v, err := send(ctx, number, part)
			if err != nil {
				cancel(fmt.Errorf("%s %d: %w", l.What, number, err))
				return
			}
			mu.Lock()
			if missing := number - len(sent); missing > 0 {
				sent = append(sent, make([]T, missing)...)
			}
			sent[number-1] = v
			mu.Unlock()
			buffers <- part
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	return sent, nil
}
