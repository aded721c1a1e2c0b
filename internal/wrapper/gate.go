package wrapper

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/agentapi/auth"
)

// gate stands before all that etcd serves to clients by gRPC, its HTTP gateway included, which calls that. Peers have
// another listener, and probes, metrics and the handing over of the leadership do not come by here.
//
//	admits everybody ── refuse(10m) ──> admits sidecars alone ── refuse(0), or the time is over ──> admits everybody
//	                                      └── refuse(10m): longer ──┘
//
// What others have under way when it closes ends: calls, watches, keep-alives of leases. A call that was handed to raft
// before may still be carried out, so the revision may rise for a moment after it.
//
// Nothing of it is written down. A process that was started anew admits everybody, and if nobody asks again the time
// ends by itself, so that no cluster stays closed because its operator died.
type gate struct {
	now    func() time.Time
	log    *slog.Logger
	tokens *auth.TokenFile // nil: no sidecar is known by a pass, so clients are never refused

	mu           sync.Mutex
	since, until time.Time
	inside       map[int]context.CancelCauseFunc // what others than sidecars have under way
	next         int
}

// errGateUnknown: the gate would keep out the sidecar as well.
var errGateUnknown = errors.New("clients cannot be refused, as no sidecar could be told from them: the wrapper needs --etcd-wrapper-token-path")

func newGate(tokenFile string, now func() time.Time, log *slog.Logger) (*gate, error) {
	g := &gate{now: now, log: log, inside: map[int]context.CancelCauseFunc{}}
	if tokenFile == "" {
		return g, nil
	}
	var err error
	g.tokens, err = auth.NewTokenFile(tokenFile, log)
	return g, err
}

// guard has an etcd serve clients through the gate.
func (g *gate) guard(c *embed.Config) {
	// Before etcd's own interceptors, which are chained: what is refused is neither counted nor looked at there.
	c.GRPCAdditionalServerOptions = append(c.GRPCAdditionalServerOptions, grpc.UnaryInterceptor(g.unary), grpc.StreamInterceptor(g.stream))
}

// refuse has clients refused for so long from now on, or admitted with 0.
func (g *gate) refuse(d time.Duration, from string) (agentapi.Refusal, error) {
	if g.tokens == nil {
		return agentapi.Refusal{}, errGateUnknown
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	was := now.Before(g.until)
	switch {
	case d <= 0 && was:
		g.log.Info("clients are admitted again", "from", from, "refused", now.Sub(g.since).String())
	case d > 0 && !was:
		g.since = now
		g.log.Info("clients are refused", "from", from, "for", d.String(), "ended", len(g.inside))
		for _, end := range g.inside {
			end(errFallsAsleep)
		}
		clear(g.inside)
	}
	g.until = now.Add(max(d, 0))
	return g.at(now), nil
}

// tells is how the gate stands.
func (g *gate) tells() (agentapi.Refusal, error) {
	if g.tokens == nil {
		return agentapi.Refusal{}, errGateUnknown
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.at(g.now()), nil
}

func (g *gate) at(now time.Time) agentapi.Refusal {
	if !now.Before(g.until) {
		return agentapi.Refusal{}
	}
	return agentapi.Refusal{ForSeconds: int64(now.Sub(g.since) / time.Second), LeftSeconds: int64(g.until.Sub(now) / time.Second)}
}

// What clients are told. Unavailable has them try another member and later again, as during a restart.
var (
	errFallsAsleep = status.Error(codes.Unavailable, "this cluster is falling asleep: it serves no clients any more")
	errBrokenOff   = status.Error(codes.Unavailable, "this cluster is falling asleep: it serves no clients any more, and whether the call was carried out is not known")
)

// enter lets a call in, whose context ends when the gate closes, unless a sidecar makes it; leave is called at its end.
func (g *gate) enter(ctx context.Context) (inside context.Context, leave func(), err error) {
	if g.knows(ctx) {
		return ctx, func() {}, nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.now().Before(g.until) {
		return nil, nil, errFallsAsleep
	}
	inside, end := context.WithCancelCause(ctx)
	id := g.next
	g.next++
	g.inside[id] = end
	return inside, func() {
		end(nil)
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.inside, id)
	}, nil
}

// knows says whether a sidecar calls. A stream is asked once: it goes on although the token changes.
func (g *gate) knows(ctx context.Context) bool {
	shown := metadata.ValueFromIncomingContext(ctx, auth.PassKey)
	return g.tokens != nil && len(shown) == 1 && g.tokens.AcceptPass(shown[0])
}

// ended says whether a call was broken off by the gate.
func ended(ctx context.Context) bool { return errors.Is(context.Cause(ctx), errFallsAsleep) }

func (g *gate) unary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	inside, leave, err := g.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	resp, err := handle(inside, req)
	if err != nil && ended(inside) {
		return nil, errBrokenOff
	}
	return resp, err // what was carried out in time is told as such
}

func (g *gate) stream(srv any, s grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	inside, leave, err := g.enter(s.Context())
	if err != nil {
		return err
	}
	defer leave()
	err = handle(srv, &gatedStream{s, inside})
	if ended(inside) {
		return errFallsAsleep
	}
	return err
}

// gatedStream is a stream that ends with its context also where its handler looks at the messages alone.
type gatedStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *gatedStream) Context() context.Context { return s.ctx }

func (s *gatedStream) SendMsg(m any) error {
	if ended(s.ctx) {
		return errFallsAsleep
	}
	return s.ServerStream.SendMsg(m)
}

func (s *gatedStream) RecvMsg(m any) error {
	err := s.ServerStream.RecvMsg(m)
	if ended(s.ctx) { // while it was waited for
		return errFallsAsleep
	}
	return err
}

// ServeHTTP tells how the gate stands, and opens or closes it.
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ask := g.tells
	if r.Method == http.MethodPost {
		d, err := agentapi.ParseRefuse(r.URL.Query().Get("refuse"))
		if err != nil {
			http.Error(w, oneLine(err), http.StatusBadRequest)
			return
		}
		ask = func() (agentapi.Refusal, error) { return g.refuse(d, r.RemoteAddr) }
	}
	answer, err := ask()
	if err != nil {
		http.Error(w, oneLine(err), http.StatusUnprocessableEntity)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		g.log.Debug("answer not read", "path", r.URL.Path, "error", err)
	}
}
