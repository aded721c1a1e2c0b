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
	if err := process.Poll(ctx, nil, fact); err != nil {
		return fmt.Errorf("not so after %s: %w", atMost, err)
	}
	return nil
}
