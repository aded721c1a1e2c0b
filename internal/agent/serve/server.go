package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"druid.internal/druid/internal/agentapi/auth"
	"druid.internal/druid/internal/agentapi/httpserver"
)

// Options say where to serve and for whom.
type Options struct {
	Address string // as in ":8080"

	CertFile, KeyFile string // the server's certificate; both empty: plain HTTP
	ClientCAFile      string // who may sign the certificates of callers; empty: none is accepted
	TokenFile         string // the tokens of callers, see [auth.Tokens]; empty: none is accepted
	// OpenToAll is the switch for moving in from the original: everybody may call everything.
	OpenToAll bool
	Profiling bool // serve agentapi.Profiles

	// Leader is what this sidecar shows to the backup leader, and whom it trusts to be that.
	Leader auth.Credentials

	Log *slog.Logger     // nil: none
	Now func() time.Time // judges certificates; nil: time.Now

	// Timeouts and grace; the address and the certificate in it are not used.
	HTTP httpserver.Options
}

// Server is the HTTP server of a sidecar.
type Server struct {
	address string
	http    httpserver.Options
	handler http.Handler
}

// New reads the files of o. Its errors say in one line what is wrong with the configuration.
func New(o Options, h Handlers) (*Server, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if missing := h.check(); missing != "" {
		return nil, fmt.Errorf("serve: no handler %s", missing)
	}
	s := &Server{address: o.Address, http: o.HTTP}
	s.http.Log = o.Log
	if o.CertFile != "" || o.KeyFile != "" {
		pair, err := auth.NewKeyPair(o.CertFile, o.KeyFile, o.Log)
		if err != nil {
			return nil, fmt.Errorf("the certificate of the sidecar's server: %w", err)
		}
		s.http.KeyPair = pair
	} else if o.ClientCAFile != "" {
		return nil, errors.New("client certificates can be shown to a server with TLS only; give the sidecar's server a certificate and a key, or no client authorities")
	}
	guard, err := auth.NewGuard(auth.GuardOptions{ClientCAFile: o.ClientCAFile, TokenFile: o.TokenFile, OpenToAll: o.OpenToAll, Log: o.Log, Now: o.Now})
	if err != nil {
		return nil, fmt.Errorf("the credentials of the sidecar's callers: %w", err)
	}
	transport, err := auth.NewTransport(o.Leader, o.Log)
	if err != nil {
		return nil, fmt.Errorf("the credentials for other sidecars: %w", err)
	}
	if o.OpenToAll {
		o.Log.Warn("the HTTP interface is open to everybody; for moving in only", "address", o.Address)
	}
	s.handler = newRouter(o, h, guard, transport)
	return s, nil
}

// Handler answers calls, for tests without a listener.
func (s *Server) Handler() http.Handler { return s.handler }

// Run listens and serves until ctx ends, which is no error.
func (s *Server) Run(ctx context.Context) error {
	return httpserver.Run(ctx, s.address, s.http, s.handler)
}

// Serve is Run with a listener, which it closes.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	return httpserver.Serve(ctx, l, s.http, s.handler)
}
