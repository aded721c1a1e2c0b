package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// makeScratch makes the directory of --restoration-temp-snapshots-dir, as the original does. The
// function it returns removes the directory again if it was made here and nothing is left in it.
func makeScratch(dir string) (remove func(), err error) {
	remove = func() {}
	if dir == "" {
		return remove, nil
	}
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		remove = func() { _ = os.Remove(dir) }
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, &usageError{fmt.Errorf("--restoration-temp-snapshots-dir: %w", err)}
	}
	return remove, nil
}
