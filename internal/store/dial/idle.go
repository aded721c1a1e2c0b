package dial

import (
	"context"
	"net"
	"time"
)

// idleDialer makes connections that break when nothing moves on them for a while. A deadline
// per request would have to know the size of the body and the speed of the network.
type idleDialer struct {
	dialer  *net.Dialer
	timeout time.Duration
	proxies *proxies // nil: none are used
}

// DialContext is for http.Transport.
func (d idleDialer) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := d.dialer.DialContext(ctx, network, addr)
	if err != nil {
		if d.proxies != nil {
			err = d.proxies.blame(ctx, addr, err)
		}
		return nil, err
	}
	if d.timeout <= 0 {
		return conn, nil
	}
	return &idleConn{Conn: conn, timeout: d.timeout}, nil
}

// idleConn moves the deadline of both directions whenever either moves: while a body is sent
// nothing arrives for long, and the other way round.
type idleConn struct {
	net.Conn
	timeout time.Duration
}

func (c *idleConn) Read(p []byte) (int, error) {
	c.extend()
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.extend()
	}
	return n, err
}

// Write sends in pieces, so that each that got through counts as movement.
func (c *idleConn) Write(p []byte) (int, error) {
	const piece = 64 << 10
	sent := 0
	for {
		c.extend()
		n, err := c.Conn.Write(p[sent:min(sent+piece, len(p))])
		sent += n
		if err != nil || sent == len(p) {
			return sent, err
		}
	}
}

// extend never fails on a connection that is open, and the failure of a closed one is told
// by the read or write that follows.
func (c *idleConn) extend() { _ = c.Conn.SetDeadline(time.Now().Add(c.timeout)) }
