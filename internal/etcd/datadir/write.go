package datadir

import (
	"context"
	"errors"
	"fmt"

	"druid.internal/druid/internal/backup/snapshot"
)

// write writes the key bucket, unless that was done on the way, and then the small ones.
func (r *rebuild) write(ctx context.Context) error {
	r.report.CompactRevision = r.compactRevision()
	if !r.o.KeepHistory {
		if err := r.writeSurvivors(ctx); err != nil {
			return err
		}
	}
	r.report.RecordsWritten = r.out.buckets[keyBucket].records
	r.report.RecordsDropped += int64(r.ordinal) - r.report.RecordsWritten
	needed, err := r.neededLeases()
	if err != nil {
		return err
	}
	if err := r.writeSmallBuckets(needed); err != nil {
		return err
	}
	if err := r.out.finish(); err != nil {
		return fmt.Errorf("write %s: %w", r.out.file.Name(), err)
	}
	r.report.DatabaseBytes = r.out.Written()
	return nil
}

// compactRevision is what an etcd that starts with the result will take for it; -1: none.
func (r *rebuild) compactRevision() snapshot.Revision {
	switch {
	case r.o.BumpRevision > 0:
		return r.report.Revision
	case r.o.KeepHistory || r.ordinal == 0:
		return r.floor
	case r.o.CompactAt > 0:
		return min(max(r.o.CompactAt, r.floor), r.reached)
	}
	return r.reached
}

// writeSurvivors writes what a compaction at the compact revision leaves: of every key the newest
// record at or below it, unless that is a deletion, and everything above. A deletion exactly at
// the compact revision stays, as in etcd since 3.4.34 and 3.5.16: without any record of the last
// revision, an etcd that starts would count from an earlier one.
//
//	revision      5    6    7    8    9
//	key a         put  put       put        kept: 6 and 8 (compacted at 7), 8 (at 8 or 9)
//	key b         put       del             kept: 7       (compacted at 7), nothing (at 8 or 9)
func (r *rebuild) writeSurvivors(ctx context.Context) error {
	compact := r.report.CompactRevision
	// Ordinals of the new file whose record HashKV leaves out.
	written := uint64(0)
	survives := func(ordinal uint64, main snapshot.Revision, tombstone bool) bool {
		if main > compact {
			return true
		}
		return !r.tracker.isDead(ordinal) && (!tombstone || main == compact)
	}
	put := func(ordinal uint64, k, v []byte) error {
		if r.tracker.twoSets && r.tracker.superseded.has(ordinal) {
			r.hidden.set(written)
		}
		written++
		return r.out.put(k, v)
	}
	r.out.begin(keyBucket)
	ordinal := uint64(0)
	if r.base != nil {
		err := eachEntry(r.baseKeys, 0, func(e *entry, k, v []byte) error {
			if ordinal == r.tracker.baseEnd {
				return errEnough // beyond the target
			}
			if ordinal%4096 == 0 {
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				r.progressOfWriting(ordinal, e.main)
			}
			ordinal++
			if !survives(ordinal-1, e.main, e.tombstone) {
				return nil
			}
			return put(ordinal-1, k, v)
		})
		if err != nil && !errors.Is(err, errEnough) {
			return err
		}
	}
	var key [tombstoneBytes]byte
	return r.waiting.each(func(s spooled) error {
		if s.ordinal%4096 == 0 {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			r.progressOfWriting(s.ordinal, s.main)
		}
		if !survives(s.ordinal, s.main, s.tombstone) {
			return nil
		}
		return put(s.ordinal, appendRevision(key[:0], s.main, s.sub, s.tombstone), s.value)
	})
}

var errEnough = errors.New("enough")

// progressOfWriting estimates the size of the whole from what the records so far have made.
func (r *rebuild) progressOfWriting(ordinal uint64, at snapshot.Revision) {
	written := r.out.Written()
	total := int64(0)
	if ordinal > 0 {
		total = max(written, int64(float64(written)*float64(r.ordinal)/float64(ordinal)))
	}
	r.o.Progress(Progress{Phase: Writing, Bytes: written, Total: total, Revision: at})
}

// neededLeases are the ids of leases that live keys are attached to, each with the revision of the
// oldest of these keys.
func (r *rebuild) neededLeases() (map[int64]snapshot.Revision, error) {
	needed := map[int64]snapshot.Revision{}
	superseded := func(o uint64) bool { return r.tracker.superseded.has(o) }
	err := r.leases.eachOf(superseded, func(s spooled) error {
		if oldest, is := needed[s.lease]; !is || s.main < oldest {
			needed[s.lease] = s.main
		}
		return nil
	})
	return needed, err
}
