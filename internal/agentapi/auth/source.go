package auth

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
)

// maxFile bounds what is read of a file, in bytes: a bundle of several hundred authorities.
const maxFile = 1 << 20

// source is a value made of the contents of files. It is made anew when a content changes.
type source[T any] struct {
	what  string // for messages: "the certificate"
	paths []string
	parse func(contents [][]byte) (T, error)
	log   *slog.Logger

	mu       sync.Mutex
	contents [][]byte // as of the last attempt
	failed   error    // of the last attempt
	value    T        // of the last attempt that succeeded
	changes  int      // how often value was made
}

// newSource reads the files for the first time: what cannot be used then is an error.
func newSource[T any](what string, paths []string, parse func([][]byte) (T, error), log *slog.Logger) (*source[T], error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	s := &source[T]{what: what, paths: paths, parse: parse, log: log}
	_, _, err := s.get()
	return s, err
}

// get returns the last usable value with a number that is another one for each value, and why the
// files as they are now are not it; nil: they are.
func (s *source[T]) get() (T, int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	contents, err := readAll(s.paths)
	if err == nil && s.contents != nil && same(contents, s.contents) {
		return s.value, s.changes, s.failed
	}
	var value T
	if err == nil {
		value, err = s.parse(contents)
	}
	if err != nil {
		err = fmt.Errorf("read %s: %w", s.what, err)
		if s.changes > 0 && (s.failed == nil || s.failed.Error() != err.Error()) {
			s.log.Warn("changed files cannot be used", "what", s.what, "files", s.paths, "error", err)
		}
		s.contents, s.failed = contents, err
		return s.value, s.changes, err
	}
	if s.changes > 0 {
		s.log.Info("changed files are in use", "what", s.what, "files", s.paths)
	}
	s.contents, s.failed, s.value = contents, nil, value
	s.changes++
	return s.value, s.changes, nil
}

// readAll returns nil contents with any error.
func readAll(paths []string) ([][]byte, error) {
	contents := make([][]byte, len(paths))
	for i, path := range paths {
		content, err := readFile(path)
		if err != nil {
			return nil, err
		}
		contents[i] = content
	}
	return contents, nil
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(content) > maxFile {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, maxFile)
	}
	return content, nil
}

func same(a, b [][]byte) bool {
	for i := range a {
		if !bytes.Equal(a[i], b[i]) {
			return false
		}
	}
	return true
}
