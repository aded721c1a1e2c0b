//go:build !linux

package datadir

import "errors"

// exchangeNames swaps two names atomically, where that is possible.
func exchangeNames(a, b string) error { return errors.ErrUnsupported }

// renameNoReplace renames from to to. It returns fs.ErrExist if to exists.
func renameNoReplace(from, to string) error { return renameAbsent(from, to) }
