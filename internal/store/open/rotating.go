package open

import (
	"errors"
	"io/fs"
	"os"
	"sync"

	"druid.internal/druid/internal/store/s3"
)

// rotating is an access key whose files may be replaced at any time, as Kubernetes does when
// a Secret changes. The files are looked at before each request and read when they changed.
type rotating struct {
	files Files

	mu    sync.Mutex
	stamp []fs.FileInfo
	last  s3.Keys // the last that was complete; no access key: none yet
}

func newRotating(files Files) *rotating { return &rotating{files: files} }

// readAttempts bounds how often a key is read that changes while it is read.
const readAttempts = 5

// keys returns the current access key. While the files are missing, incomplete or in the
// middle of a change, that is the one before: a request with it tells more than no request.
func (r *rotating) keys() (s3.Keys, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := stampOf(r.files.paths(keyFields))
	if r.last.AccessKeyID != "" && same(r.stamp, now) {
		return r.last, nil
	}
	err := errors.New(r.files.Variable + ": the credentials changed again and again while they were read")
	for range readAttempts {
		var f fields
		var readErr error
		if f, readErr = r.files.read(); readErr == nil {
			readErr = f.required(fieldAccessKeyID, fieldSecretAccessKey)
		}
		after := stampOf(r.files.paths(keyFields))
		if !same(now, after) { // the key and its secret may not belong together
			now = after
			continue
		}
		if readErr == nil {
			r.last = s3.Keys{AccessKeyID: f.values[fieldAccessKeyID], SecretAccessKey: f.values[fieldSecretAccessKey], SessionToken: f.values[fieldSessionToken]}
			r.stamp = now
			return r.last, nil
		}
		err = readErr
		break
	}
	if r.last.AccessKeyID != "" {
		return r.last, nil
	}
	return s3.Keys{}, err
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
