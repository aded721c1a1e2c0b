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
		{40 << 20, 200},
		{60 << 20, 100},
		{80 << 20, 50},
		{90 << 20, 50},
		{1 << 40, 50},
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
	paceCollector()
	kept := make([]byte, 128<<20)
	for debug.SetGCPercent(100) != growsAtLeast { // which tells what was set last
		runtime.GC()
		runtime.Gosched()
	}
	runtime.KeepAlive(kept)
	debug.SetGCPercent(before)
}
