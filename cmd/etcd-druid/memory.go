package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
)

// Up to where the heap grows before garbage is collected.
const (
	// heapUsual is what it grows to if that is within the bounds below. Of a thousand Etcds 80 to 90 MB are in use.
	heapUsual = 112 << 20
	// By how much of what is in use, in percent, it grows at least and at the most. Little of it is worth more collections:
	// most of what is in use of many Etcds is the cache, which lasts. Much of it spares some to an operator that makes many
	// Etcds at once, and takes little where there are few.
	growsAtLeast, growsAtMost = 30, 300
)

// memoryMax is where a container reads how many bytes it may have, or "max".
const memoryMax = "/sys/fs/cgroup/memory.max"

// boundMemory has garbage collected in time for what the container may have, and else when the heap is as large as it may
// be. What the environment says of either is left alone.
func boundMemory() {
	if text, err := os.ReadFile(memoryMax); err == nil && os.Getenv("GOMEMLIMIT") == "" {
		if limit, bounded := softLimit(string(text)); bounded {
			debug.SetMemoryLimit(limit)
		}
	}
	if os.Getenv("GOGC") == "" {
		pace(0)
	}
}

// softLimit leaves a tenth to what is not Go's: the pages of the program itself.
func softLimit(text string) (bytes int64, bounded bool) {
	most, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	return most - most/10, err == nil
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
