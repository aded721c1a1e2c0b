package datadir

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"druid.internal/druid/internal/etcd/datadir/boltfile"
)

// zeros is a source of so many zeros, and how many were read.
type zeros struct{ size, read int64 }

func (z *zeros) Read(p []byte) (int, error) {
	if z.read == z.size {
		return 0, io.EOF
	}
	n := min(int64(len(p)), z.size-z.read)
	clear(p[:n])
	z.read += n
	return int(n), nil
}

// bomb begins as a database does and goes on with zeros.
func bomb(t *testing.T, size int64) (io.Reader, *zeros) {
	t.Helper()
	whole := baseOf(t, story(t, life))
	if !boltfile.Begins(whole) {
		t.Fatal("the base does not begin as a database does")
	}
	z := &zeros{size: size - int64(len(whole))}
	return io.MultiReader(reader(whole), z), z
}

// volume is one with so much free, less what is written to a directory.
func volume(dir string, free int64) func(string) (uint64, uint64, error) {
	return func(string) (uint64, uint64, error) {
		used := int64(0)
		err := filepath.Walk(dir, func(_ string, info os.FileInfo, err error) error {
			if err == nil && info.Mode().IsRegular() {
				used += info.Size()
			}
			return err
		})
		return uint64(max(free-used, 0)), uint64(free), err
	}
}

func TestABombIsNotUnpacked(t *testing.T) {
	const mb = 1 << 20
	for name, c := range map[string]struct {
		size, claimed, free int64
		zeros               bool
		wantErr             error
		wantText            string
		wantMost            int64 // bytes read of the bomb
	}{
		"more than its manifest claims":         {size: 1 << 40, claimed: 64 * mb, free: 1 << 50, wantErr: ErrBaseSize, wantMost: 65 * mb},
		"claims more than is free":              {size: 1 << 40, claimed: 1 << 40, free: 500 * mb, wantErr: ErrNoRoom, wantText: "Full-1 unpacks to 1099511 MB", wantMost: 2 * mb},
		"claims nothing":                        {size: 1 << 40, free: 300 * mb, wantErr: ErrNoRoom, wantText: "134 MB stay free", wantMost: 250 * mb},
		"zeros alone":                           {size: 1 << 40, claimed: 1 << 40, free: 1 << 50, zeros: true, wantErr: ErrNotEtcd, wantMost: 16 * mb},
		"claims more than is there, and is not": {size: 10 * mb, claimed: 20 * mb, free: 500 * mb, wantErr: ErrBaseNoTrailer, wantMost: 10 * mb},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			base, z := bomb(t, c.size)
			if c.zeros {
				z.size, base = c.size, z
			}
			o := Options{KeepFree: 128 * mb, room: volume(dir, c.free)}
			_, err := Rebuild(t.Context(), Source{Base: base, BaseName: "Full-1", BaseSize: c.claimed}, o, filepath.Join(dir, "out"))
			if !errors.Is(err, c.wantErr) || !strings.Contains(err.Error(), c.wantText) {
				t.Errorf("got %v, want %v with %q", err, c.wantErr, c.wantText)
			}
			if z.read > c.wantMost {
				t.Errorf("%d MB were read of the bomb, want at most %d", z.read/mb, c.wantMost/mb)
			}
			if left, _ := os.ReadDir(dir); len(left) > 0 {
				t.Errorf("%v is left", left)
			}
		})
	}
}

func TestEverythingThatIsWrittenLeavesRoom(t *testing.T) {
	const mb = 1 << 20
	dir := t.TempDir()
	free := uint64(100 * mb)
	r := Options{KeepFree: 50 * mb, room: func(string) (uint64, uint64, error) { return free, 1 << 40, nil }}.reserve(dir)
	for range 50 {
		if err := r.take(mb); err != nil {
			t.Fatal(err)
		}
		free -= mb
	}
	if err := r.take(1); !errors.Is(err, ErrNoRoom) {
		t.Errorf("got %v when half is used, want ErrNoRoom", err)
	}
	for name, write := range map[string]func() error{
		"records": func() error {
			tr, err := newTracker(1<<20, dir, r)
			if err != nil {
				t.Fatal(err)
			}
			defer tr.close()
			s := newSpool(1<<20, dir, r, tr)
			defer s.close()
			for i := range uint64(100) {
				if err := s.add(spooled{ordinal: i, value: make([]byte, 64<<10)}); err != nil {
					return err
				}
			}
			return nil
		},
		"marks": func() error {
			p, err := newPartitions(dir, r)
			if err != nil {
				t.Fatal(err)
			}
			defer p.close()
			return p.write(0)
		},
		"the result": func() error {
			f, err := os.Create(filepath.Join(dir, "result"))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			w := boltfile.NewWriter(f, r.take)
			w.Begin("key")
			return w.Finish()
		},
	} {
		if err := write(); !errors.Is(err, ErrNoRoom) {
			t.Errorf("%s: got %v, want ErrNoRoom", name, err)
		}
	}
}

func TestAFileSystemThatDoesNotCountIsNotFull(t *testing.T) {
	r := Options{KeepFree: 1 << 30, room: func(string) (uint64, uint64, error) { return 0, 0, nil }}.reserve("/")
	if err := errors.Join(r.take(1<<20), r.fits("Full-1", 1<<40)); err != nil {
		t.Error(err)
	}
}
