package stores

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// progressEvery is how often a command that is still running says so.
const progressEvery = 5 * time.Second

// runner runs the commands of one install and reports every few seconds how far they are.
type runner struct {
	ctx   context.Context
	name  string // of the server
	w     io.Writer
	begun time.Time
}

// run executes one command. kind says what a line of its output counts as, e.g. "modules
// downloaded"; lines of no kind only show as the last one. The error holds the end of the output.
func (r *runner) run(kind func(line string) string, env []string, name string, args ...string) error {
	progress := &progress{kind: kind, counts: map[string]int{}}
	cmd := exec.CommandContext(r.ctx, name, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = progress, progress
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Start(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			if err != nil {
				return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, progress.tail())
			}
			return nil
		case <-tick.C:
			fmt.Fprintf(r.w, "%s: %s, %s\n", r.name, time.Since(r.begun).Round(time.Second), progress.state())
		}
	}
}

// tailLines is how much of a command's output an error shows.
const tailLines = 20

// progress counts the lines of a command by kind.
type progress struct {
	kind func(line string) string

	mu      sync.Mutex
	partial []byte
	lines   []string // the last few
	kinds   []string // in the order of their first line
	counts  map[string]int
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
		p.line(strings.TrimSpace(string(p.partial[:i])))
		p.partial = p.partial[i+1:]
	}
}

func (p *progress) line(line string) {
	if kind := p.kind(line); kind != "" {
		if p.counts[kind] == 0 {
			p.kinds = append(p.kinds, kind)
		}
		p.counts[kind]++
	}
	p.lines = append(p.lines, line)
	if len(p.lines) > tailLines {
		p.lines = p.lines[1:]
	}
}

func (p *progress) state() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.lines) == 0 {
		return "starting"
	}
	var b strings.Builder
	for _, kind := range p.kinds {
		fmt.Fprintf(&b, "%d %s, ", p.counts[kind], kind)
	}
	return b.String() + "last: " + p.lines[len(p.lines)-1]
}

func (p *progress) tail() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(append(p.lines, string(p.partial)), "\n")
}
