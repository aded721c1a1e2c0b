package main

import (
	"os"
	"runtime"
)

// boundProcessors has one processor run the operator: it mostly waits for the API server, and what it does with each answer is little.
// With more of them Go wakes up another thread for most answers, which takes a sixth of its time and makes nothing faster. What the
// environment says is left alone.
func boundProcessors() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(1)
	}
}
