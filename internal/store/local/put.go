package local

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"druid.internal/druid/internal/store"
)

const (
	copyBuffer = 512 << 10
	// staleAfter is the age below which an incomplete upload is never swept, even if its
	// writer seems dead: file systems exist where locks tell nothing about other machines.
	staleAfter = time.Hour
)

// Put implements store.Store.
//
//	directory → hidden file → write → attributes → 0444 → fsync ║ name → fsync directory
//
// A crash left of the bar leaves at most a hidden file, which a later Put into the same
// directory sweeps; right of it the object is whole. Putting the name up is one atomic step
// that fails if the name is taken. An error on the right is store.ErrUnknownOutcome.
func (s *Store) Put(ctx context.Context, key string, body io.Reader, opts store.PutOptions) (store.Object, error) {
	o, err := s.put(ctx, key, body, opts)
	if err != nil {
		return store.Object{}, fmt.Errorf("put %s: %w", key, err)
	}
	return o, nil
}

func (s *Store) put(ctx context.Context, key string, body io.Reader, opts store.PutOptions) (store.Object, error) {
	if err := ctx.Err(); err != nil {
		return store.Object{}, err
	}
	path, err := pathOf(key)
	if err != nil {
		return store.Object{}, err
	}
	a, err := newAttributes(opts, s.now())
	if err != nil {
		return store.Object{}, err
	}
	dir, err := s.directory(ctx, filepath.Dir(path))
	if err != nil {
		return store.Object{}, placeError(err)
	}
	defer dir.Close()
	base := filepath.Base(path)
	if _, err := dir.Lstat(base); err == nil {
		return store.Object{}, store.ErrExists // before the body is read for nothing
	}

	u := upload{s: s, dir: dir, base: base, attributes: a}
	if err := u.write(ctx, body); err != nil {
		return store.Object{}, errors.Join(err, u.discard())
	}
	if err := u.publish(); err != nil {
		return store.Object{}, errors.Join(classify(err), u.discard())
	}
	if err := u.settle(); err != nil {
		return store.Object{}, fmt.Errorf("%w: %w", store.ErrUnknownOutcome, classify(err))
	}
	s.holds()
	return describe(key, u.info, a), nil
}

// placeError says what is in the way when a directory cannot be made.
func placeError(err error) error {
	if err := classify(err); !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrExists) {
		return err
	}
	return fmt.Errorf("an element of the key is another object or no directory: %w", err)
}

// upload is an object on its way.
type upload struct {
	s          *Store
	dir        *os.Root
	base       string
	attributes attributes

	temp    string      // the hidden name; empty when there is none (any more)
	sidecar bool        // the attributes need a hidden file of their own
	info    fs.FileInfo // of the complete file
}

// write makes the complete file under its hidden name.
func (u *upload) write(ctx context.Context, body io.Reader) (err error) {
	if err := u.s.step("create"); err != nil {
		return classify(err)
	}
	f, name, err := createTemp(u.dir)
	if err != nil {
		return classify(err)
	}
	u.temp = name
	defer func() {
		if cerr := f.Close(); err == nil && cerr != nil {
			err = classify(cerr)
		}
	}()
	src := &source{ctx: ctx, r: body}
	if _, err := io.CopyBuffer(sink{u.s, f}, src, make([]byte, copyBuffer)); err != nil {
		if src.err != nil {
			return src.err // the body's own error, which is none of ours to classify
		}
		return classify(err)
	}
	return classify(u.finish(f))
}

func (u *upload) finish(f *os.File) error {
	if err := u.s.step("attributes"); err != nil {
		return err
	}
	if !u.attributes.empty() {
		err := u.s.setAttributes(f, u.attributes)
		if u.sidecar = errors.Is(err, errNoAttributes); err != nil && !u.sidecar {
			return err
		}
	}
	if err := u.s.step("chmod"); err != nil {
		return err
	}
	if err := f.Chmod(0o444); err != nil {
		return err
	}
	if err := u.s.step("fsync"); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	var err error
	u.info, err = f.Stat()
	return err
}

// publish gives the file its name. The lock keeps a second writer from describing an object
// that the first one has just put here.
func (u *upload) publish() error {
	if err := u.s.step("lock"); err != nil {
		return err
	}
	unlock, err := lock(u.dir)
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := u.dir.Lstat(u.base); err == nil {
		return store.ErrExists
	}
	if u.sidecar {
		err = u.s.writeSidecar(u.dir, u.base, u.attributes)
	} else {
		err = u.s.removeSidecar(u.dir, u.base) // of an object that was here before
	}
	if err != nil {
		return err
	}
	if u.sidecar {
		// It must not be possible that the object survives a power failure and its lock does not.
		if err := u.s.sync(u.dir, "fsync sidecar"); err != nil {
			return err
		}
	}
	if err := u.s.step("publish"); err != nil {
		return err
	}
	return renameExclusively(u.dir, u.temp, u.base)
}

// settle makes the new name durable. The object is visible already.
func (u *upload) settle() error {
	_ = u.discard() // a second name of the same file, on file systems that can only link
	return u.s.sync(u.dir, "fsync directory")
}

// discard removes the hidden name.
func (u *upload) discard() error {
	if u.temp == "" {
		return nil
	}
	err := u.dir.Remove(u.temp)
	u.temp = ""
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// source is a body that ends with its context and remembers its error.
type source struct {
	ctx context.Context
	r   io.Reader
	err error
}

func (s *source) Read(p []byte) (int, error) {
	if s.err = s.ctx.Err(); s.err != nil {
		return 0, s.err
	}
	n, err := s.r.Read(p)
	if err != io.EOF {
		s.err = err
	}
	return n, err
}

// sink hides the file's fast paths, which would bypass the context, and announces writes.
type sink struct {
	s *Store
	f *os.File
}

func (w sink) Write(p []byte) (int, error) {
	if err := w.s.step("write"); err != nil {
		return 0, err
	}
	return w.f.Write(p)
}

// createTemp makes a hidden file of a name of its own in dir, and marks it as being written.
func createTemp(dir *os.Root) (*os.File, string, error) {
	name := tempMark + strings.ToLower(rand.Text())
	f, err := dir.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, "", err
	}
	if err := claim(f); err != nil {
		return nil, "", errors.Join(err, f.Close(), dir.Remove(name))
	}
	return f, name, nil
}

// directory opens the directory at path below the root, making what is missing of path, durably.
// It never makes the root.
func (s *Store) directory(ctx context.Context, path string) (*os.Root, error) {
	root, err := s.open(ctx, "make directory")
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if err := root.MkdirAll(path, 0o700); err != nil {
		return nil, err
	}
	dir, err := root.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	if err := s.prepare(root, dir, path); err != nil {
		dir.Close()
		return nil, err
	}
	return dir, nil
}

// prepare does once per process what a directory needs: its own name and those above it are
// made durable, which a process before us may have died without, and dead uploads are swept.
func (s *Store) prepare(root, dir *os.Root, path string) error {
	s.mu.Lock()
	done := s.ready[path]
	s.mu.Unlock()
	if done {
		return nil
	}
	for at := path; at != "."; at = filepath.Dir(at) {
		if err := syncDirectory(root, filepath.Dir(at)); err != nil {
			return err
		}
	}
	if above, err := os.OpenRoot(filepath.Dir(s.root)); err == nil {
		// Not ours, and perhaps not readable or a mount point's parent: best effort.
		_ = syncDirectory(above, ".")
		above.Close()
	}
	if err := s.sweep(dir); err != nil {
		return err
	}
	s.mu.Lock()
	s.ready[path] = true
	s.mu.Unlock()
	return nil
}

// sweep removes hidden files of uploads whose writer is dead.
func (s *Store) sweep(dir *os.Root) error {
	d, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !strings.HasPrefix(name, tempMark) {
			continue
		}
		fi, err := dir.Lstat(name)
		if err != nil || s.now().Sub(fi.ModTime()) < staleAfter || claimed(dir, name) {
			continue
		}
		if err := dir.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (s *Store) sync(dir *os.Root, step string) error {
	if err := s.step(step); err != nil {
		return err
	}
	return syncDirectory(dir, ".")
}

func syncDirectory(root *os.Root, path string) error {
	f, err := root.Open(path)
	if err != nil {
		return err
	}
	err = f.Sync()
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}
