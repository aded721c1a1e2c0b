package timelinetest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"druid.internal/druid/internal/backup/timeline"
)

// Run plays every scenario that matches glob. A file is made of blocks with blank lines
// between them. Lines that begin with # are prose. A block that begins with "listing" sets what
// is in the bucket; any other is a command, whose output stands below a line of dashes:
//
//	listing
//	full 100 at 1000
//
//	plan latest
//	----
//	restore latest of the unnamed lineage: …
//
// With update the files are rewritten with what the commands really give.
func Run(t *testing.T, glob string, update bool, do func(l timeline.Listing, command []string) string) {
	t.Helper()
	files, err := filepath.Glob(glob)
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios match %s (%v)", glob, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, string(content), do)
			if update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if got != string(content) && !update {
				t.Errorf("%s: %s", file, firstDifference(string(content), got))
			}
		})
	}
}

// play returns the scenario with real outputs.
func play(t *testing.T, content string, do func(timeline.Listing, []string) string) string {
	var listing timeline.Listing
	var out []string
	for block := range strings.SplitSeq(strings.TrimRight(content, "\n"), "\n\n") {
		lines := strings.Split(block, "\n")
		first := 0
		for first < len(lines) && strings.HasPrefix(lines[first], "#") {
			first++
		}
		if first == len(lines) {
			out = append(out, block)
			continue
		}
		if lines[first] == "listing" {
			var err error
			if listing, err = ParseListing(lines[first+1:]); err != nil {
				t.Fatal(err)
			}
			out = append(out, block)
			continue
		}
		got := strings.TrimRight(do(listing, strings.Fields(lines[first])), "\n")
		if got == "" {
			got = "nothing"
		}
		out = append(out, strings.Join(lines[:first+1], "\n")+"\n----\n"+got)
	}
	return strings.Join(out, "\n\n") + "\n"
}

func firstDifference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(w), len(g)) {
		if w[i] != g[i] {
			return "want\n" + strings.Join(around(w, i), "\n") + "\ngot\n" + strings.Join(around(g, i), "\n")
		}
	}
	return "want another number of lines; got\n" + got
}

func around(lines []string, i int) []string { return lines[max(0, i-3):min(len(lines), i+6)] }
