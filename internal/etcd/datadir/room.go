package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"golang.org/x/sys/unix"
)

// Room is how much of the volume that dir lies on is free for this user, and how large it is, in bytes.
func Room(dir string) (free, size uint64, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, 0, &fs.PathError{Op: "statfs", Path: dir, Err: err}
	}
	block := uint64(s.Bsize)
	return s.Bavail * block, s.Blocks * block, nil
}

// noRoom marks as [ErrNoRoom] the errors of a full disk, a spent quota or a limit on the size of
// files. Nothing but local files comes into question where it is asked: stores fail otherwise.
func noRoom(err error) error {
	for _, errno := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG} {
		if errors.Is(err, errno) && !errors.Is(err, ErrNoRoom) {
			return fmt.Errorf("%w: %w", ErrNoRoom, err)
		}
	}
	return err
}

// ofBase is the error of reading the base called name and unpacking it into the file at path. It
// blames the base only if that file is not what failed.
func ofBase(name, path string, err error) error {
	var local *fs.PathError
	if errors.As(err, &local) && local.Path == path {
		return fmt.Errorf("unpack %s: %w", name, local)
	}
	return fmt.Errorf("%s: %w", name, err)
}
