// Command turns says which of the tests that take longest are left out of a run that has less time than all of them take.
// long.txt lists them. Of several turns each of them goes in one; the commit says whose turn it is, so that all go in time.
//
//	cd test && go test -skip "$(go run ./cmd/turns -turns 3 -commit $(git rev-parse HEAD))" ./...
//
// It prints what go test takes as -skip, and tells what that leaves out.
package main

import (
	_ "embed"
	"flag"
	"fmt"
	"os"
)

//go:embed long.txt
var long string

func main() {
	turns := flag.Int("turns", 1, "one of so many turns goes; 1: all but what is for make soak alone")
	commit := flag.String("commit", "", "the commit, in hexadecimal digits: it says whose turn it is")
	flag.Parse()
	if err := run(*turns, *commit); err != nil {
		fmt.Fprintln(os.Stderr, "turns:", err)
		os.Exit(1)
	}
}

func run(turns int, commit string) error {
	turn, err := turnOf(commit, turns)
	if err != nil {
		return err
	}
	all, err := parse(long)
	if err != nil {
		return fmt.Errorf("long.txt: %w", err)
	}
	out := leftOut(all, turns, turn)
	fmt.Fprint(os.Stderr, report(all, out, turns, turn))
	fmt.Println(pattern(out))
	return nil
}
