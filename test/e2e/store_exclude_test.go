package e2e

import (
	"fmt"
	"testing"

	"druid.internal/druid/test/sites"
)

// TestAnExcludedSnapshotIsLeftOutOnEveryStore excludes a delta in a bucket that is protected as well
// as the store can, where nobody could delete it, and takes it back.
func TestAnExcludedSnapshotIsLeftOutOnEveryStore(t *testing.T) {
	onEveryStore(t, func(t *testing.T, s sites.Site) {
		kind, _ := locked(s)
		w := newWorld(t, 131, 100)
		w.useBucket(s, kind, sites.Owner) // of Ceph's buckets their owner cannot read what others wrote into them
		r := w.snapshot("--data-dir=" + w.etcd.DataDir())
		w.uploaded(r, 1)
		before := w.write(60)
		w.uploaded(r, before)
		last := w.write(60)
		w.uploaded(r, last)
		r.stop()
		deltas := w.list().all("Incr")
		if len(deltas) < 2 || deltas[len(deltas)-1].To != last {
			t.Fatalf("the deltas are %+v, want several up to %d", deltas, last)
		}
		bad := deltas[len(deltas)-1]
		kept := bad.From - 1

		restored := func(want int64, args ...string) {
			t.Helper()
			dir, err := w.restore(args...)
			if err != nil {
				t.Fatal(err)
			}
			w.check(dir, want)
		}
		says(t, w.succeeds("exclude", "--reason=a test", bad.Name), bad.Name, "excluded")
		if l := w.list(); l.end() != kept {
			t.Fatalf("restorable up to %d, want %d", l.end(), kept)
		}
		restored(kept)
		says(t, w.succeeds("restore", "--dry-run", "--data-dir="+t.TempDir()+"/d"), bad.Name, " is not used: it is excluded")
		restored(last, "--ignore-exclusions")
		w.fails(4, "restore", fmt.Sprintf("--to-revision=%d", last), "--data-dir="+t.TempDir()+"/d")
		says(t, w.fails(3, "exclude", w.list().all("Full")[0].Name), "nothing could be restored")

		says(t, w.succeeds("include", bad.Name), bad.Name, "used")
		restored(last)
	})
}
