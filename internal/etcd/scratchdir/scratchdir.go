// Package scratchdir makes directories for temporary files that outlive neither their process nor,
// for long, its death: whoever makes the next one removes those that no living process holds.
//
//	PARENT/etcdbrctl-scratch-KIND-RANDOM/        made and removed by one process
//	PARENT/etcdbrctl-scratch-KIND-RANDOM/lock    empty; the process holds it by flock
//
// Several programs may share a parent, as a sidecar and a Job do. Nothing else in it is touched.
package scratchdir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	prefix   = "etcdbrctl-scratch-"
	lockName = "lock"
)

// Make removes what Sweep does and makes a directory for files of that kind in parent; empty: in the
// system's directory for temporary files. remove removes it with all that is in it.
func Make(parent, kind string) (dir string, remove func() error, err error) {
	if parent == "" {
		parent = os.TempDir()
	}
	if err := Sweep(parent); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", nil, err
	}
	for {
		dir, err := os.MkdirTemp(parent, prefix+kind+"-")
		if err != nil {
			return "", nil, err
		}
		lock, err := hold(dir, os.O_CREATE|os.O_EXCL)
		switch {
		case err == nil:
			return dir, func() error { return errors.Join(os.RemoveAll(dir), lock.Close()) }, nil
		case errors.Is(err, errHeld), errors.Is(err, fs.ErrNotExist):
			continue // a Sweep removed it before it was locked
		}
		return "", nil, errors.Join(fmt.Errorf("lock the scratch directory %s: %w", dir, err), os.RemoveAll(dir))
	}
}

// Sweep removes the scratch directories in parent whose process ended without removing them. One that
// cannot be removed, as another user's, is left.
func Sweep(parent string) error {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() && strings.HasPrefix(e.Name(), prefix) {
			sweep(filepath.Join(parent, e.Name()))
		}
	}
	return nil
}

func sweep(dir string) {
	lock, err := hold(dir, 0)
	if errors.Is(err, fs.ErrNotExist) {
		_ = os.Remove(dir) // only if it is empty: its process ended before it made the lock
		return
	}
	if err != nil {
		return
	}
	defer lock.Close()
	_ = os.RemoveAll(dir)
}

// errHeld is returned for a lock that another open file holds, or that is not in its directory any more.
var errHeld = errors.New("another process holds it")

// hold opens and locks the lock of dir, without waiting.
func hold(dir string, flags int) (*os.File, error) {
	path := filepath.Join(dir, lockName)
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW|flags, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errHeld
		}
		return nil, err
	}
	// The holder before may have removed the file between our two calls.
	here, err1 := f.Stat()
	there, err2 := os.Stat(path)
	if err1 != nil || err2 != nil || !os.SameFile(here, there) || here.Size() > 0 || !here.Mode().IsRegular() {
		f.Close()
		return nil, errHeld
	}
	return f, nil
}
