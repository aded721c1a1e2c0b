package process

import (
	"context"
	"time"
)

// The pauses between two looks at a fact: a sixteenth of the time waited so far, within these bounds, and as long as the look before
// took. What comes at once is seen at once, and what takes long is not made longer by looks that take the machine's time.
const (
	pauseAtLeast = 20 * time.Millisecond
	pauseAtMost  = 500 * time.Millisecond
	pausePart    = 16
)

// Poll asks for a fact again and again until it is there, which fact tells by nil. It gives up when ctx ends or stop closes, with
// the last thing that fact said.
func Poll(ctx context.Context, stop <-chan struct{}, fact func(context.Context) error) error {
	began := time.Now()
	var last error
	for {
		asked := time.Now()
		err := fact(ctx)
		took := time.Since(asked)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil || last == nil {
			last = err // not that of a question that was cut off
		}
		select {
		case <-stop:
			return last
		case <-ctx.Done():
			return last
		case <-time.After(max(took, min(max(time.Since(began)/pausePart, pauseAtLeast), pauseAtMost))):
		}
	}
}
