package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// Up to where the heap grows before garbage is collected.
const (
	// heapUsual is what it grows to if that is within the bounds below: enough for some thousand Etcds.
	heapUsual = 120 << 20
	// By how much of what is in use, in percent, it grows at least and at the most. Little of it is worth more collections:
	// most of what is in use of many Etcds is the cache, which lasts. Much of it spares some to an operator that makes many
	// Etcds at once, and takes little where there are few.
	growsAtLeast, growsAtMost = 50, 300
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

// percent is by how much the heap may grow when so many bytes are in use.
func percent(inUse uint64) int {
	return min(max(int(100*heapUsual/max(inUse, 1))-100, growsAtLeast), growsAtMost)
}

// live is what was in use at the last collection, in bytes.
func live() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
