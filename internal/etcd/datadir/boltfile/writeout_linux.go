package boltfile

import (
	"os"

	"golang.org/x/sys/unix"
)

// writeOutEvery is how many bytes gather before the kernel is asked to begin writing them to
// the disk, so that the sync at the end finds little left to do.
const writeOutEvery = 16 << 20

func startWriteOut(f *os.File, offset, n int64) {
	// Only a hint: the sync at the end is what counts, and reports errors.
	_ = unix.SyncFileRange(int(f.Fd()), offset, n, unix.SYNC_FILE_RANGE_WRITE)
}
