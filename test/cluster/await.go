package cluster

import (
	"context"
	"fmt"
	"time"

	"druid.internal/druid/test/process"
)

// Await asks for a fact again and again until it is there, which fact tells by nil. After the
// given time the error is the last that fact gave.
func Await(ctx context.Context, atMost time.Duration, fact func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	tick := time.NewTicker(process.PollEvery)
	defer tick.Stop()
	var last error
	for {
		err := fact(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil || last == nil {
			last = err // not that of a question that was cut off
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not so after %s: %w", atMost, last)
		case <-tick.C:
		}
	}
}
