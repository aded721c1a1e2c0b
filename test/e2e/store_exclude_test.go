package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"druid.internal/druid/test/sites"
	"druid.internal/druid/test/stores"
)

// TestAnExcludedSnapshotIsLeftOutOnEveryStore excludes a delta in a bucket that is protected as well
// as the store can, where nobody could delete it, and takes it back.
func TestAnExcludedSnapshotIsLeftOutOnEveryStore(t *testing.T) {
	onEveryOtherStore(t, func(t *testing.T, s sites.Site) {
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

// TestAnExcluderNeedsNoMoreThanItsPolicy excludes below one prefix, as the Job of a task calls it, with what the documentation gives
// to each role. Others exclude nothing, and the excluder harms nothing.
func TestAnExcluderNeedsNoMoreThanItsPolicy(t *testing.T) {
	t.Parallel()
	for name, s := range attacked(t) {
		if name == "Swift" || name == "OSS" || name == "Local" {
			continue // one identity does everything
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kind, _ := locked(s)
			bucket := fleet.Bucket(t, s, kind)
			source, _ := originals(t)
			owner := inSite(t, s, "", bucket, sites.Owner)
			owner.copyFrom(source).succeeds("copy")
			deltas := owner.list().all("Incr")
			newest := deltas[len(deltas)-1]
			for _, who := range []sites.Who{sites.Writer, sites.Reader, sites.Collector, sites.Extender} {
				if name == "GCS" && who == sites.Extender {
					continue // it has the one right that there is, see docs/operations/immutability.md
				}
				o := inSite(t, s, "", bucket, who).run("exclude", "--", newest.Name)
				if o.code != 5 || !strings.Contains(o.stderr, "permission denied") {
					t.Errorf("as %v exclude exits with %d, want 5 for want of rights\n%s%s", who, o.code, o.stdout, o.stderr)
				}
			}
			excluder := inSite(t, s, "", bucket, sites.Excluder)
			says(t, excluder.succeeds("exclude", "--", newest.Name), newest.Name, "excluded")
			if end := owner.list().end(); end != newest.From-1 {
				t.Errorf("restorable up to %d, want %d", end, newest.From-1)
			}
			for who, sees := range map[sites.Who]bool{sites.Writer: name != "Azure", sites.Reader: name != "Azure", sites.Excluder: true} {
				// By SAS the right to read tags is the right to set them.
				plan := inSite(t, s, "", bucket, who).run("restore", "--dry-run", "--data-dir="+t.TempDir()+"/d")
				said := plan.stdout + plan.stderr
				if sees && !strings.Contains(said, " is not used: it is excluded") {
					t.Errorf("%v restores what is excluded:\n%s", who, said)
				}
				if !sees && !strings.Contains(said, "what might be excluded by the tag x-etcd-snapshot-exclude is used") {
					t.Errorf("%v cannot read tags, and is not told what that means:\n%s", who, said)
				}
			}
			says(t, excluder.fails(3, "exclude", "--", owner.list().all("Full")[0].Name), "nothing could be restored")
			says(t, excluder.succeeds("include", "--", newest.Name), newest.Name, "used")

			theirs := handsOn(t, s, bucket, sites.Excluder).raw
			versions := handsOn(t, s, bucket, sites.Owner).versions("")
			for _, v := range versions {
				for what, err := range map[string]error{
					"deletes": theirs.Delete(t.Context(), v), "hides": theirs.Hide(t.Context(), v.Key), "writes over": theirs.Overwrite(t.Context(), v.Key, []byte("pay")),
					"shortens the lock of": theirs.(stores.Shortener).Shorten(t.Context(), v),
				} {
					if err == nil {
						t.Errorf("the excluder %s %s", what, v.Key)
					}
				}
			}
			if after := handsOn(t, s, bucket, sites.Owner).versions(""); !slices.Equal(versions, after) {
				t.Errorf("there are %+v, before %+v", after, versions)
			}
		})
	}
}
