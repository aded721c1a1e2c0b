package dial

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
)

// CheckProxy is the remedy for every ProxyError.
const CheckProxy = "check HTTPS_PROXY and NO_PROXY"

// ProxyError is a failure of the proxy, or of the way to it: the store was never asked.
type ProxyError struct {
	Proxy  string // its URL without user and password; empty: not known
	Target string // host and port it was asked for; empty: it was not asked
	Status int    // what it answered; 0: it did not
	Err    error  // why not; nil if it answered
}

// Error is one line without a secret, but for what Err says of itself.
func (e *ProxyError) Error() string {
	who := "the proxy"
	if e.Proxy != "" {
		who += " " + e.Proxy
	}
	var dns *net.DNSError
	switch {
	case e.Status != 0:
		return fmt.Sprintf("%s gives no connection to %s: HTTP %d %s", who, e.Target, e.Status, http.StatusText(e.Status))
	case e.Proxy == "" && !isOp(e.Err): // none was chosen
		return e.Err.Error()
	case errors.As(e.Err, &dns):
		return fmt.Sprintf("no connection to %s: the name %q cannot be resolved: %s", who, dns.Name, dns.Err)
	}
	return fmt.Sprintf("no connection to %s: %v", who, Innermost(e.Err))
}

func (e *ProxyError) Unwrap() error { return e.Err }

// OfProxy returns the failure of the proxy in err, or nil if the proxy is not to blame.
func OfProxy(err error) *ProxyError {
	var ours *ProxyError
	if errors.As(err, &ours) {
		return ours
	}
	// So net/http marks what else goes wrong between us and the proxy, as TLS.
	for op := (*net.OpError)(nil); errors.As(err, &op); err = op.Err {
		if op.Op == "proxyconnect" {
			return &ProxyError{Err: op}
		}
	}
	return nil
}

// Final says whether repeating the request at once is of no use: nobody vouches for the server,
// or the proxy refuses or cannot be told from its setting.
func Final(err error) bool {
	if Untrusted(err) != nil {
		return true
	}
	p := OfProxy(err)
	switch {
	case p == nil:
		return false
	case p.Status != 0:
		return p.Status < http.StatusInternalServerError && p.Status != http.StatusRequestTimeout && p.Status != http.StatusTooManyRequests
	}
	return p.Proxy == "" && !isOp(p.Err)
}

func isOp(err error) bool {
	var op *net.OpError
	return errors.As(err, &op)
}

// proxies remembers which addresses are those of proxies: who dials is told no more than the
// address.
type proxies struct {
	choose func(*http.Request) (*url.URL, error)

	mu    sync.Mutex
	known map[string]string // the URL to show by address
}

// proxy is for http.Transport.
func (p *proxies) proxy(r *http.Request) (*url.URL, error) {
	u, err := p.choose(r)
	if err != nil {
		if OfProxy(err) == nil {
			err = &ProxyError{Err: err}
		}
		return nil, err
	}
	if u != nil {
		p.mu.Lock()
		p.known[address(u)] = shown(u)
		p.mu.Unlock()
	}
	return u, nil
}

// blame marks the failure to reach addr as one of the proxy, if addr is one's.
func (p *proxies) blame(ctx context.Context, addr string, err error) error {
	p.mu.Lock()
	name, known := p.known[addr]
	p.mu.Unlock()
	if !known || ctx.Err() != nil {
		return err
	}
	return &ProxyError{Proxy: name, Err: err}
}

// answered is for http.Transport: what a proxy answers to CONNECT.
func answered(_ context.Context, proxy *url.URL, asked *http.Request, resp *http.Response) error {
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	return &ProxyError{Proxy: shown(proxy), Target: asked.Host, Status: resp.StatusCode}
}

// shown is a proxy's URL without what must not be shown.
func shown(u *url.URL) string { return (&url.URL{Scheme: u.Scheme, Host: u.Host}).String() }

// address is what net/http dials for a proxy.
func address(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port)
}
