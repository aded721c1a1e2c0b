package main

import (
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"
)

// progress shows how far long work is: one line that is rewritten on a terminal, a log line
// every ten seconds elsewhere. Its report method is what the engine calls.
type progress struct {
	w     *screen
	log   *slog.Logger
	width int // columns of the terminal, 0 if there is none
	now   func() time.Time

	mu      sync.Mutex
	stage   string
	began   time.Time
	printed time.Time
	open    bool // a rewritten line has no newline yet

	done, total int64 // as told last, which may be newer than what is on the line
}

const (
	redrawEvery = 200 * time.Millisecond // smooth to the eye, cheap
	logEvery    = 10 * time.Second       // a long restore stays readable in a log
)

func newProgress(w io.Writer, log *slog.Logger) *progress {
	s, is := w.(*screen)
	if !is {
		s = &screen{w: w}
	}
	return &progress{w: s, log: log, width: terminalWidth(w), now: time.Now}
}

// report tells that of total bytes (0: unknown) of a stage done are behind us. Safe for concurrent use.
func (p *progress) report(stage string, done, total int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	if stage != p.stage {
		p.endLine()
		p.stage, p.began, p.printed = stage, now, time.Time{}
		if p.width == 0 {
			p.printed = now // the first log line comes only when the stage turns out to be long
		}
	}
	p.done, p.total = done, total
	finished := total > 0 && done >= total
	every := logEvery
	if p.width > 0 {
		every = redrawEvery
	}
	if now.Sub(p.printed) < every && !(finished && p.width > 0) {
		return
	}
	p.printed = now
	if p.width == 0 {
		p.log.Info("progress", "stage", stage, "done", bytesString(done), "total", totalString(total), "rate", p.rate(done, now), "left", p.left(done, total, now))
		return
	}
	p.draw(now)
}

// draw rewrites the line of a terminal.
func (p *progress) draw(now time.Time) {
	line := fmt.Sprintf("  %s  %s", p.stage, bytesString(p.done))
	if p.total > 0 {
		line += fmt.Sprintf(" of %s  %3d%%", bytesString(p.total), 100*p.done/p.total)
	}
	line += "  " + p.rate(p.done, now)
	if left := p.left(p.done, p.total, now); left != "" && p.done < p.total {
		line += "  " + left + " left"
	}
	if len(line) > p.width-1 {
		line = line[:p.width-1]
	}
	p.w.draw(line)
	p.open = true
}

// end finishes the line on a terminal. Call it before anything else is printed.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.endLine()
	p.stage = ""
}

func (p *progress) endLine() {
	if p.open {
		p.draw(p.now()) // the line stays: let it tell the end of its stage, not its last redrawing
		p.w.settle()
		p.open = false
	}
}

func (p *progress) rate(done int64, now time.Time) string {
	s := now.Sub(p.began).Seconds()
	if s < 0.001 {
		return "-"
	}
	return bytesString(int64(float64(done)/s)) + "/s"
}

func (p *progress) left(done, total int64, now time.Time) string {
	if total <= 0 || done <= 0 || done > total {
		return ""
	}
	spent := now.Sub(p.began)
	return (time.Duration(float64(spent) * float64(total-done) / float64(done))).Round(time.Second).String()
}

func totalString(n int64) string {
	if n <= 0 {
		return "unknown"
	}
	return bytesString(n)
}

// bytesString is a size for people, in powers of 1024.
func bytesString(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	v, i := float64(n)/unit, 0
	for v >= unit && i < 4 {
		v /= unit
		i++
	}
	return fmt.Sprintf("%.1f %ciB", v, "KMGTP"[i])
}
