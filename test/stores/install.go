package stores

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// progressEvery is how often a build that is still running says so.
const progressEvery = 5 * time.Second

// Install builds the server unless it is in the cache already, and says on w what it does
// while it does it. Two installs at once wait for each other. An interrupted install leaves
// nothing that looks installed.
//
// The working directory must be in this module: etcd is built from its go.mod.
func Install(ctx context.Context, pin Pin, w io.Writer) error {
	path, err := pin.Path()
	if err != nil {
		return err
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return fmt.Errorf("install %s: %w", pin.Name, err)
	}
	unlock, err := lock(dir+".lock", func() { fmt.Fprintf(w, "%s: another process is installing it, waiting\n", pin.Name) })
	if err != nil {
		return fmt.Errorf("install %s: %w", pin.Name, err)
	}
	defer unlock()

	if _, err := os.Stat(path); err == nil {
		fmt.Fprintf(w, "%s %s: installed, %s\n", pin.Name, pin.Version, path)
		return nil
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dir), pin.Name+"-building-")
	if err != nil {
		return fmt.Errorf("install %s: %w", pin.Name, err)
	}
	defer os.RemoveAll(tmp)
	fmt.Fprintf(w, "%s %s: building (%s); the first time this downloads modules and takes minutes\n", pin.Name, pin.Version, pin.About)
	begun := time.Now()
	if err := run(ctx, pin, tmp, w); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("install %s: %w", pin.Name, err)
	}
	if err := os.Rename(filepath.Join(tmp, pin.Name), path); err != nil {
		return fmt.Errorf("install %s: %w", pin.Name, err)
	}
	fmt.Fprintf(w, "%s %s: built in %s, %s\n", pin.Name, pin.Version, time.Since(begun).Round(time.Second), path)
	return nil
}

// run executes the pin's go command and reports every few seconds how far it is.
func run(ctx context.Context, pin Pin, dir string, w io.Writer) error {
	c := pin.build(dir)
	progress := &progress{}
	cmd := exec.CommandContext(ctx, "go", c.args...)
	// The caller's GOFLAGS or workspace must not change what is built.
	cmd.Env = append(os.Environ(), append([]string{"GOFLAGS=", "GOWORK=off"}, c.env...)...)
	cmd.Stdout, cmd.Stderr = progress, progress
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("install %s: %w", pin.Name, err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	begun := time.Now()
	for {
		select {
		case err := <-done:
			if err != nil {
				return fmt.Errorf("install %s: go %s: %w\n%s", pin.Name, strings.Join(c.args, " "), err, progress.tail())
			}
			return nil
		case <-tick.C:
			fmt.Fprintf(w, "%s: %s, %s\n", pin.Name, time.Since(begun).Round(time.Second), progress.state())
		}
	}
}

// progress counts what `go build -v` prints, a line per module downloaded or package compiled.
type progress struct {
	mu         sync.Mutex
	partial    []byte
	lines      []string // the last few
	downloaded int
	compiled   int
}

func (p *progress) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.partial = append(p.partial, b...)
	for {
		i := bytes.IndexByte(p.partial, '\n')
		if i < 0 {
			return len(b), nil
		}
		line := string(p.partial[:i])
		p.partial = p.partial[i+1:]
		if strings.HasPrefix(line, "go: downloading") {
			p.downloaded++
		} else {
			p.compiled++
		}
		p.lines = append(p.lines, line)
		if len(p.lines) > 20 {
			p.lines = p.lines[1:]
		}
	}
}

func (p *progress) state() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.lines) == 0 {
		return "starting"
	}
	return fmt.Sprintf("%d modules downloaded, %d packages compiled, last: %s", p.downloaded, p.compiled, p.lines[len(p.lines)-1])
}

func (p *progress) tail() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(append(p.lines, string(p.partial)), "\n")
}

// lock takes an exclusive lock on a file; the kernel releases it if we die. waiting is called
// if somebody else has it.
func lock(path string, waiting func()) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		waiting()
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
			f.Close()
			return nil, err
		}
	}
	return func() { f.Close() }, nil
}
