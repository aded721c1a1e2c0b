package main

import (
	"io"
	"os"

	"golang.org/x/term"
)

// system is what this process may touch besides the engine: handed in, so that tests can watch it.
type system struct {
	out, err io.Writer
	getenv   func(string) string
}

// terminalWidth is the width of w's terminal in columns, or 0 if w is none.
func terminalWidth(w io.Writer) int {
	if s, ok := w.(*screen); ok {
		w = s.w
	}
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil || width <= 0 {
		return 80
	}
	return width
}
