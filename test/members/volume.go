package members

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// volume is a file system of a member's own, mounted where only the member's processes see it.
type volume struct {
	room  *room
	image string
	at    string
}

// newVolume makes a file system of size bytes and mounts it at a directory of the room.
func newVolume(ctx context.Context, r *room, image, at string, size int64) (*volume, error) {
	v := &volume{room: r, image: image, at: at}
	if err := os.MkdirAll(at, 0o700); err != nil {
		return nil, err
	}
	if err := v.format(ctx, size); err != nil {
		return nil, fmt.Errorf("make a volume of %d bytes: %w", size, err)
	}
	return v, v.mount(ctx)
}

func (v *volume) format(ctx context.Context, size int64) error {
	os.Remove(v.image)
	f, err := os.Create(v.image)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Truncate(size); err != nil {
		return err
	}
	if err := run(ctx, "mkfs.ext4", "-q", "-F", "-m", "0", v.image); err != nil {
		return fmt.Errorf("%w (it comes with e2fsprogs)", err)
	}
	return nil
}

func (v *volume) mount(ctx context.Context) error {
	return v.room.run(ctx, "mount", "-o", "loop,errors=remount-ro", v.image, v.at)
}

// fail is what an error of the disk does: from this moment on the file system is read-only, whoever
// has files open.
func (v *volume) fail(ctx context.Context) error {
	return v.room.run(ctx, "mount", "-o", "remount,abort", v.at)
}

// mend checks and mounts the file system anew, as after the volume came to another machine. No
// process may use it.
func (v *volume) mend(ctx context.Context) error {
	if err := v.room.run(ctx, "umount", v.at); err != nil {
		return err
	}
	// 1: errors were corrected.
	if err := run(ctx, "sh", "-c", `e2fsck -p "$0" >&2 || test $? = 1`, v.image); err != nil {
		return err
	}
	return v.mount(ctx)
}

// fill leaves no room on the volume; it returns what makes room again.
func (v *volume) fill() (empty func() error, err error) {
	name := v.room.path(filepath.Join(v.at, "filling"))
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for block := make([]byte, 1<<20); len(block) > 0; {
		if _, err := f.Write(block); err != nil {
			block = block[:len(block)/2]
		}
	}
	return func() error { return os.Remove(name) }, nil
}
