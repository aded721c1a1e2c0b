package local

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"druid.internal/druid/internal/store"
)

func TestKeysCannotEscapeTheRoot(t *testing.T) {
	outside := t.TempDir()
	root := filepath.Join(outside, "root")
	if err := os.Mkdir(root, 0o700); err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(outside, "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	s := newStore(t, root)
	for _, key := range []string{"../secret", "a/../../secret", "link/secret", "/../secret", "//etc/passwd", "link/../secret", ".."} {
		v := store.Version{Key: key}
		if r, err := s.Open(t.Context(), v, 0, -1); err == nil {
			r.Close()
			t.Errorf("Open(%q) worked", key)
		}
		if _, err := s.Stat(t.Context(), v); err == nil {
			t.Errorf("Stat(%q) worked", key)
		}
		if _, err := s.Put(t.Context(), key, strings.NewReader("x"), store.PutOptions{}); err == nil {
			t.Errorf("Put(%q) worked", key)
		}
		_ = s.Delete(t.Context(), v) // what is not in the store is gone
	}
	if b, err := os.ReadFile(secret); err != nil || string(b) != "secret" {
		t.Errorf("the file outside is %q, %v", b, err)
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) != 2 {
		t.Errorf("outside are %v, %v", entries, err)
	}
}

func TestLinkAbovePrefixFailsListing(t *testing.T) {
	elsewhere := t.TempDir()
	if err := os.WriteFile(filepath.Join(elsewhere, "Full"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, place := range map[string]string{"the prefix": "ns/etcd-main", "above the prefix": "ns"} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t, t.TempDir())
			link := filepath.Join(s.root, place)
			if err := os.MkdirAll(filepath.Dir(link), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(elsewhere, link); err != nil {
				t.Fatal(err)
			}
			err := s.List(t.Context(), "ns/etcd-main", func(store.Object) error { return nil })
			if !errors.Is(err, errLink) {
				t.Errorf("List = %v, want %v", err, errLink)
			}
		})
	}
}

// What is no object neither stops a listing nor is left out of it, and is never followed.
func TestListNamesWhatIsNoObject(t *testing.T) {
	elsewhere := t.TempDir()
	if err := os.WriteFile(filepath.Join(elsewhere, "secret"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newStore(t, t.TempDir())
	s.at = func(step string) error {
		if step == "list a/locked" {
			return syscall.EACCES
		}
		return nil
	}
	at := func(name string) string { return filepath.Join(s.root, "a", name) }
	for _, key := range []string{"a/k", "a/z", "a/locked/k", "a/\xff"} {
		if _, err := s.Put(t.Context(), key, strings.NewReader("x"), store.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	l, err := net.Listen("unix", at("socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, err := range []error{
		os.Symlink(elsewhere, at("directory")),
		os.Symlink(filepath.Join(elsewhere, "secret"), at("file")),
		os.Symlink("nowhere", at("nothing")),
		os.Symlink(".", at("loop")),
		syscall.Mkfifo(at("pipe"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	var objects, others []string
	err = s.List(t.Context(), "a", func(o store.Object) error {
		if o.Unreadable == nil {
			objects = append(objects, o.Key)
			return nil
		}
		others = append(others, o.Key)
		if r, err := s.Open(t.Context(), o.Version, 0, -1); err == nil {
			r.Close()
			t.Errorf("%s was followed", o.Key)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"a/k", "a/z", "a/\xff"}; !slices.Equal(objects, want) {
		t.Errorf("objects are %q, want %q", objects, want)
	}
	if want := []string{"a/directory", "a/file", "a/locked", "a/loop", "a/nothing", "a/pipe", "a/socket"}; !slices.Equal(others, want) {
		t.Errorf("others are %q, want %q", others, want)
	}
}

func TestTheContainerItselfMayBeALink(t *testing.T) {
	s := newStore(t, t.TempDir())
	if _, err := s.Put(t.Context(), "a/k", strings.NewReader("x"), store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(s.root, link); err != nil {
		t.Fatal(err)
	}
	if _, err := newStore(t, link).Stat(t.Context(), store.Version{Key: "a/k"}); err != nil {
		t.Error(err)
	}
}

func TestAContainerThatIsAFileIsSaid(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	err := newStore(t, file).List(t.Context(), "", func(store.Object) error { return nil })
	if !errors.Is(err, store.ErrNoBucket) || !strings.Contains(err.Error(), "not a directory") {
		t.Errorf("List = %v", err)
	}
}

func TestAKeyBelowAnotherObjectIsRefused(t *testing.T) {
	s := newStore(t, t.TempDir())
	if _, err := s.Put(t.Context(), "a/k", strings.NewReader("x"), store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(t.Context(), "a/k/0000000001", strings.NewReader("x"), store.PutOptions{}); err == nil || !strings.Contains(err.Error(), "another object") {
		t.Errorf("Put below an object = %v", err)
	}
	if _, err := s.Put(t.Context(), "a", strings.NewReader("x"), store.PutOptions{}); !errors.Is(err, store.ErrExists) {
		t.Errorf("Put over a directory = %v, want %v", err, store.ErrExists)
	}
}

func FuzzPathOf(f *testing.F) {
	for _, key := range []string{"a", "a/b", "", "/", "a//b", "..", "a/../b", "a\x00", ".druid-x", "ns--uid/etcd-main/v2/Full-1-2-3.gz"} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		path, err := pathOf(key)
		if err != nil {
			return
		}
		if path != strings.TrimPrefix(key, "/") || !filepath.IsLocal(path) || filepath.Clean(path) != path || strings.Contains(path, "/"+hidden) || strings.HasPrefix(path, hidden) {
			t.Errorf("pathOf(%q) = %q", key, path)
		}
	})
}
