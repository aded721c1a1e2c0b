package wrapper

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"druid.internal/druid/internal/agentapi/auth"
)

// Door says where and to whom the wrapper answers.
type Door struct {
	// Address is host and port to listen on; the host may be empty.
	Address string
	// CertFile and KeyFile are the certificate of the server, ClientCAFile holds those who sign
	// the certificates of callers that may stop and restart etcd. Without a certificate here the
	// server has those of etcd's client interface, as its configuration names them; until that is
	// known, and if etcd's clients speak plain text, it answers in plain text.
	CertFile, KeyFile, ClientCAFile string
	// TokenFile holds bearer tokens that may stop and restart etcd; empty: none does. Who has one passes while clients are
	// refused.
	TokenFile string
}

// The paths.
const (
	readyPath   = "/readyz"
	livePath    = "/livez"
	stopPath    = "/stop"
	restartPath = "/restart"
	clientsPath = "/clients"
)

// calls are what callers may ask for. They return at once.
type calls struct {
	stop, restart func(from string)
	clients       http.Handler // tells whether clients are refused, and has them be
}

// door is the listening server.
type door struct {
	Door
	log      *slog.Logger
	listener net.Listener
	server   *http.Server

	gone chan struct{} // closed with the server

	mu    sync.Mutex
	terms terms
}

// terms are how callers are answered at the moment.
type terms struct {
	cert, key, ca string      // files
	tls           *tls.Config // nil: plain text
	guard         *auth.Guard // nil: nobody is known
}

// openDoor listens.
func openDoor(d Door, h *health, c calls, log *slog.Logger) (*door, error) {
	o := &door{Door: d, log: log, gone: make(chan struct{})}
	var err error
	if o.terms, err = o.read(d.CertFile, d.KeyFile, d.ClientCAFile); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", d.Address)
	if err != nil {
		return nil, err
	}
	o.listener = &doorway{l, o}
	mux := http.NewServeMux()
	mux.Handle(readyPath, allow(look(h.readiness), http.MethodGet, http.MethodHead))
	mux.Handle(livePath, allow(look(h.liveness), http.MethodGet, http.MethodHead))
	mux.Handle(stopPath, allow(o.verified(order("etcd is stopped, then the process ends", c.stop)), http.MethodPost))
	mux.Handle(restartPath, allow(o.verified(order("etcd is restarted", c.restart)), http.MethodPost))
	mux.Handle(clientsPath, allow(o.verified(c.clients), http.MethodPost, http.MethodGet))
	o.server = &http.Server{
		Handler:           http.MaxBytesHandler(mux, 64<<10),
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      10 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug), // failed handshakes of anybody
	}
	return o, nil
}

// serve answers until close.
func (d *door) serve() error {
	err := d.server.Serve(d.listener)
	select {
	case <-d.gone:
		return nil
	default:
		return fmt.Errorf("serve %s: %w", d.Address, err)
	}
}

// close ends serve, after the calls that go on.
func (d *door) close() {
	close(d.gone)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if d.server.Shutdown(ctx) != nil {
		d.server.Close()
	}
}

// admit says which files etcd's client interface has: those of the server too, unless it has its
// own.
func (d *door) admit(cert, key, ca string) error {
	if d.CertFile != "" {
		return nil
	}
	if cert == "" { // who speaks plain text shows no certificate
		key, ca = "", ""
	}
	if d.ClientCAFile != "" {
		ca = d.ClientCAFile
	}
	if now := d.current(); now.cert == cert && now.key == key && now.ca == ca {
		return nil // the files themselves are read anew when they change
	}
	t, err := d.read(cert, key, ca)
	if err != nil {
		return fmt.Errorf("answer with the certificate of etcd's client interface: %w", err)
	}
	d.mu.Lock()
	d.terms = t
	d.mu.Unlock()
	d.log.Info("probes and orders are answered in another way", "address", d.Address, "tls", t.tls != nil)
	return nil
}

// read reads the files. Those of a certificate may be empty: plain text.
func (d *door) read(cert, key, ca string) (terms, error) {
	t := terms{cert: cert, key: key, ca: ca}
	if cert != "" || key != "" {
		pair, err := auth.NewKeyPair(cert, key, d.log)
		if err != nil {
			return t, err
		}
		t.tls = pair.ServerConfig()
	}
	if ca == "" && d.TokenFile == "" {
		return t, nil
	}
	var err error
	t.guard, err = auth.NewGuard(auth.GuardOptions{ClientCAFile: ca, TokenFile: d.TokenFile, Log: d.log})
	return t, err
}

func (d *door) current() terms {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.terms
}

// verified lets nobody through whom the guard does not know.
func (d *door) verified(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g := d.current().guard; g != nil {
			g.Verified(next).ServeHTTP(w, r)
			return
		}
		d.log.Warn("call refused", "method", r.Method, "path", r.URL.Path, "from", r.RemoteAddr, "reason", "no credentials are configured")
		http.Error(w, "nobody may do this: neither a token file nor a bundle of client authorities is configured", http.StatusForbidden)
	})
}

// doorway hands out connections, with TLS if that is how callers are answered.
type doorway struct {
	net.Listener
	d *door
}

func (l *doorway) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if config := l.d.current().tls; config != nil {
		return tls.Server(c, config), nil
	}
	return c, nil
}

// allow refuses other methods.
func allow(next http.Handler, methods ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, m := range methods {
			if r.Method == m {
				w.Header().Set("X-Content-Type-Options", "nosniff")
				next.ServeHTTP(w, r)
				return
			}
		}
		for _, m := range methods {
			w.Header().Add("Allow", m)
		}
		http.Error(w, fmt.Sprintf("%s takes %s", r.URL.Path, methods[0]), http.StatusMethodNotAllowed)
	})
}

// look answers 200, or 503 and why not.
func look(at func() error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := at(); err != nil {
			http.Error(w, oneLine(err), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		fmt.Fprint(w, "ok\n")
	})
}

// order passes an order on and answers what will happen.
func order(answer string, do func(from string)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		do(r.RemoteAddr)
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		fmt.Fprint(w, answer+"\n")
	})
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
