package timelinetest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Stage is where a story is played.
type Stage interface {
	// Do carries out one line, given as its words.
	Do(t *testing.T, words []string)
	// Answer returns what was asked since the last one, in lines, and forgets it and the things
	// that were told for it.
	Answer() string
}

// Stories plays testdata/*.txt. Each file is a story of blocks: lines to do, a line "----", what is
// answered. Lines that begin with # are left to people. With update the answers are rewritten with
// the real ones.
func Stories(t *testing.T, update bool, stage func() Stage) {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			want := string(content)
			got := tell(t, want, stage())
			if update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// tell answers every block of the story and returns the story with the answers.
func tell(t *testing.T, story string, stage Stage) string {
	t.Helper()
	var out strings.Builder
	answer := false
	for _, line := range strings.SplitAfter(story, "\n") {
		text := strings.TrimSpace(line)
		switch {
		case text == "----":
			out.WriteString(line)
			out.WriteString(stage.Answer())
			answer = true
		case text == "":
			answer = false
			out.WriteString(line)
		case answer: // replaced by ours
		default:
			out.WriteString(line)
			if !strings.HasPrefix(text, "#") {
				stage.Do(t, strings.Fields(text))
			}
		}
	}
	return out.String()
}
