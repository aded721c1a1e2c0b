package auth

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Named reports that the file at path, which an option of the configuration names, cannot be read,
// with the option and the remedy. An empty path names none.
func Named(option, path string) error {
	if path == "" {
		return nil
	}
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		return fmt.Errorf("%s names %s, which is a directory: name the file in it", option, path)
	}
	if err == nil {
		var f *os.File
		if f, err = os.Open(path); err == nil {
			return f.Close()
		}
	}
	why := err
	if named := (*fs.PathError)(nil); errors.As(err, &named) {
		why = named.Err // without the path, which stands before it
	}
	remedy := "see why it cannot be read"
	switch {
	case errors.Is(err, fs.ErrNotExist):
		remedy = "create or mount it, or correct the path"
	case errors.Is(err, fs.ErrPermission):
		remedy = "let the user of this process read it"
	}
	return fmt.Errorf("%s names %s: %w; %s", option, path, why, remedy)
}
