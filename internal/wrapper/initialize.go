package wrapper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"syscall"
	"time"

	"druid.internal/druid/internal/agentapi"
)

// Sidecar is what the wrapper asks of the backup sidecar; see [agentapi.Client]. Each call is
// answered at once or fails after a while by itself. Errors are for one attempt: the sidecar is
// asked again.
type Sidecar interface {
	InitStatus(ctx context.Context) (agentapi.InitState, error)
	InitStart(ctx context.Context, mode agentapi.ValidationMode) error
	InitAcknowledge(ctx context.Context) error
	// Config is etcd's configuration file for this member, as YAML.
	Config(ctx context.Context) ([]byte, error)
	// Member is asked only for what an initialization waits for.
	Member(ctx context.Context) (agentapi.Member, error)
}

// How often and how patiently the sidecar is asked.
const (
	pollFirst = 50 * time.Millisecond // most initializations take no longer
	pollLast  = time.Second
	pollShare = 10 // an initialization is noticed at the latest when it took a tenth longer
	// After a failure, of the sidecar or of its initialization.
	backoffFirst = time.Second
	backoffLast  = 30 * time.Second
	// After finding nobody at the sidecar's address: both are started at the same moment.
	awayFirst = 100 * time.Millisecond
	// whyEvery is the time between questions what the sidecar waits for.
	whyEvery = 5 * time.Second
)

// errNotReady is an initialization that has to be begun again.
var errNotReady = errors.New("initialization failed")

// initialize has the sidecar make the data directory ready and returns etcd's configuration. It
// takes as long as the sidecar takes; a sidecar that is away, fails or talks nonsense is asked
// again for ever. The error is the context's cause.
func initialize(ctx context.Context, s Sidecar, mode agentapi.ValidationMode, h *health, log *slog.Logger) (config []byte, err error) {
	log.Info("initialization is asked for", "mode", mode)
	failed, away := backoffFirst, awayFirst
	for attempt := 1; ; attempt++ {
		config, err = attemptInitialization(ctx, s, mode, h, log)
		if err == nil {
			return config, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		h.waits(err.Error())
		next := &failed
		if errors.Is(err, syscall.ECONNREFUSED) {
			next = &away
		}
		wait := *next
		*next = min(2*wait, backoffLast)
		log.Warn("initialization did not succeed", "error", err, "attempt", attempt, "again-in", wait.String())
		if err := sleep(ctx, wait); err != nil {
			return nil, err
		}
	}
}

// attemptInitialization goes once through the protocol.
func attemptInitialization(ctx context.Context, s Sidecar, mode agentapi.ValidationMode, h *health, log *slog.Logger) ([]byte, error) {
	state, err := s.InitStatus(ctx)
	if err != nil {
		return nil, err
	}
	// The outcome of an earlier initialization is worth nothing: etcd may have run since.
	if state != agentapi.InitNew {
		if err := s.InitAcknowledge(ctx); err != nil {
			return nil, err
		}
	}
	if err := s.InitStart(ctx, mode); err != nil {
		return nil, err
	}
	if err := awaitInitialized(ctx, s, h, log); err != nil {
		return nil, err
	}
	config, err := s.Config(ctx)
	if err != nil {
		return nil, err
	}
	if err := checkConfig(config); err != nil {
		return nil, fmt.Errorf("what the backup sidecar gives as etcd's configuration is none: %w", err)
	}
	return config, nil
}

// awaitInitialized waits until a started initialization has succeeded.
func awaitInitialized(ctx context.Context, s Sidecar, h *health, log *slog.Logger) error {
	h.waits("the backup sidecar initializes the data directory")
	began := time.Now()
	why, asked := "", began
	for {
		state, err := s.InitStatus(ctx)
		if err != nil {
			return err
		}
		switch state {
		case agentapi.InitSuccessful:
			return nil
		case agentapi.InitProgress:
		case agentapi.InitNew:
			return fmt.Errorf("%w: the backup sidecar forgot it, as after a restart of its own", errNotReady)
		case agentapi.InitFailed:
			return fmt.Errorf("%w%s: the log of the backup sidecar says why", errNotReady, because(ctx, s))
		default:
			return fmt.Errorf("%w: %q is no status of an initialization: is this the address of a backup sidecar?", errNotReady, clip(string(state)))
		}
		if time.Since(asked) >= whyEvery {
			asked = time.Now()
			if m, err := s.Member(ctx); err == nil && m.Waiting != why {
				why = m.Waiting
				log.Info("initialization waits", "for", why)
				h.waits("the backup sidecar waits: " + why)
			}
		}
		if err := sleep(ctx, min(max(time.Since(began)/pollShare, pollFirst), pollLast)); err != nil {
			return err
		}
	}
}

// because is what the sidecar says about a failure, if it says anything.
func because(ctx context.Context, s Sidecar) string {
	m, err := s.Member(ctx)
	if err != nil {
		return ""
	}
	if m.Waiting != "" {
		return ": " + m.Waiting
	}
	if n := len(m.Transitions); n > 0 && m.Transitions[n-1].Message != "" {
		return ": " + m.Transitions[n-1].Message
	}
	return ""
}

// clip keeps a foreign text short.
func clip(s string) string {
	const most = 60
	if len(s) > most {
		return s[:most] + "..."
	}
	return s
}

// sleep waits; its error is the context's cause.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
