//go:build !linux

package member

import (
	"errors"
	"syscall"
)

func awaitMuch(syscall.RawConn, int) error { return errors.ErrUnsupported }
