package e2e

import (
	"fmt"
	"math/rand"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"druid.internal/druid/test/faults"
	"druid.internal/druid/test/stores"
)

// TestAnUploadWhosePartsFailIsNoSnapshot lets one part of a full fail for as long as the test
// likes.
func TestAnUploadWhosePartsFailIsNoSnapshot(t *testing.T) {
	t.Parallel()
	m := sharedMinIO(t)
	bucket := newBucket(t, m, stores.Governance)
	w := newWorld(t, 91, 60)
	gate := faults.NewGate(t, m)
	w.useS3(m, gate.Endpoint, bucket)
	value := make([]byte, 1_000_000)
	src := rand.New(rand.NewSource(91))
	for i := range 14 {
		src.Read(value)
		if _, err := w.client.Put(t.Context(), fmt.Sprintf("/big/%d", i), string(value)); err != nil {
			t.Fatal(err)
		}
	}
	last := w.write(10)
	gate.Inject(faults.Fault{Match: faults.Request(http.MethodPut, "partNumber=2&"), Status: http.StatusInternalServerError, Code: "InternalError"})
	r := w.snapshot("--data-dir="+w.etcd.DataDir(), "--backoff-multiplier=1", "--backoff-threshold-time=1s")
	eventually(t, "the part has failed a few times", r.ended, r.log.String, func() bool { return len(gate.Happened()) >= 3 })
	behind := inS3(t, m, m.Endpoint, bucket, m.Root)
	if found := behind.list().all("Full"); len(found) > 0 {
		t.Errorf("a part is missing and there is %+v", found)
	}
	gate.Heal()
	w.uploaded(r, last)
	r.stop()
	dir, err := behind.restore()
	if err != nil {
		t.Fatal(err)
	}
	w.check(dir, last)
	behind.verifies()
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
	for kill := range 14 {
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
