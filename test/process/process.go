// Package process runs programs that die with whoever started them, however that ends: servers and
// the members under test. It keeps the end of what they print.
//
// It starts nothing again and knows no program.
package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// stopGrace is how long a server may take to end after it was asked to.
const stopGrace = 30 * time.Second

// outputGrace is how long what a program started may hold its output after it ended: daemons do so
// for good.
const outputGrace = 500 * time.Millisecond

// Process is one program we started. It dies with us, however we end.
type Process struct {
	name  string
	cmd   *exec.Cmd
	log   *Log
	group bool
	done  chan struct{}
	err   error // why it ended; valid once done is closed
}

// Command is what is run.
type Command struct {
	Name string // in errors
	Path string
	Args []string
	Env  []string
	Log  *Log // kept over several runs; nil: a new one

	Copy  io.Writer // gets all that is printed, if set
	Group bool      // signals go to the program's children as well: for those that only start another one

	// Namespaces are CLONE_NEW* flags: the program begins in new ones.
	Namespaces uintptr
}

// Start runs the program.
func Start(name, path string, args, env []string) (*Process, error) {
	return Command{Name: name, Path: path, Args: args, Env: env}.Start()
}

// Start runs the program. The kernel sends a child's death signal when the thread that started it
// ends, not the process, so the thread is kept for the life of the child.
func (c Command) Start() (*Process, error) {
	if c.Log == nil {
		c.Log = &Log{}
	}
	p := &Process{name: c.Name, log: c.Log, group: c.Group, done: make(chan struct{})}
	p.cmd = exec.Command(c.Path, c.Args...)
	p.cmd.Env = c.Env
	var out io.Writer = p.log
	if c.Copy != nil {
		out = io.MultiWriter(p.log, c.Copy)
	}
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.WaitDelay = outputGrace
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true, Cloneflags: c.Namespaces}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err != nil {
			return
		}
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Name, err)
	}
	return p, nil
}

// Await asks ready again and again until it says nil. It gives up when the process ends or
// ctx does, with the last thing ready said and the end of the log: all that is kept if the process ended.
func (p *Process) Await(ctx context.Context, ready func(context.Context) error) error {
	err := Poll(ctx, p.done, ready)
	switch {
	case err == nil:
		return nil
	case p.Ended():
		return fmt.Errorf("%s ended before it answered: %v\n%s", p.name, p.err, p.log)
	default:
		return fmt.Errorf("%s does not answer: %w\n%s", p.name, err, p.log.Tail())
	}
}

// Stop asks the server to end and waits; one that does not is killed and reported.
func (p *Process) Stop() error { return p.StopWithin(stopGrace) }

// StopWithin is Stop with patience of one's own.
func (p *Process) StopWithin(grace time.Duration) error {
	if p.Ended() {
		return fmt.Errorf("%s had ended by itself: %v\n%s", p.name, p.err, p.log)
	}
	p.Signal(syscall.SIGTERM)
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
		p.Kill()
		return fmt.Errorf("%s did not end within %s and was killed\n%s", p.name, grace, p.log)
	}
}

// Kill ends the server as a crash would and waits until it is gone.
func (p *Process) Kill() {
	p.Signal(syscall.SIGKILL)
	<-p.done
}

// Ended reports whether it has.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Done is closed when the process is gone.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err is why the process ended, nil if it ended well or runs.
func (p *Process) Err() error {
	if !p.Ended() {
		return nil
	}
	return p.err
}

// Name is the one that errors have.
func (p *Process) Name() string { return p.name }

// PID is the process's id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Log is the end of what it printed.
func (p *Process) Log() *Log { return p.log }

// Signal sends it a signal, if it runs.
func (p *Process) Signal(s syscall.Signal) {
	if p.Ended() {
		return
	}
	if p.group {
		_ = syscall.Kill(-p.cmd.Process.Pid, s)
		return
	}
	_ = p.cmd.Process.Signal(s)
}

// PortTaken tells whether the server ended because somebody else took its port between our
// choosing and its listening.
func (p *Process) PortTaken() bool {
	return p.Ended() && strings.Contains(strings.ToLower(p.log.String()), "address already in use")
}

// The ports that FreePorts finds: none that the kernel gives to whoever does not care which, which
// is 32768 and above. Such a one could be somebody else's before the server listens, or when it is
// started again.
const (
	firstPort  = 10_000
	endOfPorts = 30_000
)

// FreePorts finds n different ports of host that nobody listens on at this moment.
func FreePorts(host string, n int) ([]string, error) {
	var addrs []string
	for range 1000 {
		if len(addrs) == n {
			return addrs, nil
		}
		l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(firstPort+rand.IntN(endOfPorts-firstPort))))
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("find a free port of %s: %w", host, err)
		}
		defer l.Close() // all are held until all are found
		addrs = append(addrs, l.Addr().String())
	}
	return nil, fmt.Errorf("find %d free ports of %s: there are not enough between %d and %d", n, host, firstPort, endOfPorts)
}

// Log keeps the end of what a program prints, 32 KiB. Its zero value is ready.
type Log struct {
	mu  sync.Mutex
	buf []byte
}

const tailBytes = 32 << 10

// tailLines are as many as somebody reads who wants to know what a program did last.
const tailLines = 15

// Write appends.
func (t *Log) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, b...)
	if over := len(t.buf) - tailBytes; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return len(b), nil
}

// String is what is kept.
func (t *Log) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.buf)
}

// Tail is the last lines of what is kept.
func (t *Log) Tail() string {
	lines := strings.SplitAfter(strings.TrimSuffix(t.String(), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-tailLines):], "")
}

// BareEnvironment is what a server gets of ours: nothing but a home of its own, so that no
// configuration of the user leaks into a test.
func BareEnvironment(home string) []string {
	return []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir()}
}
