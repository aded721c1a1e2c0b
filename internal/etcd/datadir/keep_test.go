package datadir

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"druid.internal/druid/internal/backup/snapshot"
)

// The directories are exchanged, then something fails, and the old one cannot be put back
// because somebody took the new one away.
func TestOldDataThatCannotBePutBackAreKept(t *testing.T) {
	for name, c := range map[string]struct{ renames, mounted bool }{
		"exchanged":                  {},
		"renamed":                    {renames: true},
		"exchanged at a mount point": {mounted: true},
		"renamed at a mount point":   {renames: true, mounted: true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			oldDir(t, dir)
			target := dir
			if c.mounted {
				target = filepath.Join(dir, "member")
			}
			failure := errors.New("the disk failed")
			_, err := Restore(context.Background(), lifeSource(), Options{}, Target{Dir: dir, Overwrite: true, Member: solo,
				renames: c.renames, mounted: c.mounted, Identity: &Identity{Lineage: snapshot.Lineage{ID: "new"}},
				at: func(now step) error {
					if now != replaced {
						return nil
					}
					if err := os.Rename(target, target+"-taken"); err != nil {
						t.Fatal(err)
					}
					if c.renames { // or else the old one, which lies aside, is simply put back
						if err := os.MkdirAll(filepath.Join(target, "in", "the way"), 0o700); err != nil {
							t.Fatal(err)
						}
						if err := os.WriteFile(target+".part", nil, 0o600); err != nil && !c.mounted {
							t.Fatal(err)
						}
					}
					return failure
				}})
			if !errors.Is(err, failure) {
				t.Fatalf("%v, want the failure", err)
			}
			kept := findOld(t, filepath.Dir(target))
			if kept == "" {
				t.Fatalf("the old data are gone: %v", err)
			}
			if kept != target && !strings.Contains(err.Error(), "-old-0-") {
				t.Errorf("%v does not tell where the old data are: %s", err, kept)
			}
			// Neither does the next run remove them, nor what is in the way.
			if err := recoverAt(dir, c.mounted); err != nil && !(c.renames && errors.Is(err, ErrForeign)) {
				t.Fatal(err)
			}
			old := findOld(t, filepath.Dir(target))
			if old == "" {
				t.Fatal("the old data are gone after the next run")
			}
			if !c.renames && old != target {
				t.Errorf("the old data are %s, want them back under their name", old)
			}
		})
	}
}

// findOld is where, in parent, the data that oldDir made are.
func findOld(t *testing.T, parent string) string {
	t.Helper()
	for _, pattern := range []string{"*/member/snap/db", "*/snap/db", "*/member/member/snap/db"} {
		found, err := filepath.Glob(filepath.Join(parent, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range found {
			if b, err := os.ReadFile(path); err == nil && string(b) == "precious" {
				rel, _ := filepath.Rel(parent, path)
				top, _, _ := strings.Cut(rel, string(filepath.Separator))
				return filepath.Join(parent, top)
			}
		}
	}
	return ""
}
