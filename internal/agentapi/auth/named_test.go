package auth

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestAFileThatCannotBeReadIsToldWithItsOptionAndTheRemedy(t *testing.T) {
	dir := t.TempDir()
	good := filepath.Join(dir, "token")
	if err := os.WriteFile(good, []byte(tokenA), 0o600); err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(dir, "none")
	for name, c := range map[string]struct {
		path string
		want string
		is   error
	}{
		"none is named":    {"", "", nil},
		"a good one":       {good, "", nil},
		"a missing one":    {missing, "--token-file names " + missing + ": no such file or directory; create or mount it, or correct the path", fs.ErrNotExist},
		"a directory":      {dir, "--token-file names " + dir + ", which is a directory: name the file in it", nil},
		"one below a file": {filepath.Join(good, "x"), "--token-file names " + filepath.Join(good, "x") + ": not a directory; see why it cannot be read", syscall.ENOTDIR},
	} {
		err := Named("--token-file", c.path)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.want != "" && (err == nil || err.Error() != c.want || strings.Contains(err.Error(), "\n")):
			t.Errorf("%s: %v, want %q", name, err, c.want)
		case c.is != nil && !errors.Is(err, c.is):
			t.Errorf("%s: %v does not wrap %v", name, err, c.is)
		}
	}
}
