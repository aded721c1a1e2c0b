package e2e

import (
	"fmt"
	"math/rand"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"druid.internal/druid/test/faults"
	"druid.internal/druid/test/sites"
)

// TestAFailedPartOfAnUploadIsNeverReportedAsASnapshotOnAnyStore lets a part of a full fail, and
// then what would make its parts one object, each for as long as the test likes.
func TestAFailedPartOfAnUploadIsNeverReportedAsASnapshotOnAnyStore(t *testing.T) {
	onEveryOtherStore(t, func(t *testing.T, s sites.Site) {
		kind, _ := locked(s)
		w := newWorld(t, 91, 60)
		bucket := fleet.Bucket(t, s, kind)
		gate := gateTo(t, s)
		w.place = inSite(t, s, gate.Endpoint, bucket, sites.Writer)
		behind := inSite(t, s, "", bucket, sites.Writer)
		last := w.writeLarge(91)
		fails := func(what sites.Does, from int) {
			seen := 0
			gate.Inject(faults.Fault{Match: func(r *http.Request) bool {
				if s.Request(r).Does != what {
					return false
				}
				seen++
				return seen >= from
			}, Status: http.StatusInternalServerError, Code: "InternalError"})
		}
		fails(sites.Part, map[bool]int{true: 1, false: 2}[s.Name() == "GCS"]) // which has just one before the last
		r := w.snapshot("--data-dir="+w.etcd.DataDir(), "--backoff-multiplier=1", "--backoff-threshold-time=1s")
		for _, what := range []sites.Does{sites.Part, sites.Finish} {
			before := len(gate.Happened())
			eventually(t, "it has failed a few times to "+string(what), r.ended, r.log.String, func() bool { return len(gate.Happened()) >= before+3 })
			if found := behind.list().all("Full"); len(found) > 0 {
				t.Errorf("nothing could %s it, and there is %+v", what, found)
			}
			gate.Heal()
			if what == sites.Part {
				fails(sites.Finish, 1)
			}
		}
		w.place = behind
		w.uploaded(r, last)
		r.stop()
		dir, err := w.restore()
		if err != nil {
			t.Fatal(err)
		}
		w.check(dir, last)
		w.verifies()
	}, "Local")
}

// writeLarge writes more than one part of any store has, and returns the last revision.
func (w *world) writeLarge(seed int64) int64 {
	w.t.Helper()
	src := rand.New(rand.NewSource(seed))
	value := make([]byte, 1_000_000)
	for i := range 18 {
		src.Read(value)
		if _, err := w.client.Put(w.t.Context(), fmt.Sprintf("/large/%d", i), string(value)); err != nil {
			w.t.Fatal(err)
		}
	}
	return w.write(10)
}

// TestAFullThatDoesNotFitIsNeverReportedAsASnapshotInADirectory is the same where there are no
// parts: the disk is full, until it is not.
func TestAFullThatDoesNotFitIsNeverReportedAsASnapshotInADirectory(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t, "8m")
	w := newWorld(t, 93, 60)
	w.useLocal(disk)
	last := w.writeLarge(93)
	r := w.snapshot("--data-dir="+w.etcd.DataDir(), "--backoff-multiplier=1", "--backoff-threshold-time=1s")
	eventually(t, "the log says that the disk is full", r.ended, r.log.String, func() bool { return strings.Contains(r.log.String(), "no space left") })
	if found := w.list().all("Full"); len(found) > 0 {
		t.Errorf("it does not fit, and there is %+v", found)
	}
	if out, err := exec.Command("mount", "-o", "remount,size=100m", disk).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	w.uploaded(r, last)
	r.stop()
	dir, err := w.restore()
	if err != nil {
		t.Fatal(err)
	}
	w.check(dir, last)
	w.verifies()
}

// TestAWriterKilledInTheMiddleOfAFileLeavesNoPartOfItInADirectory kills a snapshotter whose
// store is a directory as soon as a file is begun or has got its name.
func TestAWriterKilledInTheMiddleOfAFileLeavesNoPartOfItInADirectory(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 92, 60)
	container := t.TempDir()
	w.useLocal(container)
	begun, named := 0, 0
	var end int64
	// Where the disk is fast a file that is begun gets its name before the kill arrives, now and then.
	for kill := 0; kill < 14 || (begun == 0 || named == 0) && kill < 200; kill++ {
		seen := files(container)
		r := w.snapshot("--data-dir=" + w.etcd.DataDir())
		for hit := false; !hit; {
			select {
			case <-r.ended:
				t.Fatalf("it ended by itself:\n%s", r.log)
			default:
			}
			w.write(1)
			for name := range files(container) {
				if hidden := isHidden(name); !seen[name] && hidden == (kill%2 == 0) {
					hit = true
				}
			}
		}
		r.kill()
		for name := range files(container) {
			if seen[name] {
				continue
			}
			if isHidden(name) {
				begun++
			} else {
				named++
			}
		}
		l := w.list()
		if l.end() < end {
			t.Fatalf("restorable up to %d, it was %d already", l.end(), end)
		}
		if end = l.end(); end == 0 {
			continue
		}
		dir, err := w.restore()
		if err != nil {
			t.Fatal(err)
		}
		// A full that never got its manifest may hold more than its name promises.
		_, reached := keySpace(t, dir)
		w.check(dir, max(end, reached))
	}
	if begun == 0 || named == 0 {
		t.Errorf("%d files were begun and %d named: the kills missed", begun, named)
	}
	// What was begun is swept when it is old enough that nobody can still be writing it.
	for name := range files(container) {
		if isHidden(name) {
			old := time.Now().Add(-2 * time.Hour)
			if err := os.Chtimes(name, old, old); err != nil {
				t.Fatal(err)
			}
		}
	}
	last := w.backup(20)
	dir, err := w.restore()
	if err != nil {
		t.Fatal(err)
	}
	w.check(dir, last)
	w.verifies()
	for name := range files(container) {
		if isHidden(name) {
			t.Errorf("%s is left", name)
		}
	}
}

func isHidden(name string) bool { return strings.HasPrefix(filepath.Base(name), ".") }

// files are all files below dir.
func files(dir string) map[string]bool {
	found := map[string]bool{}
	_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			found[path] = true
		}
		return nil // what vanishes meanwhile is no file any more
	})
	return found
}
