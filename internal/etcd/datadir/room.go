package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
)

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
