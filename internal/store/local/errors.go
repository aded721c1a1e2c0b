package local

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"druid.internal/druid/internal/store"
)

// errLink is the answer to symbolic links below the container.
var errLink = errors.New("it is a symbolic link, which is not followed: move the backups to where it is, or mount what it points to")

// errKind is the answer to sockets, pipes and devices below the container.
var errKind = errors.New("it is neither a file nor a directory: move it away")

// errnos translates what file systems say. ENOTDIR is a key below another object.
var errnos = []struct {
	errno syscall.Errno
	means error
}{
	{syscall.ENOENT, store.ErrNotFound},
	{syscall.ENOTDIR, store.ErrNotFound},
	{syscall.EEXIST, store.ErrExists},
	{syscall.EACCES, store.ErrForbidden},
	{syscall.EPERM, store.ErrForbidden},
	{syscall.EROFS, store.ErrForbidden},
	{syscall.ENOSPC, store.ErrNoSpace},
	{syscall.EDQUOT, store.ErrNoSpace},
	{syscall.EFBIG, store.ErrNoSpace},
	{syscall.EIO, store.ErrUnreachable},
	{syscall.ESTALE, store.ErrUnreachable},
	{syscall.ENOTCONN, store.ErrUnreachable},
	{syscall.ETIMEDOUT, store.ErrUnreachable},
	{syscall.EHOSTDOWN, store.ErrUnreachable},
	{syscall.ENODEV, store.ErrUnreachable},
	{syscall.ENXIO, store.ErrUnreachable},
}

// classify adds the port's word for err to the file system's own.
func classify(err error) error {
	for _, e := range errnos {
		if errors.Is(err, e.errno) {
			if e.means == store.ErrNotFound {
				return store.ErrNotFound // the path says no more than the key
			}
			return fmt.Errorf("%w: %w", e.means, err)
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return store.ErrNotFound
	}
	return err
}
