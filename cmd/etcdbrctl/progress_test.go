package main

import (
	"strings"
	"testing"
	"time"
)

func TestTheLineOfAStageTellsItsEnd(t *testing.T) {
	var out strings.Builder
	at := time.Unix(0, 0)
	p := &progress{w: &out, width: 80, now: func() time.Time { at = at.Add(10 * time.Millisecond); return at }}
	for done := int64(1); done <= 10; done++ { // faster than the line is redrawn
		p.report("writing the database", done<<20, 0)
	}
	p.report("verifying the database", 1<<20, 2<<20)
	p.end()
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	for i, want := range []string{"writing the database  10.0 MiB", "verifying the database  1.0 MiB of 2.0 MiB   50%"} {
		shown := lines[i][strings.LastIndex(lines[i], "\r"):]
		if !strings.Contains(shown, want) {
			t.Errorf("line %d ends as %q, want %q", i, shown, want)
		}
	}
}
