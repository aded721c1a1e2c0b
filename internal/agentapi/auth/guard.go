package auth

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"
)

// GuardOptions say who is known. At least one of the files must be given, or OpenToAll.
type GuardOptions struct {
	// ClientCAFile holds the authorities whose client certificates are accepted. The server must
	// speak TLS with [KeyPair.ServerConfig].
	ClientCAFile string
	// TokenFile holds the bearer tokens that are accepted, see [Tokens].
	TokenFile string
	// OpenToAll lets everybody in, whatever he shows. For moving in from programs that know no
	// credentials, and for nothing else.
	OpenToAll bool

	Log *slog.Logger     // nil: none
	Now func() time.Time // nil: time.Now
}

// Guard tells those who show a trusted certificate or token from others. It may be used by many
// calls at the same time.
type Guard struct {
	authorities *Authorities // nil: no certificate is accepted
	tokens      *TokenFile   // nil: no token is accepted
	open        bool
	log         *slog.Logger
	now         func() time.Time
}

// NewGuard reads the files. It refuses options with which nobody could be let in.
func NewGuard(o GuardOptions) (*Guard, error) {
	g := &Guard{open: o.OpenToAll, log: o.Log, now: o.Now}
	if g.log == nil {
		g.log = slog.New(slog.DiscardHandler)
	}
	if g.now == nil {
		g.now = time.Now
	}
	if o.ClientCAFile == "" && o.TokenFile == "" && !o.OpenToAll {
		return nil, errors.New("nobody could call: give a bundle of client authorities, a token file, or, while moving in, open the interface to all")
	}
	var err error
	if o.ClientCAFile != "" {
		if g.authorities, err = NewAuthorities(o.ClientCAFile, g.log); err != nil {
			return nil, err
		}
	}
	if o.TokenFile != "" {
		if g.tokens, err = NewTokenFile(o.TokenFile, g.log); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// Denied is why somebody was not let in.
type Denied struct {
	Code int    // 401: show a credential, or another one. 403: the certificate is not accepted
	Text string // one line
}

func (d *Denied) Error() string { return d.Text }

// Check returns nil for whom is let in, and a *[Denied] for others. One good credential is enough,
// whatever the other one is.
func (g *Guard) Check(r *http.Request) error {
	if g.open {
		return nil
	}
	cert := g.certificate(r)
	if cert == nil {
		return nil
	}
	token, err := ParseBearer(r.Header.Values("Authorization"))
	if err == nil && token != "" {
		err = g.token(token)
		if err == nil {
			return nil
		}
	}
	switch {
	case err != nil:
		return &Denied{http.StatusUnauthorized, err.Error()}
	case !errors.Is(cert, errNoCertificate):
		return &Denied{http.StatusForbidden, "the client certificate is not accepted: " + oneLine(cert.Error())}
	}
	return &Denied{http.StatusUnauthorized, "a client certificate or a bearer token is needed"}
}

// certificate returns nil if the connection's client showed one that is trusted.
func (g *Guard) certificate(r *http.Request) error {
	switch {
	case r.TLS == nil || len(r.TLS.PeerCertificates) == 0:
		return errNoCertificate
	case g.authorities == nil:
		return errors.New("only tokens are accepted here")
	}
	return g.authorities.VerifyClient(r.TLS.PeerCertificates, g.now())
}

func (g *Guard) token(token string) error {
	if g.tokens == nil {
		return errors.New("no bearer token is accepted here, only client certificates")
	}
	tokens, err := g.tokens.Current()
	if err != nil {
		return errors.New("no bearer token is accepted here at the moment: the server cannot use its token file")
	}
	if !tokens.Accept(token) {
		return errors.New("the bearer token is not accepted")
	}
	return nil
}

// Verified calls next for those whom Check lets in, and answers others with the reason.
func (g *Guard) Verified(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := g.Check(r)
		if err == nil {
			next.ServeHTTP(w, r)
			return
		}
		denied := &Denied{Code: http.StatusUnauthorized, Text: err.Error()}
		errors.As(err, &denied)
		g.log.Warn("call refused", "method", r.Method, "path", r.URL.Path, "from", r.RemoteAddr, "code", denied.Code, "reason", denied.Text)
		h := w.Header()
		if denied.Code == http.StatusUnauthorized {
			h.Set("WWW-Authenticate", "Bearer")
		} else {
			// Certificates belong to connections: a renewed one is shown with the next.
			h.Set("Connection", "close")
		}
		h.Set("Content-Type", "text/plain; charset=utf-8")
		h.Set("Content-Length", fmt.Sprint(len(denied.Text)+1))
		w.WriteHeader(denied.Code)
		fmt.Fprintln(w, denied.Text)
	})
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
