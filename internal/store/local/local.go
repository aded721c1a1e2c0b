// Package local keeps objects as files in a directory, under the original's provider name
// Local: the key is the path below the directory, the content is the file.
//
// An object appears under its name only when it is whole, on disk and described; it is never
// overwritten and is read-only from then on. Retention, holds and tags are kept in an extended
// attribute, or in a hidden file beside the object where the file system has none.
//
// The protection is advisory and reported as such: this package refuses what a lock forbids,
// but whoever may write to the directory can delete everything with other tools. There are no
// versions, no bucket defaults, and symbolic links are not followed: a listing tells of them as
// unreadable, so that it is not shorter than it should be. Relative containers and home directories are the
// business of whoever opens the store.
package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"druid.internal/druid/internal/store"
)

// Provider is the canonical name of this provider.
const Provider = "Local"

// Options are optional.
type Options struct {
	Now func() time.Time // judges whether a lock has ended; nil means time.Now
}

// Store is a directory of objects. Several stores, in several processes, may use the same
// directory at once.
type Store struct {
	root string
	now  func() time.Time

	mu    sync.Mutex
	ready map[string]bool // directories this process made durable and swept
	seen  fs.FileInfo     // the directory itself, when it was used last; nil: it never was
	held  bool            // there was an object in it

	// noAttributes has the hidden files used everywhere. For tests.
	noAttributes bool
	// at is told of every step of a change before it is made, and may fail it. For tests.
	at func(step string) error
}

var _ interface {
	store.Store
	store.Deleter
	store.Extender
	store.Holder
	store.Tagger
	store.Inspector
} = (*Store)(nil)

// New returns the store in the directory root, an absolute path. Without the directory everything
// is store.ErrNoBucket: whoever runs the store creates it, once. Were it made here, a mount that is
// lost would become an empty bucket.
func New(root string, o Options) (*Store, error) {
	if !filepath.IsAbs(root) {
		return nil, fmt.Errorf("local store: the container %q is no absolute path", root)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Store{root: filepath.Clean(root), now: o.Now, ready: map[string]bool{}}, nil
}

// Capabilities implements store.Reader.
func (s *Store) Capabilities() store.Capabilities {
	return store.Capabilities{
		Provider:        Provider,
		Location:        s.root,
		ConditionalPut:  true,
		ObjectLock:      true,
		Tags:            true,
		InlineRetention: true,
		InlineTags:      true,
		Advisory:        true,
		Lengthens:       true,
		Holds:           true,
	}
}

// Inspect implements store.Inspector.
func (s *Store) Inspect(ctx context.Context) (store.Bucket, error) {
	root, err := s.open(ctx, "inspect")
	if err != nil {
		return store.Bucket{}, fmt.Errorf("inspect %s: %w", s.root, err)
	}
	defer root.Close()
	return store.Bucket{
		Default: "none",
		Notes: []string{
			"a directory protects nothing by itself: locks are kept by this program alone, and whoever may write to " +
				s.root + " can delete or replace every backup",
		},
	}, nil
}

// Stat implements store.Reader.
func (s *Store) Stat(ctx context.Context, v store.Version) (store.Object, error) {
	root, err := s.open(ctx, "stat")
	if err != nil {
		return store.Object{}, fmt.Errorf("stat %s: %w", v, err)
	}
	defer root.Close()
	o, err := s.stat(root, v)
	if err != nil {
		return store.Object{}, fmt.Errorf("stat %s: %w", v, err)
	}
	o.ServerTime = s.now()
	return o, nil
}

// stat describes an object without the clock.
func (s *Store) stat(root *os.Root, v store.Version) (store.Object, error) {
	path, err := addressed(v)
	if err != nil {
		return store.Object{}, err
	}
	fi, err := lstat(root, path)
	if err != nil {
		return store.Object{}, err
	}
	s.holds()
	a, err := s.attributes(path)
	if err != nil {
		return store.Object{}, err
	}
	return describe(v.Key, fi, a), nil
}

// addressed is the path of an existing object's version. There is only the one without an ID.
func addressed(v store.Version) (string, error) {
	path, err := pathOf(v.Key)
	if err != nil || v.ID != "" {
		return "", store.ErrNotFound
	}
	return path, nil
}

// lstat is the file at path, which must be an object: a regular file.
func lstat(root *os.Root, path string) (fs.FileInfo, error) {
	fi, err := root.Lstat(path)
	switch {
	case err != nil:
		return nil, classify(err)
	case fi.Mode()&fs.ModeSymlink != 0:
		return nil, errLink
	case !fi.Mode().IsRegular():
		return nil, store.ErrNotFound
	}
	return fi, nil
}

func describe(key string, fi fs.FileInfo, a attributes) store.Object {
	return store.Object{
		Version:   store.Version{Key: key},
		Size:      fi.Size(),
		Modified:  fi.ModTime(),
		Latest:    true,
		Retention: a.retention(),
		Tags:      a.tags(),
	}
}

// Open implements store.Reader.
func (s *Store) Open(ctx context.Context, v store.Version, off, n int64) (io.ReadCloser, error) {
	r, err := s.openRange(ctx, v, off, n)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", v, err)
	}
	return r, nil
}

func (s *Store) openRange(ctx context.Context, v store.Version, off, n int64) (io.ReadCloser, error) {
	root, err := s.open(ctx, "open")
	if err != nil {
		return nil, err
	}
	defer root.Close()
	path, err := addressed(v)
	if err != nil {
		return nil, err
	}
	if _, err := lstat(root, path); err != nil {
		return nil, err
	}
	f, err := root.Open(path)
	if err != nil {
		return nil, classify(err)
	}
	fi, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, classify(err)
	}
	size := fi.Size()
	if n < 0 {
		n = size - off
	}
	if off < 0 || n < 0 || off > size || n > size-off {
		f.Close()
		return nil, fmt.Errorf("%d bytes from %d of %d: %w", n, off, size, io.ErrUnexpectedEOF)
	}
	return &reader{ctx: ctx, f: f, off: off, left: n}, nil
}

// reader is a range of a file that was there when it was opened.
type reader struct {
	ctx  context.Context
	f    *os.File
	off  int64
	left int64
}

func (r *reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	if r.left == 0 {
		return 0, io.EOF
	}
	n, err := r.f.ReadAt(p[:min(int64(len(p)), r.left)], r.off)
	r.off, r.left = r.off+int64(n), r.left-int64(n)
	switch {
	case n > 0:
		return n, nil
	case err == io.EOF:
		return 0, fmt.Errorf("%s became %d bytes shorter while it was read: %w", r.f.Name(), r.left, io.ErrUnexpectedEOF)
	case err != nil:
		return 0, fmt.Errorf("read %s: %w", r.f.Name(), classify(err))
	}
	return 0, nil
}

func (r *reader) Close() error { return r.f.Close() }

// open is the directory of the store for one operation.
func (s *Store) open(ctx context.Context, step string) (*os.Root, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := s.step(step); err != nil {
		return nil, classify(err)
	}
	root, err := os.OpenRoot(s.root)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, s.absent()
	case err != nil && isFile(s.root):
		return nil, fmt.Errorf("%s is not a directory: %w", s.root, store.ErrNoBucket)
	case err != nil:
		return nil, classify(err)
	}
	if err := s.recognize(root); err != nil {
		root.Close()
		return nil, err
	}
	return root, nil
}

// absent is the error for a directory that is not there (any more).
func (s *Store) absent() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen != nil {
		return fmt.Errorf("the directory %s is gone, though it was in use; check that it is mounted: %w", s.root, store.ErrNoBucket)
	}
	return fmt.Errorf("the directory %s does not exist, check that it is mounted, or create it: %w", s.root, store.ErrNoBucket)
}

// recognize refuses a directory that is not the one used before and is empty although that was
// not: it is what a lost mount leaves. One with something in it was mounted again.
func (s *Store) recognize(root *os.Root) error {
	fi, err := root.Stat(".")
	if err != nil {
		return classify(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen != nil && os.SameFile(s.seen, fi) {
		return nil
	}
	if s.seen != nil && s.held {
		void, err := isEmpty(root)
		if err != nil {
			return classify(err)
		}
		if void {
			return fmt.Errorf("the directory %s is gone: in its place is another one, which is empty; mount it again, or restart this program if it was replaced on purpose: %w", s.root, store.ErrNoBucket)
		}
	}
	s.seen, s.ready = fi, map[string]bool{}
	return nil
}

// holds remembers that there is something in the directory.
func (s *Store) holds() {
	s.mu.Lock()
	s.held = true
	s.mu.Unlock()
}

func isEmpty(root *os.Root) (bool, error) {
	d, err := root.Open(".")
	if err != nil {
		return false, err
	}
	defer d.Close()
	switch _, err := d.Readdirnames(1); {
	case errors.Is(err, io.EOF):
		return true, nil
	default:
		return false, err
	}
}

func isFile(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && !fi.IsDir()
}

// step announces the next step of an operation to a test.
func (s *Store) step(name string) error {
	if s.at == nil {
		return nil
	}
	return s.at(name)
}
