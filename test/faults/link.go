// Package faults stands between a client and a real server and does what networks do: Link
// cuts, stalls and slows down connections, Gate loses answers, breaks off bodies and answers
// in the server's place. Nothing happens by chance or by time: a test says what and when.
package faults

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// Link forwards TCP connections to a server.
type Link struct {
	Address string // where clients connect: ADDRESS:PORT

	target   string
	listener net.Listener
	wg       sync.WaitGroup

	mu     sync.Mutex
	change chan struct{} // closed when the state changes
	state  state
	delay  time.Duration
	conns  map[net.Conn]struct{}
}

type state int

const (
	flowing state = iota
	stalled
	cut
	closed
)

// NewLink opens a link to target, ADDRESS:PORT. It is closed when the test ends.
func NewLink(tb testing.TB, target string) *Link {
	tb.Helper()
	l, err := OpenLink(target)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(l.Close)
	return l
}

// OpenLink opens a link to target, ADDRESS:PORT, for whoever is no test.
func OpenLink(target string) (*Link, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := &Link{Address: listener.Addr().String(), target: target, listener: listener, change: make(chan struct{}), conns: map[net.Conn]struct{}{}}
	l.wg.Go(l.accept)
	return l, nil
}

// Cut breaks all connections and those that come, until Restore.
func (l *Link) Cut() {
	l.set(cut)
	l.breakAll()
}

// Stall keeps connections open and lets nothing through, until Restore.
func (l *Link) Stall() { l.set(stalled) }

// Restore lets everything through again.
func (l *Link) Restore() { l.set(flowing) }

// Delay holds back each piece that passes for d.
func (l *Link) Delay(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delay = d
}

func (l *Link) set(s state) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state == closed {
		return
	}
	l.state = s
	close(l.change)
	l.change = make(chan struct{})
}

// Close breaks everything and waits until nothing is under way.
func (l *Link) Close() {
	l.set(closed)
	l.listener.Close()
	l.breakAll()
	l.wg.Wait()
}

func (l *Link) breakAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		c.Close()
	}
}

func (l *Link) accept() {
	for {
		client, err := l.listener.Accept()
		if err != nil {
			return
		}
		if !l.keep(client) {
			client.Close()
			continue
		}
		l.wg.Go(func() { l.serve(client) })
	}
}

// keep remembers a connection so that it can be broken; false: it must not live.
func (l *Link) keep(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state == cut || l.state == closed {
		return false
	}
	l.conns[c] = struct{}{}
	return true
}

func (l *Link) forget(c net.Conn) {
	c.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
}

func (l *Link) serve(client net.Conn) {
	defer l.forget(client)
	server, err := net.Dial("tcp", l.target)
	if err != nil {
		return
	}
	defer l.forget(server)
	if !l.keep(server) {
		return
	}
	var both sync.WaitGroup
	pass := func(to, from net.Conn) {
		l.pass(to, from)
		to.Close()
		from.Close()
	}
	both.Go(func() { pass(server, client) })
	both.Go(func() { pass(client, server) })
	both.Wait()
}

// pass forwards one direction piece by piece.
func (l *Link) pass(to io.Writer, from io.Reader) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if !l.flows() {
				return
			}
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// flows waits while the link stalls or delays; false: the connection is to end.
func (l *Link) flows() bool {
	for {
		l.mu.Lock()
		s, change, delay := l.state, l.change, l.delay
		l.mu.Unlock()
		switch s {
		case cut, closed:
			return false
		case stalled:
			<-change
			continue
		}
		if delay == 0 {
			return true
		}
		timer := time.NewTimer(delay)
		defer timer.Stop()
		select {
		case <-timer.C:
			return true
		case <-change:
		}
	}
}
