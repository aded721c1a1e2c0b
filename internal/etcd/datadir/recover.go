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

// Recover brings dir into a definite state after a restore was interrupted: data set aside is
// put back if dir has none, and left-overs are removed. It does nothing when there is nothing
// to do, and fails with [ErrBusy] while a restore runs. Restore does the same at its beginning.
func Recover(dir string) error {
	p, err := openPlace(dir, false)
	if err != nil {
		return err
	}
	defer p.close()
	return p.recover()
}

// aside lists the directories that were set aside.
func (p *place) aside() ([]string, error) {
	entries, err := os.ReadDir(filepath.Dir(p.target))
	if err != nil {
		return nil, err
	}
	var found []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), filepath.Base(p.part)+"-old-") {
			found = append(found, filepath.Join(filepath.Dir(p.target), e.Name()))
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
	if err := os.RemoveAll(p.part); err != nil {
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
		if ours, _ := filepath.Match(p.asidePattern(inode), filepath.Base(path)); !ours {
			continue
		}
		if err := p.sync(); err != nil {
			return fmt.Errorf("before removing the old data directory: %w", err)
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
