package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// program is something to measure.
type program struct {
	name string // for people
	path string
	args []string
	env  []string // nil: ours
	// until is a text on standard error that says that the work is done, of a program that
	// would run for ever. It is asked to end then.
	until string
	// fails is a text on standard error of a program that must fail with it.
	fails string
}

// run is what one execution took.
type run struct {
	wall     time.Duration // until it ended, or said that it was done
	cpu      time.Duration // user and system
	rss      int64         // bytes, at the most; mapped files count
	anon     int64         // bytes of anonymous memory, at the most among samples
	read     int64         // bytes by read calls, cached or not
	written  int64         // bytes by write calls
	others   float64       // share of all processors that was used meanwhile, but not by it and the servers we started
	stdout   []byte
	reported string // the line that contained until
}

func (r run) String() string {
	return fmt.Sprintf("%6.2f s  cpu %6.2f s  anon %4.0f MB  others %3.0f %%", r.wall.Seconds(), r.cpu.Seconds(), float64(r.anon)/1e6, 100*r.others)
}

const (
	sampleEvery = 10 * time.Millisecond
	runTimeout  = 20 * time.Minute
	endGrace    = 30 * time.Second // for a program that was asked to end
)

// measure executes the program. The child dies with this process, and with ctx.
func (p program) measure(ctx context.Context) (r run, err error) {
	ctx, cancel := context.WithTimeout(ctx, runTimeout)
	defer cancel()
	// A child's death signal is sent when the thread that started it ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, p.path, p.args...)
	cmd.Env = p.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var stdout bytes.Buffer
	stderr := &watched{until: p.until, seen: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &stdout, stderr
	busy, ours, began := busyTime(), ourTime(), time.Now()
	if err := cmd.Start(); err != nil {
		return run{}, err
	}
	// The process is looked at once more between its end and its burial.
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
		}
	}()
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	seen, grace := stderr.seen, (<-chan time.Time)(nil)
	for alive := true; alive; {
		select {
		case <-ended:
			alive = false
		case <-seen:
			r.wall, seen, grace = time.Since(began), nil, time.After(endGrace)
			_ = cmd.Process.Signal(syscall.SIGTERM)
		case <-grace:
			_ = cmd.Process.Kill()
		case <-tick.C:
			r.sample(cmd.Process.Pid)
		}
	}
	if r.wall == 0 {
		r.wall = time.Since(began)
	}
	r.count(cmd.Process.Pid)
	others := (busyTime() - busy) - (ourTime() - ours)
	r.others = max(0, others.Seconds()/time.Since(began).Seconds()/float64(runtime.NumCPU()))
	err = cmd.Wait()
	r.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	r.stdout = stdout.Bytes()
	switch {
	case ctx.Err() != nil:
		return run{}, fmt.Errorf("%w after %s", ctx.Err(), time.Since(began).Round(time.Second))
	case p.until != "" && seen != nil:
		return run{}, fmt.Errorf("ended (%v) without saying %q:\n%s", err, p.until, stderr)
	case p.fails != "" && (err == nil || !strings.Contains(stderr.String(), p.fails)):
		return run{}, fmt.Errorf("ended (%v) and did not fail with %q:\n%s", err, p.fails, stderr)
	case p.until == "" && p.fails == "" && err != nil:
		return run{}, fmt.Errorf("%w:\n%s", err, stderr)
	}
	r.reported = stderr.line
	return r, nil
}

// sample notes the memory of a living process.
func (r *run) sample(pid int) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return
	}
	r.rss = max(r.rss, kibibytes(status, "VmHWM:"))
	r.anon = max(r.anon, kibibytes(status, "RssAnon:"))
}

// count notes what a process read and wrote.
func (r *run) count(pid int) {
	io, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	if err != nil {
		return
	}
	r.read, r.written = field(io, "rchar:"), field(io, "wchar:")
}

func kibibytes(text []byte, name string) int64 { return field(text, name) << 10 }

// field is the number behind a name at the beginning of a line, 0 if there is none.
func field(text []byte, name string) (n int64) {
	for line := range bytes.Lines(text) {
		if rest, is := bytes.CutPrefix(line, []byte(name)); is {
			_, _ = fmt.Sscan(string(rest), &n)
			return n
		}
	}
	return 0
}

// watched keeps what a program prints and closes seen when a line contains until.
type watched struct {
	mu    sync.Mutex
	buf   bytes.Buffer
	until string
	seen  chan struct{}
	line  string
}

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buf.Write(p)
	if w.until == "" || w.line != "" {
		return len(p), nil
	}
	for line := range strings.Lines(w.buf.String()) {
		if strings.Contains(line, w.until) && strings.HasSuffix(line, "\n") {
			w.line = strings.TrimSpace(line)
			close(w.seen)
			break
		}
	}
	return len(p), nil
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	const most = 4000
	s := w.buf.String()
	return s[max(0, len(s)-most):]
}
