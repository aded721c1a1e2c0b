package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Recover brings dir into a definite state after a [Restore] that was killed: what it was to replace is back under the name, or what it
// made is there, and nothing else is left of it. Without such a run it does nothing. Errors: [ErrBusy] while a restore into dir goes on,
// [ErrForeign] if the names beside dir hold other files, [ErrPlace].
func Recover(dir string) error { return recoverAt(dir, false) }

func recoverAt(dir string, mounted bool) error {
	p, err := locate(dir, mounted)
	if err != nil {
		return err
	}
	beside, err := os.ReadDir(filepath.Dir(p.target))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	left := slices.DeleteFunc(beside, func(e fs.DirEntry) bool { return !strings.HasPrefix(e.Name(), filepath.Base(p.part)) })
	if len(left) == 0 {
		return nil // not even a lock is taken, for which a full disk may have no room
	}
	err = p.acquire()
	switch alone := len(left) == 1 && left[0].Name() == filepath.Base(p.part)+lockMark; {
	case err != nil && alone && !errors.Is(err, ErrBusy):
		return nil // somebody else's, of whose run nothing else is left
	case err != nil:
		return err
	}
	defer p.close()
	return p.recover()
}

// aside lists the directories that were set aside. It removes empty ones: an old directory is
// never empty, so they are what a run made that was interrupted before it set anything aside.
func (p *place) aside() ([]string, error) {
	entries, err := os.ReadDir(filepath.Dir(p.target))
	if err != nil {
		return nil, err
	}
	var found []string
	for _, e := range entries {
		path := filepath.Join(filepath.Dir(p.target), e.Name())
		if _, is := p.asideFor(path); !is || !e.IsDir() {
			continue
		}
		if unix.Rmdir(path) == nil { // fails for all others
			continue
		}
		found = append(found, path)
	}
	return found, nil
}

// asidePrefix is what the names begin with under which old directories are set aside.
func (p *place) asidePrefix() string { return filepath.Base(p.part) + "-old-" }

// asidePattern is the name, for os.MkdirTemp, under which an old directory is set aside for the
// directory with the inode.
func (p *place) asidePattern(inode uint64) string {
	return fmt.Sprintf("%s%d-*", p.asidePrefix(), inode)
}

// asideFor is the inode in the name of a directory that was set aside, which may be 0. It is false for a
// name of another form.
func (p *place) asideFor(path string) (inode uint64, is bool) {
	rest, is := strings.CutPrefix(filepath.Base(path), p.asidePrefix())
	number, unique, cut := strings.Cut(rest, "-")
	inode, err := strconv.ParseUint(number, 10, 64)
	if _, uerr := strconv.ParseUint(unique, 10, 64); !is || !cut || err != nil || uerr != nil {
		return 0, false
	}
	return inode, true
}

// recover brings the directory into a definite state: it undoes or completes what an interrupted run left.
//
//	DIR                DIR.part-old-   means                             is answered by
//	there              none            nothing was replaced, or all was  removing DIR.part
//	the new one        there           replaced, not cleaned up          removing both others
//	missing or empty   there           interrupted between two renames   putting the old one back
//	another            there           somebody else made it meanwhile   removing DIR.part only; the old one stays
//
// A directory that stays set aside loses the inode in its name: that number is given to another
// directory once DIR.part is removed, which would then be taken for the new one.
//
// Nothing is removed before what has the name now is known to have it also after a power failure.
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
	if _, err := os.Lstat(p.part); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := p.sync(); err != nil {
		return fmt.Errorf("before removing what an interrupted restore left: %w", err)
	}
	if err := remove(p.part, "."); err != nil {
		return fmt.Errorf("remove what an interrupted restore left: %w", err)
	}
	return nil
}

func (p *place) settleAside(aside []string) error {
	inode, empty, err := describe(p.target)
	switch {
	case err != nil:
		return err
	case inode == 0 || empty:
		if len(aside) > 1 {
			return fmt.Errorf("%s is missing and there are %d directories set aside: rename the right one of %q to it", p.target, len(aside), aside)
		}
		if err := rename(aside[0], p.target); err != nil {
			return fmt.Errorf("put the old data directory back: %w", err)
		}
		return syncDir(filepath.Dir(p.target))
	}
	for _, path := range aside {
		switch made, _ := p.asideFor(path); made {
		case 0:
		case inode:
			if err := p.sync(); err != nil {
				return fmt.Errorf("before removing the old data directory: %w", err)
			}
			if err := remove(path, p.within); err != nil {
				return fmt.Errorf("remove the old data directory: %w", err)
			}
		default:
			if _, err := p.disown(path); err != nil {
				return fmt.Errorf("rename the old data directory, so that no run removes it: %w", err)
			}
		}
	}
	return p.sync()
}

// disown gives the old directory at path a name under which no run removes it. It is not durable
// before the next [place.sync].
func (p *place) disown(path string) (kept string, err error) {
	kept, err = os.MkdirTemp(filepath.Dir(p.target), p.asidePattern(0))
	if err != nil {
		return "", err
	}
	if err := rename(path, kept); err != nil {
		os.Remove(kept)
		return "", err
	}
	return kept, nil
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
