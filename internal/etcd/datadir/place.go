package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// place is where a data directory is replaced. Beside DIR it uses these names:
//
//	DIR.part             the new directory while it is made; after the exchange, the old one
//	DIR.part-old-INODE-  the old directory, where the file system cannot exchange two names;
//	                     the number is that of the new one, to recognise it under its name
//	DIR.part.lock        held, by flock, by the one process that may touch any of them
type place struct {
	dir, part string
	lock      *os.File
	renames   bool // never exchange
}

// openPlace takes the lock. A symbolic link is followed: what it points to is replaced.
func openPlace(dir string) (*place, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if real, err := filepath.EvalSymlinks(abs); err == nil {
		abs = real
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s: %w", ErrPlace, abs, err)
	} else if to, err := os.Readlink(abs); err == nil {
		return nil, fmt.Errorf("%w: %s is a symbolic link to %s, which does not exist; make that an empty directory, or name another place", ErrPlace, abs, to)
	}
	if st, err := os.Stat(filepath.Dir(abs)); err != nil {
		return nil, fmt.Errorf("%w: %s cannot be made, its parent must exist: %w", ErrPlace, abs, err)
	} else if !st.IsDir() {
		return nil, fmt.Errorf("%w: %s cannot be made, %s is not a directory", ErrPlace, abs, filepath.Dir(abs))
	}
	if mounted, err := isMountPoint(abs); err != nil {
		return nil, err
	} else if mounted {
		return nil, fmt.Errorf("%w: %s is a mount point, which cannot be replaced at once; name a directory below it, for example %s",
			ErrPlace, abs, filepath.Join(abs, "new.etcd"))
	}
	p := &place{dir: abs, part: abs + ".part"}
	path := p.part + ".lock"
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, fmt.Errorf("lock the data directory: %w", err)
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			f.Close()
			if errors.Is(err, unix.EWOULDBLOCK) {
				return nil, fmt.Errorf("%w: another restore into %s holds %s", ErrBusy, abs, path)
			}
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		// The holder before may have removed the file between our two calls.
		here, err1 := f.Stat()
		there, err2 := os.Stat(path)
		if err1 == nil && err2 == nil && os.SameFile(here, there) {
			p.lock = f
			return p, nil
		}
		f.Close()
		if err1 != nil {
			return nil, err1
		}
		if err2 != nil && !errors.Is(err2, fs.ErrNotExist) {
			return nil, err2
		}
	}
}

// close gives the lock back.
func (p *place) close() {
	os.Remove(p.lock.Name())
	p.lock.Close()
}

// aside lists the directories that were set aside.
func (p *place) aside() ([]string, error) {
	entries, err := os.ReadDir(filepath.Dir(p.dir))
	if err != nil {
		return nil, err
	}
	var found []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), filepath.Base(p.part)+"-old-") {
			found = append(found, filepath.Join(filepath.Dir(p.dir), e.Name()))
		}
	}
	return found, nil
}

// asidePattern is the name, for os.MkdirTemp, under which an old directory is set aside for the
// directory with the inode.
func (p *place) asidePattern(inode uint64) string {
	return fmt.Sprintf("%s-old-%d-*", filepath.Base(p.part), inode)
}

// recover undoes or completes what an interrupted run left.
//
//	DIR                DIR.part-old-   means                             is answered by
//	there              none            nothing was replaced, or all was  removing DIR.part
//	the new one        there           replaced, not cleaned up          removing both others
//	missing or empty   there           interrupted between two renames   putting the old one back
//	another            there           somebody else made it meanwhile   removing DIR.part only
func (p *place) recover() error {
	aside, err := p.aside()
	if err != nil {
		return err
	}
	if len(aside) > 0 {
		if err := p.settleAside(aside); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(p.part); err != nil {
		return fmt.Errorf("remove what an interrupted restore left: %w", err)
	}
	return nil
}

func (p *place) settleAside(aside []string) error {
	inode, empty, err := describe(p.dir)
	switch {
	case err != nil:
		return err
	case inode == 0 || empty:
		if len(aside) > 1 {
			return fmt.Errorf("%s is missing and there are %d directories set aside: rename the right one of %q to it", p.dir, len(aside), aside)
		}
		if err := rename(aside[0], p.dir); err != nil {
			return fmt.Errorf("put the old data directory back: %w", err)
		}
		return syncDir(filepath.Dir(p.dir))
	}
	for _, path := range aside {
		if ours, _ := filepath.Match(p.asidePattern(inode), filepath.Base(path)); !ours {
			continue
		}
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("remove the old data directory: %w", err)
		}
	}
	return nil
}

// describe returns the inode of a directory, 0 if there is none.
func describe(dir string) (inode uint64, empty bool, err error) {
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return 0, false, nil
		}
		return 0, false, &fs.PathError{Op: "stat", Path: dir, Err: err}
	}
	entries, err := os.ReadDir(dir)
	return st.Ino, len(entries) == 0, err
}

// inspect tells whether there is data under the final name that is not in use.
func (p *place) inspect() (old bool, err error) {
	st, err := os.Stat(p.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if !st.IsDir() {
		return false, fmt.Errorf("%w: %s is not a directory", ErrPlace, p.dir)
	}
	entries, err := os.ReadDir(p.dir)
	if err != nil || len(entries) == 0 {
		return false, err
	}
	f, err := os.Open(databasePath(p.dir))
	if err != nil {
		return true, nil // no database: whatever it is, no etcd runs on it
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		return false, fmt.Errorf("%w: an etcd runs on %s; stop it first", ErrBusy, p.dir)
	}
	return true, nil
}

// replace gives the new directory its name.
func (p *place) replace(old bool, at func(step) error) error {
	parent := filepath.Dir(p.dir)
	if !old { // there is none, or an empty one, which a rename replaces
		if err := rename(p.part, p.dir); err != nil {
			return err
		}
		if err := at(replaced); err != nil {
			return err
		}
		if err := syncDir(parent); err != nil {
			return err
		}
		return at(durable)
	}
	if _, err := p.inspect(); err != nil { // an etcd may have been started since the first look
		return err
	}
	undo, err := p.exchange(at)
	if err != nil {
		return err
	}
	if err := at(replaced); err != nil {
		return errors.Join(err, undo())
	}
	if err := syncDir(parent); err != nil {
		return errors.Join(err, undo())
	}
	if err := at(durable); err != nil {
		return err
	}
	// From here on the restore has succeeded: what cannot be removed now, the next run removes.
	if err := p.recover(); err == nil {
		_ = syncDir(parent)
	}
	return at(cleaned)
}

// exchange swaps the old and the new directory, at once where the file system can.
func (p *place) exchange(at func(step) error) (undo func() error, err error) {
	swap := func() error { return exchangeNames(p.part, p.dir) }
	if p.renames {
		return p.renameBoth(at)
	}
	if err = swap(); err == nil {
		return swap, nil
	}
	if !errors.Is(err, errors.ErrUnsupported) {
		return nil, fmt.Errorf("put the new data directory in its place: %w", err)
	}
	return p.renameBoth(at)
}

// renameBoth is exchange in two renames. In between the name is missing, until the next run
// or Recover puts the old directory back.
func (p *place) renameBoth(at func(step) error) (undo func() error, err error) {
	inode, _, err := describe(p.part)
	if err != nil {
		return nil, err
	}
	aside, err := os.MkdirTemp(filepath.Dir(p.dir), p.asidePattern(inode))
	if err != nil {
		return nil, err
	}
	if err := rename(p.dir, aside); err != nil {
		os.Remove(aside)
		return nil, fmt.Errorf("set the old data directory aside: %w", err)
	}
	back := func() error { return rename(aside, p.dir) }
	if err := at(setAside); err != nil {
		return nil, errors.Join(err, back())
	}
	if err := rename(p.part, p.dir); err != nil {
		return nil, errors.Join(fmt.Errorf("put the new data directory in its place: %w", err), back())
	}
	return func() error { return errors.Join(rename(p.dir, p.part), back()) }, nil
}

// Recover brings dir into a definite state after a restore was interrupted: data set aside is
// put back if dir has none, and left-overs are removed. It does nothing when there is nothing
// to do, and fails with [ErrBusy] while a restore runs. Restore does the same at its beginning.
func Recover(dir string) error {
	p, err := openPlace(dir)
	if err != nil {
		return err
	}
	defer p.close()
	return p.recover()
}

// rename is os.Rename without its refusal to replace an empty directory, which the system allows.
func rename(from, to string) error {
	if err := unix.Rename(from, to); err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}

// syncTree syncs every file and directory below root, and root.
func syncTree(root string) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return syncDir(path)
	})
}

// syncDir syncs a directory, or a file.
func syncDir(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	err = f.Sync()
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("sync %s: %w", path, err)
	}
	return nil
}
