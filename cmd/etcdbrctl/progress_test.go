package main

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestTheLineOfAStageTellsItsEnd(t *testing.T) {
	var out strings.Builder
	at := time.Unix(0, 0)
	p := &progress{w: &screen{w: &out}, width: 80, now: func() time.Time { at = at.Add(10 * time.Millisecond); return at }}
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

func TestALogLineDoesNotRunIntoTheLineOfTheProgress(t *testing.T) {
	var out strings.Builder
	s := &screen{w: &out}
	p := newProgress(s, nil)
	p.width = 80
	p.report("full snapshot", 1<<20, 4<<20)
	fmt.Fprintln(s, "delta uploaded")
	p.report("full snapshot", 4<<20, 4<<20)
	p.end()
	want := clearLine + "  full snapshot  1.0 MiB of 4.0 MiB   25%  -  0s left" + clearLine + "delta uploaded\n"
	if got := out.String(); !strings.HasPrefix(got, want) || !strings.HasSuffix(got, "\n") || strings.Count(got, "\n") != 2 {
		t.Errorf("%q, want it to begin with %q and to have two lines", got, want)
	}
}
