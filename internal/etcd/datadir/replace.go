package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// replace gives the new directory its name.
func (p *place) replace(old bool, at func(step) error) error {
	if !old { // there is none, or an empty one, which a rename replaces
		if err := rename(p.fresh, p.target); err != nil {
			return err
		}
		if err := at(replaced); err != nil {
			return err
		}
		if err := p.sync(); err != nil {
			return err
		}
		p.discard() // at a mount point its shell is left
		return at(durable)
	}
	if _, err := p.allows(true); err != nil { // since the first look an etcd may have been started, or files added
		return err
	}
	undo, err := p.exchange(at)
	if err != nil {
		return err
	}
	if err := at(replaced); err != nil {
		return errors.Join(err, undo())
	}
	if err := p.sync(); err != nil {
		return errors.Join(err, undo())
	}
	if err := at(durable); err != nil {
		return err
	}
	// From here on the restore has succeeded: what cannot be removed now, the next run removes.
	if err := p.recover(); err == nil {
		_ = syncDir(filepath.Dir(p.target))
	}
	return at(cleaned)
}

// sync makes the names of both directories durable.
func (p *place) sync() error {
	err := syncDir(filepath.Dir(p.target))
	if from := filepath.Dir(p.fresh); err == nil && from != filepath.Dir(p.target) {
		if err = syncDir(from); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
	}
	return err
}

// exchange swaps the old and the new directory, at once where the file system can. The undo it
// returns says where the old one is if it does not succeed.
func (p *place) exchange(at func(step) error) (undo func() error, err error) {
	if p.renames {
		return p.renameBoth(at)
	}
	err = exchangeNames(p.fresh, p.target)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return p.renameBoth(at)
	case err != nil:
		return nil, fmt.Errorf("put the new data directory in its place: %w", err)
	}
	p.holdsOld = true
	return func() error {
		if err := exchangeNames(p.fresh, p.target); err != nil {
			return p.keep(p.fresh, err)
		}
		p.holdsOld = false
		return nil
	}, nil
}

// renameBoth is exchange in two renames. In between the name is missing, until the next run
// puts the old directory back.
func (p *place) renameBoth(at func(step) error) (undo func() error, err error) {
	inode, _, err := describe(p.fresh)
	if err != nil {
		return nil, err
	}
	aside, err := os.MkdirTemp(filepath.Dir(p.target), p.asidePattern(inode))
	if err != nil {
		return nil, err
	}
	if err := rename(p.target, aside); err != nil {
		os.Remove(aside)
		return nil, fmt.Errorf("set the old data directory aside: %w", err)
	}
	back := func() error {
		if err := rename(aside, p.target); err != nil {
			return p.keep(aside, err)
		}
		return nil
	}
	if err := at(setAside); err != nil {
		return nil, errors.Join(err, back())
	}
	if err := rename(p.fresh, p.target); err != nil {
		return nil, errors.Join(fmt.Errorf("put the new data directory in its place: %w", err), back())
	}
	return func() error { return errors.Join(rename(p.target, p.fresh), back()) }, nil
}

// keep gives the old directory, which is at path and cannot be put back, a name under which no
// run removes it: it is put back when nothing is under the final name, and stays otherwise.
func (p *place) keep(path string, because error) error {
	kept, err := p.disown(path)
	if err != nil {
		kept = path
	} else {
		p.holdsOld = false
	}
	return fmt.Errorf("the old data directory could not be put back and is %s now, move it to safety before anything else: %w", kept, errors.Join(because, err))
}
