package main

import (
	"bufio"
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/etcd/codec"
	"druid.internal/druid/test/workload"
)

func TestATargetIsMetUpToItsLimit(t *testing.T) {
	for phrase, c := range map[string]struct {
		criterion
		met  bool
		used float64
	}{
		"below a ceiling": {criterion{value: 150, bound: atMost, limit: 200}, true, 0.75},
		"at a ceiling":    {criterion{value: 200, bound: atMost, limit: 200}, true, 1},
		"above a ceiling": {criterion{value: 250, bound: atMost, limit: 200}, false, 1.25},
		"above a floor":   {criterion{value: 400, bound: atLeast, limit: 200}, true, 0.5},
		"at a floor":      {criterion{value: 200, bound: atLeast, limit: 200}, true, 1},
		"below a floor":   {criterion{value: 100, bound: atLeast, limit: 200}, false, 2},
		"none of nothing": {criterion{value: 0, bound: atMost, limit: 0}, true, 0},
		"some of nothing": {criterion{value: 3, bound: atMost, limit: 0}, false, 3},
	} {
		t.Run(phrase, func(t *testing.T) {
			if got := c.criterion.met(); got != c.met {
				t.Errorf("met is %v, want %v", got, c.met)
			}
			if got := c.criterion.used(); got != c.used {
				t.Errorf("used is %v, want %v", got, c.used)
			}
		})
	}
}

func runs(others float64, seconds ...float64) *measured {
	m := &measured{}
	for _, s := range seconds {
		m.runs = append(m.runs, run{wall: time.Duration(s * float64(time.Second)), others: others})
	}
	return m
}

// A machine that is busy in one round is busy for both programs, so the ratio stays what it is.
func TestTheRatioOfDisturbedRunsIsTakenWithinEachRound(t *testing.T) {
	candidate, baseline := runs(0.5, 3, 30, 60), runs(0.5, 2, 20, 20)
	if got, want := ratio(candidate, baseline, wall), 1.5; got != want {
		t.Errorf("the ratio is %v, want %v", got, want)
	}
}

func TestOnlyQuietRunsCountIfThereAreAny(t *testing.T) {
	candidate, baseline := runs(0.5, 1, 90), runs(0.5, 70, 80, 90)
	candidate.runs = append(candidate.runs, runs(0.01, 3, 5).runs...)
	baseline.runs = append(baseline.runs, runs(0.1, 2).runs...)
	if got, want := ratio(candidate, baseline, wall), 2.0; got != want {
		t.Errorf("the ratio is %v, want %v", got, want)
	}
	if got, want := candidate.rounds(), "2 of 4"; got != want {
		t.Errorf("rounds are %q, want %q", got, want)
	}
	if got, want := runs(0.5, 1, 2).rounds(), "2, all disturbed"; got != want {
		t.Errorf("rounds are %q, want %q", got, want)
	}
}

func TestTheMedianOfAnEvenNumberLiesBetweenTheMiddleTwo(t *testing.T) {
	if got, want := median([]float64{4, 1, 3, 2}), 2.5; got != want {
		t.Errorf("the median is %v, want %v", got, want)
	}
}

// What a program we started does is not what others do, and neither is what such a program has others
// do, as nodes and their containers.
func TestOurOwnWorkIsNotThatOfOthers(t *testing.T) {
	for phrase, script := range map[string]string{
		"a child":      "while :; do :; done",
		"a grandchild": "/bin/sh -c 'while :; do :; done' & trap 'kill $!' TERM; wait",
	} {
		t.Run(phrase, func(t *testing.T) {
			theirs := func() time.Duration { return ourTime() - cpuTime() }
			before, began := theirs(), time.Now()
			cmd := exec.Command("/bin/sh", "-c", script)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer cmd.Wait()
			defer cmd.Process.Signal(syscall.SIGTERM)
			for theirs()-before < 200*time.Millisecond {
				if time.Since(began) > time.Minute {
					t.Fatal("its time does not count")
				}
			}
		})
	}
}

func TestAProgramIsMeasuredToItsEnd(t *testing.T) {
	file := filepath.Join(t.TempDir(), "written")
	r, err := program{path: "/bin/sh", args: []string{"-c", `head -c 3000000 /dev/zero >"$0"; cat "$0"; sleep 0.1`, file}}.measure(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(r.stdout) != 3_000_000 {
		t.Errorf("%d bytes of output, want 3000000", len(r.stdout))
	}
	if r.wall < 100*time.Millisecond || r.cpu <= 0 || r.rss <= 0 || r.anon <= 0 {
		t.Errorf("wall %v, cpu %v, rss %d, anonymous %d: none can be so small", r.wall, r.cpu, r.rss, r.anon)
	}
	if r.read == 0 {
		t.Error("nothing was read")
	}
}

func TestAProgramThatGoesOnIsMeasuredUntilItSaysThatItIsDone(t *testing.T) {
	began := time.Now()
	r, err := program{path: "/bin/sh", args: []string{"-c", "echo begun >&2; echo all stored >&2; exec sleep 600"}, until: "all stored"}.measure(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("it was left running for %s", took)
	}
	if r.reported != "all stored" {
		t.Errorf("it reported %q", r.reported)
	}
}

func TestAFailingProgramIsNoMeasurement(t *testing.T) {
	for phrase, p := range map[string]program{
		"it fails":             {args: []string{"-c", "echo the disk is full >&2; exit 3"}},
		"it ends without word": {args: []string{"-c", "echo the disk is full >&2"}, until: "all stored"},
	} {
		t.Run(phrase, func(t *testing.T) {
			p.path = "/bin/sh"
			_, err := p.measure(t.Context())
			if err == nil || !strings.Contains(err.Error(), "the disk is full") {
				t.Errorf("the error is %v, want one with what the program said", err)
			}
		})
	}
}

func TestRecordedEventsComeBack(t *testing.T) {
	file := filepath.Join(t.TempDir(), "events")
	if err := writeEvents(file, workload.NewRandom(1, 10, 100), 25, 10); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	g, r := workload.NewRandom(1, 10, 100), bufio.NewReader(f)
	var sizes []int
	for {
		events, err := readEvents(r)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, len(events))
		for _, e := range events {
			if got, want := e.String(), g.Next().String(); got != want {
				t.Fatalf("got %s, want %s", got, want)
			}
		}
	}
	if diff := cmp.Diff([]int{10, 10, 5}, sizes); diff != "" {
		t.Errorf("deltas differ (-want +got):\n%s", diff)
	}
}

// What native deltas are compared with must be the real thing.
func TestTheOriginalsWayMakesDeltasThatCanBeRead(t *testing.T) {
	g := workload.NewKubernetes(workload.KubernetesOptions{Seed: 1})
	var events []*mvccpb.Event
	for range 200 {
		events = append(events, g.Next())
	}
	var b bytes.Buffer
	if err := packOriginal(&b, events); err != nil {
		t.Fatal(err)
	}
	d, err := codec.NewDeltaReader(&b, snapshot.Gzip, codec.ReaderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for err == nil {
		_, err = d.Next()
	}
	if err != io.EOF {
		t.Fatal(err)
	}
	if d.Format() != codec.V2JSON || d.Events() != 200 {
		t.Errorf("read %d events in %s, want 200 in %s", d.Events(), d.Format(), codec.V2JSON)
	}
}

func sample() *report {
	return &report{groups: []groupResult{{group: group{title: "Restoring <things>"}, result: result{
		criteria: []criterion{
			{"Restore A & B", "time / gunzip", 1.4, atMost, 1.6, "x", true},
			{"", "speed", 90_000, atLeast, 100_000, "events/s", false},
			{"Restore C", "anonymous memory", 1900, atMost, 200, "MB", false},
		},
		programs: []*measured{{name: "gunzip", runs: []run{{wall: time.Second}, {wall: 2 * time.Second}}}},
		tables:   []table{{"Beside others", []string{"", "one", "another"}, [][]string{{"work", "1 s", "2 s"}}, "a note"}},
		remarks:  []string{"a remark"},
	}}, {group: group{title: "Only tables"}}}}
}

func TestThePlotIsAPictureOfAllTargets(t *testing.T) {
	svg := drawPlot(sample().criteria())
	if strings.Contains(svg, "%!") {
		t.Errorf("broken format in\n%s", svg)
	}
	bars := 0
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, is := token.(xml.StartElement); is && e.Name.Local == "rect" {
			bars++
		}
	}
	if want := 1 + 3; bars != want { // the background, too
		t.Errorf("%d rectangles, want %d", bars, want)
	}
	if got := strings.Count(svg, ", missed"); got != 2 {
		t.Errorf("%d bars say that they missed, want 2", got)
	}
}

func TestTheDocumentTellsEveryTargetAndItsVerdict(t *testing.T) {
	doc := sample().markdown("performance.svg")
	for _, want := range []string{
		"1 of 3 targets are met.",
		"![How much of each limit is used up](performance.svg)",
		"| Restore A & B | time / gunzip | at most 1.60 x | 1.40 x | met, disturbed |",
		"| Restore A & B | speed | at least 100 k events/s | 90 k events/s | MISSED |",
		"| Restore C | anonymous memory | at most 200 MB | 1900 MB | MISSED |",
		"- a remark",
		"## Beside others\n\n|  | one | another |\n| --- | --- | --- |\n| work | 1 s | 2 s |\n\na note\n",
		"| gunzip | 2 of 2 | 1.50 (1.00-2.00) |",
	} {
		if !strings.Contains(doc, want) {
			t.Errorf("the document lacks %q:\n%s", want, doc)
		}
	}
	if strings.Contains(doc, "%!") {
		t.Error("broken format")
	}
	if strings.Contains(doc, "### Only tables") {
		t.Error("a group that ran no programs has a table of programs")
	}
}
