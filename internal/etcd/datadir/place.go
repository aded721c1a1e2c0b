package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// place is where a data directory is replaced. What is replaced, as one, is the directory itself
// or, where a file system is mounted at it, the "member" in it, which is all that etcd keeps
// there: a mount point cannot be renamed. These names are used:
//
//	a directory          a mount point
//	DIR                  DIR/member               what is replaced
//	DIR.part             DIR/member.part          the new data directory while it is made
//	DIR.part             DIR/member.part/member   what takes its place; after the exchange, the old one
//	DIR.part-old-INODE-  DIR/member.part-old-     the old one, where the file system cannot exchange two
//	                                              names; the number is that of the new one, to recognise
//	                                              it under its name, or 0: see [place.disown]
//	DIR.part.lock        DIR/member.part.lock     held, by flock, by the one process that may touch any of them
type place struct {
	dir           string
	target, fresh string // what is replaced, and by what
	within        string // the path of target below a data directory
	part          string
	lock          *os.File
	renames       bool // never exchange
	holdsOld      bool // part holds the old data now
}

// at names what is replaced in dir and around it.
func (p *place) at(dir string, within bool) {
	p.dir, p.target, p.part = dir, dir, dir+".part"
	p.fresh, p.within = p.part, "."
	if within {
		p.within = memberDir
		p.target = filepath.Join(dir, memberDir)
		p.part = p.target + ".part"
		p.fresh = filepath.Join(p.part, memberDir)
	}
}

// lockMark ends the name of a lock.
const lockMark = ".lock"

// memberDir is all of a data directory that etcd uses.
const memberDir = "member"

// openPlace finds the place of dir and takes its lock.
func openPlace(dir string, mounted bool) (*place, error) {
	p, err := locate(dir, mounted)
	if err != nil {
		return nil, err
	}
	return p, p.acquire()
}

// locate finds the place of dir. A symbolic link is followed: what it points to is replaced.
func locate(dir string, mounted bool) (*place, error) {
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
	if !mounted {
		if mounted, err = isMountPoint(abs); err != nil {
			return nil, err
		}
	}
	p := &place{}
	p.at(abs, mounted)
	return p, nil
}

// Check returns, without changing anything, what [Restore] would replace in dir now, or why it would
// refuse dir: [ErrExists], [ErrForeign], [ErrBusy] or [ErrPlace].
func Check(dir string, overwrite bool) (*Contents, error) {
	p, err := locate(dir, false)
	if err != nil {
		return nil, err
	}
	if err := unix.Access(filepath.Dir(p.target), unix.W_OK|unix.X_OK); err != nil {
		return nil, p.unwritable(err)
	}
	return p.allows(overwrite)
}

// allows returns the data under the final name, nil if there is none. It fails if they may not be replaced.
func (p *place) allows(overwrite bool) (*Contents, error) {
	old, err := p.inspect()
	if err != nil || !old {
		return nil, err
	}
	c, err := survey(p.target, p.within)
	switch {
	case err != nil:
		return nil, err
	case c.Files > 0 && !overwrite:
		return nil, fmt.Errorf("%w: %s is not empty", ErrExists, p.target)
	}
	return &c, nil
}

// unwritable is the error of a place in which no file can be made.
func (p *place) unwritable(err error) error {
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS) {
		return fmt.Errorf("%w: %s cannot be made or replaced, because nothing can be written in %s (%w); make that writable for this user, or name a directory elsewhere",
			ErrPlace, p.target, filepath.Dir(p.target), err)
	}
	return fmt.Errorf("%w: %s cannot be made or replaced: %w", ErrPlace, p.target, err)
}

// acquire takes the lock, without waiting.
func (p *place) acquire() error {
	path := p.part + lockMark
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return p.unwritable(err)
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			f.Close()
			if errors.Is(err, unix.EWOULDBLOCK) {
				return fmt.Errorf("%w: another restore into %s holds %s", ErrBusy, p.dir, path)
			}
			return fmt.Errorf("lock %s: %w", path, err)
		}
		if st, err := f.Stat(); err == nil && (st.Size() > 0 || !st.Mode().IsRegular()) { // ours are empty
			f.Close()
			return fmt.Errorf("%w: %s is in the way of the lock; move it away", ErrForeign, path)
		}
		// The holder before may have removed the file between our two calls.
		here, err1 := f.Stat()
		there, err2 := os.Stat(path)
		if err1 == nil && err2 == nil && os.SameFile(here, there) {
			p.lock = f
			return nil
		}
		f.Close()
		if err1 != nil {
			return err1
		}
		if err2 != nil && !errors.Is(err2, fs.ErrNotExist) {
			return err2
		}
	}
}

// close gives the lock back.
func (p *place) close() {
	os.Remove(p.lock.Name())
	p.lock.Close()
}

// inspect tells whether there is data under the final name that is not in use.
func (p *place) inspect() (old bool, err error) {
	for _, dir := range []string{p.dir, p.target} {
		st, err := os.Stat(dir)
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if !st.IsDir() {
			return false, fmt.Errorf("%w: %s is not a directory", ErrPlace, dir)
		}
	}
	entries, err := os.ReadDir(p.target)
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

// discard removes the unfinished directory, and never the old one.
func (p *place) discard() {
	if !p.holdsOld {
		_ = remove(p.part, ".") // what is left, the next run removes, or names
	}
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
