package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"time"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/store"
)

// Extend implements store.Extender.
func (s *Store) Extend(ctx context.Context, v store.Version, until time.Time) (immutability.Retention, error) {
	var r immutability.Retention
	err := s.change(ctx, "extend", v, func(a *attributes) error {
		switch {
		case a.RetainUntil.IsZero():
			return fmt.Errorf("there is no lock to extend: %w", store.ErrUnsupported)
		case until.Before(a.RetainUntil):
			return &store.ImmutableError{Version: v, Until: a.RetainUntil}
		}
		a.RetainUntil = until.UTC()
		return nil
	}, &r)
	return r, err
}

// SetHold implements store.Holder.
func (s *Store) SetHold(ctx context.Context, v store.Version, on bool) error {
	return s.change(ctx, "hold", v, func(a *attributes) error {
		a.Hold = on
		return nil
	}, nil)
}

// SetTag implements store.Tagger.
func (s *Store) SetTag(ctx context.Context, v store.Version, key, value string) error {
	return s.change(ctx, "tag", v, func(a *attributes) error {
		a.Tags = maps.Clone(a.Tags)
		if a.Tags == nil {
			a.Tags = map[string]string{}
		}
		a.Tags[key] = value
		return nil
	}, nil)
}

// change lets fn alter the attributes of v and writes them, while no other change runs. What
// is read back afterwards goes to back, if that is set.
func (s *Store) change(ctx context.Context, verb string, v store.Version, fn func(*attributes) error, back *immutability.Retention) error {
	err := s.locked(ctx, verb, v, func(dir *os.Root, path string) error {
		a, err := s.attributes(path)
		if err != nil {
			return err
		}
		if a.unreadable != nil {
			return &store.ImmutableError{Version: v, Err: a.unreadable}
		}
		if err := fn(&a); err != nil {
			return err
		}
		if err := s.rewrite(dir, filepath.Base(path), a); err != nil {
			return classify(err)
		}
		if back == nil {
			return nil
		}
		if a, err = s.attributes(path); err == nil {
			*back = *a.retention()
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("%s %s: %w", verb, v, err)
	}
	return nil
}

// rewrite replaces the attributes of an object in one atomic step.
func (s *Store) rewrite(dir *os.Root, base string, a attributes) error {
	err := s.rewriteAttribute(dir, base, a)
	if errors.Is(err, errNoAttributes) {
		if err := s.writeSidecar(dir, base, a); err != nil {
			return err
		}
		return s.sync(dir, "fsync directory")
	}
	if err != nil {
		return err
	}
	return s.removeSidecar(dir, base) // what it said is part of a
}

// rewriteAttribute needs the file writable for a moment: the kernel lets nobody but root set
// attributes of a read-only file, not even its owner. Nothing is written to its content.
func (s *Store) rewriteAttribute(dir *os.Root, base string, a attributes) (err error) {
	if s.noAttributes {
		return errNoAttributes
	}
	f, err := dir.Open(base)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Chmod(0o644); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Chmod(0o444)) }()
	if err := s.step("attributes"); err != nil {
		return err
	}
	if err := s.setAttributes(f, a); err != nil {
		return err
	}
	return f.Sync()
}

// Delete implements store.Deleter. It takes no rights into account but the object's own lock.
func (s *Store) Delete(ctx context.Context, v store.Version) error {
	err := s.locked(ctx, "delete", v, func(dir *os.Root, path string) error {
		a, err := s.attributes(path)
		if err != nil {
			return err
		}
		if err := a.refusal(v, s.now()); err != nil {
			return err
		}
		base := filepath.Base(path)
		if err := s.step("remove"); err != nil {
			return classify(err)
		}
		if err := dir.Remove(base); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return classify(err)
		}
		if err := s.removeSidecar(dir, base); err != nil {
			return classify(err)
		}
		return classify(s.sync(dir, "fsync directory"))
	})
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("delete %s: %w", v, err)
	}
	return nil
}

// locked calls fn with the directory of an existing object while no other process changes
// anything in it.
func (s *Store) locked(ctx context.Context, step string, v store.Version, fn func(dir *os.Root, path string) error) error {
	root, err := s.open(ctx, step)
	if err != nil {
		return err
	}
	defer root.Close()
	path, err := addressed(v)
	if err != nil {
		return err
	}
	dir, err := root.OpenRoot(filepath.Dir(path))
	if err != nil {
		return classify(err)
	}
	defer dir.Close()
	unlock, err := lock(dir)
	if err != nil {
		return classify(err)
	}
	defer unlock()
	if _, err := lstat(root, path); err != nil {
		return err
	}
	return fn(dir, path)
}
