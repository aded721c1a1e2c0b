package immutability

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"druid.internal/druid/internal/backup/timeline/timelinetest"
)

var update = flag.Bool("update", false, "rewrite the expected parts of testdata/*.txt")

// The lines of the stories in testdata:
//
//	clock server=TIME local=TIME
//	policy period=D every=D limit=D not-after=TIME [copies]
//	NAME MODE [until=TIME] [hold]      one object; "NAME not told" is one the store said nothing about
//	? delete                           which of the objects may be deleted
//	? report                           how well all of them together are protected
//	? extend                           which locks are to be extended
//
// Clock and policy stay as they are until changed; objects are those of the block.
func TestScenarios(t *testing.T) {
	timelinetest.Stories(t, *update, func() timelinetest.Stage { return &stage{} })
}

type stage struct {
	clock    Clock
	policy   ExtensionPolicy
	subjects []Subject
	answers  strings.Builder
}

// Answer implements timelinetest.Stage.
func (s *stage) Answer() string {
	text := s.answers.String()
	s.answers.Reset()
	s.subjects = nil
	return text
}

// Do implements timelinetest.Stage.
func (s *stage) Do(t *testing.T, words []string) {
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
		_, copies := options["copies"]
		s.policy = ExtensionPolicy{Period: span("period"), Every: span("every"), Limit: span("limit"), NotAfter: moment("not-after"), Copies: copies}
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
