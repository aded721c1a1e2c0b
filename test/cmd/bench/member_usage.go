package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"druid.internal/druid/test/members"
)

// observed is a process that goes on for longer than it is looked at.
type observed struct {
	name string
	life func() members.Life
}

// etcds and sidecars are the processes of a cluster.
func etcds(c *members.Cluster) (all []observed) {
	for _, m := range c.Members() {
		all = append(all, observed{m.Name + "'s etcd-wrapper", m.EtcdLife})
	}
	return all
}

func sidecars(c *members.Cluster) (all []observed) {
	for _, m := range c.Members() {
		all = append(all, observed{m.Name + "'s sidecar", m.SidecarLife})
	}
	return all
}

// observeEvery is the pause between two looks: rare enough not to be work itself.
const observeEvery = 50 * time.Millisecond

// observe tells what processes took while do went on: as a run of each, whose wall time is that of do.
func (b *bench) observe(ctx context.Context, title string, all []observed, do func(context.Context) error) ([]*measured, error) {
	unix.Sync()
	b.load = max(b.load, loadAverage())
	pids, runs, before := make([]int, len(all)), make([]run, len(all)), make([]run, len(all))
	for i, o := range all {
		pids[i] = o.life().PID
		before[i].cpu = processTime(pids[i])
		before[i].count(pids[i])
		if pids[i] == 0 {
			return nil, fmt.Errorf("%s does not run", o.name)
		}
	}
	busy, ours, began := busyTime(), ourTime(), time.Now()
	ended := make(chan error, 1)
	go func() { ended <- do(ctx) }()
	tick := time.NewTicker(observeEvery)
	defer tick.Stop()
	var err error
	for waiting := true; waiting; {
		select {
		case err = <-ended:
			waiting = false
		case <-tick.C:
		}
		for i := range all {
			runs[i].sample(pids[i])
		}
	}
	took := time.Since(began)
	others := max(0, ((busyTime()-busy)-(ourTime()-ours)).Seconds()/took.Seconds()/float64(runtime.NumCPU()))
	measurements := make([]*measured, len(all))
	for i, o := range all {
		r := &runs[i]
		r.wall, r.others, r.cpu = took, others, processTime(pids[i])-before[i].cpu
		r.count(pids[i])
		r.read, r.written = r.read-before[i].read, r.written-before[i].written
		if o.life().PID != pids[i] {
			err = errors.Join(err, fmt.Errorf("%s ended meanwhile", o.name))
		}
		measurements[i] = &measured{name: o.name + ", " + title, runs: []run{*r}}
		fmt.Printf("  %-54s %s\n", measurements[i].name, *r)
	}
	return measurements, err
}

// processTime is the processor time so far of a process and all its threads, 0 if there is none.
func processTime(pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), ") ") // behind the name, which may contain anything
	fields := strings.Fields(rest)
	const user, system = 11, 12 // counted from the state
	if len(fields) <= system {
		return 0
	}
	u, uerr := strconv.ParseInt(fields[user], 10, 64)
	s, serr := strconv.ParseInt(fields[system], 10, 64)
	if uerr != nil || serr != nil {
		return 0
	}
	return time.Duration(u+s) * tick
}

// ofCore is the share of one processor, in percent.
func ofCore(r run) float64 { return 100 * r.cpu.Seconds() / max(r.wall.Seconds(), 1e-9) }

// timed is how long something took that is no program of its own.
func (b *bench) timed(ctx context.Context, do func(context.Context) error) (run, error) {
	unix.Sync()
	b.load = max(b.load, loadAverage())
	busy, ours, began := busyTime(), ourTime(), time.Now()
	err := do(ctx)
	r := run{wall: time.Since(began)}
	r.others = max(0, ((busyTime()-busy)-(ourTime()-ours)).Seconds()/r.wall.Seconds()/float64(runtime.NumCPU()))
	return r, err
}
