package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"druid.internal/druid/internal/operator/config"
	"druid.internal/druid/test/cluster"
)

// membersOfEtcd is how many each Etcd has.
const membersOfEtcd = 3

// What an idle operator is looked at for, in seconds.
const (
	idleSeconds      = 120
	idleSecondsQuick = 8 * periodSecondsQuick // steady Etcds are looked at after four periods
)

// mostBeating is how many Etcds an operator looks after while nothing happens: the members of more renew more Leases in a second than
// an API server on two cores takes.
const mostBeating = 2000

// periodSecondsQuick is after how many seconds each Etcd is looked at where only development matters.
const periodSecondsQuick = 2

// period is after how long each Etcd is looked at although nothing happened to it.
func (b *bench) period() time.Duration {
	if b.quick {
		return periodSecondsQuick * time.Second
	}
	return config.Defaults("").Controllers.Etcd.EtcdStatusSyncPeriod
}

// idleFor is how long an operator of so many Etcds is looked at while nothing happens: long enough
// that every Etcd is looked at, once or several times.
func (b *bench) idleFor() time.Duration {
	return time.Duration(b.of(idleSeconds, idleSecondsQuick)) * time.Second
}

// parseEtcds reads how many Etcds an operator is measured with, such as 1000,2000,5000; empty: what is
// judged.
func (b *bench) parseEtcds(text string) error {
	if text == "" {
		b.etcds = []int{b.of(1000, 50)}
		return nil
	}
	for _, one := range strings.Split(text, ",") {
		n, err := strconv.Atoi(one)
		if err != nil || n < 1 {
			return fmt.Errorf("-etcds: %q is no number of Etcds", one)
		}
		b.etcds = append(b.etcds, n)
	}
	if b.etcds[0] > mostBeating {
		return fmt.Errorf("-etcds: the first is judged while idle as well, and may be at most %d", mostBeating)
	}
	return nil
}

// scale is what an operator of so many Etcds took.
type scale struct {
	etcds             int
	made, bare, still *measured // still is nil of more than mostBeating
	asked             []string  // the requests it sent while nothing happened
	lists             int       // by which it listed the Leases of all members meanwhile
	looks             float64   // at Etcds meanwhile
	sent, tried       float64   // requests, and looks, while they were made
	objects           int       // that a bare client made
}

// of names the work.
func (s *scale) of(format string, args ...any) string {
	return fmt.Sprintf("%d Etcds of %d members: ", s.etcds, membersOfEtcd) + fmt.Sprintf(format, args...)
}

// cpuEach is the processor time for making one cluster, in milliseconds.
func (s *scale) cpuEach() float64 { return 1000 * s.made.median(cpu) / float64(s.etcds) }

// measureOperators makes many clusters on a real API server, whose pods stay pending, and then has an
// operator look after them while only heartbeats come.
func measureOperators(ctx context.Context, b *bench) (*result, error) {
	if _, err := os.Stat(b.operator); err != nil {
		return nil, fmt.Errorf("%w; `make build` builds it", err)
	}
	var all result
	var first *scale
	var scales []*scale
	for _, n := range b.etcds {
		s := &scale{etcds: n}
		if err := b.withOperator(ctx, s); err != nil {
			if first != nil && ctx.Err() != nil { // with what is judged, everything else may end early
				all.remarks = append(all.remarks, fmt.Sprintf("%d Etcds were not measured to the end: somebody interrupted it.", n))
				break
			}
			return nil, fmt.Errorf("%d Etcds: %w", n, err)
		}
		all.remarks = append(all.remarks, s.remarks(b.idleFor())...)
		scales = append(scales, s)
		if first != nil {
			all.programs = append(all.programs, s.made)
			if s.still != nil {
				all.programs = append(all.programs, s.still)
			}
			all.criteria = append(all.criteria, s.beside(first)...)
			continue
		}
		if err := b.bareClient(ctx, s); err != nil {
			return nil, fmt.Errorf("a bare client: %w", err)
		}
		all.remarks = append(all.remarks, fmt.Sprintf("The bare client takes %.1f ms of CPU time for each of %d Etcds: it only makes the objects, and is told of nothing.", 1000*s.bare.median(cpu)/float64(s.etcds), s.etcds))
		all.programs = append(all.programs, s.bare, s.made, s.still)
		all.criteria = append(all.criteria, s.judge()...)
		first = s
	}
	all.tables = []table{besideTheOriginal(scales)}
	return &all, nil
}

// besideTheOriginal shows what each number of Etcds takes, and what the original needs for a thousand.
func besideTheOriginal(scales []*scale) table {
	t := table{title: "What many Etcds take", head: []string{""}, rows: [][]string{
		{"making them"}, {"CPU time of the operator for each"}, {"share of a core while idle"}, {"memory, from the beginning"}, {"requests while nothing changes"},
	}}
	for _, s := range scales {
		t.head = append(t.head, fmt.Sprintf("%d Etcds", s.etcds))
		figures := []string{amount(s.made.median(wall), "s"), fmt.Sprintf("%.1f ms", s.cpuEach()), "", amount(s.made.worst(rss), "MB"), ""}
		if s.still != nil {
			figures[2], figures[3], figures[4] = amount(s.still.median(ofCore), "%"), amount(s.still.worst(rss), "MB"), fmt.Sprint(len(s.asked))
		}
		for i, figure := range figures {
			t.rows[i] = append(t.rows[i], figure)
		}
	}
	t.head = append(t.head, "the original, 1000")
	for i, figure := range []string{"", "29 ms", "31 %", "265 MB", ""} {
		t.rows[i] = append(t.rows[i], figure)
	}
	return t
}

// judge holds an operator against the targets.
func (s *scale) judge() []criterion {
	return []criterion{
		{fmt.Sprintf("Making %d Etcds of %d members", s.etcds, membersOfEtcd), "time / a bare client", ratio(s.made, s.bare, wall), atMost, 1.3, "x", disturbed(s.made, s.bare)},
		{"", "CPU time of the operator for each", s.cpuEach(), atMost, 15, "ms", false},
		{fmt.Sprintf("%d idle Etcds, %d heartbeats", s.etcds, s.etcds*membersOfEtcd), "share of a core", s.still.median(ofCore), atMost, 3, "%", disturbed(s.still)},
		{"", "memory, from the beginning", s.still.worst(rss), atMost, 200, "MB", false},
		{"", "requests while nothing changes", float64(len(s.asked)), atMost, 0, "requests", false},
	}
}

// beside compares more Etcds with fewer: what one takes must not grow.
func (s *scale) beside(first *scale) []criterion {
	each := func(s *scale, of func(run) float64) float64 { return s.still.median(of) / float64(s.etcds) }
	all := []criterion{{fmt.Sprintf("%d Etcds beside %d", s.etcds, first.etcds), "CPU time for making each", s.cpuEach() / first.cpuEach(), atMost, 1.2, "x", disturbed(s.made, first.made)}}
	if s.still != nil {
		all = append(all, criterion{"", "CPU time for each while idle", each(s, ofCore) / max(each(first, ofCore), 1e-9), atMost, 1.2, "x", disturbed(s.still, first.still)})
	}
	return all
}

func (s *scale) remarks(idle time.Duration) []string {
	n := float64(s.etcds)
	all := []string{fmt.Sprintf("While %d Etcds were made each was looked at %.1f times, for which the operator sent %.1f requests.", s.etcds, s.tried/n, s.sent/n)}
	if s.still == nil {
		return append(all, fmt.Sprintf("%d Etcds were only made: their %d members would renew %.0f Leases a second, which is more than an API server on this machine takes.",
			s.etcds, s.etcds*membersOfEtcd, n*membersOfEtcd/heartbeat.Seconds()))
	}
	all = append(all,
		fmt.Sprintf("%d idle Etcds were looked at %.0f times in %s, for none of which a request was sent but those below; the Leases of all members were listed meanwhile, with %d requests.", s.etcds, s.looks, idle, s.lists))
	if n := len(s.asked); n > 0 {
		all = append(all, fmt.Sprintf("The operator of %d idle Etcds sent %d requests, such as: %s", s.etcds, n, strings.Join(s.asked[:min(n, 3)], "; ")))
	}
	return all
}

// withOperator has an operator make the Etcds, and look after them if they are not too many.
func (b *bench) withOperator(ctx context.Context, s *scale) (err error) {
	dir := filepath.Join(b.scratch("operator"), strconv.Itoa(s.etcds))
	done := doing("starting an API server and creating %d Etcds", s.etcds)
	site, err := b.startSite(ctx, dir, cluster.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, site.Stop()) }()
	if err := errors.Join(site.createEtcds(ctx, s.etcds, nil), site.knowsOwners(ctx)); err != nil {
		return err
	}
	done()
	op, err := site.operate(b)
	if err != nil {
		return err
	}
	defer op.Kill()
	if err := b.measureMaking(ctx, site, op, s); err != nil {
		return fmt.Errorf("making them: %w\n%s", err, op.Log())
	}
	if s.etcds > mostBeating {
		return nil
	}
	if s.objects, err = site.keepObjects(ctx, b.objectsFile(s)); err != nil {
		return err
	}
	if err := b.measureIdle(ctx, site, op, s); err != nil {
		return fmt.Errorf("looking after them: %w\n%s", err, op.Log())
	}
	return nil
}

// measureMaking waits until all Etcds are made, for the time that is compared, and until all pods are
// there and known, for what the operator took.
func (b *bench) measureMaking(ctx context.Context, site *site, op *operating, s *scale) error {
	var made time.Duration
	m, err := b.observe(ctx, s.of("making them"), []observed{op.observed()}, op.profiled(b, s.of("making"), func(ctx context.Context) error {
		if err := site.until(ctx, s.etcds, etcdMade); err != nil {
			return err
		}
		made = time.Since(op.begun)
		return site.until(ctx, s.etcds, etcdHasPods)
	}))
	if err != nil {
		return err
	}
	s.made = m[0]
	s.made.runs[0].wall, s.made.runs[0].cpu = made, processTime(op.PID()) // from its start
	if s.sent, err = op.metric(ctx, "rest_client_requests_total"); err != nil {
		return err
	}
	s.tried, err = op.metric(ctx, "etcddruid_looks_total")
	return err
}

// measureIdle has all members report, and looks at the operator once it has nothing to do any more.
func (b *bench) measureIdle(ctx context.Context, site *site, op *operating, s *scale) error {
	done := doing("binding %d volumes and having %d members report", s.etcds*membersOfEtcd, s.etcds*membersOfEtcd)
	if err := site.bindVolumes(ctx, s.etcds); err != nil {
		return err
	}
	beats := newBeats(site, s.etcds)
	ctx, stop := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() { // members that die end everything
		defer close(ended)
		stop(fmt.Errorf("the members: %w", beats.run(ctx)))
	}()
	defer func() { stop(nil); <-ended }()
	if err := errors.Join(site.until(ctx, s.etcds, etcdHealthy), site.volumesBound(ctx, s.etcds)); err != nil {
		return err
	}
	if err := op.quiet(ctx, b.period()); err != nil {
		return err
	}
	done()
	return b.lookAtIdle(ctx, site, op, beats, s)
}

func (b *bench) lookAtIdle(ctx context.Context, site *site, op *operating, beats *beats, s *scale) error {
	looks, err := op.metric(ctx, "etcddruid_looks_total")
	if err != nil {
		return err
	}
	renewed, begun := beats.renewed.Load(), time.Now()
	m, err := b.observe(ctx, s.of("looking after them"), []observed{op.observed()}, op.profiled(b, s.of("idle"), func(ctx context.Context) error {
		return wait(ctx, b.idleFor())
	}))
	if err != nil {
		return err
	}
	s.still = m[0]
	took, n := time.Since(begun), beats.renewed.Load()-renewed
	s.still.note = fmt.Sprintf("%.0f heartbeats/s", float64(n)/took.Seconds())
	if want := float64(s.etcds*membersOfEtcd) * took.Seconds() / heartbeat.Seconds(); float64(n) < 0.8*want {
		return fmt.Errorf("%d heartbeats in %s, want %.0f: the machine is too busy to have members that live", n, took.Round(time.Second), want)
	}
	after, err := op.metric(ctx, "etcddruid_looks_total")
	if err != nil {
		return err
	}
	s.looks = after - looks
	if s.looks < float64(s.etcds) {
		return fmt.Errorf("it looked at Etcds %.0f times in %s, at each less than once", s.looks, took.Round(time.Second))
	}
	s.asked, s.lists, err = site.asked(begun, begun.Add(took))
	return err
}

// bareClient makes the objects that the operator made, with the limits of requests that the operator
// has by default and as many at the same time, on an API server of its own.
func (b *bench) bareClient(ctx context.Context, s *scale) (err error) {
	done := doing("starting an API server and creating %d Etcds again", s.etcds)
	site, err := b.startSite(ctx, filepath.Join(b.scratch("operator"), "bare"), cluster.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, site.Stop()) }()
	uids := newUIDs()
	if err := errors.Join(site.createEtcds(ctx, s.etcds, uids), site.knowsOwners(ctx)); err != nil {
		return err
	}
	clusters, err := readObjects(b.objectsFile(s), uids)
	if err != nil {
		return err
	}
	done()
	limits := config.Defaults("")
	before := processTime(os.Getpid()) // it is this process
	r, err := b.timed(ctx, func(ctx context.Context) error { return site.makeAll(ctx, clusters, limits) })
	if err != nil {
		return err
	}
	r.cpu = processTime(os.Getpid()) - before
	s.bare = &measured{name: s.of("a bare client makes the same objects"), runs: []run{r}, note: fmt.Sprintf("%d objects", s.objects)}
	fmt.Printf("  %-54s %s\n", s.bare.name, r)
	return nil
}

func (b *bench) objectsFile(s *scale) string {
	return filepath.Join(b.scratch("operator"), fmt.Sprintf("objects-%d.json", s.etcds))
}
