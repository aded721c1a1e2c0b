package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"druid.internal/druid/test/sites"
)

// TestTheWholeLifeOfABackupOnEveryStore goes through every verb with no more rights than the
// documentation recommends, in a bucket that is protected as well as the store can.
func TestTheWholeLifeOfABackupOnEveryStore(t *testing.T) {
	onEveryStore(t, func(t *testing.T, s sites.Site) {
		kind, locks := locked(s)
		w := newWorld(t, 101, 100)
		bucket := w.useBucket(s, kind, sites.Writer)
		owner := inSite(t, s, "", bucket, sites.Owner)

		says(t, owner.succeeds("store probe"), map[bool]string{true: "\nprotected: ", false: "\nnot protected: "}[locks])
		// A plain bucket protects nothing, and still nobody overwrites there who asks not to. Ceph
		// ignores the question, by either protocol.
		says(t, inSite(t, s, "", fleet.Bucket(t, s, sites.Plain), sites.Owner).succeeds("store probe"),
			"overwrite it  "+map[bool]string{true: "not proven", false: "refused"}[s.Name() == "Ceph" || s.Name() == "Swift"], "\nnot protected: ")
		r := w.snapshot("--data-dir=" + w.etcd.DataDir())
		w.uploaded(r, 1)
		first := w.write(100)
		w.uploaded(r, first)
		moment := time.Now()
		last := w.write(120)
		w.uploaded(r, last)
		r.stop()

		l := w.list()
		if l.end() != last || len(l.Lineages) != 1 {
			t.Fatalf("restorable up to %d in %d lineages, want %d in one", l.end(), len(l.Lineages), last)
		}
		for _, f := range l.Findings {
			if f.Severity != "info" {
				t.Errorf("an undisturbed backup has a finding: %+v", f)
			}
		}
		deltas := l.all("Incr")
		for _, snap := range append(l.all("Full"), deltas...) {
			if p := snap.Protection; locks && (p == nil || time.Until(p.Until) < 23*time.Hour) {
				t.Errorf("%s is not shown as locked for a day: %+v", snap.Name, p)
			} else if !locks && p != nil && !p.Until.IsZero() {
				t.Errorf("%s is shown as locked: %+v", snap.Name, p)
			}
		}
		says(t, w.succeeds("list"), deltas[0].Name)
		w.verifies()
		says(t, w.succeeds("compact", "-o=json"), `"snapshot"`)
		says(t, w.succeeds("compact"), "nothing to do")
		w.verifies()

		for what, c := range map[string]struct {
			want int64
			args []string
		}{
			"latest":     {last, nil},
			"a revision": {deltas[1].From, []string{fmt.Sprintf("--to-revision=%d", deltas[1].From)}},
			"a time":     {first, []string{"--to-time=" + moment.UTC().Format(time.RFC3339Nano)}},
			"a snapshot": {deltas[1].To, []string{"--snapshot=" + deltas[1].Name}},
		} {
			dir, err := w.restore(c.args...)
			if err != nil {
				t.Errorf("%s: %v", what, err)
				continue
			}
			w.check(dir, c.want)
			if what == "a revision" {
				w.boots(dir, c.want)
			}
		}
		w.collects(s, bucket, locks)
		dir, err := w.restore()
		if err != nil {
			t.Fatal(err)
		}
		w.check(dir, last)
	})
}

// collects lets a collector keep one chain of two, which takes away the other where nothing is
// locked and nothing at all where everything is.
func (w *world) collects(s sites.Site, bucket string, locks bool) {
	t := w.t
	t.Helper()
	h := handsOn(t, s, bucket, sites.Owner)
	collector := inSite(t, s, "", bucket, sites.Collector)
	policy := []string{"--garbage-collection-policy=LimitBased", "--max-backups=1"}
	before, gone := h.keys(), w.list().all("Full")[0].Name
	says(t, collector.succeeds("collect", policy...), map[bool]string{true: "delete 0", false: "--yes"}[locks])
	if got := h.keys(); len(got) != len(before) {
		t.Fatalf("a dry run left %d of %d objects", len(got), len(before))
	}
	collector.succeeds("collect", append(policy, "--yes")...)
	left := strings.Join(h.keys(), "\n")
	switch {
	case locks && left != strings.Join(before, "\n"):
		t.Errorf("all is locked, and of\n%s\nthere is left\n%s", strings.Join(before, "\n"), left)
	case !locks && strings.Contains(left, gone):
		t.Errorf("%s was to be deleted of\n%s", gone, left)
	}
}
