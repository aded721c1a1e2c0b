package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"druid.internal/druid/internal/agentapi"
)

// refusal has the own etcd refuse clients, and tells whether it does. What is told is the wrapper's word of the moment:
// it may have been started anew since, and then admits them.
type refusal struct {
	wrapper interface {
		refuse(context.Context, time.Duration) (agentapi.Refusal, error)
		refusal(context.Context) (agentapi.Refusal, error)
	}
	pass bool // etcd would still serve this sidecar
	now  func() time.Time
	log  *slog.Logger

	mu         sync.Mutex
	until      time.Time // the wrapper is asked up to then, as nobody can have had clients refused for longer
	impossible string    // why the last attempt could not succeed; empty: it could
}

// lookTimeout bounds the question to the wrapper, for which whoever asks about the member waits.
const lookTimeout = time.Second

func newRefusal(w supervisor, pass bool, now func() time.Time, log *slog.Logger) *refusal {
	// A sidecar before this one may have asked for it.
	return &refusal{wrapper: w, pass: pass, now: now, log: log, until: now().Add(agentapi.MaxRefusal)}
}

// errNoPass is why a sidecar would keep itself out.
var errNoPass = errors.New("etcd could not tell this sidecar from its clients: it needs serverConfig.token-file")

// refuse has etcd refuse clients for so long, or admit them with 0.
func (r *refusal) refuse(ctx context.Context, d time.Duration) (agentapi.Refusal, error) {
	if !r.pass {
		return agentapi.Refusal{}, fmt.Errorf("%w: %w", agentapi.ErrRefused, errNoPass)
	}
	r.mu.Lock()
	r.until = later(r.until, r.now().Add(d)) // before it is asked: its answer may be lost
	r.mu.Unlock()
	told, err := r.wrapper.refuse(ctx, d)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.impossible = ""
	switch {
	case errors.Is(err, agentapi.ErrRefused):
		r.impossible = err.Error()
	case err == nil:
		r.until = r.now().Add(d)
	}
	return told, err
}

// tell is how etcd treats clients.
func (r *refusal) tell(ctx context.Context) *agentapi.Refusal {
	if !r.pass {
		return &agentapi.Refusal{Impossible: errNoPass.Error()}
	}
	r.mu.Lock()
	ask, told := r.now().Before(r.until), agentapi.Refusal{Impossible: r.impossible}
	r.mu.Unlock()
	if !ask || told.Impossible != "" {
		return &told
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	told, err := r.wrapper.refusal(ctx)
	if err != nil { // as while no etcd runs
		r.log.Debug("etcd-wrapper does not tell whether clients are refused", "error", err)
	}
	return &told
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
