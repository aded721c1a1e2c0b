package datadir

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"druid.internal/druid/internal/etcd/scratchdir"
)

// put makes the file path with a content that is easy to recognise.
func put(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("thesis"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// names lists every path below dir but those of locks.
func names(t *testing.T, dir string) string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && !strings.HasSuffix(path, lockMark) {
			all = append(all, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(all, "\n")
}

func TestOverwriteRefusesOtherFiles(t *testing.T) {
	for name, c := range map[string]struct {
		make    func(t *testing.T, dir string)
		mounted bool
		want    string // "": it is replaced
	}{
		"a home directory":               {make: func(t *testing.T, dir string) { put(t, filepath.Join(dir, "docs", "thesis.txt")) }, want: "docs"},
		"a file beside the data":         {make: func(t *testing.T, dir string) { oldDir(t, dir); put(t, filepath.Join(dir, "thesis.txt")) }, want: "thesis.txt"},
		"a file in member":               {make: func(t *testing.T, dir string) { oldDir(t, dir); put(t, filepath.Join(dir, "member", "notes")) }, want: "member/notes"},
		"a copy of the database":         {make: func(t *testing.T, dir string) { oldDir(t, dir); put(t, filepath.Join(dir, "member/snap/db.bak")) }, want: "member/snap/db.bak"},
		"a directory beside the log":     {make: func(t *testing.T, dir string) { oldDir(t, dir); put(t, filepath.Join(dir, "member/wal/old/0.wal")) }, want: "member/wal/old"},
		"a file in place of member":      {make: func(t *testing.T, dir string) { put(t, filepath.Join(dir, "member")) }, want: "member"},
		"a directory in place of the db": {make: func(t *testing.T, dir string) { put(t, filepath.Join(dir, "member/snap/db/thesis")) }, want: "member/snap/db"},
		"lost+found":                     {make: func(t *testing.T, dir string) { oldDir(t, dir); put(t, filepath.Join(dir, "lost+found", "#1")) }, want: "lost+found"},
		"a pipe": {make: func(t *testing.T, dir string) {
			oldDir(t, dir)
			if err := unix.Mkfifo(filepath.Join(dir, "member/snap/1.snap"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, want: "member/snap/1.snap"},
		"a link out of it": {make: func(t *testing.T, dir string) {
			oldDir(t, dir)
			if err := os.Symlink("/etc", filepath.Join(dir, "etc")); err != nil {
				t.Fatal(err)
			}
		}, want: "etc"},
		"a mount point": {mounted: true, make: func(t *testing.T, dir string) {
			oldDir(t, dir)
			put(t, filepath.Join(dir, "lost+found", "#1"))
			put(t, filepath.Join(dir, "thesis.txt"))
		}},
		"a file in member at a mount point": {mounted: true, want: "member/notes",
			make: func(t *testing.T, dir string) { oldDir(t, dir); put(t, filepath.Join(dir, "member", "notes")) }},
		"a log behind a link": {make: func(t *testing.T, dir string) {
			oldDir(t, dir)
			put(t, filepath.Join(filepath.Dir(dir), "logs", "0-0.wal"))
			if err := os.Symlink("../../logs", filepath.Join(dir, "member", "wal")); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			c.make(t, dir)
			before := names(t, filepath.Dir(dir))
			done, err := Restore(context.Background(), lifeSource(), Options{}, Target{Dir: dir, Overwrite: true, Member: solo, mounted: c.mounted})
			if c.want == "" {
				if err != nil || done.Replaced == nil || done.Replaced.Files < 2 || done.Replaced.Bytes == 0 {
					t.Fatalf("got %+v, %v, want data that are replaced", done, err)
				}
				for _, path := range []string{filepath.Join(dir, "thesis.txt"), filepath.Join(dir, "lost+found", "#1"), filepath.Join(filepath.Dir(dir), "logs", "0-0.wal")} {
					if _, err := os.Stat(path); err != nil && strings.Contains(before, path) {
						t.Error(err)
					}
				}
				return
			}
			if !errors.Is(err, ErrForeign) || !strings.Contains(err.Error(), filepath.Join(dir, c.want)) {
				t.Errorf("got %v, want ErrForeign and %s", err, c.want)
			}
			if after := names(t, filepath.Dir(dir)); after != before {
				t.Errorf("got\n%s\nwant\n%s", after, before)
			}
			if _, err := SetAside(dir, time.Now()); !errors.Is(err, ErrForeign) && !c.mounted {
				t.Errorf("set aside: %v, want ErrForeign", err)
			}
		})
	}
}

// What has a name that a restore uses is removed only if a restore made it.
func TestOtherFilesBesideTheDirectoryStay(t *testing.T) {
	for name, stays := range map[string]string{
		"a directory called part":     "data.part/docs/thesis.txt",
		"a file called part":          "data.part",
		"a file called as the lock":   "data.part.lock",
		"a directory called part-old": "data.part-old-2019/thesis.txt",
	} {
		t.Run(name, func(t *testing.T) {
			tmp := t.TempDir()
			put(t, filepath.Join(tmp, stays))
			_, err := Restore(context.Background(), lifeSource(), Options{}, Target{Dir: filepath.Join(tmp, "data"), Member: solo})
			if err != nil && !errors.Is(err, ErrForeign) {
				t.Errorf("got %v, want ErrForeign or success", err)
			}
			if b, err := os.ReadFile(filepath.Join(tmp, stays)); err != nil || string(b) != "thesis" {
				t.Errorf("%s: %q, %v", stays, b, err)
			}
		})
	}
}

func TestFilesAddedDuringTheRestoreStay(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	oldDir(t, dir)
	_, err := Restore(context.Background(), lifeSource(), Options{}, Target{Dir: dir, Overwrite: true, Member: solo, at: func(s step) error {
		if s == synced {
			put(t, filepath.Join(dir, "thesis.txt"))
		}
		return nil
	}})
	if !errors.Is(err, ErrForeign) {
		t.Errorf("got %v, want ErrForeign", err)
	}
	for _, path := range []string{filepath.Join(dir, "thesis.txt"), databasePath(dir)} {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
}

func TestForgetKeepsOtherFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	oldDir(t, dir)
	aside, err := SetAside(dir, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(aside, "docs", "thesis.txt"))
	if _, err := Forget(dir); !errors.Is(err, ErrForeign) {
		t.Errorf("got %v, want ErrForeign", err)
	}
	if _, err := os.Stat(filepath.Join(aside, "member/snap/db")); err != nil {
		t.Error(err)
	}
}

// A member that etcd ran on, with everything that etcd leaves, is still one that can be replaced.
func TestFilesOfEtcdAreNotForeign(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	if _, err := Restore(context.Background(), lifeSource(), Options{}, Target{Dir: dir, Member: solo}); err != nil {
		t.Fatal(err)
	}
	if _, err := Settle(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	for _, left := range []string{ // by etcd that was killed, or repaired its data
		"member/snap/db.tmp.123", "member/snap/tmp456", "member/snap/0000000000000001-0000000000000005.snap.broken", "member/snap/0000000000000009.snap.db",
		"member/wal/1.tmp", "member/wal/0000000000000000-0000000000000000.wal.broken", "member/wal.tmp/0.tmp", "member/.druid-lineage.json-77",
		"fixtures/client/cert.pem", "fixtures/peer/key.pem",
	} {
		put(t, filepath.Join(dir, left))
	}
	scratch, _, err := scratchdir.Make(dir, "rebuild") // of a restore that was killed
	if err != nil {
		t.Fatal(err)
	}
	for _, left := range []string{"base", "marks-1", "records-2"} {
		put(t, filepath.Join(scratch, left))
	}
	c, err := survey(dir, ".")
	if err != nil || c.Files < 16 {
		t.Errorf("got %+v, %v", c, err)
	}
}
