package scratchdir

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// TestMain makes a scratch directory and waits for its end, if it is asked to by the environment.
func TestMain(m *testing.M) {
	parent := os.Getenv("SCRATCHDIR_TEST_PARENT")
	if parent == "" {
		os.Exit(m.Run())
	}
	dir, remove, err := Make(parent, "test")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "database"), make([]byte, 1<<20), 0o600)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(dir)
	_, _ = io.Copy(io.Discard, os.Stdin) // until it is killed
	_ = remove()
}

// child is another process that holds a scratch directory in parent.
func child(t *testing.T, parent string) (dir string, kill func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "SCRATCHDIR_TEST_PARENT="+parent)
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = sync.OnceFunc(func() { cmd.Process.Kill(); cmd.Wait() })
	t.Cleanup(kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return line[:len(line)-1], kill
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func TestScratchOfKilledProcessIsRemoved(t *testing.T) {
	parent := t.TempDir()
	killed, kill := child(t, parent)
	living, _ := child(t, parent)
	kill()
	own, remove, err := Make(parent, "test")
	if err != nil {
		t.Fatal(err)
	}
	if exists(killed) {
		t.Error("the scratch of a killed process is still there")
	}
	if !exists(filepath.Join(living, "database")) {
		t.Error("the scratch of a living process is gone")
	}
	if err := Sweep(parent); err != nil || !exists(own) {
		t.Errorf("a process removes its own scratch: %v", err)
	}
	if err := remove(); err != nil || exists(own) {
		t.Errorf("it is not removed: %v", err)
	}
}

func TestSweepLeavesForeignFiles(t *testing.T) {
	parent, elsewhere := t.TempDir(), t.TempDir()
	write := func(elem ...string) string {
		t.Helper()
		path := filepath.Join(elem...)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	keep := []string{
		write(parent, "thesis.txt"), write(parent, prefix+"file"), write(parent, "rebuild-1", "base"),
		write(parent, prefix+"of-a-user", "thesis.txt"),          // without a lock
		write(parent, prefix+"with-a-note", "lock"),              // a lock is empty
		write(parent, prefix+"linked", "thesis.txt"),             // the lock is a link
		write(elsewhere, "lock"), write(elsewhere, "thesis.txt"), // behind a link
	}
	if err := os.Symlink(keep[0], filepath.Join(parent, prefix+"linked", "lock")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, filepath.Join(parent, prefix+"link")); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(parent, prefix+"verify-1")
	if err := os.Mkdir(empty, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Sweep(parent); err != nil {
		t.Fatal(err)
	}
	for _, path := range keep {
		if !exists(path) {
			t.Errorf("%s is gone", path)
		}
	}
	if exists(empty) {
		t.Error("an empty scratch directory is still there")
	}
}

func TestScratchIsMadeWhileOthersSweep(t *testing.T) {
	parent := t.TempDir()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				dir, remove, err := Make(parent, "test")
				if err != nil {
					t.Error(err)
					return
				}
				if err := os.WriteFile(filepath.Join(dir, "database"), nil, 0o600); err != nil {
					t.Error(err)
				}
				if err := remove(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if left, err := os.ReadDir(parent); err != nil || len(left) > 0 {
		t.Errorf("%d directories are left: %v", len(left), err)
	}
}
