package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// wire forwards TCP connections and holds everything back for as long as a real network would be on
// its way: each piece for itself, however many are under way at the same time.
//
//	who connects ──> address ──delay──> target
//	             <──delay──
type wire struct {
	address, target string
	delay           atomic.Int64 // nanoseconds, in each direction
	passed          atomic.Int64 // bytes, in both directions

	listener net.Listener
	all      sync.WaitGroup

	mu     sync.Mutex
	closed bool
	ends   map[net.Conn]struct{}
}

// layWire begins to forward what comes to an address. Close ends it.
func layWire(address, target string) (*wire, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	w := &wire{address: l.Addr().String(), target: target, listener: l, ends: map[net.Conn]struct{}{}}
	w.all.Go(w.accept)
	return w, nil
}

func (w *wire) close() {
	w.listener.Close()
	w.mu.Lock()
	w.closed = true
	for c := range w.ends {
		c.Close()
	}
	w.mu.Unlock()
	w.all.Wait()
}

func (w *wire) accept() {
	for {
		c, err := w.listener.Accept()
		if err != nil {
			return
		}
		w.all.Go(func() { w.serve(c) })
	}
}

// keep remembers a connection for the end; false: that has come.
func (w *wire) keep(c net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		c.Close()
		return false
	}
	w.ends[c] = struct{}{}
	return true
}

func (w *wire) drop(c net.Conn) {
	c.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.ends, c)
}

func (w *wire) serve(from net.Conn) {
	if !w.keep(from) {
		return
	}
	defer w.drop(from)
	to, err := net.Dial("tcp", w.target)
	if err != nil || !w.keep(to) {
		return
	}
	defer w.drop(to)
	var both sync.WaitGroup
	for _, direction := range [][2]net.Conn{{from, to}, {to, from}} {
		both.Go(func() {
			w.pass(direction[0], direction[1])
			from.Close()
			to.Close()
		})
	}
	both.Wait()
}

// piece is on its way until it is due.
type piece struct {
	due  time.Time
	data []byte
}

// underWay is how many pieces a direction of a connection holds before its sender has to wait.
const underWay = 4096

// pass forwards one direction.
func (w *wire) pass(from io.Reader, to io.Writer) {
	pieces := make(chan piece, underWay)
	var arrival sync.WaitGroup
	arrival.Go(func() {
		for p := range pieces {
			sleepUntil(p.due)
			if _, err := to.Write(p.data); err != nil {
				for range pieces { // the sender learns of it by itself
				}
				return
			}
		}
	})
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			w.passed.Add(int64(n))
			pieces <- piece{time.Now().Add(time.Duration(w.delay.Load())), append([]byte{}, buf[:n]...)}
		}
		if err != nil {
			break
		}
	}
	close(pieces)
	arrival.Wait()
}

// sleepUntil is exact where Go's own timers are late by up to a millisecond.
func sleepUntil(due time.Time) {
	for {
		left := time.Until(due)
		if left <= 0 {
			return
		}
		t := unix.NsecToTimespec(left.Nanoseconds())
		_ = unix.Nanosleep(&t, nil) // a signal ends it early, and the rest is slept again
	}
}

// pings is how often a round trip is measured.
const pings = 101

// roundTrip is how long it really takes through a wire with a delay to get an answer, in the median.
func roundTrip(ctx context.Context, delay time.Duration) (time.Duration, error) {
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	var answering sync.WaitGroup
	defer answering.Wait()
	defer echo.Close()
	answering.Go(func() {
		c, err := echo.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		_, _ = io.Copy(c, c) // who asks misses the answer
	})
	w, err := layWire("127.0.0.1:0", echo.Addr().String())
	if err != nil {
		return 0, err
	}
	defer w.close()
	w.delay.Store(int64(delay))
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", w.address)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	var took []float64
	word := []byte{0}
	for range pings {
		began := time.Now()
		if _, err := c.Write(word); err != nil {
			return 0, err
		}
		if _, err := io.ReadFull(c, word); err != nil {
			return 0, err
		}
		took = append(took, time.Since(began).Seconds())
	}
	trip := time.Duration(median(took) * float64(time.Second))
	if trip < 2*delay {
		return 0, errors.Join(fmt.Errorf("a round trip took %s, which has to be at least %s", trip, 2*delay), ctx.Err())
	}
	return trip, nil
}
