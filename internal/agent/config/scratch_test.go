package config

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"
)

func TestOnlyAVolumeThatMembersReportKeepsNoSidecarFromStarting(t *testing.T) {
	for dir, want := range map[string]bool{"/proc": true, "/proc/none/temp": true, "/": false, "/none/temp": false, "/proc/../none": false} {
		if got := onVolume(dir); got != want {
			t.Errorf("%s is on a volume: %t, want %t", dir, got, want)
		}
	}
	for err, want := range map[error]bool{
		syscall.EROFS: true, syscall.ENOSPC: true, syscall.EDQUOT: true, fs.ErrPermission: true, syscall.EACCES: true,
		syscall.ENOTDIR: false, syscall.ENOENT: false, syscall.EIO: false, errors.New("read-only file system"): false,
	} {
		if got := ofVolume(fmt.Errorf("nothing can be written: %w", &fs.PathError{Op: "open", Path: "/var/etcd/data/temp", Err: err})); got != want {
			t.Errorf("%v is of the volume: %t, want %t", err, got, want)
		}
	}
}

// Below a file nothing can ever be written, whatever volume it is on.
func TestATemporaryDirectoryThatCannotBeIsRefusedOnAVolumeToo(t *testing.T) {
	if err := (Config{}).checkScratch("tempDir", "/proc/self/status/temp"); err == nil {
		t.Error("it is accepted")
	}
}
