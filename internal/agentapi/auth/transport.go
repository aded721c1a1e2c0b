package auth

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net/http"
	"sync"

	"druid.internal/druid/internal/agentapi/httpclient"
)

// Credentials are what a caller shows, and whom it trusts. The files are read anew for each call.
type Credentials struct {
	// CAFile holds the authorities that may have signed the server's certificate; empty: those of
	// the system.
	CAFile string
	// CertFile and KeyFile are the client certificate; empty: none is shown.
	CertFile, KeyFile string
	// TokenFile holds the bearer token, see [Tokens]; empty: none is shown. It is shown to plain
	// http servers too.
	TokenFile string
	// ServerName replaces the host of the address when the server's certificate is verified.
	ServerName string
}

// Transport makes HTTP calls with credentials. After a change of the certificates it makes new
// connections. It may be used by many calls at the same time.
type Transport struct {
	serverName  string
	pair        *KeyPair     // nil: none
	authorities *Authorities // nil: the system's
	tokens      *TokenFile   // nil: none

	mu   sync.Mutex
	base *http.Transport
	made [2]int // by which pair and which authorities
}

// NewTransport reads the files. Later changes are told to log, which may be nil.
func NewTransport(c Credentials, log *slog.Logger) (*Transport, error) {
	t := &Transport{serverName: c.ServerName}
	var err error
	if c.CertFile != "" || c.KeyFile != "" {
		if t.pair, err = NewKeyPair(c.CertFile, c.KeyFile, log); err != nil {
			return nil, err
		}
	}
	if c.CAFile != "" {
		if t.authorities, err = NewAuthorities(c.CAFile, log); err != nil {
			return nil, err
		}
	}
	if c.TokenFile != "" {
		if t.tokens, err = NewTokenFile(c.TokenFile, log); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// RoundTrip makes one call. A call refused because the token changed in between is made once more.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	base := t.current()
	shown, with, err := t.show(r)
	if err != nil {
		if r.Body != nil {
			r.Body.Close() // as a round tripper must
		}
		return nil, err
	}
	resp, err := base.RoundTrip(with)
	if err != nil || resp.StatusCode != http.StatusUnauthorized || shown == "" || r.Body != nil && r.Body != http.NoBody {
		return resp, err
	}
	again, with, err := t.show(r)
	if err != nil || again == shown {
		return resp, nil
	}
	// Read, so that the connection can be used again; if not, another one is.
	_, _ = io.CopyN(io.Discard, resp.Body, 4<<10)
	resp.Body.Close()
	return base.RoundTrip(with)
}

// show returns the call with the token that is in the file now.
func (t *Transport) show(r *http.Request) (string, *http.Request, error) {
	if t.tokens == nil {
		return "", r, nil
	}
	tokens, err := t.tokens.Current()
	if err != nil {
		return "", nil, err
	}
	with := r.Clone(r.Context())
	with.Header.Set("Authorization", "Bearer "+tokens.first)
	return tokens.first, with, nil
}

// current is the pool of connections that were made with the certificates as they are now.
func (t *Transport) current() *http.Transport {
	t.mu.Lock()
	defer t.mu.Unlock()
	var (
		made   [2]int
		config = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.serverName}
	)
	if t.pair != nil {
		var pair *tls.Certificate
		pair, made[0], _ = t.pair.files.get()
		// Shown whomever the server trusts: its answer says more than an empty handshake.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return pair, nil }
	}
	if t.authorities != nil {
		var pool *x509.CertPool
		pool, made[1], _ = t.authorities.file.get()
		config.RootCAs = pool
	}
	if t.base != nil && t.made == made {
		return t.base
	}
	if t.base != nil {
		t.base.CloseIdleConnections()
	}
	t.base, t.made = httpclient.Transport(config), made
	return t.base
}

// CloseIdleConnections closes the connections that no call uses.
func (t *Transport) CloseIdleConnections() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.base != nil {
		t.base.CloseIdleConnections()
	}
}

// NewClient makes calls with the credentials. It does not follow redirects, which would show them
// to others. Its calls end with their contexts, not before.
func NewClient(c Credentials, log *slog.Logger) (*http.Client, error) {
	t, err := NewTransport(c, log)
	if err != nil {
		return nil, err
	}
	return httpclient.New(t), nil
}
