package azure

import (
	"context"
	"net"
	"time"
)

// idleDialer makes connections that end when nothing moves on them for a while. A deadline for
// a whole request would have to know how much there is to send and how fast the network is.
type idleDialer struct {
	dialer  *net.Dialer
	timeout time.Duration
}

// DialContext is for http.Transport.
func (d idleDialer) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := d.dialer.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &idleConn{Conn: conn, timeout: d.timeout}, nil
}

// idleConn puts off the deadline of both directions when either moves: while a block goes out,
// nothing comes in for long.
type idleConn struct {
	net.Conn
	timeout time.Duration
}

func (c *idleConn) Read(p []byte) (int, error) {
	c.moved()
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.moved()
	}
	return n, err
}

// Write sends small pieces, each of which counts as movement when it got through.
func (c *idleConn) Write(p []byte) (sent int, err error) {
	const piece = 64 << 10
	for {
		c.moved()
		n, err := c.Conn.Write(p[sent:min(sent+piece, len(p))])
		if sent += n; err != nil || sent == len(p) {
			return sent, err
		}
	}
}

// moved cannot fail on an open connection; that it is closed is told by the call that follows.
func (c *idleConn) moved() { _ = c.Conn.SetDeadline(time.Now().Add(c.timeout)) }
