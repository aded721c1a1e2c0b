package main

import (
	"fmt"
	"strings"
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

func TestAReasonThatIsLostIsTold(t *testing.T) {
	var out strings.Builder
	if err := exclusionTable(&out, excluder.Report{ReasonLost: "there is no room"}); err != nil || !strings.Contains(out.String(), "The reason is not kept: there is no room.\n") {
		t.Errorf("%q, %v", out.String(), err)
	}
}
