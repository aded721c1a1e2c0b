package e2e

import (
	"errors"
	"flag"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"druid.internal/druid/internal/etcd/datadir/boltfile"
	"druid.internal/druid/test/faults"
	"druid.internal/druid/test/stores"
)

var interruptions = flag.Int("interruptions", 24, "how often a restore is interrupted")

// TestPropertyARestoreInterruptedAnywhereIsRunAgain kills and interrupts restores at requests to
// the store and at what appears on the disk. Each time the directory is afterwards the old one
// or the new one, whole, and running it again succeeds.
func TestPropertyARestoreInterruptedAnywhereIsRunAgain(t *testing.T) {
	t.Parallel()
	m := sharedMinIO(t)
	bucket := newBucket(t, m, stores.Versioned)
	w := newWorld(t, 41, 400)
	w.useS3(m, m.Endpoint, bucket)
	middle := w.backup(120)
	last := w.backup(700)

	a := &assassin{Gate: faults.NewGate(t, m), site: fleet.Get(t, "MinIO")}
	behind := inS3(t, m, a.Endpoint, bucket, m.Root)
	old, err := w.restore(fmt.Sprintf("--to-revision=%d", middle))
	if err != nil {
		t.Fatal(err)
	}
	w.check(old, middle)

	r := rand.New(rand.NewSource(41))
	struck := map[string]int{}
	for round := 0; round < *interruptions; round++ {
		sig := []syscall.Signal{syscall.SIGKILL, syscall.SIGINT}[round%2]
		overwrite := round%4 >= 2
		home := t.TempDir()
		dir := filepath.Join(home, "data")
		args := slices.Concat([]string{"--data-dir=" + dir, "--max-fetchers=2"}, alone)
		if overwrite {
			if out, err := exec.Command("cp", "-r", old, dir).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			args = append(args, "--overwrite")
		}
		cmd := behind.command("restore", args...)
		strike := func() { cmd.Process.Signal(sig) }
		what := strikeSomewhere(a, r, round, dir, strike)
		o := what.run(t, cmd)
		a.Heal()
		if o.code == 0 {
			struck["too late: "+what.name]++
		} else {
			struck[sig.String()+" "+what.name]++
			if sig == syscall.SIGINT && o.code != 130 && o.code != 5 {
				t.Errorf("interrupted at %s it exits with %d:\n%s", what.name, o.code, o.stderr)
			}
		}
		// Whatever happened: the old one, the new one, or nothing, never a part.
		switch {
		case !exists(dir):
			if overwrite {
				t.Errorf("%s at %s: the old directory is gone", sig, what.name)
			}
			if o.code == 0 {
				t.Errorf("%s at %s: it succeeded and there is no directory", sig, what.name)
			}
		default:
			if _, at := keySpace(t, dir); at == last {
				w.check(dir, last)
			} else if !overwrite || o.code == 0 {
				t.Errorf("%s at %s: there is a directory of revision %d", sig, what.name, at)
			} else {
				w.check(dir, middle)
			}
		}
		if sig == syscall.SIGINT && o.code != 0 && !overwrite {
			if left, _ := os.ReadDir(home); len(left) > 0 && !exists(dir) {
				t.Errorf("interrupted at %s it left %v", what.name, left)
			}
		}
		if !slices.Contains(args, "--overwrite") {
			args = append(args, "--overwrite") // it may have been finished
		}
		w.succeeds("restore", args...)
		w.check(dir, last)
		if left, _ := os.ReadDir(home); len(left) != 1 {
			t.Errorf("after running it again there are %v", left)
		}
		os.RemoveAll(home)
		if t.Failed() {
			t.FailNow()
		}
	}
	reached := 0
	for name, n := range struck {
		t.Logf("%4d  %s", n, name)
		if !strings.HasPrefix(name, "too late") {
			reached += n
		}
	}
	if reached < *interruptions/2 {
		t.Errorf("only %d of %d restores were hit", reached, *interruptions)
	}
}

// blow is one way to hit a restore.
type blow struct {
	name string
	run  func(*testing.T, *exec.Cmd) outcome
}

// strikeSomewhere chooses a request to the store or something that appears on the disk.
func strikeSomewhere(a *assassin, r *rand.Rand, round int, dir string, strike func()) blow {
	if round%3 != 0 {
		m := []moment{
			{"list", 1, false}, {"list", 1, true}, {"inspect", 1, true},
			{"read Manifest", 1, false}, {"read Manifest", 2, true},
			{"read Full", 1, false}, {"read Full", 1, true},
			{"read Incr", 1, false}, {"read Incr", 1 + r.Intn(40), r.Intn(2) == 0}, {"read Incr", 1 + r.Intn(40), r.Intn(2) == 0},
		}[r.Intn(10)]
		a.arm(m, strike)
		return blow{m.String(), finish}
	}
	// On the disk: after something appeared, and that many bytes later.
	file := []string{".part.lock", ".part", ".part/member", ".part/member/snap/db", ".part/member/wal", ".part/member/druid-lineage.json"}[r.Intn(6)]
	bytes := int64(0)
	if strings.HasSuffix(file, "db") {
		bytes = int64(r.Intn(200_000))
	}
	return blow{"the appearance of DIR" + file, func(t *testing.T, cmd *exec.Cmd) outcome {
		t.Helper()
		over := make(chan struct{})
		var watcher sync.WaitGroup
		watcher.Go(func() {
			for {
				st, err := os.Stat(dir + file)
				if err == nil && (st.IsDir() || st.Size() >= bytes) {
					strike()
					return
				}
				select {
				case <-over:
					return
				case <-time.After(100 * time.Microsecond):
				}
			}
		})
		o := finish(t, cmd)
		close(over)
		watcher.Wait()
		return o
	}}
}

// smallDisk is a file system of its own with so many bytes.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size="+size, "none", dir).CombinedOutput(); err != nil {
		t.Fatalf("mount a file system of %s (this takes root): %v: %s", size, err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("unmount %s: %v: %s", dir, err, out)
		}
	})
	return dir
}

// In a file system that is memory the holes of a file take room when they are mapped: "bad address",
// says the kernel.
func TestAFullFileSystemIsNamedWhereADatabaseCannotBeMapped(t *testing.T) {
	disk := smallDisk(t, "8m")
	path := filepath.Join(disk, "db")
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 4<<20); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(disk, "ballast"), make([]byte, 8<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the ballast: %v", err)
	}
	r, err := boltfile.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.Load(0, r.Size()); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v, want that no space is left for %s", err, path)
	}
}

func TestAFullDiskLeavesTheOldDataAsTheyWere(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 42, 300)
	w.useLocal(t.TempDir())
	small := w.backup(30)
	ballast := strings.Repeat("x", 300_000)
	for i := range 60 { // more than fits
		if _, err := w.client.Put(t.Context(), fmt.Sprintf("/ballast/%d", i), ballast); err != nil {
			t.Fatal(err)
		}
	}
	last := w.backup(5)

	disk := smallDisk(t, "76m") // 64 MB are the write-ahead log
	dir := filepath.Join(disk, "data")
	w.succeeds("restore", slices.Concat([]string{"--data-dir=" + dir, fmt.Sprintf("--to-revision=%d", small)}, alone)...)
	if wal := tree(t, filepath.Join(dir, "member", "wal")); len(wal) != 2 { // the directory and one segment
		t.Errorf("the write-ahead log is %q: a segment that did not fit was left", wal)
	}
	if err := os.WriteFile(filepath.Join(disk, "ballast"), make([]byte, 10<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	before := tree(t, disk)
	says(t, w.fails(1, "restore", slices.Concat([]string{"--data-dir=" + dir, "--overwrite"}, alone)...), "no space left", "not enough room on the disk", "--restoration-temp-snapshots-dir")
	if after := tree(t, disk); !slices.Equal(after, before) {
		t.Errorf("there is %q, before there was %q", after, before)
	}
	w.check(dir, small)

	// With the scratch directory on the full disk and room for the result elsewhere.
	roomy := filepath.Join(t.TempDir(), "data")
	line := w.fails(1, "restore", slices.Concat([]string{"--data-dir=" + roomy, "--memory-limit=16Mi", "--restoration-temp-snapshots-dir=" + disk}, alone)...)
	says(t, line, "no space left", "not enough room on the disk", "--restoration-temp-snapshots-dir")
	if exists(roomy) {
		t.Error("it failed and left a data directory")
	}
	if after := tree(t, disk); !slices.Equal(after, before) {
		t.Errorf("there is %q, before there was %q", after, before)
	}
	w.succeeds("restore", slices.Concat([]string{"--data-dir=" + roomy, "--memory-limit=16Mi"}, alone)...)
	w.check(roomy, last)
}

func TestASnapshotterWhoseSpillDiskIsFullKeepsTheBucketRestorable(t *testing.T) {
	t.Parallel()
	m := sharedMinIO(t)
	bucket := newBucket(t, m, stores.Governance)
	w := newWorld(t, 43, 100)
	w.useS3(m, m.Endpoint, bucket)
	disk := smallDisk(t, "256k")
	gate := faults.NewGate(t, m)
	behind := *w
	behind.place = inS3(t, m, gate.Endpoint, bucket, m.Root)
	r := behind.snapshot("--data-dir="+w.etcd.DataDir(), "--snapstore-temp-directory="+disk, "--delta-snapshot-memory-limit=200M", "--delta-snapshot-period=2s", "--backoff-multiplier=1", "--backoff-threshold-time=1s")
	w.uploaded(r, w.write(20))
	end := w.list().end()
	// Far more than fits into its memory and the disk, in one period.
	noise := make([]byte, 1_000_000)
	src := rand.New(rand.NewSource(43))
	for i := range 40 {
		src.Read(noise)
		if _, err := w.client.Put(t.Context(), fmt.Sprintf("/noise/%d", i), string(noise)); err != nil {
			t.Fatal(err)
		}
	}
	last := w.write(10)
	// It is said, and small deltas, which need no room there, make up for it.
	eventually(t, "the log says that the disk is full", r.ended, r.log.String, func() bool {
		return strings.Contains(r.log.String(), "no space left") && strings.Contains(r.log.String(), "buffer-dropped")
	})
	w.uploaded(r, last)
	if l := w.list(); l.Lineages[0].Restorable[0].From > end {
		t.Errorf("what was restorable up to %d is not any more", end)
	}
	if dir, err := w.restore(fmt.Sprintf("--to-revision=%d", last)); err != nil {
		t.Error(err)
	} else {
		w.check(dir, last)
	}
	// When there is room again, deltas follow it.
	if out, err := exec.Command("mount", "-o", "remount,size=100m", disk).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	last = w.write(10)
	w.uploaded(r, last)
	r.stop()
	dir, err := w.restore()
	if err != nil {
		t.Fatal(err)
	}
	w.check(dir, last)
	if left := tree(t, disk); len(left) > 1 {
		t.Errorf("it left %q", left)
	}
}

// tree lists all paths below root, with sizes.
func tree(t *testing.T, root string) []string {
	t.Helper()
	var all []string
	if err := filepath.Walk(root, func(path string, st os.FileInfo, err error) error {
		if err == nil {
			rel, _ := filepath.Rel(root, path)
			size := st.Size()
			if st.IsDir() {
				size = 0
			}
			all = append(all, fmt.Sprintf("%s %d", rel, size))
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return all
}
