package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// checkScratch says whether files can be made in a directory for temporary ones. If it lies on a volume, as
// that of the data, and this is read-only or full, there is nothing to correct here: the sidecar starts,
// because it is the one who tells what is wrong with the volume, and etcd does not.
func (c Config) checkScratch(what, dir string) error {
	err := writable(what, dir)
	if err != nil && ofVolume(err) && onVolume(dir) {
		return nil
	}
	return err
}

// onVolume tells whether a directory, or what there is of its path, is on another file system than the
// root directory: where that is read-only, another directory is to be named.
func onVolume(dir string) bool {
	root, err := os.Stat("/")
	if err != nil {
		return false
	}
	for dir = filepath.Clean(dir); ; dir = filepath.Dir(dir) {
		there, err := os.Stat(dir)
		if errors.Is(err, fs.ErrNotExist) && dir != filepath.Dir(dir) {
			continue
		}
		return err == nil && device(there) != device(root)
	}
}

func device(info fs.FileInfo) uint64 {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0
	}
	return uint64(s.Dev) // an int32 on macOS
}

// ofVolume tells whether an error is one that members report of their volumes.
func ofVolume(err error) bool {
	return errors.Is(err, syscall.EROFS) || errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
