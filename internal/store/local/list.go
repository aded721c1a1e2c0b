package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"druid.internal/druid/internal/store"
)

// List implements store.Reader. The names in a directory are read before its objects are told, so
// memory is bounded by the largest directory: less than 100 bytes for each name.
func (s *Store) List(ctx context.Context, prefix string, fn func(store.Object) error) error {
	root, err := s.open(ctx, "list")
	if err != nil {
		return fmt.Errorf("list %s: %w", prefix, err)
	}
	defer root.Close()
	w := walk{ctx: ctx, s: s, root: root, fn: fn}
	dir := ""
	if prefix = strings.TrimSuffix(prefix, "/"); prefix != "" {
		if dir, err = pathOf(prefix); err != nil {
			return fmt.Errorf("list: %w", err)
		}
		w.lead = strings.TrimSuffix(prefix, dir)
		if err := w.noLinksOn(dir); err != nil {
			return fmt.Errorf("list %s: %w", prefix, err)
		}
	}
	w.top = dir
	if err := w.directory(dir); err != nil && w.stopped == nil {
		return fmt.Errorf("list %s: %w", prefix, err)
	}
	return w.stopped
}

// walk is one listing.
type walk struct {
	ctx     context.Context
	s       *Store
	root    *os.Root
	fn      func(store.Object) error
	lead    string // the slash with which the prefix, and with it every key, begins
	top     string // the directory of the prefix
	stopped error  // what fn said
}

// noLinksOn refuses a prefix that leads over a symbolic link: nothing below it can be listed.
func (w *walk) noLinksOn(prefix string) error {
	for at := prefix; at != "."; at = path.Dir(at) {
		fi, err := w.root.Lstat(at)
		if err == nil && fi.Mode()&fs.ModeSymlink != 0 {
			return fmt.Errorf("%s: %w", at, errLink)
		}
	}
	return nil
}

// directory tells everything below dir in the order of the keys' bytes: a directory sorts as
// its name with a slash.
func (w *walk) directory(dir string) error {
	entries, err := w.read(dir)
	if errors.Is(err, store.ErrNotFound) {
		return nil // there are no such keys, or they were deleted meanwhile
	}
	if errors.Is(err, store.ErrForbidden) && dir != w.top {
		return w.unreadable(dir, err)
	}
	if err != nil {
		return err
	}
	sidecars := map[string]bool{}
	for _, e := range entries {
		if of, ok := strings.CutPrefix(e.name, sidecarMark); ok {
			sidecars[of] = true
		}
	}
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.sortName(), b.sortName()) })
	for _, e := range entries {
		name := path.Join(dir, e.name)
		switch {
		case strings.HasPrefix(e.name, hidden):
		case e.kind&fs.ModeSymlink != 0:
			err = w.unreadable(name, errLink)
		case e.kind.IsDir():
			err = w.directory(name)
		case e.kind.IsRegular():
			err = w.object(name, sidecars[e.name])
		default:
			err = w.unreadable(name, errKind)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// unreadable tells what is at name and no object.
func (w *walk) unreadable(name string, why error) error {
	w.s.holds()
	w.stopped = w.fn(store.Object{Version: store.Version{Key: w.lead + name}, Latest: true, Unreadable: why})
	return w.stopped
}

// entry is one name in a directory.
type entry struct {
	name string
	kind fs.FileMode
}

func (e entry) sortName() string {
	if e.kind.IsDir() {
		return e.name + "/"
	}
	return e.name
}

// readAtOnce is how many names are read at a time: the system's description of one is larger than
// what is kept.
const readAtOnce = 4096

func (w *walk) read(dir string) ([]entry, error) {
	if err := w.ctx.Err(); err != nil {
		return nil, err
	}
	if dir == "" {
		dir = "."
	}
	if err := w.s.step("list " + dir); err != nil {
		return nil, classify(err)
	}
	f, err := w.root.Open(dir)
	if err != nil {
		return nil, classify(err)
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return nil, classify(err)
	}
	if !fi.IsDir() {
		return nil, store.ErrNotFound // an object, so there is nothing below it
	}
	var entries []entry
	for {
		some, err := f.ReadDir(readAtOnce)
		for _, e := range some {
			entries = append(entries, entry{e.Name(), e.Type()})
		}
		switch {
		case err == io.EOF:
			return entries, nil
		case err != nil:
			return nil, classify(err)
		case w.ctx.Err() != nil:
			return nil, w.ctx.Err()
		}
	}
}

// object tells one object, unless it was deleted since its directory was read.
func (w *walk) object(name string, sidecar bool) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	fi, err := lstat(w.root, name)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	a, err := w.s.attributesOf(name, sidecar)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	w.s.holds()
	w.stopped = w.fn(describe(w.lead+name, fi, a))
	return w.stopped
}
