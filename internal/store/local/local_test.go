package local

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/store"
)

func TestARelativeContainerIsRefused(t *testing.T) {
	for _, root := range []string{"", "backups", "./backups", "../x"} {
		if _, err := New(root, Options{}); err == nil {
			t.Errorf("New(%q) was accepted", root)
		}
	}
}

// A mount that was lost looked like an empty bucket, which was filled on the wrong disk.
func TestADirectoryThatVanishesIsNotMadeAgain(t *testing.T) {
	put := func(s *Store, key string) error {
		_, err := s.Put(t.Context(), key, strings.NewReader("x"), store.PutOptions{})
		return err
	}
	refused := func(t *testing.T, s *Store, want string) {
		t.Helper()
		for name, err := range map[string]error{"Put": put(s, "a/new"), "List": s.List(t.Context(), "a", func(store.Object) error { return nil })} {
			if !errors.Is(err, store.ErrNoBucket) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s = %v, want %v and %q", name, err, store.ErrNoBucket, want)
			}
		}
	}
	t.Run("it was never there", func(t *testing.T) {
		root := filepath.Join(t.TempDir(), "store")
		refused(t, newStore(t, root), "the directory "+root+" does not exist")
		if _, err := os.Stat(root); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("it was made: %v", err)
		}
	})
	t.Run("it goes and comes back", func(t *testing.T) {
		root := filepath.Join(t.TempDir(), "store")
		if err := os.Mkdir(root, 0o700); err != nil {
			t.Fatal(err)
		}
		s := newStore(t, root)
		if err := put(s, "a/old"); err != nil {
			t.Fatal(err)
		}
		aside := root + "-aside"
		if err := os.Rename(root, aside); err != nil {
			t.Fatal(err)
		}
		refused(t, s, "the directory "+root+" is gone")
		if err := os.Mkdir(root, 0o700); err != nil { // the mount point
			t.Fatal(err)
		}
		refused(t, s, "the directory "+root+" is gone: in its place is another one, which is empty")
		if err := errors.Join(os.Remove(root), os.Rename(aside, root)); err != nil {
			t.Fatal(err)
		}
		if err := put(s, "a/new"); err != nil {
			t.Error(err)
		}
	})
	t.Run("another one with objects takes its place", func(t *testing.T) {
		root := filepath.Join(t.TempDir(), "store")
		other := root + "-other"
		if err := errors.Join(os.Mkdir(root, 0o700), os.Mkdir(other, 0o700)); err != nil {
			t.Fatal(err)
		}
		s := newStore(t, root)
		if err := errors.Join(put(s, "a/k"), put(newStore(t, other), "a/k")); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.RemoveAll(root), os.Rename(other, root)); err != nil {
			t.Fatal(err)
		}
		if err := put(s, "a/new"); err != nil {
			t.Error(err)
		}
	})
}

func TestAnObjectIsInvisibleUntilItIsWhole(t *testing.T) {
	s := newStore(t, t.TempDir())
	looked := false
	body := io.MultiReader(bytes.NewReader(make([]byte, 3*copyBuffer)), call(func() {
		looked = true
		if _, err := s.Stat(t.Context(), store.Version{Key: "a/k"}); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("Stat during the upload = %v", err)
		}
		if err := s.List(t.Context(), "", func(o store.Object) error { return errors.New(o.Key) }); err != nil {
			t.Errorf("List during the upload shows %v", err)
		}
	}), strings.NewReader("end"))
	if _, err := s.Put(t.Context(), "a/k", body, store.PutOptions{}); err != nil || !looked {
		t.Fatal(err, looked)
	}
	fi, err := os.Stat(filepath.Join(s.root, "a", "k"))
	if err != nil || fi.Mode().Perm() != 0o444 || fi.Size() != 3*copyBuffer+3 {
		t.Errorf("the file is %v, %v, want mode 0444", fi, err)
	}
}

// call is an empty stream that calls fn when it is read.
type call func()

func (c call) Read([]byte) (int, error) { c(); return 0, io.EOF }

// TestAFullDiskLeavesNothing also covers quotas and file size limits.
func TestAFullDiskLeavesNothing(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG} {
		for _, sidecar := range []bool{false, true} {
			steps := []string{"make directory", "create", "write", "attributes", "chmod", "fsync", "lock", "publish"}
			if sidecar {
				steps = append(steps, "write sidecar", "publish sidecar", "fsync sidecar")
			}
			for _, at := range steps {
				s := newStore(t, t.TempDir())
				s.noAttributes = sidecar
				s.at = func(step string) error {
					if step == at {
						return &fs.PathError{Op: "write", Path: "x", Err: errno}
					}
					return nil
				}
				_, err := s.Put(t.Context(), "a/k", bytes.NewReader(crashBody()), store.PutOptions{Tags: map[string]string{"k": "v"}})
				if !errors.Is(err, store.ErrNoSpace) || errors.Is(err, store.ErrUnknownOutcome) {
					t.Errorf("%v at %q: Put = %v, want %v", errno, at, err, store.ErrNoSpace)
				}
				s.at = nil
				if err := s.List(t.Context(), "", func(o store.Object) error { return errors.New(o.Key) }); err != nil {
					t.Errorf("%v at %q leaves %v", errno, at, err)
				}
				if left := temps(t, s.root); len(left) != 0 {
					t.Errorf("%v at %q leaves %q", errno, at, left)
				}
			}
		}
	}
}

func TestAFailureAfterTheNameIsUpIsAnUnknownOutcome(t *testing.T) {
	s := newStore(t, t.TempDir())
	s.at = func(step string) error {
		if step == "fsync directory" {
			return syscall.EIO
		}
		return nil
	}
	_, err := s.Put(t.Context(), "a/k", strings.NewReader("x"), store.PutOptions{})
	if !errors.Is(err, store.ErrUnknownOutcome) {
		t.Errorf("Put = %v, want %v", err, store.ErrUnknownOutcome)
	}
}

func TestABodysOwnErrorKeepsItsMeaning(t *testing.T) {
	s := newStore(t, t.TempDir())
	_, err := s.Put(t.Context(), "a/k", io.MultiReader(strings.NewReader("x"), broken{}), store.PutOptions{})
	if !errors.Is(err, syscall.ENOSPC) || errors.Is(err, store.ErrNoSpace) {
		t.Errorf("Put = %v, want the source's error and no word about our disk", err)
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, syscall.ENOSPC }

func TestPublishingNeverOverwrites(t *testing.T) {
	for name, publish := range map[string]func(*os.Root, string, string) error{"link": link, "rename": renameExclusively} {
		root, err := os.OpenRoot(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		for _, temp := range []string{"one", "two"} {
			if err := root.WriteFile(temp, []byte(temp), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := publish(root, "one", "final"); err != nil {
			t.Fatal(err)
		}
		if err := publish(root, "two", "final"); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s over an existing name = %v, want %v", name, err, fs.ErrExist)
		}
		if b, err := root.ReadFile("final"); err != nil || string(b) != "one" {
			t.Errorf("after the second %s it is %q, %v", name, b, err)
		}
	}
}

func TestAForeignFileThatAppearsAtTheLastMomentIsNotOverwritten(t *testing.T) {
	for _, sidecar := range []bool{false, true} {
		s := newStore(t, t.TempDir())
		s.noAttributes = sidecar
		foreign := filepath.Join(s.root, "a", "k")
		s.at = func(step string) error {
			if step == "publish" {
				return os.WriteFile(foreign, []byte("foreign"), 0o600)
			}
			return nil
		}
		_, err := s.Put(t.Context(), "a/k", strings.NewReader("ours"), store.PutOptions{Tags: map[string]string{"k": "v"}})
		if !errors.Is(err, store.ErrExists) || errors.Is(err, store.ErrUnknownOutcome) {
			t.Errorf("Put = %v, want %v", err, store.ErrExists)
		}
		if b, err := os.ReadFile(foreign); err != nil || string(b) != "foreign" {
			t.Errorf("the foreign file is %q, %v", b, err)
		}
		if left := temps(t, s.root); len(left) != 0 {
			t.Errorf("%q are left", left)
		}
	}
}

func TestAnObjectIsReadOnlyAfterEveryChange(t *testing.T) {
	s := newStore(t, t.TempDir())
	v := store.Version{Key: "a/k"}
	lock := store.PutOptions{Retention: &immutability.Retention{Mode: immutability.ModeAdvisory, Until: time.Now().Add(time.Hour)}}
	if _, err := s.Put(t.Context(), v.Key, strings.NewReader("x"), lock); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func() error{
		"extension": func() error { _, err := s.Extend(t.Context(), v, time.Now().Add(2*time.Hour)); return err },
		"hold":      func() error { return s.SetHold(t.Context(), v, true) },
		"tag":       func() error { return s.SetTag(t.Context(), v, "k", "v") },
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		if fi, err := os.Stat(filepath.Join(s.root, "a", "k")); err != nil || fi.Mode().Perm() != 0o444 {
			t.Errorf("after the %s its mode is %v, %v", name, fi.Mode(), err)
		}
	}
}

func TestOnlyDeadUploadsAreSwept(t *testing.T) {
	s := newStore(t, t.TempDir())
	dir, err := os.OpenRoot(s.root)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	running, runningName, err := createTemp(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer running.Close()
	dead, _, err := createTemp(dir)
	if err != nil {
		t.Fatal(err)
	}
	dead.Close()
	if _, err := s.Put(t.Context(), "early", strings.NewReader("x"), store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := temps(t, s.root); len(got) != 2 {
		t.Errorf("of two young uploads %q are left", got)
	}
	later := newStore(t, s.root)
	later.now = func() time.Time { return time.Now().Add(staleAfter + time.Minute) }
	if _, err := later.Put(t.Context(), "late", strings.NewReader("x"), store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := temps(t, s.root); len(got) != 1 || filepath.Base(got[0]) != runningName {
		t.Errorf("%q are left, want the running upload %s", got, runningName)
	}
}

func TestAttributesThatMakeNoSenseProtect(t *testing.T) {
	for _, raw := range []string{"", "garbage", `{"retainUntil":"soon"}`, `[]`} {
		s := newStore(t, t.TempDir())
		v := store.Version{Key: "a/k"}
		if _, err := s.Put(t.Context(), v.Key, strings.NewReader("x"), store.PutOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(s.sidecar(v.Key), []byte(raw), 0o600); err != nil {
			t.Fatal(err)
		}
		if o, err := s.Stat(t.Context(), v); err != nil || o.Retention.Mode != immutability.ModeUnknown {
			t.Errorf("attributes %q: Stat = %+v, %v, want an unknown lock", raw, o.Retention, err)
		}
		var locked *store.ImmutableError
		if err := s.Delete(t.Context(), v); !errors.As(err, &locked) {
			t.Errorf("attributes %q: Delete = %v, want a refusal", raw, err)
		}
		if err := s.SetHold(t.Context(), v, true); !errors.As(err, &locked) {
			t.Errorf("attributes %q: SetHold = %v, want a refusal", raw, err)
		}
	}
}

func TestALockMovesAlongToAFileSystemWithAttributes(t *testing.T) {
	s := newStore(t, t.TempDir())
	v := store.Version{Key: "a/k"}
	until := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	s.noAttributes = true
	lock := store.PutOptions{Retention: &immutability.Retention{Mode: immutability.ModeAdvisory, Until: until}}
	if _, err := s.Put(t.Context(), v.Key, strings.NewReader("x"), lock); err != nil {
		t.Fatal(err)
	}
	s.noAttributes = false
	var locked *store.ImmutableError
	if err := s.Delete(t.Context(), v); !errors.As(err, &locked) || !locked.Until.Equal(until) {
		t.Errorf("Delete = %v, want a refusal until %s", err, until)
	}
	if _, err := s.Extend(t.Context(), v, until.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(s.sidecar(v.Key)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the hidden file is still there: %v", err)
	}
	if o, err := s.Stat(t.Context(), v); err != nil || !o.Retention.Until.Equal(until.Add(time.Hour)) {
		t.Errorf("Stat = %+v, %v", o.Retention, err)
	}
}

// TestItsOwnerNeedNotBeRoot runs the conformance test as another user if this one is root: the
// kernel treats them differently where read-only files are concerned.
func TestItsOwnerNeedNotBeRoot(t *testing.T) {
	if os.Getuid() != 0 {
		return // then all the other tests prove it
	}
	dir, err := os.MkdirTemp("", "local-owner-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	const nobody = 65534
	binary := filepath.Join(dir, "test")
	b, err := os.ReadFile(os.Args[0])
	if err == nil {
		err = os.WriteFile(binary, b, 0o755)
	}
	if err == nil {
		err = os.Chmod(dir, 0o777)
	}
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), binary, "-test.run=^TestADirectoryKeepsTheContract$/^a_(lock|hold|range)|tags", "-results=")
	c.Dir, c.Env = dir, []string{"TMPDIR=" + dir, "HOME=" + dir}
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := c.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "PASS") || strings.Contains(string(out), "no tests to run") {
		t.Errorf("as user %s: %v\n%s", strconv.Itoa(nobody), err, out)
	}
}

func FuzzAttributes(f *testing.F) {
	f.Add([]byte(`{"retainUntil":"2026-11-20T10:00:00Z","hold":true,"tags":{"a":"b"}}`))
	f.Add([]byte(`{}`))
	f.Add([]byte(``))
	f.Fuzz(func(t *testing.T, raw []byte) {
		a := parse(raw)
		far := time.Date(9000, 1, 1, 0, 0, 0, 0, time.UTC)
		if a.unreadable != nil && (a.refusal(store.Version{}, far) == nil || a.retention().Mode != immutability.ModeUnknown) {
			t.Errorf("attributes %q are unreadable and protect nothing", raw)
		}
		if a.Hold && a.refusal(store.Version{}, far) == nil {
			t.Errorf("attributes %q hold and protect nothing", raw)
		}
	})
}
