package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"golang.org/x/sys/unix"
)

// bench is where and how is measured.
type bench struct {
	etcdbrctl string         // absolute
	wrapper   string         // etcd-wrapper
	operator  string         // etcd-druid
	etcds     []int          // how many the operator has; the first number is judged
	profiles  string         // where profiles of sidecars are kept; empty: nowhere
	rows      *regexp.Regexp // of the member group, which are measured
	self      string         // this program, for its baselines
	dir       string         // temporary, removed by close
	quick     bool
	rounds    int
	load      float64 // the highest load average of a minute seen before a run
}

func newBench(etcdbrctl, parent string, quick bool, rounds int) (*bench, error) {
	if rounds < 1 {
		return nil, errors.New("-rounds must be above 0")
	}
	if quick {
		rounds = 1
	}
	b := &bench{quick: quick, rounds: rounds}
	var err error
	if b.etcdbrctl, err = filepath.Abs(etcdbrctl); err != nil {
		return nil, err
	}
	if _, err := os.Stat(b.etcdbrctl); err != nil {
		return nil, fmt.Errorf("%w; `make build` builds it", err)
	}
	if b.self, err = os.Executable(); err != nil {
		return nil, err
	}
	if b.dir, err = os.MkdirTemp(parent, "druid-bench-"); err != nil {
		return nil, err
	}
	return b, nil
}

func (b *bench) close() { os.RemoveAll(b.dir) }

// scratch is the directory of a group; whoever uses it makes it.
func (b *bench) scratch(group string) string { return filepath.Join(b.dir, group) }

// of is the size of something: full, or quick when only development matters.
func (b *bench) of(full, quick int) int {
	if b.quick {
		return quick
	}
	return full
}

// step is one program of a comparison, with what has to be done around each of its runs.
type step struct {
	program program
	args    func() []string // different ones for each run; nil: those of the program
	check   func(run) error // is the result right? nil: nothing to check
	after   func() error    // removes what the run left
}

// compare runs the steps in turns, so that whatever else the machine does meets all of them.
func (b *bench) compare(ctx context.Context, rounds int, steps ...step) ([]*measured, error) {
	all := make([]*measured, len(steps))
	for i, s := range steps {
		all[i] = &measured{name: s.program.name}
	}
	for round := range rounds {
		for i, s := range steps {
			r, err := b.once(ctx, s)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", s.program.name, err)
			}
			all[i].runs = append(all[i].runs, r)
			fmt.Printf("  %d/%d  %-44s %s\n", round+1, rounds, s.program.name, r)
		}
	}
	return all, nil
}

func (b *bench) once(ctx context.Context, s step) (r run, err error) {
	if s.after != nil {
		defer func() { err = errors.Join(err, s.after()) }()
	}
	if s.args != nil {
		s.program.args = s.args()
	}
	unix.Sync() // writing back what was made before is not this program's work
	b.load = max(b.load, loadAverage())
	if r, err = s.program.measure(ctx); err != nil {
		return run{}, err
	}
	if s.check != nil {
		err = s.check(r)
	}
	return r, err
}

// baseline is a sub-command of this program.
func (b *bench) baseline(name string, args ...string) program {
	return program{name: name, path: b.self, args: append([]string{name}, args...)}
}

// doing tells what goes on before anything can be measured.
func doing(format string, args ...any) func() {
	began := time.Now()
	fmt.Printf("  %s ... ", fmt.Sprintf(format, args...))
	return func() { fmt.Printf("%.1f s\n", time.Since(began).Seconds()) }
}

// room checks that the disk has space for so many bytes.
func (b *bench) room(bytes int64) error {
	var s unix.Statfs_t
	if err := unix.Statfs(b.dir, &s); err != nil {
		return err
	}
	if free := int64(s.Bavail) * s.Bsize; free < bytes {
		return fmt.Errorf("%s has %s free, %s are needed; -dir chooses another place, -quick needs little", b.dir, bytesString(free), bytesString(bytes))
	}
	return nil
}
