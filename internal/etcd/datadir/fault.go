package datadir

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// withFaults calls fn, which reads mapped files. If the disk cannot deliver a page of them, or
// another process cuts a file, the system answers with a signal; here it becomes an error.
func withFaults(fn func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		switch r := recover().(type) {
		case nil:
		case interface {
			runtime.Error
			Addr() uintptr
		}:
			err = fmt.Errorf("a page cannot be read, see the kernel's log about the disk: %w", r)
		default:
			panic(r)
		}
	}()
	return fn()
}
