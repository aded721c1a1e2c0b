package agent

import (
	"context"
	"errors"
	"time"

	"druid.internal/druid/internal/agent/initialize"
	"druid.internal/druid/internal/agent/metrics"
	"druid.internal/druid/internal/agent/status"
	"druid.internal/druid/internal/agentapi"
)

// Initialize makes the data directory ready for one start of etcd, as a sidecar does when it is
// asked to, and returns the configuration to start it with. It waits for what comes by itself, and
// for a person where one has to decide, until ctx ends; the log says for what. A [*ConfigError] is one
// from before anything was begun.
func Initialize(ctx context.Context, o Options, mode agentapi.ValidationMode) ([]byte, error) {
	s := &sidecar{Options: o}
	var err error
	if s.templates, err = openTemplates(o.Template, o.Log); err != nil {
		return nil, &ConfigError{err}
	}
	s.metrics = metrics.New(nil, time.Now)
	s.board = status.New(o.Member, time.Now, o.Log)
	s.followed = follow("", o.Config, nil, o.Log)
	if err := s.connect(s.templates.get()); err != nil {
		return nil, &ConfigError{err}
	}
	defer s.close()
	s.initializer()
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.machine.Run(ctx) // the cause of ctx's end
	}()
	defer func() {
		cancel()
		<-ended
	}()
	s.machine.Start(mode)
	return await(ctx, s.machine, s.board)
}

// await waits for the outcome.
func await(ctx context.Context, m *initialize.Machine, board *status.Board) ([]byte, error) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		switch m.Status() {
		case agentapi.InitSuccessful:
			return m.Config(ctx)
		case agentapi.InitFailed:
			return nil, errors.New(board.Get().Waiting)
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-tick.C:
		}
	}
}
