package datadir

import (
	"context"
	"fmt"
	"hash/crc32"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/etcd/datadir/boltfile"
)

// verify reads the new file back while it is being synced: every page, every record, against
// what was meant to be written. The chains of versions need not be judged again: they were, on
// the same records, before these were written.
func (r *rebuild) verify(ctx context.Context) error {
	r.o.beforeReadBack()
	synced := make(chan error, 1)
	go func() { synced <- r.out.file.Sync() }()
	err := r.readBack(ctx)
	if serr := <-synced; serr != nil {
		return fmt.Errorf("sync %s: %w", r.out.file.Name(), serr)
	}
	return err
}

func (r *rebuild) readBack(ctx context.Context) error {
	failed := func(format string, args ...any) error {
		return fmt.Errorf("%w: %w", ErrVerification, fmt.Errorf(format, args...))
	}
	file, err := boltfile.Open(r.out.file.Name())
	if err != nil {
		return failed("%w", err)
	}
	defer file.Close()
	hidden := r.hidden
	if r.o.KeepHistory {
		hidden = r.tracker.superseded
	}
	hash := newKeyHash(r.report.Revision, r.report.CompactRevision, r.report.Keys > 0 || r.bumps)
	found := map[string]*bucketSum{}
	read, payload := int64(0), r.out.payload
	err = file.CheckEach(true, func(bucket string, k, v []byte) error {
		sum := found[bucket]
		if sum == nil {
			sum = new(bucketSum)
			found[bucket] = sum
		}
		if bucket == keyBucket {
			if sum.records%4096 == 0 {
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				r.o.Progress(Progress{Phase: Verifying, Bytes: read, Total: payload})
			}
			read += int64(len(k) + len(v))
			main, _, tombstone, ok := parseRevision(k)
			if !ok {
				return fmt.Errorf("%x is not a revision", k)
			}
			hash.add(k, v, main, tombstone, hidden.has(uint64(sum.records)))
		}
		sum.add(r.out.table, k, v)
		return nil
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return failed("%w", err)
	}
	for name, want := range r.out.buckets {
		got := found[name]
		if got == nil {
			got = new(bucketSum)
		}
		if *got != *want {
			return failed("bucket %s has %d records with checksum %08x, written were %d with %08x", name, got.records, got.crc, want.records, want.crc)
		}
	}
	r.report.HashKV = snapshot.HashKV{Revision: r.report.Revision, CompactRevision: r.report.CompactRevision, Hash: hash.sum}
	return nil
}

// keyHash computes etcd's HashKV over records in the order of their revisions. At and below the
// compact revision only the records count that a compaction at the hashed revision would keep:
// members may or may not have removed the others yet. If it would keep nothing at all, etcd
// skips that rule.
type keyHash struct {
	table    *crc32.Table
	sum      uint32
	revision snapshot.Revision
	compact  snapshot.Revision
	survivor bool
}

// newKeyHash starts a hash at a revision; survivor tells whether any key is alive there.
func newKeyHash(revision, compact snapshot.Revision, survivor bool) keyHash {
	t := castagnoli()
	return keyHash{table: t, sum: crc32.Update(0, t, []byte(keyBucket)), revision: revision, compact: compact, survivor: survivor}
}

// add adds the record; superseded: there is a newer one of its key, up to the hashed revision.
func (h *keyHash) add(k, v []byte, main snapshot.Revision, tombstone, superseded bool) {
	switch {
	case main > h.revision:
		return
	case main <= h.compact && h.survivor && (superseded || tombstone):
		return
	case main == h.compact && tombstone:
		return
	}
	h.sum = crc32.Update(crc32.Update(h.sum, h.table, k), h.table, v)
}

// hashKV computes the hash of the key bucket and counts the keys alive, both at the revision.
func hashKV(ctx context.Context, keys boltfile.Bucket, revision, compact snapshot.Revision, memory int64, scratch string) (uint32, int64, error) {
	t, err := newTracker(memory, scratch, nil)
	if err != nil {
		return 0, 0, err
	}
	defer t.close()
	s := newSeeds()
	n, bumps := uint64(0), false
	if err := eachEntry(keys, 0, func(e *entry, _, _ []byte) error {
		if n%4096 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if e.main > revision {
			return errEnough
		}
		bumps = bumps || e.bump()
		n++
		return t.add(e.mark(&s, n-1))
	}); err != nil && err != errEnough {
		return 0, 0, err
	}
	if err := t.finish(); err != nil {
		return 0, 0, err
	}
	h := newKeyHash(revision, compact, t.live > 0 || bumps)
	n = 0
	if err := eachEntry(keys, 0, func(e *entry, k, v []byte) error {
		if e.main > revision {
			return errEnough
		}
		h.add(k, v, e.main, e.tombstone, t.superseded.has(n))
		n++
		return nil
	}); err != nil && err != errEnough {
		return 0, 0, err
	}
	return h.sum, t.live, nil
}
