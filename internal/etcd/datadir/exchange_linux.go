package datadir

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// exchangeNames swaps two names atomically. errors.ErrUnsupported: the file system cannot.
func exchangeNames(a, b string) error {
	err := unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.ENOTSUP):
		return fmt.Errorf("exchange %s and %s: %w", a, b, errors.ErrUnsupported)
	}
	return fmt.Errorf("exchange %s and %s: %w", a, b, err)
}

// renameNoReplace renames from to to. It returns fs.ErrExist if to exists.
func renameNoReplace(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) { // the file system cannot
		return renameAbsent(from, to)
	}
	return err
}
