package datadir

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func TestDataAreSetAsideListedAndForgotten(t *testing.T) {
	for name, mounted := range map[string]bool{"a directory": false, "a mount point": true} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			oldDir(t, dir)
			root, target, inside := filepath.Dir(dir), "data", "member/snap/db"
			if mounted {
				root, target, inside = dir, "member", "snap/db"
				if err := os.Mkdir(filepath.Join(dir, "lost+found"), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			now := time.Date(2024, 2, 29, 1, 2, 3, 4, time.FixedZone("", 3600))
			first, err := setAsideAt(dir, asideMark, now, mounted)
			if want := filepath.Join(root, target+".aside-20240229T000203.000000004Z"); err != nil || first != want {
				t.Fatalf("%s, %v, want %s", first, err, want)
			}
			if i := inspected(t, dir, Sanity); i.State != Missing {
				t.Errorf("%+v, want Missing", i)
			}
			if _, err := setAsideAt(dir, asideMark, now, mounted); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("nothing: %v, want fs.ErrNotExist", err)
			}
			if b, err := os.ReadFile(filepath.Join(first, inside)); err != nil || string(b) != "precious" {
				t.Errorf("the database is %q, %v", b, err)
			}
			oldDir(t, dir) // the same moment again
			second, err := setAsideAt(dir, asideMark, now, mounted)
			if err != nil {
				t.Fatal(err)
			}
			for _, other := range []string{target + ".aside-yesterday", target + ".asides"} {
				if err := os.WriteFile(filepath.Join(root, other), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got, err := markedAt(dir, asideMark, mounted)
			if diff := cmp.Diff([]string{first, second}, got); diff != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
			// An interrupted Forget leaves part of one.
			if err := os.RemoveAll(filepath.Join(first, "member")); err != nil {
				t.Fatal(err)
			}
			gone, err := forgetAt(dir, mounted)
			if diff := cmp.Diff([]string{first, second}, gone); diff != "" || err != nil {
				t.Errorf("forgotten, %v (-want +got):\n%s", err, diff)
			}
			if left, err := markedAt(dir, asideMark, mounted); len(left) > 0 || err != nil {
				t.Errorf("%q are left, %v", left, err)
			}
			if _, err := os.Stat(filepath.Join(root, target+".aside-yesterday")); err != nil {
				t.Errorf("somebody else's file: %v", err)
			}
			if gone, err := forgetAt(dir, mounted); len(gone) > 0 || err != nil {
				t.Errorf("once more: %q, %v", gone, err)
			}
		})
	}
}

func TestWhatEtcdHoldsIsNotSetAside(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s := startEtcd(t, dir)
	if _, err := SetAside(dir, time.Unix(0, 0)); !errors.Is(err, ErrBusy) {
		t.Errorf("%v, want ErrBusy", err)
	}
	if _, err := Settle(context.Background(), dir); !errors.Is(err, ErrBusy) {
		t.Errorf("Settle: %v, want ErrBusy", err)
	}
	s.stop()
	if _, err := SetAside(dir, time.Unix(0, 0)); err != nil {
		t.Error(err)
	}
}

// Data that a killed restore had moved away come back before they are set aside, and never after.
func TestSettingAsideKnowsWhatARestoreLeft(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	oldDir(t, dir)
	if _, killed, out := restoreInChild(t, crashDir+"="+dir, crashSwap+"=renames", crashStep+"="+string(setAside)); !killed {
		t.Fatal(out)
	}
	to, err := SetAside(dir, time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	if err := recoverAt(dir, false); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{filepath.Base(to)}, siblings(t, dir)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := Restore(context.Background(), lifeSource(), Options{}, Target{Dir: dir, Member: solo}); err != nil {
		t.Fatal(err)
	}
	if left, err := Aside(dir); err != nil || len(left) != 1 {
		t.Errorf("after the restore %q is aside, %v", left, err)
	}
}

func TestAVolumeTellsWhoseItIs(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	path := filepath.Join(filepath.Dir(dir), GuardFile)
	if err := Guard(dir, ""); err != nil {
		t.Errorf("no owner: %v", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without an owner a file was made: %v", err)
	}
	for range 2 {
		if err := Guard(dir, "shoot--a"); err != nil {
			t.Error(err)
		}
	}
	var wrong *OtherVolumeError
	if err := Guard(dir, "shoot--b"); !errors.Is(err, ErrOtherVolume) || !errors.As(err, &wrong) || wrong.Found != "shoot--a" || wrong.Want != "shoot--b" || wrong.Path != path {
		t.Errorf("%v, want ErrOtherVolume of shoot--a", err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "shoot--a" {
		t.Errorf("the file says %q, %v", b, err)
	}
	if err := os.WriteFile(path, []byte(" \n"), 0o600); err != nil { // a program was killed while it wrote
		t.Fatal(err)
	}
	if err := Guard(dir, "shoot--c"); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{GuardFile}, siblings(t, dir)); diff != "" {
		t.Errorf("beside the directory (-want +got):\n%s", diff)
	}
	if err := Guard("/sys/data", "x"); !errors.Is(err, ErrReadOnly) {
		t.Errorf("%v, want ErrReadOnly", err)
	}
}

func TestAReadOnlyVolumeIsTold(t *testing.T) {
	dir := t.TempDir()
	if err := Writable(dir); err != nil {
		t.Error(err)
	}
	if left := namesIn(t, dir); len(left) > 0 {
		t.Errorf("%q is left", left)
	}
	if err := Writable("/sys"); !errors.Is(err, ErrReadOnly) {
		t.Errorf("%v, want ErrReadOnly", err)
	}
	if err := Writable(filepath.Join(dir, "missing")); !errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrReadOnly) {
		t.Errorf("%v, want fs.ErrNotExist", err)
	}
	if err := noRoom(unix.ENOSPC); !errors.Is(err, ErrNoRoom) {
		t.Errorf("%v, want ErrNoRoom", err)
	}
}

func TestWhatIsKeptIsNotForgotten(t *testing.T) {
	for _, mounted := range []bool{false, true} {
		dir := filepath.Join(t.TempDir(), "new.etcd")
		if err := os.MkdirAll(filepath.Join(dir, "member"), 0o700); err != nil {
			t.Fatal(err)
		}
		kept, err := setAsideAt(dir, keptMark, time.Unix(0, 0), mounted)
		if err != nil || !strings.Contains(kept, ".kept-19700101T") {
			t.Fatalf("%s, %v", kept, err)
		}
		if gone, err := forgetAt(dir, mounted); err != nil || len(gone) != 0 {
			t.Errorf("forgotten: %q (%v)", gone, err)
		}
		if _, err := os.Stat(kept); err != nil {
			t.Error(err)
		}
	}
}

// A run of another user that was killed may leave its lock alone, which nobody else can open: good data are looked at all the same.
func TestALockThatIsAnothersIsNotInTheWay(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new.etcd")
	if err := os.MkdirAll(filepath.Join(dir, "member", "snap"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(t.TempDir(), "none", "lock"), dir+".part.lock"); err != nil { // which root cannot open either
		t.Fatal(err)
	}
	if err := Recover(dir); err != nil {
		t.Errorf("nothing but a lock is left, which nobody holds: %v", err)
	}
	if err := os.Mkdir(dir+".part", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Recover(dir); err == nil {
		t.Error("something is left besides, and nobody knows whether a run goes on")
	}
}
