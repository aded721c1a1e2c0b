package datadir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"sync"
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

// reserve keeps some of a volume free for others that write to it, as the etcd beside a proof. Its
// methods may be called concurrently. A nil reserve keeps nothing.
type reserve struct {
	dir  string
	keep int64
	room func(dir string) (free, size uint64, err error)

	mu   sync.Mutex
	left int64 // bytes that can be written before the volume is asked again
}

// reserveStep is how much is written before the volume is asked again.
const reserveStep = 16 << 20

func (o Options) reserve(dir string) *reserve {
	return &reserve{dir: dir, keep: o.KeepFree, room: o.room}
}

// take is called before n bytes are written. It returns ErrNoRoom if that would leave less than is
// to be kept free.
func (r *reserve) take(n int64) error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.left >= n {
		r.left -= n
		return nil
	}
	free, err := r.free()
	if err != nil {
		return err
	}
	if free < n {
		kept := ""
		if r.keep > 0 {
			kept = fmt.Sprintf(", where %d MB stay free", r.keep/1_000_000)
		}
		return fmt.Errorf("%w: no space left in %s%s; free some, or name another directory for temporary files", ErrNoRoom, r.dir, kept)
	}
	r.left = min(free, max(n, reserveStep)) - n
	return nil
}

// fits returns ErrNoRoom if size bytes, called what, cannot be written.
func (r *reserve) fits(what string, size int64) error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	free, err := r.free()
	if err != nil || size <= free {
		return err
	}
	return fmt.Errorf("%w: %s unpacks to %d MB by its manifest, and %d MB can be used in %s, where %d MB are to stay free; "+
		"name another directory for temporary files, or exclude the snapshot if it is forged", ErrNoRoom, what, size/1_000_000, max(free, 0)/1_000_000, r.dir, r.keep/1_000_000)
}

// free is how much can be written.
func (r *reserve) free() (int64, error) {
	free, size, err := r.room(r.dir)
	if err != nil {
		return 0, fmt.Errorf("ask for the room in %s: %w", r.dir, err)
	}
	if size == 0 { // a file system that does not count
		return math.MaxInt64, nil
	}
	return int64(min(free, math.MaxInt64)) - r.keep, nil
}

// reserved writes to a file within a reserve.
type reserved struct {
	io.Writer
	*reserve
}

func (w reserved) Write(p []byte) (int, error) {
	if err := w.take(int64(len(p))); err != nil {
		return 0, err
	}
	return w.Writer.Write(p)
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
