package datadir

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// What cannot work in the end is said at the beginning, before anything was made or read.
func TestAPlaceThatCannotBeReplacedIsRefusedAtOnce(t *testing.T) {
	tmp := t.TempDir()
	link := filepath.Join(tmp, "link")
	if err := os.Symlink(filepath.Join(tmp, "nowhere"), link); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(tmp, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ dir, want string }{
		"a mount point without files":     {"/proc", "/proc/member"},
		"a symbolic link to nothing":      {link, "nowhere"},
		"a place where nobody writes":     {"/sys/data", "nothing can be written in /sys"},
		"a directory below nothing":       {filepath.Join(tmp, "a", "b"), "its parent must exist"},
		"something below a file":          {filepath.Join(file, "b"), "not a directory"},
		"the mount point, said in detail": {"/proc/../proc/", "/proc/member"},
	} {
		t.Run(name, func(t *testing.T) {
			src := Source{Base: reader([]byte("never read")), BaseName: "base"}
			_, err := Restore(context.Background(), src, Options{}, Target{Dir: c.dir, Overwrite: true, Member: solo})
			if !errors.Is(err, ErrPlace) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want ErrPlace and %q", err, c.want)
			}
		})
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) != 2 {
		t.Errorf("%v is left, %v", left, err)
	}
}

func TestOnlyWhatIsMountedIsAMountPoint(t *testing.T) {
	for path, want := range map[string]bool{"/proc": true, "/": true, t.TempDir(): false, filepath.Join(t.TempDir(), "missing"): false} {
		if got, err := isMountPoint(path); err != nil || got != want {
			t.Errorf("%s: %t, %v", path, got, err)
		}
	}
}

func TestAnEtcdStartedDuringTheRestoreKeepsItsDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	oldDir(t, dir)
	var running *os.File
	_, err := Restore(context.Background(), lifeSource(), Options{}, Target{Dir: dir, Overwrite: true, Member: solo, at: func(s step) error {
		if s != synced {
			return nil
		}
		var err error
		if running, err = os.OpenFile(databasePath(dir), os.O_RDWR, 0); err != nil {
			return err
		}
		return unix.Flock(int(running.Fd()), unix.LOCK_EX)
	}})
	defer running.Close()
	if !errors.Is(err, ErrBusy) {
		t.Errorf("%v, want ErrBusy", err)
	}
	if b, err := os.ReadFile(databasePath(dir)); err != nil || string(b) != "precious" {
		t.Errorf("the database of the running etcd has %d bytes now, %v", len(b), err)
	}
	if left, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(left) != 1 {
		t.Errorf("%v is left, %v", left, err)
	}
}
