// Command etcd-wrapper runs an etcd that a backup sidecar looks after: it has the sidecar prepare
// the data, starts etcd with the sidecar's configuration, and stops it without harm.
//
// This package parses flags and signals and wires internal/wrapper. It decides nothing.
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

	"druid.internal/druid/internal/wrapper"
)

// version is set by the linker.
var version = "unknown"

// The exit codes.
const (
	exitOK      = 0 // a clean end that was asked for
	exitFailure = 1
	exitUsage   = 2 // unknown flag, impossible combination, unreadable file
	exitForced  = 130
)

func main() {
	syscall.Umask(0o077) // the data hold secrets: nothing this program writes is for others
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		cancel(endOf(<-signals))
		<-signals // a second signal does not wait for the clean end
		os.Exit(exitForced)
	}()
	os.Exit(run(ctx, os.Args[1:], os.Getenv("HOME"), os.Stdout, os.Stderr))
}

func endOf(s os.Signal) wrapper.End {
	if s == os.Interrupt {
		return wrapper.Interrupt
	}
	return wrapper.Terminated
}

// run is main without the process.
func run(ctx context.Context, args []string, home string, stdout, stderr io.Writer) int {
	root := newRoot(home, stderr)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	fmt.Fprintln(stderr, "Error:", strings.Join(strings.Fields(err.Error()), " "))
	var usage *usageError
	if errors.As(err, &usage) {
		return exitUsage
	}
	return exitFailure
}

// usageError is the caller's mistake.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }
