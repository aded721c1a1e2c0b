package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"druid.internal/druid/test/history"
	"druid.internal/druid/test/stores"
)

// TestOverlappingDeltasOfTwoWritersRestoreExactly lets a second snapshotter take over while the
// first goes on, as a new leader does whose predecessor does not know yet.
func TestOverlappingDeltasOfTwoWritersRestoreExactly(t *testing.T) {
	t.Parallel()
	const stories = 12
	for range stories {
		if overlap(t) {
			return
		}
	}
	t.Errorf("in %d stories the first never went on for long enough", stories)
}

// overlap is false if the story did not come about: both gave a delta the same name within a second, whereupon the
// first looked at the whole bucket and learned of the second.
func overlap(t *testing.T) bool {
	m := sharedMinIO(t)
	bucket := newBucket(t, m, stores.Governance)
	w := newWorld(t, 51, 150)
	w.useS3(m, m.Endpoint, bucket)
	// The first has a store that does not tell of the new owner, so it goes on longer than it
	// should.
	a := newDeaf(t, m)
	deaf := *w
	deaf.place = inS3(t, m, a.Endpoint, bucket, m.Root)
	first := deaf.snapshot("--owner=first", "--delta-snapshot-memory-limit=7000") // other cuts than the second's
	w.uploaded(first, w.write(40))

	refused := w.fails(3, "snapshot", "--endpoints="+w.etcd.Endpoint(), "--owner=second")
	says(t, refused, "first", "--take-over")
	if got := len(versions(t, m, bucket)); got != len(newVault(t, m, bucket).keys()) || !fulls(w, 1) {
		t.Errorf("the refused one wrote something: %d versions", got)
	}

	second := w.snapshot("--owner=second", "--take-over")
	var mid int64
	early := false
	eventually(t, "both have written the same revisions three times", second.ended, second.log.String, func() bool {
		select {
		case <-first.ended:
			early = true
			return true
		default:
		}
		mid = w.write(40)
		w.uploaded(second, mid)
		overlaps := 0
		for _, f := range w.list().Findings {
			if f.Code == "overlap" {
				overlaps++
			}
		}
		return overlaps >= 3
	})
	if early {
		if code := first.wait(); code != 3 {
			t.Errorf("the first exits with %d, want 3:\n%s", code, first.log)
		}
		says(t, first.log.String(), "owned by another writer")
		second.stop()
		return false
	}
	a.Heal()
	w.write(40)
	if code := first.wait(); code != 3 {
		t.Errorf("the first learns of the new owner and exits with %d, want 3:\n%s", code, first.log)
	}
	last := w.write(40)
	w.uploaded(second, last)
	second.stop()
	says(t, first.log.String(), "owned by another writer")

	l := w.list()
	if len(l.Lineages) != 1 {
		t.Errorf("%d lineages, want one: it is the same history", len(l.Lineages))
	}
	for _, rev := range []int64{l.Lineages[0].Restorable[0].From + 1, mid, (mid + last) / 2, last} {
		dir, err := w.restore(fmt.Sprintf("--to-revision=%d", rev))
		if err != nil {
			t.Error(err)
			continue
		}
		w.check(dir, rev)
	}
	w.verifies()
	return true
}

func fulls(w *world, want int) bool { return len(w.list().all("Full")) == want }

// TestHistoriesBeforeAndAfterARestoreAreNeverMixed restores an old state and backs up what
// happens then into the same prefix, twice.
func TestHistoriesBeforeAndAfterARestoreAreNeverMixed(t *testing.T) {
	t.Parallel()
	m := sharedMinIO(t)
	bucket := newBucket(t, m, stores.Compliance)
	w := newWorld(t, 52, 120)
	w.useS3(m, m.Endpoint, bucket)
	fork := w.backup(80)
	lost := w.backup(120)
	old := w.list().Lineages[0].ID
	w.etcd.Kill()

	dir, report := w.mustRestore(fmt.Sprintf("--to-revision=%d", fork), "--keep-history")
	if report.Lineage.Parent != old || report.Lineage.ID == old {
		t.Errorf("the restored lineage is %+v, want a new one whose parent is %s", report.Lineage, old)
	}
	after := newWorldWith(t, stores.EtcdOptions{DataDir: dir}, 53, 120)
	after.place = w.place
	// With the data directory it is known where the data come from: no question is asked.
	last := after.backup(200)
	if last <= fork {
		t.Fatalf("the new history ends at %d, it began at %d", last, fork)
	}

	l := w.list()
	if len(l.Lineages) != 2 || l.Lineages[0].ID != report.Lineage.ID || l.Lineages[0].Parent != old || l.Lineages[0].Fork != fork {
		t.Fatalf("lineages %+v, want the restored one with parent %s and fork %d first", l.Lineages, old, fork)
	}
	says(t, w.succeeds("list"), old, report.Lineage.ID)
	for what, c := range map[string]struct {
		of   *world
		rev  int64
		args []string
	}{
		"the new history":               {after, last, nil},
		"the new at an old revision":    {after, min(lost, last), []string{fmt.Sprintf("--to-revision=%d", min(lost, last))}},
		"the old history":               {w, lost, []string{"--lineage=" + old}},
		"the old before the fork":       {w, fork - 5, []string{"--lineage=" + old, fmt.Sprintf("--to-revision=%d", fork-5)}},
		"the old behind the fork again": {w, fork + 5, []string{"--lineage=" + old, fmt.Sprintf("--to-revision=%d", fork+5)}},
	} {
		dir, err := w.restore(c.args...)
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		got, _ := keySpace(t, dir)
		if diff := history.Diff(got, c.of.history.At(c.rev)); len(diff) > 0 {
			t.Errorf("%s at revision %d differs: %q", what, c.rev, diff)
		}
	}
	w.verifies()
	// A forgotten member of the old cluster, started again, is not taken for the new one.
	if err := w.etcd.Members[0].Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	says(t, w.fails(3, "snapshot", "--endpoints="+w.etcd.Endpoint(), "--owner=somebody-else"), "--take-over")
	zombie := w.snapshot("--data-dir="+w.etcd.DataDir(), "--take-over")
	var lives *clientv3.PutResponse
	eventually(t, "the forgotten member takes a write", zombie.ended, zombie.log.String, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		var err error
		lives, err = w.client.Put(ctx, "/zombie", "lives")
		return err == nil
	})
	w.uploadedOf(zombie, old, lives.Header.Revision)
	zombie.stop()
	if got := w.list(); !slices.ContainsFunc(got.Lineages, func(l lineage) bool { return l.ID == report.Lineage.ID && l.Newest == last }) {
		t.Errorf("the new history is changed: %+v", got.Lineages)
	}
	got, err := w.restore("--lineage=" + report.Lineage.ID)
	if err != nil {
		t.Fatal(err)
	}
	after.check(got, last)
}

// uploadedOf waits until a lineage can be restored up to rev.
func (w *world) uploadedOf(r *running, id string, rev int64) {
	w.t.Helper()
	eventually(w.t, "the lineage is in the bucket", r.ended, r.log.String, func() bool {
		return slices.ContainsFunc(w.list().Lineages, func(l lineage) bool {
			return l.ID == id && len(l.Restorable) > 0 && l.Restorable[len(l.Restorable)-1].To >= rev
		})
	})
}
