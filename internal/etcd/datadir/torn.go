package datadir

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
)

// tornCopies is how many cut-off ends are kept beside the log. They are small: what one write lost.
const tornCopies = 8

// cut ends the segment before the torn write, after what is cut off was copied, from its first byte
// to the last that is not zero, to SEGMENT.broken-OFFSET beside it. etcd ignores such names.
func (t *tornEnd) cut() (kept string, err error) {
	failed := func(err error) (string, error) {
		return "", fmt.Errorf("cut the torn end off %s: %w", t.path, err)
	}
	f, err := fileutil.TryLockFile(t.path, os.O_RDWR, fileutil.PrivateFileMode)
	if errors.Is(err, fileutil.ErrLocked) {
		return "", fmt.Errorf("%w: an etcd holds %s; stop it first", ErrBusy, t.path)
	}
	if err != nil {
		return failed(err)
	}
	defer f.Close()
	kept = fmt.Sprintf("%s.broken-%x", t.path, t.offset)
	if err := copyTail(f.File, t.offset, kept); err != nil {
		return failed(err)
	}
	if err := f.Truncate(t.offset); err != nil {
		return failed(err)
	}
	if err := f.Sync(); err != nil {
		return failed(err)
	}
	return kept, forgetTorn(filepath.Dir(t.path))
}

// copyTail copies the file from the offset on, without the zeros at the end, durably.
func copyTail(f *os.File, from int64, to string) (err error) {
	st, err := f.Stat()
	if err != nil {
		return err
	}
	end, err := endOfContent(f, from, st.Size())
	if err != nil {
		return err
	}
	unfinished := to + ".tmp"
	out, err := os.OpenFile(unfinished, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(unfinished)
		}
	}()
	_, err = io.Copy(out, io.NewSectionReader(f, from, end-from))
	if err == nil {
		err = out.Sync()
	}
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(unfinished, to)
	}
	if err == nil {
		err = syncDir(filepath.Dir(to))
	}
	return err
}

// endOfContent is the offset behind the last byte in [from, to) that is not zero.
func endOfContent(f *os.File, from, to int64) (int64, error) {
	b := make([]byte, 64<<10)
	for to > from {
		start := max(from, to-int64(len(b)))
		piece := b[:to-start]
		if _, err := f.ReadAt(piece, start); err != nil {
			return 0, err
		}
		for i, c := range slices.Backward(piece) {
			if c != 0 {
				return start + int64(i) + 1, nil
			}
		}
		to = start
	}
	return from, nil
}

// forgetTorn removes all but the newest copies.
func forgetTorn(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var paths []string
	age := map[string]int64{}
	for _, e := range entries {
		if !strings.Contains(e.Name(), segmentSuffix+".broken-") {
			continue
		}
		p := filepath.Join(dir, e.Name())
		if st, err := os.Stat(p); err == nil {
			age[p] = st.ModTime().UnixNano()
		}
		paths = append(paths, p)
	}
	slices.SortFunc(paths, func(a, b string) int {
		if d := age[b] - age[a]; d != 0 {
			return int(max(-1, min(1, d)))
		}
		return 0
	})
	for _, p := range paths[min(len(paths), tornCopies):] {
		if err := os.Remove(p); err != nil {
			return err
		}
	}
	return nil
}
