package storetest

import (
	"runtime"
	"time"
)

// settle yields until fact holds, for at most d. Cases that expect that the fact never comes
// wait for it in vain, so they give a short d.
func settle(d time.Duration, fact func() bool) bool {
	deadline := time.Now().Add(d)
	for !fact() {
		if time.Now().After(deadline) {
			return false
		}
		runtime.Gosched()
		time.Sleep(time.Millisecond)
	}
	return true
}

// goroutines are how many run when pooled connections are closed.
func goroutines(o Options) int {
	if o.CloseIdle != nil {
		o.CloseIdle()
	}
	return runtime.NumGoroutine()
}
