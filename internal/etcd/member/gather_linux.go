package member

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// awaitMuch waits until so many bytes can be read, or the deadline of reads, which is an error. The
// kernel is told not to wake anybody for less: otherwise the process would be woken by each piece.
func awaitMuch(conn syscall.RawConn, bytes int) error {
	low := func(n int) func(uintptr) {
		return func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVLOWAT, n) }
	}
	if err := conn.Control(low(bytes)); err != nil {
		return err
	}
	// Who reads next is to be woken by anything. Of a connection that was closed meanwhile there is
	// nothing to restore.
	defer func() { _ = conn.Control(low(1)) }()
	looks := 0
	return conn.Read(func(fd uintptr) bool {
		looks++
		n, err := unix.IoctlGetInt(int(fd), unix.TIOCINQ)
		// The second look may be due to what arrived before the kernel was told. From the third on
		// less means that the kernel has no room for more, or that there will be no more.
		return err != nil || n >= bytes || looks > 2
	})
}
