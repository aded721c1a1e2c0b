package main

import (
	"runtime"
	"runtime/debug"
	"testing"
)

func TestTheHeapGrowsToTheUsualWithinBounds(t *testing.T) {
	for _, c := range []struct {
		inUse uint64
		want  int
	}{
		{0, 300},
		{15 << 20, 300},
		{40 << 20, 180},
		{56 << 20, 100},
		{85 << 20, 31},
		{90 << 20, 30},
		{1 << 40, 30},
	} {
		if got := percent(c.inUse); got != c.want {
			t.Errorf("with %d bytes in use it may grow by %d %%, want %d %%", c.inUse, got, c.want)
		}
	}
}

func TestThePaceFollowsWhatIsInUse(t *testing.T) {
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	before := debug.SetGCPercent(100)
	boundMemory()
	kept := make([]byte, 128<<20)
	for debug.SetGCPercent(100) != growsAtLeast { // which tells what was set last
		runtime.GC()
		runtime.Gosched()
	}
	runtime.KeepAlive(kept)
	debug.SetGCPercent(before)
}

func TestATenthOfWhatAContainerMayHaveIsLeftToOthers(t *testing.T) {
	for text, want := range map[string]int64{"536870912\n": 483183821, "max\n": 0, "": 0, "many": 0} {
		if got, bounded := softLimit(text); got != want || bounded != (want > 0) {
			t.Errorf("%q: %d, %t; want %d", text, got, bounded, want)
		}
	}
}
