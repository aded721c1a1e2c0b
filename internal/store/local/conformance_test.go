package local

import (
	"flag"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/storetest"
)

var (
	update  = flag.Bool("update", false, "rewrite the committed results")
	results = flag.String("results", "../../../test/conformance/results/local.json", "the committed results; empty: none are at hand")
)

func TestADirectoryKeepsTheContract(t *testing.T) {
	o := options(func(*Store) {})
	if *results != "" {
		storetest.Report{Server: "the file system", Bucket: "a directory", Limits: []string{
			"protection from anybody else: whoever may write to the directory can delete what is in it, locked or not",
		}}.Publish(t, &o, *results, *update)
	}
	storetest.Run(t, o)
}

func TestADirectoryWithoutExtendedAttributesKeepsTheContract(t *testing.T) {
	storetest.Run(t, options(func(s *Store) { s.noAttributes = true }))
}

func options(set func(*Store)) storetest.Options {
	clock := storetest.NewClock(time.Now())
	in := func(t *testing.T, root string) *Store {
		s := newStore(t, root)
		s.now = clock.Now
		set(s)
		return s
	}
	advisory := immutability.ModeAdvisory
	return storetest.Options{
		New: func(t *testing.T) store.Store { return in(t, t.TempDir()) },
		Want: store.Capabilities{
			Provider: "Local", ConditionalPut: true, ObjectLock: true, Tags: true,
			InlineRetention: true, InlineTags: true, Advisory: true,
		},
		Extend: true, Hold: true, SetTag: true, Inspect: true,
		ServerTime: true,
		Lock: []storetest.Lock{
			{Ask: immutability.ModeGovernance, Want: advisory},
			{Ask: immutability.ModeCompliance, Want: advisory},
			{Ask: advisory, Want: advisory},
		},
		ShortLock: 10 * time.Second,
		Advance:   func(_ *testing.T, _ store.Store, d time.Duration) { clock.Advance(d) },
		Now:       clock.Now,
		NoBucket:  func(t *testing.T) store.Store { return in(t, filepath.Join(t.TempDir(), "none", "such")) },
		Outage: func(t *testing.T) store.Store {
			s := in(t, t.TempDir())
			s.at = func(string) error { return &fs.PathError{Op: "openat", Path: s.root, Err: syscall.EIO} }
			return s
		},
		BrokenList: func(t *testing.T, s store.Store) store.Reader {
			l := s.(*Store)
			broken := in(t, l.root)
			if _, err := s.Put(t.Context(), "many/000500a/x", strings.NewReader("x"), store.PutOptions{}); err != nil {
				t.Fatal(err)
			}
			broken.at = func(step string) error {
				if step == "list many/000500a" {
					return syscall.ESTALE
				}
				return nil
			}
			return broken
		},
		Cut: func(t *testing.T, s store.Store, v store.Version) io.ReadCloser {
			r, err := s.Open(t.Context(), v, 0, -1)
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(s.(*Store).root, v.Key)
			if err := os.Chmod(file, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(file, 1<<20+17); err != nil {
				t.Fatal(err)
			}
			return r
		},
		Overwrite: func(t *testing.T, s store.Store, key string, body []byte) {
			file := filepath.Join(s.(*Store).root, key)
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, body, 0o600); err != nil {
				t.Fatal(err)
			}
		},
		Hide: func(t *testing.T, s store.Store, key string) {
			if err := os.Remove(filepath.Join(s.(*Store).root, key)); err != nil {
				t.Fatal(err)
			}
		},
		Leftovers: func(t *testing.T, s store.Store) int { return len(temps(t, s.(*Store).root)) },
		NoKeys: []string{
			"a/", "a//b", ".", "..", "../a", "a/../../b", "a/..", "./a", "a/./b", "a\x00b", "a/.druid-tmp-x", ".druid-meta-a",
			"a/" + strings.Repeat("x", 241),
		},
	}
}

func newStore(t *testing.T, root string) *Store {
	t.Helper()
	s, err := New(root, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// temps are the hidden names of incomplete uploads below root.
func temps(t *testing.T, root string) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(d.Name(), tempMark) {
			all = append(all, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
