package main

import (
	"runtime"
	"runtime/debug"
	"testing"
)

func TestTheHeapGrowsToWhatItAlwaysMayAndThenByAPart(t *testing.T) {
	for _, c := range []struct {
		inUse uint64
		want  int
	}{
		{0, 2400},
		{1 << 20, 2400},
		{12 << 20, 700},
		{48 << 20, 100},
		{64 << 20, 50},
		{76 << 20, 50},
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
	for debug.SetGCPercent(1000) != heapPercent { // which tells what was set last
		runtime.GC()
		runtime.Gosched()
	}
	runtime.KeepAlive(kept)
	debug.SetGCPercent(before)
}
