package e2e

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"druid.internal/druid/test/stores"
)

var hours = flag.Float64("hours", 4, "with -soak: how long the endurance run goes on")

// TestPropertyASnapshotterNeedsNoMoreTheLongerItRuns lets one process back up an etcd under load,
// with many small deltas and a full every minute, and holds what it uses in the last quarter of
// the run against the second: memory, goroutines and open files. Now and then, and in the end, the
// bucket is verified and a revision restored. With -soak it goes on for -hours.
func TestPropertyASnapshotterNeedsNoMoreTheLongerItRuns(t *testing.T) {
	const rounds, verifyEvery = 40, 500
	m := sharedMinIO(t)
	w := newWorld(t, 91, 100)
	w.useS3(m, m.Endpoint, newBucket(t, m, stores.Governance))
	p := w.endure("--data-dir="+w.etcd.DataDir(), "--schedule=* * * * *", "--log-json", "--log-level=5")
	w.uploaded(p.running, w.history.Last())
	began, r := time.Now(), rand.New(rand.NewSource(91))
	enough := func(n int) bool {
		if *soak {
			return time.Since(began).Hours() >= *hours
		}
		return n >= rounds
	}
	var used []usage
	for n := 1; !enough(n); n++ {
		last := w.write(40)
		used = append(used, p.upTo(last))
		if n%verifyEvery == 0 {
			if _, err := w.client.Compact(t.Context(), last-100, clientv3.WithCompactPhysical()); err != nil {
				t.Fatal(err)
			}
			w.restorable(r, last)
			t.Logf("%d deltas in %s, in use: %+v", n, time.Since(began).Round(time.Second), used[len(used)-1])
		}
	}
	last := w.write(10)
	p.upTo(last)
	p.stop()
	w.restorable(r, last)
	says(t, w.succeeds("verify", "--all", "-o=json"), `"ok": true`)
	for _, kind := range []struct {
		name  string
		of    func(usage) int64
		slack int64
	}{
		{"bytes of anonymous memory", func(u usage) int64 { return u.anonymous }, 16 << 20},
		// A full beside the deltas leaves some idle connections of two goroutines each.
		{"goroutines", func(u usage) int64 { return u.goroutines }, 10},
		{"open files", func(u usage) int64 { return u.files }, 5},
	} {
		before, after := median(used[len(used)/4:len(used)/2], kind.of), median(used[3*len(used)/4:], kind.of)
		t.Logf("%s: %d in the second quarter, %d in the last", kind.name, before, after)
		if before == 0 || after > before+kind.slack {
			t.Errorf("%s grew from %d to %d in %d deltas", kind.name, before, after, len(used))
		}
	}
}

// restorable restores the newest state and a random revision, and compares both.
func (w *world) restorable(r *rand.Rand, last int64) {
	w.t.Helper()
	l := w.list()
	from := l.Lineages[0].Restorable[0].From
	for _, rev := range []int64{last, from + r.Int63n(last-from+1)} {
		dir, _ := w.mustRestore(fmt.Sprintf("--to-revision=%d", rev))
		w.check(dir, rev)
		os.RemoveAll(dir)
	}
}

func median(used []usage, of func(usage) int64) int64 {
	var all []int64
	for _, u := range used {
		all = append(all, of(u))
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// usage is what a process uses.
type usage struct{ anonymous, goroutines, files int64 }

// enduring is a snapshotter whose log is followed and not kept.
type enduring struct {
	*running
	lines chan logLine
	now   usage
}

// logLine is what matters of a line of the log.
type logLine struct {
	Message    string `json:"msg"`
	Name       string `json:"name"`
	Goroutines int64  `json:"goroutines"`
}

// endure starts a snapshotter.
func (w *world) endure(args ...string) *enduring {
	w.t.Helper()
	cmd := w.command("snapshot", append([]string{"--endpoints=" + w.etcd.Endpoint(), "--delta-snapshot-period=1s", "--delta-snapshot-memory-limit=20000"}, args...)...)
	r, output := io.Pipe()
	p := &enduring{running: &running{t: w.t, cmd: cmd, log: &logBuffer{}, ended: make(chan struct{})}, lines: make(chan logLine, 1000)}
	cmd.Stdout, cmd.Stderr = output, output
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	go func() {
		cmd.Wait()
		output.Close()
		close(p.ended)
	}()
	go func() {
		defer close(p.lines)
		for lines := bufio.NewScanner(r); lines.Scan(); {
			var l logLine
			text := lines.Text()
			if json.Unmarshal([]byte(text), &l) == nil && (l.Message == "delta uploaded" || l.Goroutines > 0) {
				p.lines <- l
				continue
			}
			fmt.Fprintln(p.log, text)
		}
	}()
	w.t.Cleanup(func() {
		go func() { // the last lines are of no interest any more
			for range p.lines {
			}
		}()
		p.kill()
	})
	return p
}

// upTo waits until deltas up to revision rev are uploaded, and tells what the process uses then.
func (p *enduring) upTo(rev int64) usage {
	p.t.Helper()
	giveUp := time.After(waitAtMost)
	uploaded := false
	for {
		select {
		case l, more := <-p.lines:
			if !more {
				p.t.Fatalf("the snapshotter ended:\n%s", p.log)
			}
			if parts := strings.Split(l.Name, "-"); len(parts) > 2 {
				last, _ := strconv.ParseInt(parts[2], 10, 64)
				uploaded = last >= rev
			}
			if l.Goroutines == 0 {
				continue
			}
			p.now.goroutines = l.Goroutines
			if uploaded {
				p.look()
				return p.now
			}
		case <-giveUp:
			p.t.Fatalf("revision %d is not uploaded after %s:\n%s", rev, waitAtMost, p.log)
		}
	}
}

// look reads what the system tells of the process.
func (p *enduring) look() {
	p.t.Helper()
	proc := fmt.Sprintf("/proc/%d/", p.cmd.Process.Pid)
	b, err := os.ReadFile(proc + "status")
	if err != nil {
		p.t.Fatal(err)
	}
	if m := rssAnon.FindSubmatch(b); m != nil {
		kb, _ := strconv.ParseInt(string(m[1]), 10, 64)
		p.now.anonymous = kb << 10
	}
	files, err := os.ReadDir(proc + "fd")
	if err != nil {
		p.t.Fatal(err)
	}
	p.now.files = int64(len(files))
}
