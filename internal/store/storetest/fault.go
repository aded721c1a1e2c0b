package storetest

import (
	"context"
	"errors"
	"io"

	"druid.internal/druid/internal/store"
)

// Fault is one thing that goes wrong, and when. The zero condition is the first call of any
// operation. Make one with a constructor below and narrow it:
//
//	storetest.Fail(store.ErrThrottled).On(storetest.OpPut, "Full-").After(2).For(3)
//
// strikes the third, fourth and fifth Put of a key that contains "Full-".
type Fault struct {
	Op    Op     // empty: every operation
	Key   string // a part of the key, or of the prefix of a list
	Skip  int    // matching calls that pass before it strikes
	Times int    // matching calls it strikes then; 0 means 1, negative all

	set     bool // told apart from "no fault"
	fail    error
	after   bool // fail only after the operation took place
	hang    bool
	body    bool  // the stream is spoilt: after bytes, with ending
	listing bool  // the list stops after bytes objects, with ending
	bytes   int   // how much passes before the ending
	ending  error // nil for a silent end
	slow    func(ctx context.Context) error
	flip    bool
}

// On narrows a fault to an operation and keys that contain part.
func (f Fault) On(op Op, part string) Fault {
	f.Op, f.Key = op, part
	return f
}

// After lets n matching calls pass first.
func (f Fault) After(n int) Fault {
	f.Skip = n
	return f
}

// For makes it strike n matching calls in a row; Always makes it strike for ever.
func (f Fault) For(n int) Fault {
	f.Times = n
	return f
}

// Always makes it strike every matching call from its first.
func (f Fault) Always() Fault { return f.For(-1) }

// Fail answers err and does nothing: store.ErrThrottled, ErrUnreachable (a 5xx or a refused
// connection), ErrForbidden, ErrNoSpace, context.DeadlineExceeded.
func Fail(err error) Fault { return Fault{fail: err} }

// LoseResponse does the operation and answers store.ErrUnknownOutcome.
func LoseResponse() Fault { return Fault{fail: store.ErrUnknownOutcome, after: true} }

// Hang does nothing until the caller's context is done, and answers its error.
func Hang() Fault { return Fault{hang: true} }

// Tear breaks the body of a Put after n bytes, as a broken connection does; nothing becomes
// visible.
func Tear(n int) Fault { return Fault{body: true, bytes: n, ending: store.ErrUnreachable} }

// Cut breaks the stream of an Open after n bytes, told by io.ErrUnexpectedEOF.
func Cut(n int) Fault { return Fault{body: true, bytes: n, ending: io.ErrUnexpectedEOF} }

// Shorten ends a stream after n bytes with io.EOF, as if that were all. This is a lie that no
// provider may tell; it stands for damage which only a digest can show.
func Shorten(n int) Fault { return Fault{body: true, bytes: n, ending: io.EOF} }

// Garble inverts a bit of byte n of a stream on its way.
func Garble(n int) Fault { return Fault{body: true, bytes: n, flip: true} }

// Slow delivers a stream byte by byte and calls wait before each; an error of wait ends it.
func Slow(wait func(ctx context.Context) error) Fault { return Fault{slow: wait} }

// BreakList ends a listing with err after n objects.
func BreakList(n int, err error) Fault {
	if err == nil {
		panic("BreakList needs an error; a listing that ends early without one is LieInList")
	}
	return Fault{listing: true, bytes: n, ending: err}
}

// LieInList ends a listing after n objects as if there were no more. No provider may do this.
func LieInList(n int) Fault { return Fault{listing: true, bytes: n} }

// spoil does to a stream what the fault says, and ends it if the process dies.
func (f *Faulty) spoil(ctx context.Context, r io.Reader, fault Fault) io.Reader {
	if fault.slow != nil {
		r = slowly{ctx, r, fault.slow}
	}
	if fault.body {
		r = &spoilt{r: r, left: fault.bytes, fault: fault}
	}
	return mortal{f, r}
}

// mortal is a stream of a process that may die.
type mortal struct {
	f *Faulty
	r io.Reader
}

func (m mortal) Read(p []byte) (int, error) {
	if m.f.isDead() {
		return 0, ErrDead
	}
	return m.r.Read(p)
}

// spoilt is a stream with something wrong after its first bytes.
type spoilt struct {
	r     io.Reader
	left  int
	fault Fault
	done  bool // the bit was flipped
}

func (s *spoilt) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if s.fault.flip {
		n, err := s.r.Read(p)
		if !s.done && s.left < n {
			p[s.left] ^= 1
			s.done = true
		}
		s.left -= n
		return n, err
	}
	if s.left == 0 {
		return 0, s.fault.ending
	}
	n, err := s.r.Read(p[:min(len(p), s.left)])
	s.left -= n
	return n, err
}

// slowly is a stream that makes its reader wait for every byte.
type slowly struct {
	ctx  context.Context
	r    io.Reader
	wait func(ctx context.Context) error
}

func (s slowly) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if err := s.wait(s.ctx); err != nil {
		return 0, errors.Join(err, s.ctx.Err())
	}
	return s.r.Read(p[:1])
}
