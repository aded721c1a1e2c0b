package datadir

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"druid.internal/druid/internal/backup/snapshot"
	"golang.org/x/sys/unix"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// The crash tests restore in another process, which is this test binary again, told by these
// variables what to do.
const (
	crashDir  = "DATADIR_CRASH_DIR"  // restore here
	crashStep = "DATADIR_CRASH_STEP" // and kill the process at this step
	crashSwap = "DATADIR_CRASH_SWAP" // "renames": as if the file system could not exchange names; "mounted": as if one were mounted at the directory
	crashSize = "DATADIR_CRASH_SIZE" // no file may grow beyond 100 KiB; "base": nor does the full snapshot fit
)

var allSteps = []step{locked, recovered, staged, rebuilt, wrapped, identified, synced, setAside, replaced, durable, cleaned}

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEtcd); dir != "" {
		runChildEtcd(dir)
	}
	dir := os.Getenv(crashDir)
	if dir == "" {
		os.Exit(m.Run())
	}
	if os.Getenv(crashSize) != "" {
		signal.Ignore(syscall.SIGXFSZ)
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 100 << 10, Max: 100 << 10}); err != nil {
			panic(err)
		}
	}
	t := Target{Dir: dir, Overwrite: true, Member: solo, Identity: &Identity{Lineage: snapshot.Lineage{ID: "new"}}}
	t.renames = strings.Contains(os.Getenv(crashSwap), "renames")
	t.mounted = strings.Contains(os.Getenv(crashSwap), "mounted")
	t.at = func(s step) error {
		if string(s) == os.Getenv(crashStep) {
			unix.Kill(os.Getpid(), unix.SIGKILL)
			select {}
		}
		return nil
	}
	src := lifeSource()
	if os.Getenv(crashSize) == "base" {
		src.Base, src.BaseName = bytes.NewReader(make([]byte, 4<<20)), "Full-1"
	}
	_, err := Restore(context.Background(), src, Options{}, t)
	if err != nil {
		os.Stderr.WriteString(err.Error())
		if errors.Is(err, unix.EFBIG) && errors.Is(err, ErrNoRoom) {
			os.Exit(3)
		}
		os.Exit(1)
	}
	os.Exit(0)
}

// lifeSource is a source that needs no testing.TB.
func lifeSource() Source {
	records := story(nil, life)
	return Source{Deltas: []Delta{deltaOf("life", records)}}
}

func restoreInChild(t *testing.T, env ...string) (exit int, killed bool, output string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		t.Fatal(err)
	}
	status := cmd.ProcessState.Sys().(syscall.WaitStatus)
	return cmd.ProcessState.ExitCode(), status.Signaled(), string(out)
}

// oldDir makes a data directory with something in it.
func oldDir(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(dir, "member", "snap"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "member", "snap", "db"), []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "member", "druid-lineage.json"), []byte(`{"lineage":{"id":"old"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
}

// which tells what lies under the name: "old", "new" or "none"; anything halfway fails the test.
func which(t *testing.T, dir string) string {
	t.Helper()
	id, err := ReadIdentity(dir)
	if errors.Is(err, ErrNoIdentity) {
		if _, err := os.Lstat(filepath.Join(dir, "member")); errors.Is(err, fs.ErrNotExist) {
			return "none"
		}
		t.Fatalf("%s exists without an identity", dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	if id.Lineage.ID == "new" {
		db, err := OpenDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if err := db.Check(context.Background()); err != nil {
			t.Fatal(err)
		}
		if db.Revision() != 9 {
			t.Fatalf("the new directory is at revision %d", db.Revision())
		}
		if _, _, err := WALIdentity(dir); err != nil {
			t.Fatal(err)
		}
	} else if b, err := os.ReadFile(databasePath(dir)); err != nil || string(b) != "precious" {
		t.Fatalf("the old directory holds %q, %v", b, err)
	}
	return string(id.Lineage.ID)
}

func siblings(t *testing.T, dir string) []string {
	t.Helper()
	return namesIn(t, filepath.Dir(dir))
}

func namesIn(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// A restore interrupted at every step.
func TestAKilledRestoreLeavesTheOldOrTheNewDirectory(t *testing.T) {
	for _, existing := range []string{"old", "none"} {
		for _, swap := range []string{"exchange", "renames", "mounted exchange", "mounted renames"} {
			mounted := strings.HasPrefix(swap, "mounted")
			for i, s := range allSteps {
				if s == setAside && (!strings.Contains(swap, "renames") || existing == "none") || s == cleaned && existing == "none" {
					continue // there is no such step
				}
				t.Run(strings.Join([]string{existing, swap, string(s)}, " "), func(t *testing.T) {
					dir := filepath.Join(t.TempDir(), "data")
					if existing == "old" {
						oldDir(t, dir)
					} else if mounted {
						if err := os.Mkdir(dir, 0o700); err != nil {
							t.Fatal(err)
						}
					}
					root := filepath.Dir(dir)
					if mounted {
						root = dir
						if err := os.WriteFile(filepath.Join(dir, "lost+found"), nil, 0o600); err != nil {
							t.Fatal(err)
						}
					}
					env := []string{crashDir + "=" + dir, crashSwap + "=" + swap}
					if _, killed, out := restoreInChild(t, append(env, crashStep+"="+string(s))...); !killed {
						t.Fatalf("the process was not killed: %s", out)
					}
					want := existing
					if i >= indexOf(replaced) {
						want = "new"
					}
					if s != setAside {
						if got := which(t, dir); got != want {
							t.Errorf("after the crash the directory is %s, want %s", got, want)
						}
					}
					if err := recoverAt(dir, mounted); err != nil {
						t.Fatal(err)
					}
					if got := which(t, dir); got != want {
						t.Errorf("after recovering the directory is %s, want %s", got, want)
					}
					wantNames, wantAll := []string{"data"}, []string{"data"}
					if mounted {
						wantNames, wantAll = []string{"lost+found", "member"}, []string{"lost+found", "member"}
					}
					if want == "none" {
						wantNames = wantNames[:len(wantNames)-1]
					}
					if diff := cmp.Diff(wantNames, namesIn(t, root), cmpopts.EquateEmpty()); diff != "" {
						t.Errorf("beside the directory (-want +got):\n%s", diff)
					}
					if exit, _, out := restoreInChild(t, env...); exit != 0 {
						t.Fatalf("the next restore failed: %s", out)
					}
					if got := which(t, dir); got != "new" {
						t.Errorf("after the next restore the directory is %s", got)
					}
					if diff := cmp.Diff(wantAll, namesIn(t, root)); diff != "" {
						t.Errorf("beside the directory (-want +got):\n%s", diff)
					}
				})
			}
		}
	}
}

func indexOf(s step) int {
	for i, other := range allSteps {
		if other == s {
			return i
		}
	}
	return -1
}

// The steps before the replacement may also fail in an orderly way.
func TestAFailedRestoreLeavesTheOldDirectory(t *testing.T) {
	failure := errors.New("failure")
	for _, renames := range []bool{false, true} {
		for _, s := range allSteps[:indexOf(durable)] {
			if s == setAside && !renames {
				continue
			}
			dir := filepath.Join(t.TempDir(), "data")
			oldDir(t, dir)
			_, err := Restore(context.Background(), lifeSource(), Options{}, Target{Dir: dir, Overwrite: true, Member: solo, renames: renames,
				Identity: &Identity{Lineage: snapshot.Lineage{ID: "new"}},
				at: func(now step) error {
					if now == s {
						return failure
					}
					return nil
				}})
			if !errors.Is(err, failure) {
				t.Errorf("%s: %v", s, err)
			}
			if got := which(t, dir); got != "old" {
				t.Errorf("%s: the directory is %s", s, got)
			}
			if diff := cmp.Diff([]string{"data"}, siblings(t, dir)); diff != "" {
				t.Errorf("%s: beside the directory (-want +got):\n%s", s, diff)
			}
		}
	}
}

// A full disk, at the limit on the size of files.
func TestAFullDiskLeavesTheOldDirectory(t *testing.T) {
	for size, want := range map[string]string{
		"wal":  "not enough room on the disk: ",
		"base": "not enough room on the disk: unpack Full-1: write ",
	} {
		t.Run("the "+size+" does not fit", func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			oldDir(t, dir)
			exit, _, out := restoreInChild(t, crashDir+"="+dir, crashSize+"="+size)
			if exit != 3 || !strings.HasPrefix(out, want) {
				t.Errorf("exit code %d, want 3 for a write beyond the limit; %q, want it to begin with %q", exit, out, want)
			}
			if got := which(t, dir); got != "old" {
				t.Errorf("the directory is %s", got)
			}
			if diff := cmp.Diff([]string{"data"}, siblings(t, dir)); diff != "" {
				t.Errorf("beside the directory (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDataIsNotOverwrittenUnasked(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	oldDir(t, dir)
	if _, err := Restore(context.Background(), lifeSource(), Options{}, Target{Dir: dir, Member: solo}); !errors.Is(err, ErrExists) {
		t.Errorf("%v, want ErrExists", err)
	}
	if got := which(t, dir); got != "old" {
		t.Errorf("the directory is %s", got)
	}
	empty := filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(empty, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(context.Background(), lifeSource(), Options{}, Target{Dir: empty, Member: solo}); err != nil {
		t.Errorf("an empty directory is in the way: %v", err)
	}
	file := filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(context.Background(), lifeSource(), Options{}, Target{Dir: file, Overwrite: true, Member: solo}); !errors.Is(err, ErrPlace) {
		t.Errorf("%v, want ErrPlace for a file", err)
	}
}

func TestARunningEtcdAndARunningRestoreAreInTheWay(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	startEtcd(t, dir)
	_, err := Restore(context.Background(), lifeSource(), Options{}, Target{Dir: dir, Overwrite: true, Member: solo})
	if !errors.Is(err, ErrBusy) {
		t.Errorf("with an etcd: %v, want ErrBusy", err)
	}
	if _, err := OpenDir(dir); !errors.Is(err, ErrBusy) {
		t.Errorf("reading: %v, want ErrBusy", err)
	}
	other := filepath.Join(t.TempDir(), "data")
	_, err = Restore(context.Background(), lifeSource(), Options{}, Target{Dir: other, Member: solo, at: func(s step) error {
		if s == rebuilt {
			if err := recoverAt(other, false); !errors.Is(err, ErrBusy) {
				t.Errorf("with a restore: %v, want ErrBusy", err)
			}
		}
		return nil
	}})
	if err != nil {
		t.Error(err)
	}
}

// What was set aside stays if somebody else made a directory under the name meanwhile.
func TestADirectoryMadeMeanwhileDoesNotCostTheOldOne(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	oldDir(t, dir)
	if _, killed, out := restoreInChild(t, crashDir+"="+dir, crashSwap+"=renames", crashStep+"="+string(setAside)); !killed {
		t.Fatal(out)
	}
	if err := os.MkdirAll(filepath.Join(dir, "member"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := recoverAt(dir, false); err != nil {
		t.Fatal(err)
	}
	names := siblings(t, dir)
	if len(names) != 2 || !strings.HasPrefix(names[1], "data.part-old-") {
		t.Errorf("beside the directory: %q, want the old one still set aside", names)
	}
}

// The number of a removed directory is soon given to another one. Here that is made certain: the
// unfinished directory is taken away instead of removed, and comes back under the name.
func TestADirectoryWithTheInodeOfTheUnfinishedOneDoesNotCostTheOldOne(t *testing.T) {
	for name, mounted := range map[string]bool{"a directory": false, "a mount point": true} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			oldDir(t, dir)
			swap, target, fresh := "renames", dir, dir+".part"
			if mounted {
				swap, target = "mounted renames", filepath.Join(dir, "member")
				fresh = filepath.Join(target+".part", "member")
			}
			if _, killed, out := restoreInChild(t, crashDir+"="+dir, crashSwap+"="+swap, crashStep+"="+string(setAside)); !killed {
				t.Fatal(out)
			}
			taken := filepath.Join(t.TempDir(), "taken")
			for _, err := range []error{
				os.Rename(fresh, taken),
				os.MkdirAll(filepath.Join(target, "somebody's"), 0o700),
				recoverAt(dir, mounted),
				os.RemoveAll(target),
				os.Rename(taken, target),
				recoverAt(dir, mounted),
			} {
				if err != nil {
					t.Fatal(err)
				}
			}
			if kept := findOld(t, filepath.Dir(target)); !strings.Contains(kept, ".part-old-0-") {
				t.Errorf("the old data are %q, want them still set aside", kept)
			}
		})
	}
}

// A run that ends right before it sets the old directory aside leaves an empty one for it.
func TestAnEmptyDirectorySetAsideDoesNotBlockTheNextRun(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	oldDir(t, dir)
	if _, killed, out := restoreInChild(t, crashDir+"="+dir, crashSwap+"=renames", crashStep+"="+string(setAside)); !killed {
		t.Fatal(out)
	}
	for _, existing := range []string{"none", "old"} {
		if got := which(t, dir); got != existing {
			t.Fatalf("before recovering the directory is %s, want %s", got, existing)
		}
		for _, name := range []string{"-old-77-1", "-old-0-1"} {
			if err := os.Mkdir(dir+".part"+name, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if err := recoverAt(dir, false); err != nil {
			t.Fatal(err)
		}
		if got := which(t, dir); got != "old" {
			t.Errorf("after recovering the directory is %s", got)
		}
		if diff := cmp.Diff([]string{"data"}, siblings(t, dir)); diff != "" {
			t.Errorf("beside the directory (-want +got):\n%s", diff)
		}
	}
}
