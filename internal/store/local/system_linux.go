package local

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"druid.internal/druid/internal/store"
)

// renameExclusively gives the file temp the name base in one step, or says EEXIST. File
// systems without such a rename get a link, which leaves temp as a second name.
func renameExclusively(dir *os.Root, temp, base string) error {
	d, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer d.Close()
	fd := int(d.Fd())
	err = unix.Renameat2(fd, temp, fd, base, unix.RENAME_NOREPLACE)
	if !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EOPNOTSUPP) {
		return err
	}
	return link(dir, temp, base)
}

func link(dir *os.Root, temp, base string) error {
	err := dir.Link(temp, base)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Errorf("the file system can neither rename without overwriting nor link: %w", store.ErrUnsupported)
	}
	return err
}

// lock keeps other processes and goroutines out of changes in dir until unlock is called or
// the process dies. It waits as long as they need for one change of attributes or names.
func lock(dir *os.Root) (unlock func(), err error) {
	d, err := dir.Open(".")
	if err != nil {
		return nil, err
	}
	for {
		err = unix.Flock(int(d.Fd()), unix.LOCK_EX)
		if err == nil || err != unix.EINTR {
			break
		}
	}
	if err != nil {
		d.Close()
		return nil, fmt.Errorf("lock the directory: %w", err)
	}
	return func() { d.Close() }, nil
}

// claim marks a hidden file as being written, for as long as it is open.
func claim(f *os.File) error {
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return nil
}

// claimed says whether someone may be writing the hidden file still.
func claimed(dir *os.Root, name string) bool {
	f, err := dir.Open(name)
	if err != nil {
		return true
	}
	defer f.Close()
	return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil
}

func getAttribute(path, name string) ([]byte, error) {
	buf := make([]byte, 4<<10)
	for {
		n, err := unix.Lgetxattr(path, name, buf)
		switch {
		case err == nil:
			return buf[:n], nil
		case errors.Is(err, unix.ENODATA), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOSYS):
			return nil, errNoAttributes
		case !errors.Is(err, unix.ERANGE) || len(buf) > 64<<10: // the kernel's own limit
			return nil, &os.PathError{Op: "getxattr", Path: path, Err: err}
		}
		buf = make([]byte, 4*len(buf))
	}
}

func setAttribute(f *os.File, name string, value []byte) error {
	err := unix.Fsetxattr(int(f.Fd()), name, value, 0)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOSYS):
		return errNoAttributes
	}
	return &os.PathError{Op: "setxattr", Path: f.Name(), Err: err}
}
