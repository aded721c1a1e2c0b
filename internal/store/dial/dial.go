// Package dial makes the HTTP connections of the providers: certificates to trust, proxies, and
// connections that end when nothing moves. What breaks on the way to a server it tells in the
// words of the port.
//
// It does not repeat anything, and does not know what servers answer: that differs from provider
// to provider.
package dial

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/url"
	"time"
)

// Options say how to reach a store. The zero value trusts what the system trusts, and waits for
// ever.
type Options struct {
	TrustedCAs         []byte // PEM, trusted besides the system's
	InsecureSkipVerify bool   // any certificate will do
	// Proxy chooses the proxy of a request; nil: none. Its failures become a ProxyError.
	Proxy func(*http.Request) (*url.URL, error)
	// IdleTimeout ends a connection on which nothing moves for so long; 0: never.
	IdleTimeout time.Duration
}

const (
	dialTimeout = 15 * time.Second
	tlsTimeout  = 15 * time.Second
	perHost     = 32 // idle connections kept
)

// Transport is of one store alone, and counts bytes as they are stored: nothing is
// unpacked on the way. Timeouts are about standstill, not about size: a transfer may take as
// long as it moves.
func Transport(o Options) (*http.Transport, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: o.InsecureSkipVerify}
	if len(o.TrustedCAs) > 0 {
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool()
		}
		if !pool.AppendCertsFromPEM(o.TrustedCAs) {
			return nil, errors.New("trustedCaCert holds no certificate in PEM form (-----BEGIN CERTIFICATE-----)")
		}
		conf.RootCAs = pool
	}
	t := &http.Transport{
		TLSClientConfig:     conf,
		TLSHandshakeTimeout: tlsTimeout,
		MaxIdleConnsPerHost: perHost,
		IdleConnTimeout:     o.IdleTimeout / 2,
		// Otherwise an upload that asks for a go-ahead would wait for one that many servers never give.
		ExpectContinueTimeout: time.Second,
		DisableCompression:    true,
	}
	dialer := idleDialer{dialer: &net.Dialer{Timeout: dialTimeout}, timeout: o.IdleTimeout}
	if o.Proxy != nil {
		dialer.proxies = &proxies{choose: o.Proxy, known: map[string]string{}}
		t.Proxy, t.OnProxyConnectResponse = dialer.proxies.proxy, answered
	}
	t.DialContext = dialer.DialContext
	return t, nil
}

// Client is an http.Client of one store alone, with such a transport. It follows no redirect: a
// body must not be sent twice, nor a secret elsewhere.
func Client(o Options) (*http.Client, error) {
	t, err := Transport(o)
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: Reporting{t}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, nil
}

// Untrusted returns the complaint about the server's certificate, if that is what err is: the
// one failure of a connection that repeating never mends.
func Untrusted(err error) error {
	var (
		verification *tls.CertificateVerificationError
		authority    x509.UnknownAuthorityError
		host         x509.HostnameError
		invalid      x509.CertificateInvalidError
	)
	switch {
	case errors.As(err, &verification):
		return verification.Err
	case errors.As(err, &authority):
		return authority
	case errors.As(err, &host):
		return host
	case errors.As(err, &invalid):
		return invalid
	}
	return nil
}
