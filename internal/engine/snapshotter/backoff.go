package snapshotter

import (
	"context"
	"math/rand/v2"
	"time"
)

// Backoff is how failures are waited out: First, then ever longer up to Max, each wait
// shortened at random by up to half so that many clusters do not come back at once.
type Backoff struct {
	First    time.Duration // 0 means 1 second
	Max      time.Duration // 0 means 128 seconds
	Multiply float64       // below 1 means 2
	// Attempts bounds how often in a row a session may fail to start, or end soon without
	// having uploaded anything, before Run returns the failure; 0: Run never gives up. Within a
	// session nothing gives up.
	Attempts int
}

func (b Backoff) complete() Backoff {
	if b.First <= 0 {
		b.First = time.Second
	}
	if b.Max <= 0 {
		b.Max = 128 * time.Second
	}
	b.Max = max(b.Max, b.First)
	if b.Multiply < 1 {
		b.Multiply = 2
	}
	return b
}

// delay is the longest wait after the n-th failure in a row, from 1.
func (b Backoff) delay(n int) time.Duration {
	d := float64(b.First)
	for i := 1; i < n && d < float64(b.Max); i++ {
		d *= b.Multiply
	}
	return min(time.Duration(d), b.Max)
}

// Delay is how long to wait after the n-th failure in a row, shortened at random as always.
func (b Backoff) Delay(n int) time.Duration {
	d := b.complete().delay(n)
	return d - rand.N(d/2+1)
}

// wait waits after the n-th failure in a row, or until ctx ends.
func (b Backoff) wait(ctx context.Context, n int) error {
	t := time.NewTimer(b.Delay(n))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
