// Command etcd-druid is the operator: it makes etcd clusters of Etcd resources and looks after them.
//
// This package parses flags and signals and wires internal/operator. It decides nothing.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// version is set by the linker.
var version = "unknown"

// The exit codes.
const (
	exitOK      = 0 // a clean end that was asked for
	exitFailure = 1
	exitUsage   = 2 // something is wrong with the flags or the configuration
	exitForced  = 130
)

func main() {
	boundMemory()
	boundProcessors()
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		cancel()
		<-signals // a second signal does not wait for the clean end
		os.Exit(exitForced)
	}()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is main without the process.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot(stderr)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	var usage *usageError
	if !errors.As(err, &usage) {
		fmt.Fprintln(stderr, "Error:", strings.Join(strings.Fields(err.Error()), " "))
		return exitFailure
	}
	for line := range strings.SplitSeq(usage.Error(), "\n") {
		fmt.Fprintln(stderr, "Error:", line)
	}
	return exitUsage
}

// usageError is the caller's mistake, or several, a line each.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }
