package stores

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// stopGrace is how long a server may take to end after it was asked to.
const stopGrace = 15 * time.Second

// pollEvery is the pause between two looks at a server that does not answer yet.
const pollEvery = 20 * time.Millisecond

// process is one server we started. It dies with us, however we end.
type process struct {
	name string
	cmd  *exec.Cmd
	log  *tail
	done chan struct{}
	err  error // why it ended; valid once done is closed
}

// start runs the program. The kernel sends a child's death signal when the thread that
// started it ends, not the process, so the thread is kept for the life of the child.
func start(name, path string, args, env []string) (*process, error) {
	p := &process{name: name, log: &tail{}, done: make(chan struct{})}
	p.cmd = exec.Command(path, args...)
	p.cmd.Env = env
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
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
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

// await asks ready again and again until it says nil. It gives up when the process ends or
// ctx does, with the last thing ready said and the end of the log.
func (p *process) await(ctx context.Context, ready func(context.Context) error) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("%s ended before it answered: %v\n%s", p.name, p.err, p.log)
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer: %w\n%s", p.name, err, p.log)
		case <-tick.C:
		}
	}
}

// stop asks the server to end and waits; one that does not is killed and reported.
func (p *process) stop() error {
	if p.ended() {
		return fmt.Errorf("%s had ended by itself: %v\n%s", p.name, p.err, p.log)
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	timer := time.NewTimer(stopGrace)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
		p.kill()
		return fmt.Errorf("%s did not end within %s and was killed\n%s", p.name, stopGrace, p.log)
	}
}

// kill ends the server as a crash would and waits until it is gone.
func (p *process) kill() {
	if !p.ended() {
		_ = p.cmd.Process.Kill()
	}
	<-p.done
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// portTaken tells whether the server ended because somebody else took its port between our
// choosing and its listening.
func (p *process) portTaken() bool {
	return p.ended() && strings.Contains(strings.ToLower(p.log.String()), "address already in use")
}

// freePorts finds n different ports of host that nobody listens on at this moment.
func freePorts(host string, n int) ([]string, error) {
	addrs := make([]string, n)
	for i := range addrs {
		l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
		if err != nil {
			return nil, fmt.Errorf("find a free port of %s: %w", host, err)
		}
		defer l.Close() // all are held until all are found
		addrs[i] = l.Addr().String()
	}
	return addrs, nil
}

// tail keeps the end of a server's log.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

const tailBytes = 32 << 10

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, b...)
	if over := len(t.buf) - tailBytes; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.buf)
}

// bareEnvironment is what a server gets of ours: nothing but a home of its own, so that no
// configuration of the user leaks into a test.
func bareEnvironment(home string) []string {
	return []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir()}
}
