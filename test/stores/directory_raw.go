package stores

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Directory is a directory in the hands of whoever may write into it.
type Directory string

// Overwrite replaces the content, as a shell's > does, whatever the permissions of the file.
func (d Directory) Overwrite(_ context.Context, key string, body []byte) error {
	path := d.path(key)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if err := os.Chmod(path, 0o600); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.WriteFile(path, body, 0o600)
}

// Hide removes the file: there is nothing else to hide it by.
func (d Directory) Hide(_ context.Context, key string) error { return os.Remove(d.path(key)) }

// Delete removes the file.
func (d Directory) Delete(_ context.Context, v RawVersion) error { return os.Remove(d.path(v.Key)) }

// Read reads the file.
func (d Directory) Read(_ context.Context, v RawVersion) ([]byte, error) {
	return os.ReadFile(d.path(v.Key))
}

// Versions are all files that are not hidden.
func (d Directory) Versions(context.Context) ([]RawVersion, error) {
	var all []RawVersion
	err := filepath.WalkDir(string(d), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			return err
		}
		st, err := e.Info()
		if err != nil {
			return err
		}
		key, err := filepath.Rel(string(d), path)
		all = append(all, RawVersion{Key: filepath.ToSlash(key), Size: st.Size(), Current: true})
		return err
	})
	return all, err
}

func (d Directory) path(key string) string { return filepath.Join(string(d), filepath.FromSlash(key)) }
