package member

import (
	"errors"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// connected are the two ends of a connection.
func connected(t *testing.T) (near, far net.Conn) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if near, err = net.Dial("tcp", listener.Addr().String()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Close() })
	if far, err = listener.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { far.Close() })
	return near, far
}

func TestAPauseEndsWhenThereIsMuch(t *testing.T) {
	const much = 100_000
	for name, c := range map[string]struct {
		sent int
		want error
	}{
		"much":       {sent: much},
		"too little": {sent: much / 2, want: os.ErrDeadlineExceeded},
		"nothing":    {want: os.ErrDeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			near, far := connected(t)
			raw, err := near.(syscall.Conn).SyscallConn()
			if err != nil {
				t.Fatal(err)
			}
			// Long where it must not be reached, short where it must.
			limit := time.Minute
			if c.want != nil {
				limit = 20 * time.Millisecond
			}
			if err := near.SetReadDeadline(time.Now().Add(limit)); err != nil {
				t.Fatal(err)
			}
			sent := make(chan error, 1)
			go func() {
				_, err := far.Write(make([]byte, c.sent))
				sent <- err
			}()
			if err := awaitMuch(raw, much); !errors.Is(err, c.want) || c.want == nil && err != nil {
				t.Errorf("%v, want %v", err, c.want)
			}
			if err := <-sent; err != nil {
				t.Fatal(err)
			}
			var low int
			if err := raw.Control(func(fd uintptr) { low, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVLOWAT) }); err != nil || low != 1 {
				t.Errorf("the next reader is woken by %d bytes, want by any (%v)", low, err)
			}
		})
	}
}

func TestADeadlineHoldsFromTheEndOfAPauseOn(t *testing.T) {
	near, _ := connected(t)
	g := &gathered{Conn: near}
	g.limit(time.Now().Add(time.Hour))
	if err := g.SetDeadline(time.Now().Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	g.limit(time.Time{})
	if _, err := g.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%v, want that the deadline is over", err)
	}
	if err := g.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	g.limit(time.Now().Add(-time.Second))
	g.limit(time.Time{})
	near.(*net.TCPConn).CloseRead()
	if _, err := g.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%v: the limit of a pause is still in force", err)
	}
}
