package httpserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"druid.internal/druid/internal/agentapi/auth"
)

// Bounds of calls and answers.
const (
	MaxHeader = 32 << 10 // bytes
	MaxBody   = 64 << 10 // bytes: no call has anything to say in its body

	headerTimeout = 5 * time.Second  // for the TLS handshake, and for the header of a call
	bodyTimeout   = 10 * time.Second // for the whole body
	writeTimeout  = 30 * time.Second // for each piece of an answer, see chunk
	idleTimeout   = 2 * time.Minute  // between two calls on a connection
	defaultGrace  = 5 * time.Second
)

// Options say how to serve. The zero value speaks plain HTTP.
type Options struct {
	// KeyPair is the server's certificate; nil: plain HTTP.
	KeyPair *auth.KeyPair
	// Grace is how long calls may go on after the end; 0: 5 s. Then their contexts end.
	Grace time.Duration
	Log   *slog.Logger // nil: none

	// Of these the package's are used where they are 0.
	HeaderTimeout, BodyTimeout, WriteTimeout time.Duration
}

// Run listens at the address, as in ":8080", and serves until ctx ends, which is no error.
func Run(ctx context.Context, address string, o Options, h http.Handler) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listen at %s: %w (is another program listening there?)", address, err)
	}
	return Serve(ctx, l, o, h)
}

// Serve is Run with a listener, which it closes.
func Serve(ctx context.Context, l net.Listener, o Options, h http.Handler) error {
	o = o.complete()
	calls, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	var running sync.RWMutex
	server := &http.Server{
		Handler:           &hardened{next: h, o: o, running: &running, tls: o.KeyPair != nil},
		BaseContext:       func(net.Listener) context.Context { return calls },
		Protocols:         protocols,
		ReadHeaderTimeout: o.HeaderTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    MaxHeader,
		ErrorLog:          slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
	}
	address := l.Addr().String()
	if o.KeyPair != nil {
		l = tls.NewListener(l, o.KeyPair.ServerConfig())
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()

	var failed error
	select {
	case failed = <-ended:
		failed = fmt.Errorf("serve at %s: %w", address, failed)
	case <-ctx.Done():
		grace, stop := context.WithTimeout(context.WithoutCancel(ctx), o.Grace)
		defer stop()
		if err := server.Shutdown(grace); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			o.Log.Warn("listener could not be closed", "address", address, "error", err)
		}
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			o.Log.Warn("listener failed at the end", "address", address, "error", err)
		}
	}
	cancel()
	server.Close()
	if !waited(&running, o.Grace) {
		o.Log.Error("calls do not end although their time is up", "address", address)
	}
	return failed
}

// waited reports whether the calls ended in time. No other call begins after it.
func waited(running *sync.RWMutex, limit time.Duration) bool {
	done := make(chan struct{})
	go func() {
		running.Lock()
		close(done)
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

func (o Options) complete() Options {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	for _, d := range []struct {
		of     *time.Duration
		unless time.Duration
	}{
		{&o.Grace, defaultGrace}, {&o.HeaderTimeout, headerTimeout}, {&o.BodyTimeout, bodyTimeout}, {&o.WriteTimeout, writeTimeout},
	} {
		if *d.of <= 0 {
			*d.of = d.unless
		}
	}
	return o
}
