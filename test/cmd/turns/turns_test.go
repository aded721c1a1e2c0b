package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// stories are those of long.txt.
func stories(t *testing.T) []story {
	t.Helper()
	all, err := parse(long)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 50 {
		t.Fatalf("of long.txt %d stories were read", len(all))
	}
	return all
}

func TestEachStoryIsATestOrAJourneyOfItsPackage(t *testing.T) {
	for _, s := range stories(t) {
		files, err := filepath.Glob(filepath.Join("../..", s.suite, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		written := "\nfunc " + s.name + "("
		if s.suite == journeys {
			written = `{name: "` + s.name + `"`
		}
		var found bool
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			found = found || strings.Contains(string(text), written)
		}
		if !found {
			t.Errorf("test/%s has no %s: mend test/cmd/turns/long.txt", s.suite, s.name)
		}
	}
}

func TestEachStoryGoesInOneTurn(t *testing.T) {
	all := stories(t)
	for turns := 1; turns <= 4; turns++ {
		went := map[string]int{}
		for turn := range turns {
			out := map[string]bool{}
			for _, s := range leftOut(all, turns, turn) {
				out[s.name] = true
			}
			for _, s := range all {
				if !out[s.name] {
					went[s.name]++
				}
			}
		}
		for _, s := range all {
			if want := 1; s.soak && went[s.name] != 0 || !s.soak && went[s.name] != want {
				t.Errorf("%s goes in %d of %d turns", s.name, went[s.name], turns)
			}
		}
	}
}

func TestTurnsTakeAboutAsLong(t *testing.T) {
	all, took := stories(t), make([]int, 3)
	for name, turn := range assign(all, len(took)) {
		for _, s := range all {
			if s.name == name && s.suite != journeys {
				took[turn] += s.seconds
			}
		}
	}
	sum := took[0] + took[1] + took[2]
	for turn, seconds := range took {
		if seconds*3 < sum*9/10 || seconds*3 > sum*11/10 {
			t.Errorf("turn %d takes %d s of %d", turn+1, seconds, sum)
		}
	}
}

func TestWhatIsLeftOutIsNamedWholly(t *testing.T) {
	p := pattern([]story{{suite: "e2e", name: "TestA"}, {suite: journeys, name: "tls"}, {suite: "operator", name: "TestB"}})
	if want := "^(TestA|TestB)$|^TestJourneys$/^at-once$/^(tls)$"; p != want {
		t.Errorf("the pattern is %s, not %s", p, want)
	}
	for name, matched := range map[string]bool{"TestA": true, "TestAB": false, "TestB": true} {
		if regexp.MustCompile(strings.Split(p, "|^TestJourneys")[0]).MatchString(name) != matched {
			t.Errorf("%s is left out: %t", name, !matched)
		}
	}
	if p := pattern(nil); p != "" {
		t.Errorf("nothing is left out by %q", p)
	}
}

func TestTheCommitSaysWhoseTurnItIs(t *testing.T) {
	for commit, want := range map[string]int{"0000000": 0, "0000001": 1, "0000005aaaaaaa": 2, "dfcd517": 0xdfcd517 % 3} {
		if turn, err := turnOf(commit, 3); err != nil || turn != want {
			t.Errorf("at %s it is the turn of %d, %v, and not %d", commit, turn, err, want)
		}
	}
	if turn, err := turnOf("", 1); err != nil || turn != 0 {
		t.Errorf("one turn: %d, %v", turn, err)
	}
}

func TestWhatIsNoTurnIsRefused(t *testing.T) {
	for _, tt := range []struct {
		commit string
		turns  int
		want   string
	}{
		{"dfcd517", 0, "-turns 0: it is a number of at least 1"},
		{"", 3, "-commit: with more than one turn it takes a commit"},
		{"unknown", 3, `-commit "unknown": it is not of hexadecimal digits`},
	} {
		if _, err := turnOf(tt.commit, tt.turns); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q of %d: %v, not %s", tt.commit, tt.turns, err, tt.want)
		}
	}
	for text, want := range map[string]string{
		"e2e 12":                    "line 1 has 2 words",
		"\ne2e long TestA":          `line 2: "long" are no seconds`,
		"e2e 0 TestA":               `line 1: "0" are no seconds`,
		"e2e 1 TestA\nop 2 TestA\n": "line 2: TestA is there already",
	} {
		if _, err := parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, not %s", text, err, want)
		}
	}
}
