//go:build !linux

package datadir

import "errors"

// exchangeNames swaps two names atomically, where that is possible.
func exchangeNames(a, b string) error { return errors.ErrUnsupported }
