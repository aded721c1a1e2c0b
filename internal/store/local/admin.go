package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/admin"
)

// Admin makes and removes one directory. Locks are of single files, and advisory.
type Admin struct {
	root  string
	rules immutability.BucketRules
}

var _ admin.Bucket = (*Admin)(nil)

// NewAdmin is for the directory root, an absolute path, which need not exist.
func NewAdmin(root string) (*Admin, error) {
	if _, err := New(root, Options{}); err != nil {
		return nil, err
	}
	rules, _ := immutability.RulesOf(Provider)
	return &Admin{root: filepath.Clean(root), rules: rules}, nil
}

// Rules implements admin.Bucket.
func (a *Admin) Rules() immutability.BucketRules { return a.rules }

// Location implements admin.Bucket.
func (a *Admin) Location() string { return a.root }

// Read implements admin.Bucket.
func (a *Admin) Read(context.Context) (immutability.Bucket, error) {
	b := immutability.Bucket{Mode: immutability.ModeNone}
	fi, err := os.Stat(a.root)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return b, nil
	case err != nil:
		return b, fmt.Errorf("inspect %s: %w", a.root, classify(err))
	case !fi.IsDir():
		return b, fmt.Errorf("inspect %s: %w", a.root, &immutability.BucketRefusal{Reason: "it is there and is no directory", Remedy: "name another one (--store-container)"})
	}
	b.Exists, b.ObjectLock = true, true
	return b, nil
}

// Do implements admin.Bucket. A directory is made in one that is there, since what is missing above it
// may be a mount.
func (a *Admin) Do(_ context.Context, step immutability.BucketStep) (string, error) {
	if step.Do != immutability.BucketCreate {
		return "", fmt.Errorf("%s of %s: %w", step.Do, a.root, store.ErrUnsupported)
	}
	err := os.Mkdir(a.root, 0o700)
	switch {
	case errors.Is(err, fs.ErrExist):
		return "it was there already", nil
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("make %s: %w", a.root, &immutability.BucketRefusal{Reason: "the directory that it shall be in does not exist", Remedy: "check that it is mounted, or create it"})
	case err != nil:
		return "", fmt.Errorf("make %s: %w", a.root, classify(err))
	}
	return "", syncDir(filepath.Dir(a.root))
}

// Delete implements admin.Bucket. Only an empty directory can be removed so.
func (a *Admin) Delete(context.Context) error {
	err := os.Remove(a.root)
	switch {
	case err == nil, errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, syscall.ENOTEMPTY):
		return fmt.Errorf("delete %s: files or directories are in it: %w", a.root, admin.ErrNotEmpty)
	}
	return fmt.Errorf("delete %s: %w", a.root, classify(err))
}

// syncDir has the directory's entries on disk.
func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("sync %s: %w", path, classify(err))
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", path, classify(err))
	}
	return nil
}
