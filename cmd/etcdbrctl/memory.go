package main

import "runtime/debug"

// memoryForRest is what decoders, the store's client and the program itself need on top of the
// replay's own limit.
const memoryForRest = 48 << 20

// keepFree is what verbs leave of the volume with temporary files: an etcd may write there, too.
const keepFree = 128 << 20

// limitMemory makes the garbage collector work harder as the heap nears the limit, so that
// --memory-limit bounds the process and not only the replay's tables. Those, a third of the limit
// and more, lie outside of the heap, where the collector does not see them.
func limitMemory(limit int64) {
	if limit > 0 {
		debug.SetMemoryLimit(limit*2/3 + memoryForRest)
	}
}

// readAhead is what ranged requests to the store may hold under the limit; 0: the default.
func readAhead(limit int64) int64 { return limit / 2 }
