package datadir

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/etcd/datadir/boltfile"
)

func TestDamagedBasesAreToldApart(t *testing.T) {
	whole := baseOf(t, story(t, life))
	flipped := bytes.Clone(whole)
	flipped[5000] ^= 1
	foreign := func() []byte {
		path := filepath.Join(t.TempDir(), "db")
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		w := boltfile.NewWriter(f, nil)
		w.Begin("somebody else's")
		if err := w.Finish(); err != nil {
			t.Fatal(err)
		}
		r, _, err := NewSnapshotReader(path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}()
	lost := errors.New("connection lost")
	for name, c := range map[string]struct {
		base io.Reader
		want error
	}{
		"empty":                        {reader(nil), ErrBaseTruncated},
		"cut in the trailer":           {reader(whole[:len(whole)-1]), ErrBaseTruncated},
		"cut anywhere":                 {reader(whole[:len(whole)/2+77]), ErrBaseTruncated},
		"without the trailer":          {reader(whole[:len(whole)-32]), ErrBaseNoTrailer},
		"a bit flipped":                {reader(flipped), ErrBaseDigest},
		"another program's":            {reader(foreign), ErrNotEtcd},
		"the source breaks":            {io.MultiReader(reader(whole[:3000]), brokenReader{lost}), lost},
		"not a database, well trailed": {reader(trailed(make([]byte, 8192))), boltfile.ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "out")
			_, err := Rebuild(context.Background(), Source{Base: c.base, BaseName: "Full-1"}, Options{}, out)
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), "Full-1") {
				t.Errorf("%v, want %v with the name of the base", err, c.want)
			}
		})
	}
	t.Run("another HashKV than recorded", func(t *testing.T) {
		_, err := Rebuild(context.Background(), Source{Base: reader(whole), BaseName: "b", BaseHashKV: &snapshot.HashKV{Revision: 9, CompactRevision: -1, Hash: 1}}, Options{}, filepath.Join(t.TempDir(), "out"))
		if !errors.Is(err, ErrHashKV) {
			t.Errorf("%v, want ErrHashKV", err)
		}
	})
	t.Run("pieces of any size", func(t *testing.T) {
		for _, n := range []int{1, 31, 32, 33, 4096} {
			if _, err := Rebuild(context.Background(), Source{Base: piecewise{reader(whole), n}, BaseName: "b"}, Options{}, filepath.Join(t.TempDir(), "out")); err != nil {
				t.Errorf("in pieces of %d bytes: %v", n, err)
			}
		}
	})
}

type brokenReader struct{ err error }

func (b brokenReader) Read([]byte) (int, error) { return 0, b.err }

type piecewise struct {
	r io.Reader
	n int
}

func (p piecewise) Read(b []byte) (int, error) { return p.r.Read(b[:min(len(b), p.n)]) }
