package main

import (
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A few Etcds go the whole way that many go: every figure must be there, and most are within their
// limits however slow the machine is.
func TestAnOperatorWithAFewEtcdsIsMeasured(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "etcd-druid")
	build := exec.Command("go", "build", "-o", path, "./cmd/etcd-druid")
	build.Dir, build.Env = filepath.Join("..", "..", ".."), append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	b := &bench{operator: path, dir: t.TempDir(), quick: true, rounds: 1, etcds: []int{8}}
	r, err := measureOperators(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	var programs []string
	for _, m := range r.programs {
		programs = append(programs, m.name)
		if m.median(wall) <= 0 || m.median(cpu) <= 0 {
			t.Errorf("%s took %s: that cannot be", m.name, m.runs[0])
		}
	}
	want := []string{
		"8 Etcds of 3 members: a bare client makes the same objects", "the operator, 8 Etcds of 3 members: making them", "the operator, 8 Etcds of 3 members: looking after them",
	}
	if d := cmp.Diff(want, programs); d != "" {
		t.Errorf("programs (-want +got):\n%s", d)
	}
	if got, want := r.programs[0].note, "120 objects"; got != want { // 15 of each
		t.Errorf("the bare client made %s, want %s", got, want)
	}
	for _, c := range r.criteria {
		switch c.what {
		case "requests while nothing changes", "memory, from the beginning":
			if !c.met() {
				t.Errorf("%s: %s, want %s: %q", c.what, c.got(), c.wanted(), r.remarks)
			}
		}
	}
	if got, want := len(r.criteria), 5; got != want {
		t.Errorf("%d targets, want %d", got, want)
	}
	if d := cmp.Diff([]string{"", "8 Etcds", "the original, 1000"}, r.tables[0].head); d != "" {
		t.Errorf("the table's head (-want +got):\n%s", d)
	}
}

func TestWhatAnEtcdTakesMustNotGrowWithTheirNumber(t *testing.T) {
	of := func(etcds int, making, idle time.Duration) *scale {
		return &scale{etcds: etcds, made: &measured{runs: []run{{cpu: making}}}, still: &measured{runs: []run{{wall: time.Minute, cpu: idle}}}}
	}
	first := of(1000, 10*time.Second, time.Second)
	for phrase, c := range map[string]struct {
		more *scale
		want []float64
	}{
		"as much for each":   {of(2000, 20*time.Second, 2*time.Second), []float64{1, 1}},
		"making takes twice": {of(2000, 40*time.Second, 2*time.Second), []float64{2, 1}},
		"idle takes thrice":  {of(2000, 20*time.Second, 6*time.Second), []float64{1, 3}},
		"idle is not known":  {&scale{etcds: 5000, made: of(5000, 100*time.Second, 0).made}, []float64{2}},
	} {
		t.Run(phrase, func(t *testing.T) {
			all := c.more.beside(first)
			if len(all) != len(c.want) {
				t.Fatalf("%d targets, want %d", len(all), len(c.want))
			}
			for i, got := range all {
				if math.Abs(got.value-c.want[i]) > 1e-6 {
					t.Errorf("%s: %v, want %v", got.what, got.value, c.want[i])
				}
			}
		})
	}
}

func TestEveryNumberOfEtcdsStandsBesideTheOriginal(t *testing.T) {
	of := func(etcds int) *scale {
		took := time.Duration(etcds) * 10 * time.Millisecond
		return &scale{etcds: etcds, made: &measured{runs: []run{{wall: took, cpu: took}}}, still: &measured{runs: []run{{wall: time.Minute, cpu: time.Second, rss: int64(etcds) * 1e5}}}, asked: make([]string, etcds/1000-1)}
	}
	made := of(5000)
	made.made.runs[0].rss, made.still = 7e8, nil
	got := besideTheOriginal([]*scale{of(1000), of(2000), made})
	want := table{title: "What many Etcds take", head: []string{"", "1000 Etcds", "2000 Etcds", "5000 Etcds", "the original, 1000"}, rows: [][]string{
		{"making them", "10.00 s", "20.00 s", "50.00 s", ""},
		{"CPU time of the operator for each", "10.0 ms", "10.0 ms", "10.0 ms", "29 ms"},
		{"share of a core while idle", "1.67 %", "1.67 %", "", "31 %"},
		{"memory, from the beginning", "100 MB", "200 MB", "700 MB", "265 MB"},
		{"requests while nothing changes", "0", "1", "", ""},
	}}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(table{})); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestHowManyEtcdsAreMeasuredIsRead(t *testing.T) {
	for phrase, c := range map[string]struct {
		text string
		want []int
	}{
		"nothing":        {"", []int{1000}},
		"one":            {"70", []int{70}},
		"several":        {"1000,2000,5000", []int{1000, 2000, 5000}},
		"first too many": {"5000,1000", nil},
		"a word":         {"many", nil},
		"none":           {"0", nil},
		"a gap":          {"1,,2", nil},
	} {
		t.Run(phrase, func(t *testing.T) {
			b := &bench{}
			if err := b.parseEtcds(c.text); (err == nil) != (c.want != nil) {
				t.Fatalf("the error is %v", err)
			}
			if c.want != nil && !cmp.Equal(b.etcds, c.want) {
				t.Errorf("got %v, want %v", b.etcds, c.want)
			}
		})
	}
}

func TestAMetricIsAddedUpOverItsLabels(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "# HELP requests_total of requests\nrequests_total{code=\"200\",verb=\"GET\"} 1.2e+01\nrequests_total{code=\"404\"} 3\nrequests_total_more 50\nplain 4\n")
	}))
	defer server.Close()
	o := &operating{metrics: strings.TrimPrefix(server.URL, "http://")}
	for name, want := range map[string]float64{"requests_total": 15, "plain": 4, "requests": 0} {
		if got, err := o.metric(t.Context(), name); got != want || err != nil {
			t.Errorf("%s is %v (%v), want %v", name, got, err, want)
		}
	}
}
