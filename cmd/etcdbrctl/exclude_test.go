package main

import (
	"fmt"
	"testing"

	"druid.internal/druid/internal/engine/excluder"
	"druid.internal/druid/internal/store"
)

// The Job of a task ends at once with the first three, and tries again with the last.
func TestAnExclusionEndsWithTheExitCodesThatItsTaskKnows(t *testing.T) {
	for err, want := range map[error]int{excluder.ErrUnknown: 2, excluder.ErrLeavesNothing: 3, excluder.ErrLeftNothing: 4, store.ErrForbidden: 5} {
		if got := exitCode(fmt.Errorf("exclude snapshots: %w", err)); got != want {
			t.Errorf("%v: %d, want %d", err, got, want)
		}
	}
}
