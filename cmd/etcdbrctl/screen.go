package main

import (
	"fmt"
	"io"
	"sync"
)

// screen is standard error with at most one line of progress at its end, which is rewritten
// until it is complete. Whatever else is written, such as a line of the log, takes its place; the
// next redrawing puts it below.
type screen struct {
	w io.Writer

	mu   sync.Mutex
	open bool // the line has no newline yet
}

const clearLine = "\r\x1b[K"

// Write prints lines above that of the progress.
func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open {
		s.open = false
		if _, err := io.WriteString(s.w, clearLine); err != nil {
			return 0, err
		}
	}
	return s.w.Write(b)
}

// draw rewrites the line of the progress.
func (s *screen) draw(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprint(s.w, clearLine+line)
	s.open = true
}

// settle completes the line of the progress.
func (s *screen) settle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open {
		fmt.Fprintln(s.w)
		s.open = false
	}
}
