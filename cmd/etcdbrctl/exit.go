package main

import (
	"errors"
	"strings"
)

// The exit codes, as documented in docs/reference/exit-codes.md.
const (
	exitOK          = 0
	exitFailure     = 1   // anything not below
	exitUsage       = 2   // unknown flag, impossible combination, unreadable configuration
	exitRefused     = 3   // nothing was done, because doing it could lose data; the message says what would allow it
	exitDamaged     = 4   // the backup is damaged or incomplete
	exitUnreachable = 5   // the store or etcd cannot be reached, or refuses the credentials
	exitTooWeak     = 6   // store probe --require, bucket ensure --canary: less protection is proven than that; extend-snapshot-immutability: nothing is locked, or locks end between runs that are as far apart as --every
	exitFellBack    = 7   // extend-snapshot-immutability: the newest backup is damaged, an older state was kept locked instead; or what --keep names is gone or damaged
	exitInterrupted = 130 // by a signal
)

// usageError is the caller's mistake.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// exitCode finds the most telling cause in err's chain; the table is in order of precedence.
func exitCode(err error) int {
	for _, row := range exitTable {
		if row.is(err) {
			return row.code
		}
	}
	return exitFailure
}

func is(targets ...error) func(error) bool {
	return func(err error) bool {
		for _, t := range targets {
			if errors.Is(err, t) {
				return true
			}
		}
		return false
	}
}

func as[T error](err error) bool {
	var t T
	return errors.As(err, &t)
}

// oneLine keeps an error on one line: several joined causes are separated by semicolons.
func oneLine(err error) string {
	lines := strings.Split(strings.TrimSpace(err.Error()), "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return strings.Join(lines, "; ")
}
