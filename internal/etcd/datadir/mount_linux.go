package datadir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// isMountPoint tells whether a file system is mounted at dir; what does not exist is none.
func isMountPoint(dir string) (bool, error) {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, dir, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BASIC_STATS, &st)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err == nil && st.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT != 0:
		return st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0, nil
	case err != nil && !errors.Is(err, unix.ENOSYS):
		return false, &fs.PathError{Op: "statx", Path: dir, Err: err}
	}
	// A kernel before 5.8 does not tell. Its device does, unless another directory of the same
	// file system is mounted there.
	var here, above unix.Stat_t
	if err := unix.Lstat(dir, &here); err != nil {
		return false, &os.PathError{Op: "lstat", Path: dir, Err: err}
	}
	if err := unix.Lstat(filepath.Dir(dir), &above); err != nil {
		return false, &os.PathError{Op: "lstat", Path: filepath.Dir(dir), Err: err}
	}
	return here.Dev != above.Dev, nil
}
