package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// How much of the heap may be garbage.
const (
	// heapAlways is up to where the heap grows however little of it is in use: with few objects, or while many are
	// listed for the first time, to collect what is garbage takes more processor time than all else does.
	heapAlways = 96 << 20
	// heapPercent is by how much of what is in use the heap grows beyond it: most of that is the cache, which lasts.
	heapPercent = 50
)

// paceCollector has the collector of garbage run when the heap is as large as it may be. An environment that says
// something about that itself is left alone.
func paceCollector() {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	pace(0)
}

// pace sets what holds until the next collection, and comes back after that one.
func pace(inUse uint64) {
	debug.SetGCPercent(percent(inUse))
	runtime.SetFinalizer(&marker{}, func(*marker) { pace(live()) })
}

// marker is garbage from the beginning: the next collection finds it. Without the pointer several would be one for the
// collector.
type marker struct{ _ *byte }

// percent is by how much the heap may grow when so many bytes are in use. The heap that Go never collects below, of 4 MiB,
// is larger by as much, so there is a limit to it.
func percent(inUse uint64) int {
	return max(heapPercent, int(100*heapAlways/max(inUse, heapAlways/(1+heapAlways/goAlways)))-100)
}

// goAlways is up to where Go has the heap grow with 100 percent, and in proportion with others, however little is in use.
const goAlways = 4 << 20

// live is what was in use at the last collection, in bytes.
func live() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
