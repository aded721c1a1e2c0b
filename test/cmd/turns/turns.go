package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// journeys are the package whose subtests take turns.
const journeys = "journeys"

// A story is a test that takes long, or a journey.
type story struct {
	// suite is its package, below test/.
	suite   string
	name    string
	seconds int
	// soak: it goes in make soak alone, and has no seconds.
	soak bool
}

// parse reads lines of a package, seconds or "soak", and a name; # begins a comment.
func parse(text string) (all []story, err error) {
	known := map[string]bool{}
	number := 0
	for line := range strings.Lines(text) {
		number++
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if len(fields) != 3 {
			return nil, fmt.Errorf("line %d has %d words: write a package, seconds or soak, and a name", number, len(fields))
		}
		s := story{suite: fields[0], name: fields[2], soak: fields[1] == "soak"}
		if !s.soak {
			if s.seconds, err = strconv.Atoi(fields[1]); err != nil || s.seconds < 1 {
				return nil, fmt.Errorf("line %d: %q are no seconds: write a number of at least 1, or soak", number, fields[1])
			}
		}
		// Tests are left out by their names, whatever package they are of.
		if known[s.name] {
			return nil, fmt.Errorf("line %d: %s is there already", number, s.name)
		}
		known[s.name] = true
		all = append(all, s)
	}
	return all, nil
}

// turnOf is whose turn it is at a commit, from 0.
func turnOf(commit string, turns int) (int, error) {
	if turns < 1 {
		return 0, fmt.Errorf("-turns %d: it is a number of at least 1", turns)
	}
	if turns == 1 {
		return 0, nil
	}
	if len(commit) < 7 {
		return 0, errors.New("-commit: with more than one turn it takes a commit of at least seven digits, as git rev-parse HEAD prints")
	}
	n, err := strconv.ParseUint(commit[:7], 16, 32)
	if err != nil {
		return 0, fmt.Errorf("-commit %q: it is not of hexadecimal digits, as git rev-parse HEAD prints them", commit)
	}
	return int(n % uint64(turns)), nil
}

// assign gives each story that is not for make soak alone its turn, so that all turns take about as long, each package by itself
// and all together.
func assign(all []story, turns int) map[string]int {
	order := slices.DeleteFunc(slices.Clone(all), func(s story) bool { return s.soak })
	slices.SortFunc(order, func(a, b story) int {
		return cmp.Or(cmp.Compare(b.seconds, a.seconds), strings.Compare(a.name, b.name))
	})
	ofSuite, ofAll := map[string][]int{}, make([]int, turns)
	turn := map[string]int{}
	for _, s := range order {
		if ofSuite[s.suite] == nil {
			ofSuite[s.suite] = make([]int, turns)
		}
		least := 0
		for i := range turns {
			if cmp.Or(cmp.Compare(ofSuite[s.suite][i], ofSuite[s.suite][least]), cmp.Compare(ofAll[i], ofAll[least])) < 0 {
				least = i
			}
		}
		turn[s.name] = least
		ofSuite[s.suite][least] += s.seconds
		ofAll[least] += s.seconds
	}
	return turn
}

// leftOut are the stories that do not go in a turn.
func leftOut(all []story, turns, turn int) (out []story) {
	turnsOf := assign(all, turns)
	for _, s := range all {
		if s.soak || turnsOf[s.name] != turn {
			out = append(out, s)
		}
	}
	return out
}

// pattern is what go test takes as -skip to leave stories out.
func pattern(out []story) string {
	var tests, gone []string
	for _, s := range out {
		if s.suite == journeys {
			gone = append(gone, s.name)
		} else {
			tests = append(tests, s.name)
		}
	}
	var patterns []string
	if len(tests) > 0 {
		patterns = append(patterns, "^("+strings.Join(tests, "|")+")$")
	}
	if len(gone) > 0 {
		patterns = append(patterns, "^TestJourneys$/^at-once$/^("+strings.Join(gone, "|")+")$")
	}
	return strings.Join(patterns, "|")
}

// report tells what is left out and when it goes.
func report(all, out []story, turns, turn int) string {
	seconds, waiting := 0, map[string][]string{}
	for _, s := range all {
		seconds += s.seconds
	}
	left := 0
	for _, s := range out {
		if left += s.seconds; !s.soak {
			waiting[s.suite] = append(waiting[s.suite], s.name)
		}
	}
	if turns == 1 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Turn %d of %d of the tests and journeys that take longest: of %d s of them %d s are left out. They go in other turns,"+
		" which other commits have, or all without TURNS=%d:\n", turn+1, turns, seconds, left, turns)
	for _, suite := range slices.Sorted(maps.Keys(waiting)) {
		fmt.Fprintf(&b, "  %s: %s\n", suite, strings.Join(waiting[suite], " "))
	}
	return b.String()
}
