package immutability

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the expected parts of testdata/*.txt")

// Each file of testdata is a story of blocks: what is asked, a line "----", what is answered.
// Lines of a question:
//
//	clock server=TIME local=TIME
//	policy period=D limit=D not-after=TIME
//	NAME MODE [until=TIME] [hold]      one object; "NAME not told" is one the store said nothing about
//	? delete                           which of the objects may be deleted
//	? report                           how well all of them together are protected
//	? extend                           which locks are to be extended
//
// Clock and policy stay as they are until changed; objects are those of the block.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			want := string(content)
			got := play(t, want)
			if *update {
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

// play answers every block of the story and returns the story with the answers.
func play(t *testing.T, story string) string {
	var (
		out    strings.Builder
		stage  stage
		answer bool
	)
	for _, line := range strings.SplitAfter(story, "\n") {
		text := strings.TrimSpace(line)
		switch {
		case text == "----":
			out.WriteString(line)
			out.WriteString(stage.answers.String())
			stage.answers.Reset()
			stage.subjects = nil
			answer = true
		case text == "":
			answer = false
			out.WriteString(line)
		case answer: // replaced by ours
		default:
			out.WriteString(line)
			if !strings.HasPrefix(text, "#") {
				stage.do(t, strings.Fields(text))
			}
		}
	}
	return out.String()
}

type stage struct {
	clock    Clock
	policy   ExtensionPolicy
	subjects []Subject
	answers  strings.Builder
}

func (s *stage) do(t *testing.T, words []string) {
	t.Helper()
	options := map[string]string{}
	for _, w := range words[1:] {
		k, v, _ := strings.Cut(w, "=")
		options[k] = v
	}
	moment := func(key string) time.Time {
		if options[key] == "" {
			return time.Time{}
		}
		at, err := time.Parse(time.RFC3339, options[key])
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	span := func(key string) time.Duration {
		if options[key] == "" {
			return 0
		}
		d, err := time.ParseDuration(options[key])
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	switch words[0] {
	case "clock":
		s.clock = Clock{Server: moment("server"), Local: moment("local")}
	case "policy":
		s.policy = ExtensionPolicy{Period: span("period"), Limit: span("limit"), NotAfter: moment("not-after")}
	case "?":
		s.ask(t, words[1])
	default:
		subject := Subject{Key: words[0]}
		if words[1] != "not" {
			mode, err := ParseMode(words[1])
			if err != nil {
				t.Fatal(err)
			}
			_, hold := options["hold"]
			subject.Retention = &Retention{Mode: mode, Until: moment("until"), Hold: hold}
		}
		s.subjects = append(s.subjects, subject)
	}
}

func (s *stage) ask(t *testing.T, question string) {
	switch question {
	case "delete":
		for _, o := range s.subjects {
			p := o.Retention.Protected(s.clock.ForDeletion(), DeleteMargin)
			verb := "may be deleted"
			if p.Protected {
				verb = "stays"
			}
			fmt.Fprintf(&s.answers, "%s %s: %s\n", o.Key, verb, p)
		}
	case "report":
		var rs []*Retention
		for _, o := range s.subjects {
			rs = append(rs, o.Retention)
		}
		fmt.Fprintln(&s.answers, Summarize(rs, s.clock.ForExtension()))
	case "extend":
		for _, e := range PlanExtension(s.subjects, s.policy, s.clock.ForExtension()) {
			if e.Warn() {
				s.answers.WriteString("WARNING ")
			}
			fmt.Fprintln(&s.answers, e)
		}
	default:
		t.Fatalf("no such question: %s", question)
	}
}
