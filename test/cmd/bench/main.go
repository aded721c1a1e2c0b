// Command bench measures how fast the product is and how much memory it takes, against the
// targets the project has set itself, and writes docs/performance.md and its plot.
//
//	go run ./cmd/bench                      everything, about an hour on two cores
//	go run ./cmd/bench -quick               a few minutes, small data: for development, not for judging
//	go run ./cmd/bench -only full           one group; -help lists them
//	go run ./cmd/bench -only member -rows 'rejoin|bootstrap'
//
// Every figure is that of a child process. What a target is compared with (unpacking alone, a bare
// program that reads, hashes, packs and writes) is measured in the same run, in turns with the
// product; those programs are sub-commands of this one, see baseline.go.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) > 1 {
		if do, is := baselines[os.Args[1]]; is {
			if err := do(ctx, os.Args[2:]); err != nil {
				fmt.Fprintf(os.Stderr, "bench %s: %v\n", os.Args[1], err)
				os.Exit(1)
			}
			return
		}
	}
	if err := measureAll(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func measureAll(ctx context.Context) error {
	var (
		etcdbrctl = flag.String("etcdbrctl", "../bin/etcdbrctl", "program to measure")
		wrapper   = flag.String("wrapper", "", "etcd-wrapper to measure; empty: the one beside etcdbrctl")
		operator  = flag.String("operator", "", "etcd-druid to measure; empty: the one beside etcdbrctl")
		etcds     = flag.String("etcds", "", "how many Etcds the operator is measured with, such as 1000,2000,5000; the first is judged, the others are compared with it, of more than 2000 only the making; empty: 1000")
		out       = flag.String("out", "", "Markdown file to write, with the plot beside it; empty: only print")
		dir       = flag.String("dir", os.TempDir(), "where data is kept while measuring; should be the disk that matters")
		quick     = flag.Bool("quick", false, "small data and one round")
		rounds    = flag.Int("rounds", 3, "how often each program runs, three times as often where it takes seconds; medians count")
		profiles  = flag.String("profiles", "", "directory for profiles of the sidecars and the operator, which are a little slower then; empty: none")
		only      = flag.String("only", "", "groups to measure, separated by commas: "+strings.Join(groupNames(), ", "))
		rows      = flag.String("rows", "", "regular expression of what is measured of the group member: "+strings.Join(memberRows(), ", "))
	)
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flag.Arg(0))
	}
	b, err := newBench(*etcdbrctl, *dir, *quick, *rounds)
	if err != nil {
		return err
	}
	defer b.close()
	chosen, err := chooseGroups(*only)
	if err != nil {
		return err
	}
	b.wrapper = cmp.Or(*wrapper, filepath.Join(filepath.Dir(b.etcdbrctl), "etcd-wrapper"))
	b.operator = cmp.Or(*operator, filepath.Join(filepath.Dir(b.etcdbrctl), "etcd-druid"))
	if err := b.parseEtcds(*etcds); err != nil {
		return err
	}
	b.profiles = *profiles
	if b.rows, err = regexp.Compile(*rows); err != nil {
		return fmt.Errorf("-rows: %w", err)
	}
	if !slices.ContainsFunc(memberRows(), b.rows.MatchString) {
		return fmt.Errorf("-rows %q fits none of %s", *rows, strings.Join(memberRows(), ", "))
	}
	began := time.Now()
	var rep report
	rep.machine = describeMachine(b.dir, b.etcdbrctl)
	rep.quick = *quick
	for _, g := range chosen {
		fmt.Printf("\n\x1b[1m%s\x1b[0m\n\n", g.title)
		res, err := g.measure(ctx, b)
		if err != nil {
			if ctx.Err() != nil {
				return errors.New("interrupted; everything temporary was removed")
			}
			rep.took, rep.load = time.Since(began), b.load
			rep.print(os.Stdout) // of an hour, perhaps
			return fmt.Errorf("%s: %w", g.name, err)
		}
		rep.groups = append(rep.groups, groupResult{group: g, result: *res})
		if err := os.RemoveAll(b.scratch(g.name)); err != nil {
			return err
		}
	}
	rep.took, rep.load = time.Since(began), b.load
	rep.print(os.Stdout)
	if *out == "" {
		return nil
	}
	return rep.write(*out)
}

// group is a part of the table that can be measured alone.
type group struct {
	name, title string
	measure     func(context.Context, *bench) (*result, error)
}

var groups = []group{
	{"restore", "Restoring 1 KB values and Kubernetes objects", measureRestores},
	{"memory", "Restoring onto a large full with little memory", measureMemory},
	{"full", "Full snapshots of a real etcd", measureFulls},
	{"delta", "Producing deltas", measureDeltas},
	{"stores", "Streams to and from object stores, and listings", measureStores},
	{"immutability", "Locks that are prolonged, and collecting", measureImmutability},
	{"member", "A member: etcd-wrapper and the sidecar", measureMembers},
	{"latency", "Requests to one member and to three", measureLatency},
	{"operator", "The operator, with many Etcds", measureOperators},
	{"nodes", "The operator, on three nodes", measureNodes},
	{"bounds", "Hostile input, and the limits that are kept", measureBounds},
	{"size", "The size of the program", measureSizes},
}

func groupNames() (names []string) {
	for _, g := range groups {
		names = append(names, g.name)
	}
	return names
}

func chooseGroups(only string) ([]group, error) {
	if only == "" {
		return groups, nil
	}
	var chosen []group
	for _, name := range strings.Split(only, ",") {
		found := false
		for _, g := range groups {
			if g.name == name {
				chosen, found = append(chosen, g), true
			}
		}
		if !found {
			return nil, fmt.Errorf("there is no group %q; there are %s", name, strings.Join(groupNames(), ", "))
		}
	}
	return chosen, nil
}
