package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// state is the directory of one cluster. As long as the cluster's process lives it holds a lock
// on a file in it, which is how others tell a directory in use from one left behind.
type state struct {
	dir       string
	temporary bool
	lock      *os.File
}

// temporaryPrefix begins the names of directories that nobody chose.
const temporaryPrefix = "druid-cluster-"

// newState makes or takes over a directory.
func newState(dir string) (*state, error) {
	s := &state{dir: dir}
	var err error
	if dir == "" {
		s.temporary = true
		if s.dir, err = os.MkdirTemp("", temporaryPrefix); err != nil {
			return nil, err
		}
	}
	if s.dir, err = filepath.Abs(s.dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return nil, err
	}
	if err := os.Chmod(s.dir, 0o755); err != nil { // pods of any user have volumes below it
		return nil, err
	}
	if err := s.ours(); err != nil {
		return nil, err
	}
	if s.lock, err = takeLock(s.dir); err != nil {
		return nil, err
	}
	if err := s.empty(); err != nil {
		return nil, errors.Join(err, s.lock.Close())
	}
	return s, nil
}

// lockFile is also the mark of a directory that was a cluster's before.
const lockFile = "cluster.lock"

// ours is nil if nothing of anybody else's is in the directory, for its content will be removed.
func (s *state) ours() error {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() == lockFile {
			return nil
		}
	}
	if len(entries) > 0 {
		return fmt.Errorf("the directory %s holds something (%s) that no cluster left; choose an empty one", s.dir, entries[0].Name())
	}
	return nil
}

// errInUse is for a directory whose cluster is up.
var errInUse = errors.New("another cluster is up in it")

func takeLock(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = errInUse
		}
		return nil, fmt.Errorf("take the directory %s: %w", dir, err)
	}
	return f, nil
}

// empty removes what a former cluster left.
func (s *state) empty() error {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() == lockFile {
			continue
		}
		if err := os.RemoveAll(filepath.Join(s.dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// remove gives the directory up. One that nobody chose goes.
func (s *state) remove() error {
	var err error
	if s.temporary {
		err = os.RemoveAll(s.dir)
	}
	return errors.Join(err, s.lock.Close())
}

// Remove removes the directory of a cluster whose process is gone, and what else it left.
func Remove(ctx context.Context, dir string) error {
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return sweepCgroups(ctx)
	}
	s := &state{dir: dir, temporary: true}
	if err := s.ours(); err != nil {
		return err
	}
	var err error
	if s.lock, err = takeLock(dir); err != nil {
		return err
	}
	return errors.Join(s.remove(), sweepCgroups(ctx))
}

// Sweep removes the temporary directories of clusters whose process is gone.
func Sweep() error {
	dirs, err := filepath.Glob(filepath.Join(os.TempDir(), temporaryPrefix+"*"))
	if err != nil {
		return err
	}
	var errs []error
	for _, dir := range dirs {
		lock, err := takeLock(dir)
		if errors.Is(err, errInUse) || errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, (&state{dir: dir, temporary: true, lock: lock}).remove())
	}
	return errors.Join(errs...)
}
