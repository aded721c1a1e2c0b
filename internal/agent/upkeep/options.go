package upkeep

import (
	"context"
	"io"
	"log/slog"
	"time"

	"druid.internal/druid/internal/agent/metrics"
)

// Common is what every runner needs. Nil means: time.Now, no log, metrics that nobody sees, and
// the interval of the runner.
type Common struct {
	Now      func() time.Time
	Log      *slog.Logger
	Metrics  *metrics.Catalogue
	Interval time.Duration // between two looks
}

func (c Common) complete(interval time.Duration) Common {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	if c.Metrics == nil {
		c.Metrics = metrics.New(nil, c.Now)
	}
	if c.Interval <= 0 {
		c.Interval = interval
	}
	return c
}

// WantedFunc reads the wanted members from the configuration, which may change at any time.
type WantedFunc func(ctx context.Context) ([]Wanted, error)

// said keeps a runner from saying the same at every look.
type said struct{ last string }

// news logs what was not said the last time. An empty message only forgets.
func (s *said) news(log *slog.Logger, level slog.Level, message string, args ...any) {
	key := message
	for _, a := range args {
		if text, ok := a.(string); ok {
			key += "\x00" + text
		}
	}
	if key == s.last {
		return
	}
	s.last = key
	if message != "" {
		log.Log(context.Background(), level, message, args...)
	}
}
