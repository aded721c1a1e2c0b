package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// asideTime is how the moment stands in the name of data that were set aside. It sorts.
const asideTime = "20060102T150405.000000000Z"

// SetAside takes the data away from dir, so that it is [Missing], and returns where they are now:
// dir.aside-TIME, or dir/member.aside-TIME if dir is a mount point. It is one rename, on the disk
// when SetAside returns. Nothing there is an error that wraps fs.ErrNotExist. Other errors:
// [ErrBusy] while an etcd runs on the data or a restore into dir goes on, [ErrForeign], [ErrPlace].
func SetAside(dir string, now time.Time) (string, error) {
	return setAsideAt(dir, asideMark, now, false)
}

// Keep is SetAside to a name, dir.kept-TIME, at which neither [Aside] nor [Forget] finds the data, but [Kept]: nothing but a person
// removes them.
func Keep(dir string, now time.Time) (string, error) { return setAsideAt(dir, keptMark, now, false) }

func setAsideAt(dir, mark string, now time.Time, mounted bool) (string, error) {
	p, err := openPlace(dir, mounted)
	if err != nil {
		return "", err
	}
	defer p.close()
	if err := p.recover(); err != nil { // else it would put older data back under the name
		return "", err
	}
	if _, err := os.Lstat(p.target); err != nil {
		return "", err
	}
	if _, err := p.allows(true); err != nil {
		return "", err
	}
	for i := 0; ; i++ {
		to := p.target + mark + now.Add(time.Duration(i)).UTC().Format(asideTime)
		err := renameNoReplace(p.target, to)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return "", &os.LinkError{Op: "set aside", Old: p.target, New: to, Err: err}
		}
		return to, syncDir(filepath.Dir(p.target))
	}
}

// renameAbsent renames from to to if to is absent, for file systems that cannot do both in one step. The caller
// makes sure that no other process creates to.
func renameAbsent(from, to string) error {
	if _, err := os.Lstat(to); err == nil {
		return fs.ErrExist
	}
	return syscall.Rename(from, to)
}

const (
	asideMark = ".aside-"
	keptMark  = ".kept-"
)

// Aside lists what was set aside from dir, the oldest first.
func Aside(dir string) ([]string, error) { return markedAt(dir, asideMark, false) }

// Kept lists what [Keep] took away from dir, the oldest first.
func Kept(dir string) ([]string, error) { return markedAt(dir, keptMark, false) }

func markedAt(dir, mark string, mounted bool) ([]string, error) {
	p, err := locate(dir, mounted)
	if err != nil {
		return nil, err
	}
	parent, prefix := filepath.Dir(p.target), filepath.Base(p.target)+mark
	entries, err := os.ReadDir(parent)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var found []string
	for _, e := range entries {
		if at, ok := strings.CutPrefix(e.Name(), prefix); ok {
			if _, err := time.Parse(asideTime, at); err == nil {
				found = append(found, filepath.Join(parent, e.Name()))
			}
		}
	}
	slices.Sort(found)
	return found, nil
}

// Forget removes what was set aside from dir and returns what that was. What an interrupted run left
// half removed, the next one removes. A directory with other files stays: [ErrForeign].
func Forget(dir string) ([]string, error) { return forgetAt(dir, false) }

func forgetAt(dir string, mounted bool) ([]string, error) {
	all, err := markedAt(dir, asideMark, mounted)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	p, err := locate(dir, mounted)
	if err != nil {
		return nil, err
	}
	for i, path := range all {
		if err := remove(path, p.within); err != nil {
			return all[:i], fmt.Errorf("remove data that were set aside: %w", err)
		}
	}
	return all, syncDir(filepath.Dir(all[0]))
}
