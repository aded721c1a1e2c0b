package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"
)

// disk is a block device whose content is a file. It is freed by the kernel once it is closed by
// us, who may have died, and mounted nowhere.
type disk struct {
	file   *os.File
	device *os.File
}

// openDisk makes a file with an empty file system of the given size, unless it is there, and a
// device of it. Free space takes none here.
//
// The file system is XFS because the privilege that ext4 asks for before it grows while it is
// mounted is withheld on some machines. The tool thinks little of small ones, but tests fill them.
func openDisk(ctx context.Context, path string, bytes int64) (*disk, error) {
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		if err := format(ctx, path, bytes); err != nil {
			return nil, err
		}
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	device, err := attach(file)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make a block device of %s: %w", path, err), file.Close())
	}
	return &disk{file: file, device: device}, nil
}

// minDisk is the least size of a file system with its log. From largeDisk on its log would take
// much of the disk here, of which it needs little.
const (
	minDisk   = 32 << 20
	largeDisk = 512 << 20
)

// format makes the file appear with its file system or not at all.
func format(ctx context.Context, path string, bytes int64) error {
	making := path + ".making"
	file, err := os.Create(making)
	if err != nil {
		return err
	}
	defer os.Remove(making)
	if err := errors.Join(file.Truncate(bytes), file.Close()); err != nil {
		return err
	}
	words := []string{"mkfs.xfs", "-q", "-K", "-f", "--unsupported"}
	if bytes >= largeDisk {
		words = append(words, "-l", "size=16m")
	}
	words = append(words, making)
	if _, err := run(exec.CommandContext(ctx, words[0], words[1:]...), words...); err != nil {
		return err
	}
	return os.Rename(making, path)
}

// attach takes devices that seem free until one was.
func attach(file *os.File) (*os.File, error) {
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer control.Close()
	for {
		number, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return nil, err
		}
		device, err := os.OpenFile(fmt.Sprintf("/dev/loop%d", number), os.O_RDWR, 0)
		if err != nil {
			return nil, err
		}
		err = unix.IoctlLoopConfigure(int(device.Fd()), &unix.LoopConfig{
			Fd:   uint32(file.Fd()),
			Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_AUTOCLEAR},
		})
		if err == nil {
			return device, nil
		}
		device.Close()
		if !errors.Is(err, unix.EBUSY) {
			return nil, err
		}
	}
}

func (d *disk) path() string { return d.device.Name() }

// grow makes the device larger; it does not shrink.
func (d *disk) grow(bytes int64) error {
	stat, err := d.file.Stat()
	if err != nil {
		return err
	}
	if stat.Size() < bytes {
		if err := d.file.Truncate(bytes); err != nil {
			return err
		}
	}
	if err := unix.IoctlSetInt(int(d.device.Fd()), unix.LOOP_SET_CAPACITY, 0); err != nil {
		return fmt.Errorf("grow %s: %w", d.path(), err)
	}
	return nil
}

func (d *disk) close() error { return errors.Join(d.device.Close(), d.file.Close()) }
