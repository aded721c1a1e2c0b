package e2e

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"druid.internal/druid/test/process"
)

// waitAtMost bounds how long a fact may take to come true on a busy machine.
const waitAtMost = 5 * time.Minute

// eventually waits until is reports true. It ends the test if that takes too long or
// the channel closes first.
func eventually(t *testing.T, what string, ended <-chan struct{}, log func() string, is func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitAtMost)
	defer cancel()
	err := process.Poll(ctx, ended, func(context.Context) error {
		if !is() {
			return errors.New("not yet")
		}
		return nil
	})
	switch {
	case err == nil:
	case ctx.Err() != nil:
		t.Fatalf("waited %s in vain until %s:\n%s", waitAtMost, what, log())
	case !is(): // the process may have done it at its end
		t.Fatalf("the process ended while waiting until %s:\n%s", what, log())
	}
}

// running is an etcdbrctl that goes on until stopped.
type running struct {
	t     *testing.T
	cmd   *exec.Cmd
	log   *logBuffer
	ended chan struct{}
}

// logBuffer may be read while a process writes to it.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// start runs cmd in the background. It is killed when the test ends.
func start(t *testing.T, cmd *exec.Cmd) *running {
	t.Helper()
	r := &running{t: t, cmd: cmd, log: &logBuffer{}, ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = r.log, r.log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { cmd.Wait(); close(r.ended) }()
	t.Cleanup(r.kill)
	return r
}

// kill ends it as a crash would.
func (r *running) kill() {
	r.cmd.Process.Kill()
	<-r.ended
}

// stop asks it to end, which it must do without complaint.
func (r *running) stop() {
	r.t.Helper()
	r.cmd.Process.Signal(syscall.SIGTERM)
	if code := r.wait(); code != 0 {
		r.t.Fatalf("asked to end, it exits with %d:\n%s", code, r.log)
	}
}

// wait waits until it ends by itself and returns the exit code.
func (r *running) wait() int {
	r.t.Helper()
	select {
	case <-r.ended:
	case <-time.After(waitAtMost):
		r.kill()
		r.t.Fatalf("it did not end:\n%s", r.log)
	}
	return r.cmd.ProcessState.ExitCode()
}

// snapshot starts `etcdbrctl snapshot` with short periods.
func (w *world) snapshot(args ...string) *running {
	w.t.Helper()
	return start(w.t, w.command("snapshot", slices.Concat(
		[]string{"--endpoints=" + w.etcd.Endpoint(), "--delta-snapshot-period=1s", "--schedule=", "--delta-snapshot-memory-limit=20000"}, args)...))
}

// uploaded waits until everything up to rev can be restored.
func (w *world) uploaded(r *running, rev int64) {
	w.t.Helper()
	eventually(w.t, "everything written is in the bucket", r.ended, r.log.String, func() bool { return w.list().end() >= rev })
}

// backup takes a full and then deltas of n random changes, and returns the last revision, which
// is in the bucket.
func (w *world) backup(n int, args ...string) int64 {
	w.t.Helper()
	r := w.snapshot(slices.Concat([]string{"--data-dir=" + w.etcd.DataDir()}, args)...)
	w.uploaded(r, w.history.Last())
	rev := w.write(n)
	w.uploaded(r, rev)
	r.stop()
	return rev
}
