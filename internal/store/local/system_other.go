//go:build unix && !linux

package local

import (
	"os"
	"syscall"
)

// renameExclusively links, which cannot overwrite; temp stays as a second name.
func renameExclusively(dir *os.Root, temp, base string) error { return dir.Link(temp, base) }

func lock(dir *os.Root) (unlock func(), err error) {
	d, err := dir.Open(".")
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(d.Fd()), syscall.LOCK_EX); err != nil {
		d.Close()
		return nil, err
	}
	return func() { d.Close() }, nil
}

func claim(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }

func claimed(dir *os.Root, name string) bool {
	f, err := dir.Open(name)
	if err != nil {
		return true
	}
	defer f.Close()
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil
}

func getAttribute(string, string) ([]byte, error) { return nil, errNoAttributes }

func setAttribute(*os.File, string, []byte) error { return errNoAttributes }
