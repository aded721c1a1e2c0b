package datadir

import (
	"os"
	"path/filepath"
)

// WriteFile gives the file path the content: whole or not at all, whoever is interrupted when, and
// on the disk when it returns. Only its owner may read it. It is for the small files in and beside
// a data directory; what is left of a write that was interrupted is hidden beside it.
func WriteFile(path string, content []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}
