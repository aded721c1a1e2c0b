package datadir

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/etcd/datadir/boltfile"
)

// readBase unpacks the base and finds out where it stands.
func (r *rebuild) readBase(ctx context.Context) error {
	r.baseLast, r.reached = 1, 1
	r.report.BaseRevision, r.report.BaseCompactRevision = 1, -1
	if r.src.Base == nil {
		return nil
	}
	path := filepath.Join(r.scratch, "base")
	named := func(err error) error { return ofBase(r.src.BaseName, path, err) }
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := r.room.fits(r.src.BaseName, r.src.BaseSize); err != nil {
		f.Close()
		return err
	}
	w := bufio.NewWriterSize(&database{Writer: reserved{f, r.room}}, 1<<20)
	err = intake(ctx, atMost(r.src.Base, r.src.BaseSize), w, func(n int64) { r.o.Progress(Progress{Phase: ReadingBase, Bytes: n}) })
	if ferr := w.Flush(); err == nil {
		err = ferr
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return named(err)
	}
	if r.base, r.baseKeys, err = openKeys(path); err != nil {
		return named(err)
	}
	os.Remove(path) // it lives on in the mapping, and is gone whatever happens
	scheduled, finished, err := compactRevisions(r.base)
	if err != nil {
		return named(err)
	}
	r.floor = max(scheduled, finished)
	if r.baseLast, err = lastRevision(r.baseKeys, r.floor); err != nil {
		return named(err)
	}
	if r.baseLast < r.src.BaseLast {
		return named(fmt.Errorf("%w: its last revision is %d, want %d or later", ErrBaseBehind, r.baseLast, r.src.BaseLast))
	}
	r.report.BaseRevision, r.report.BaseCompactRevision = r.baseLast, r.floor
	if h := r.src.BaseHashKV; h != nil && h.CompactRevision == r.floor && h.Revision <= r.baseLast && h.Revision >= r.floor {
		got, _, err := hashKV(ctx, r.baseKeys, h.Revision, r.floor, r.o.MemoryLimit/3, r.scratch)
		if err != nil {
			return named(err)
		}
		if got != h.Hash {
			return named(fmt.Errorf("%w: %d at revision %d compacted at %d, recorded is %d", ErrHashKV, got, h.Revision, h.CompactRevision, h.Hash))
		}
		r.report.BaseHashKVChecked = true
	}
	if r.o.HashBase {
		sum, keys, err := hashKV(ctx, r.baseKeys, r.baseLast, r.floor, r.o.MemoryLimit/3, r.scratch)
		if err != nil {
			return named(err)
		}
		r.report.BaseHashKV = snapshot.HashKV{Revision: r.baseLast, CompactRevision: r.floor, Hash: sum}
		r.report.BaseKeys = keys
	}
	return nil
}

// database passes on what is written, and ends soon with ErrNotEtcd if that is no database, however
// much would follow.
type database struct {
	io.Writer
	other bool
	n     int64
}

// soon is how much of something else is written. Less is told apart by what is missing.
const soon = 4 << 20

func (d *database) Write(p []byte) (int, error) {
	if d.n == 0 && len(p) >= boltfile.PageSize {
		d.other = !boltfile.Begins(p)
	}
	if d.n += int64(len(p)); d.other && d.n > soon {
		return 0, fmt.Errorf("%w: it does not begin as a database does", ErrNotEtcd)
	}
	return d.Writer.Write(p)
}

// atMost returns r with ErrBaseSize in place of what follows size bytes. 0: any size.
func atMost(r io.Reader, size int64) io.Reader {
	if size == 0 {
		return r
	}
	return io.MultiReader(io.LimitReader(r, size), &unexpected{r, size})
}

// unexpected is the end of a reader, or ErrBaseSize.
type unexpected struct {
	r    io.Reader
	size int64
}

func (u *unexpected) Read([]byte) (int, error) {
	var one [1]byte
	n, err := io.ReadFull(u.r, one[:])
	if n > 0 {
		return 0, fmt.Errorf("%w: more than %d bytes", ErrBaseSize, u.size)
	}
	return 0, err
}

// scanBase shows every record of the base to the tracker.
func (r *rebuild) scanBase(ctx context.Context) error {
	target := r.o.TargetRevision
	if target > 0 && target < max(r.floor, 1) {
		return &TargetError{Want: target, Earliest: max(r.floor, 1), Last: r.baseLast}
	}
	r.lastSource = r.src.BaseName
	r.reached = max(1, r.floor)
	previous := r.reached
	if r.base != nil {
		err := eachEntry(r.baseKeys, 0, func(e *entry, k, v []byte) error {
			if target > 0 && e.main > target {
				r.report.RecordsDropped++
				return nil
			}
			if r.ordinal%4096 == 0 {
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				r.o.Progress(Progress{Phase: ScanningBase, Revision: e.main})
			}
			if e.main > r.floor && e.main > previous+1 && !e.bump() {
				r.report.BaseIrregular++
			}
			previous = max(previous, e.main)
			r.bumps = r.bumps || e.bump()
			return r.take(e, k, v, r.seeds.key(e.key))
		})
		if err != nil {
			return fmt.Errorf("%s: %w", r.src.BaseName, err)
		}
		r.reached = previous
	}
	r.tracker.baseEnd = r.ordinal
	return nil
}
