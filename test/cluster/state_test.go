package cluster

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestADirectoryIsOfOneClusterAtATime(t *testing.T) {
	dir := t.TempDir()
	one, err := newState(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := newState(dir); !errors.Is(err, errInUse) {
		t.Errorf("error %v, want %v", err, errInUse)
	}
	if err := one.remove(); err != nil {
		t.Fatal(err)
	}
	if _, err := newState(dir); err != nil {
		t.Errorf("after it was given up: %v", err)
	}
}

func TestADirectoryThatWasChosenIsEmptiedOfAFormerClusterAndKeptInTheEnd(t *testing.T) {
	dir := t.TempDir()
	s, err := newState(dir)
	if err != nil {
		t.Fatal(err)
	}
	stale := filepath.Join(dir, "etcd", "member")
	if err := os.MkdirAll(stale, 0o755); err != nil {
		t.Fatal(err)
	}
	s.lock.Close() // as the kernel does when the process dies
	if s, err = newState(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(stale); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s: %v, want it gone", stale, err)
	}
	if err := s.remove(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Error(err)
	}
}

func TestADirectoryThatHoldsSomethingElseIsRefused(t *testing.T) {
	dir := t.TempDir()
	letters := filepath.Join(dir, "letters")
	if err := os.WriteFile(letters, []byte("dear"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := newState(dir)
	if want := "letters"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want it to name %s", err, want)
	}
	if _, err := os.Stat(letters); err != nil {
		t.Error(err)
	}
}

func TestSweepRemovesWhatDeadProcessesLeftAndNothingInUse(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	used, err := newState("")
	if err != nil {
		t.Fatal(err)
	}
	dead, err := newState("")
	if err != nil {
		t.Fatal(err)
	}
	dead.lock.Close() // as the kernel does
	if err := Sweep(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(used.dir); err != nil {
		t.Errorf("the one in use: %v", err)
	}
	if _, err := os.Stat(dead.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the one left behind: %v, want it gone", err)
	}
	if err := used.remove(); err != nil {
		t.Error(err)
	}
}
