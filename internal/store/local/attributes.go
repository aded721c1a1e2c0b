package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/store"
)

// attributeName is the extended attribute that holds the attributes as JSON.
const attributeName = "user.druid"

// attributes are what is known about an object beside its content.
type attributes struct {
	RetainUntil time.Time         `json:"retainUntil,omitzero"`
	Hold        bool              `json:"hold,omitempty"`
	Tags        map[string]string `json:"tags,omitempty"`

	unreadable error // they are there but make no sense: then everything is protected
}

// newAttributes are those a Put asks for. Every mode is taken as what it will be: advisory.
func newAttributes(o store.PutOptions, now time.Time) (attributes, error) {
	a := attributes{Tags: maps.Clone(o.Tags)}
	if o.Retention == nil {
		return a, nil
	}
	a.Hold = o.Retention.Hold
	switch o.Retention.Mode {
	case "", immutability.ModeNone:
		return a, nil
	case immutability.ModeAdvisory, immutability.ModeGovernance, immutability.ModeCompliance:
	default:
		return a, fmt.Errorf("a lock of mode %q: %w", o.Retention.Mode, store.ErrUnsupported)
	}
	if !o.Retention.Until.After(now) {
		return a, fmt.Errorf("a lock until %s would have ended already", o.Retention.Until.UTC().Format(time.RFC3339))
	}
	a.RetainUntil = o.Retention.Until.UTC()
	return a, nil
}

func (a attributes) empty() bool { return a.RetainUntil.IsZero() && !a.Hold && len(a.Tags) == 0 }

func (a attributes) retention() *immutability.Retention {
	switch {
	case a.unreadable != nil:
		return &immutability.Retention{Mode: immutability.ModeUnknown}
	case a.RetainUntil.IsZero() && !a.Hold:
		return &immutability.Retention{Mode: immutability.ModeNone}
	case a.RetainUntil.IsZero():
		return &immutability.Retention{Mode: immutability.ModeNone, Hold: true}
	}
	return &immutability.Retention{Mode: immutability.ModeAdvisory, Until: a.RetainUntil, Hold: a.Hold}
}

func (a attributes) tags() map[string]string {
	if a.unreadable != nil {
		return nil
	}
	if a.Tags == nil {
		return map[string]string{}
	}
	return a.Tags
}

// refusal is why an object with these attributes may not be deleted at now, or nil.
func (a attributes) refusal(v store.Version, now time.Time) error {
	switch {
	case a.unreadable != nil:
		return &store.ImmutableError{Version: v, Err: a.unreadable}
	case a.Hold:
		return &store.ImmutableError{Version: v, Hold: true}
	case now.Before(a.RetainUntil):
		return &store.ImmutableError{Version: v, Until: a.RetainUntil}
	}
	return nil
}

// attributes reads those of the object at path.
func (s *Store) attributes(path string) (attributes, error) {
	_, err := os.Lstat(s.sidecar(path))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return attributes{}, classify(err)
	}
	return s.attributesOf(path, err == nil)
}

// attributesOf is attributes where it is known whether there is a hidden file. If there are
// both, because the directory came from another file system, the stronger protection counts.
func (s *Store) attributesOf(path string, sidecar bool) (attributes, error) {
	var a, b attributes
	raw, err := s.getAttribute(filepath.Join(s.root, path))
	switch {
	case err == nil:
		a = parse(raw)
	case !errors.Is(err, errNoAttributes):
		return attributes{}, classify(err)
	}
	if !sidecar {
		return a, nil
	}
	raw, err = os.ReadFile(s.sidecar(path))
	switch {
	case err == nil:
		b = parse(raw)
	case !errors.Is(err, fs.ErrNotExist):
		return attributes{}, classify(err)
	}
	if b.RetainUntil.After(a.RetainUntil) {
		a.RetainUntil = b.RetainUntil
	}
	a.Hold = a.Hold || b.Hold
	if a.Tags == nil {
		a.Tags = b.Tags
	}
	a.unreadable = errors.Join(a.unreadable, b.unreadable)
	return a, nil
}

func (s *Store) getAttribute(path string) ([]byte, error) {
	if s.noAttributes {
		return nil, errNoAttributes
	}
	return getAttribute(path, attributeName)
}

// errNoAttributes: the file has none, or its file system knows none.
var errNoAttributes = errors.New("no extended attributes")

func parse(raw []byte) attributes {
	var a attributes
	if err := json.Unmarshal(raw, &a); err != nil {
		return attributes{unreadable: fmt.Errorf("its attributes cannot be understood: %w", err)}
	}
	return a
}

// store writes a to an open file, and says errNoAttributes if the file system cannot.
func (s *Store) setAttributes(f *os.File, a attributes) error {
	if s.noAttributes {
		return errNoAttributes
	}
	raw, err := json.Marshal(a)
	if err != nil {
		return err
	}
	return setAttribute(f, attributeName, raw)
}

// sidecar is the absolute path of the hidden file beside an object.
func (s *Store) sidecar(path string) string {
	return filepath.Join(s.root, filepath.Dir(path), sidecarMark+filepath.Base(path))
}

// writeSidecar replaces the hidden file of base in dir by one that holds a, durably. The
// caller holds the lock of dir.
func (s *Store) writeSidecar(dir *os.Root, base string, a attributes) error {
	raw, err := json.Marshal(a)
	if err != nil {
		return err
	}
	if err := s.step("write sidecar"); err != nil {
		return err
	}
	f, name, err := createTemp(dir)
	if err != nil {
		return err
	}
	_, err = f.Write(raw)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = s.step("publish sidecar")
	}
	if err == nil {
		err = dir.Rename(name, sidecarMark+base)
	}
	if err != nil {
		return errors.Join(err, dir.Remove(name))
	}
	return nil
}

// removeSidecar removes the hidden file of base, if there is one.
func (s *Store) removeSidecar(dir *os.Root, base string) error {
	if err := s.step("remove sidecar"); err != nil {
		return err
	}
	if err := dir.Remove(sidecarMark + base); err != nil && !errors.Is(err, syscall.ENOENT) {
		return err
	}
	return nil
}
