package boltfile

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Load brings n bytes of the file into memory, from off on, if they are not there. To load a file
// from its beginning to its end is much faster on a cold disk than to meet its pages in the order of
// a tree; and where the disk cannot deliver a page, it is an error here and a signal there.
func (r *Reader) Load(off, n int64) error {
	n = min(n, r.Size()-off)
	if n <= 0 {
		return nil
	}
	if off == 0 {
		_ = unix.Madvise(r.data, unix.MADV_SEQUENTIAL) // a hint
	}
	if off+n == r.Size() {
		defer func() { _ = unix.Madvise(r.data, unix.MADV_NORMAL) }()
	}
	page := int64(unix.Getpagesize())
	start := off / page * page
	err := unix.Madvise(r.data[start:off+n], unix.MADV_POPULATE_READ)
	switch {
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS): // a kernel before 5.14
		return r.read(off, n)
	case errors.Is(err, unix.EFAULT), errors.Is(err, unix.EHWPOISON):
		if rerr := r.read(off, n); rerr != nil { // which names the reason
			return rerr
		}
		if r.full() { // holes read as zeros, and take room in a file system that is memory
			err = unix.ENOSPC
		}
	}
	if err != nil {
		return fmt.Errorf("%s: bytes %d to %d cannot be read: %w", r.Name(), off, off+n, err)
	}
	return nil
}

// full reports whether the file system of the file has no room.
func (r *Reader) full() bool {
	var st unix.Statfs_t
	return unix.Fstatfs(int(r.file.Fd()), &st) == nil && st.Bavail == 0
}
