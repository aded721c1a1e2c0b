package open

import (
	"errors"
	"io/fs"
	"os"
	"sync"

	"druid.internal/druid/internal/store/s3"
)

// rotating are credentials whose files may be replaced at any time, as Kubernetes does when a
// Secret changes. The files are looked at before each request and read when they changed.
type rotating[T any] struct {
	files Files
	names []string                // of the fields whose files are watched
	parse func(fields) (T, error) // fails if something is missing

	mu    sync.Mutex
	stamp []fs.FileInfo
	last  *T // the last that were complete
}

func newRotating[T any](files Files, names []string, parse func(fields) (T, error)) *rotating[T] {
	return &rotating[T]{files: files, names: names, parse: parse}
}

// readAttempts bounds how often credentials are read that change while they are read.
const readAttempts = 5

// get returns the current credentials. While the files are missing, incomplete or in the
// middle of a change, these are the ones before: a request with them tells more than no request.
func (r *rotating[T]) get() (T, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := stampOf(r.files.paths(r.names))
	if r.last != nil && same(r.stamp, now) {
		return *r.last, nil
	}
	err := errors.New(r.files.Variable + ": the credentials changed again and again while they were read")
	for range readAttempts {
		var read T
		f, readErr := r.files.read()
		if readErr == nil {
			read, readErr = r.parse(f)
		}
		after := stampOf(r.files.paths(r.names))
		if !same(now, after) { // the key and its secret may not belong together
			now = after
			continue
		}
		if readErr == nil {
			r.last, r.stamp = &read, now
			return read, nil
		}
		err = readErr
		break
	}
	if r.last != nil {
		return *r.last, nil
	}
	var none T
	return none, err
}

// rotatingKeys is an access key of S3.
func rotatingKeys(files Files) func() (s3.Keys, error) {
	return newRotating(files, keyFields, func(f fields) (s3.Keys, error) {
		if err := f.required(fieldAccessKeyID, fieldSecretAccessKey); err != nil {
			return s3.Keys{}, err
		}
		return s3.Keys{AccessKeyID: f.values[fieldAccessKeyID], SecretAccessKey: f.values[fieldSecretAccessKey], SessionToken: f.values[fieldSessionToken]}, nil
	}).get
}

// stampOf is what tells one state of the files from another; nil for those that do not exist.
func stampOf(paths []string) []fs.FileInfo {
	stamp := make([]fs.FileInfo, len(paths))
	for i, p := range paths {
		if info, err := os.Stat(p); err == nil {
			stamp[i] = info
		}
	}
	return stamp
}

func same(a, b []fs.FileInfo) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if (a[i] == nil) != (b[i] == nil) {
			return false
		}
		if a[i] != nil && (!os.SameFile(a[i], b[i]) || a[i].Size() != b[i].Size() || !a[i].ModTime().Equal(b[i].ModTime())) {
			return false
		}
	}
	return true
}
