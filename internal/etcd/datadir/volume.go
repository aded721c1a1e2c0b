package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

var (
	// ErrReadOnly: nothing can be written to the volume.
	ErrReadOnly = errors.New("volume is read-only")
	// ErrOtherVolume: the volume belongs to somebody else.
	ErrOtherVolume = errors.New("wrong volume")
)

// Writable tells whether files can be made in the directory parent: nil, [ErrReadOnly], [ErrNoRoom]
// or another reason why not. It makes a small file, syncs and removes it.
func Writable(parent string) error {
	// Always the same name: who is told of the same error again should see that it is.
	f, err := os.OpenFile(filepath.Join(parent, ".druid-writable"), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err == nil {
		_, err = f.Write(make([]byte, 512))
		if serr := f.Sync(); err == nil {
			err = serr
		}
		if cerr := f.Close(); err == nil {
			err = cerr
		}
		if rerr := os.Remove(f.Name()); err == nil && !errors.Is(rerr, fs.ErrNotExist) { // another process looks, too
			err = rerr
		}
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EROFS), errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: nothing can be written in %s: %w; mount it writable, or give it to this user", ErrReadOnly, parent, err)
	}
	return fmt.Errorf("write in %s: %w", parent, noRoom(err))
}

// GuardFile names the owner of a volume. It lies beside the data directory.
const GuardFile = "safe_guard"

// OtherVolumeError is an [ErrOtherVolume].
type OtherVolumeError struct {
	Path        string // of the guard file
	Found, Want string // owners
}

func (e *OtherVolumeError) Error() string {
	return fmt.Sprintf("%v: %s says that it belongs to %q, not to %q; mount the right volume, or remove the file if this is the right one", ErrOtherVolume, e.Path, e.Found, e.Want)
}

func (e *OtherVolumeError) Unwrap() error { return ErrOtherVolume }

// Guard makes sure that the volume on which the data directory dir lies is the owner's: it writes the
// owner into the guard file if there is none, and otherwise compares. An empty owner is not guarded.
// Errors: [*OtherVolumeError], [ErrReadOnly] and [ErrNoRoom] as of [Writable].
func Guard(dir, owner string) error {
	if owner == "" {
		return nil
	}
	path := filepath.Join(filepath.Dir(filepath.Clean(dir)), GuardFile)
	b, err := os.ReadFile(path)
	if err == nil && strings.TrimSpace(string(b)) != "" {
		if found := strings.TrimSpace(string(b)); found != owner {
			return &OtherVolumeError{Path: path, Found: found, Want: owner}
		}
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := Writable(filepath.Dir(path)); err != nil {
		return err
	}
	return WriteFile(path, []byte(owner)) // in place of an empty one, too
}
