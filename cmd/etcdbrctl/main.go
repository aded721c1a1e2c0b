// Command etcdbrctl backs up an etcd into an object store and restores it exactly: the backup
// sidecar's work from the command line, and everything one wants to ask a bucket.
//
// This package parses flags, environment and files once, wires the engine and prints. It
// decides nothing about backups.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// version is set by the linker.
var version = "unknown"

func main() {
	syscall.Umask(0o077) // snapshots hold secrets: nothing this program writes is for others
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		sig := <-signals
		cancel(&interrupted{sig})
		<-signals // a second signal does not wait for the clean end
		os.Exit(exitInterrupted)
	}()
	os.Exit(run(ctx, os.Args[1:], system{out: os.Stdout, err: os.Stderr, getenv: os.Getenv}))
}

type interrupted struct{ signal os.Signal }

func (i *interrupted) Error() string { return "interrupted (signal: " + i.signal.String() + ")" }

// run is main without the process: tests call it.
func run(ctx context.Context, args []string, sys system) int {
	sys.err = &screen{w: sys.err}
	root := newRoot(sys)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	if cause := context.Cause(ctx); cause != nil && exitCode(err) == exitInterrupted { // wherever it was noticed
		err = fmt.Errorf("%w; nothing half-done was left that looks whole: run it again", cause)
	}
	fmt.Fprintln(sys.err, "Error:", oneLine(err))
	return exitCode(err)
}
