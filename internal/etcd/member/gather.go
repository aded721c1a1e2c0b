package member

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc/credentials"
)

// A watch of a busy etcd is thousands of small answers a second. Taken one by one each costs a
// wake-up and system calls, which together are several times the work that is done with its
// content. So they are taken in rounds: while no silence of gatherPause comes, whoever has read
// waits for so long before reading again, unless there is more already. The first gatherAfter reads
// are not delayed: opening a watch takes some, and an etcd that is told little never comes so far.
const (
	gatherPause = 100 * time.Millisecond
	gatherAfter = 8
	gatherBytes = 128 << 10 // read at once
	// gatherMuch ends a pause: of an etcd that has a long history to tell, as much comes at once as
	// it may send. Less would end the pauses of one that is only busy.
	gatherMuch = watchWindow / 2
)

// gathering are transport credentials whose connections are read in rounds. They are for watches:
// a question that waits for its answer would wait for the end of the round, too.
type gathering struct {
	credentials.TransportCredentials
}

func (g gathering) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return g.TransportCredentials.ClientHandshake(ctx, authority, &gathered{Conn: conn})
}

func (g gathering) Clone() credentials.TransportCredentials {
	return gathering{g.TransportCredentials.Clone()}
}

// gathered is a connection that is read in rounds. As any connection it has one reader at a time.
type gathered struct {
	net.Conn
	buf    []byte
	unread []byte    // of buf
	last   time.Time // when buf was filled last
	full   bool      // it was, so that there is more
	busy   int       // reads since the last silence

	mu       sync.Mutex
	deadline time.Time // of reads, as it was set
	pausing  bool      // so it is not in force
}

func (g *gathered) Read(p []byte) (int, error) {
	if len(g.unread) == 0 {
		if err := g.fill(); len(g.unread) == 0 {
			return 0, err // of bytes with an error: those first, the error at the next call
		}
	}
	n := copy(p, g.unread)
	g.unread = g.unread[n:]
	return n, nil
}

// fill begins the next round.
func (g *gathered) fill() error {
	if g.buf == nil {
		g.buf = make([]byte, gatherBytes)
	}
	if early := gatherPause - time.Since(g.last); early > 0 && g.busy >= gatherAfter && !g.full {
		g.pause(early)
	}
	began := time.Now()
	n, err := g.Conn.Read(g.buf)
	g.unread, g.full = g.buf[:n], n == len(g.buf)
	g.last = time.Now()
	if g.busy++; g.last.Sub(began) >= gatherPause {
		g.busy = 0
	}
	return err
}

// pause lasts d, or until there is much. What arrives meanwhile wakes nobody, where the system can
// do that; otherwise it is only slower. A Close may have to wait for the end.
func (g *gathered) pause(d time.Duration) {
	c, ok := g.Conn.(syscall.Conn)
	if !ok {
		time.Sleep(d)
		return
	}
	raw, err := c.SyscallConn()
	if err == nil {
		g.limit(time.Now().Add(d))
		defer g.limit(time.Time{})
		err = awaitMuch(raw, gatherMuch)
	}
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		time.Sleep(d)
	}
}

// limit bounds what is read until the pause ends, or no longer if end is zero.
func (g *gathered) limit(end time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.pausing = !end.IsZero(); !g.pausing {
		end = g.deadline
	}
	_ = g.Conn.SetReadDeadline(end) // of a closed connection: the next read says so
}

// SetReadDeadline holds from the end of a pause on.
func (g *gathered) SetReadDeadline(t time.Time) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.deadline = t; g.pausing {
		return nil
	}
	return g.Conn.SetReadDeadline(t)
}

// SetDeadline is for reading and writing.
func (g *gathered) SetDeadline(t time.Time) error {
	return errors.Join(g.SetReadDeadline(t), g.Conn.SetWriteDeadline(t))
}
