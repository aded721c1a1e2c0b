package datadir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/etcd/codec"
	"druid.internal/druid/internal/etcd/datadir/boltfile"
)

// rebuild is one run of Rebuild:
//
//	base   -> intake -> scan ---+                        +--> key bucket of the new file
//	deltas -> feed (decode) ----+-> tracker: which of    |    other buckets
//	                            |   them are superseded  |    sync and verify
//	                            +-> spool: what waits ---+
//
// With KeepHistory nothing is dropped, so nothing waits: records go straight to the file.
type rebuild struct {
	src     Source
	o       Options
	scratch string
	members *membershipRecords
	report  Report
	room    *reserve // of the scratch directory

	seeds   seeds
	tracker *tracker
	waiting *spool // records of deltas
	leases  *spool // which records refer to which lease
	out     *sink
	feed    *feed

	base     *boltfile.Reader // nil: the empty store
	baseKeys boltfile.Bucket
	floor    snapshot.Revision // compact revision of the base, -1: none
	baseLast snapshot.Revision // last revision of the base, also if it is beyond the target

	ordinal    uint64            // of the next record
	reached    snapshot.Revision // last revision taken
	sub        int64             // of the last record taken
	lastSource string            // where that was
	stopped    bool              // the target is reached
	bumps      bool              // there are records of revision bumps
	revisions  recentRevisions
	table      *leaseTable
	hidden     bitmap // ordinals of the new file whose key has a newer record, if it keeps some history
}

func newRebuild(src Source, o Options, scratch string, out *os.File, m *membershipRecords) *rebuild {
	return &rebuild{src: src, o: o, scratch: scratch, members: m, room: o.reserve(scratch), seeds: newSeeds(), out: newSink(out, o.reserve(filepath.Dir(out.Name()))), floor: -1}
}

func (r *rebuild) close() {
	if r.feed != nil {
		r.feed.close()
	}
	r.out.abort()
	for _, s := range []*spool{r.waiting, r.leases} {
		if s != nil {
			s.close()
		}
	}
	if r.tracker != nil {
		r.tracker.close()
	}
	if r.base != nil {
		r.base.Close()
	}
	r.revisions.close()
}

func (r *rebuild) run(ctx context.Context) error {
	var err error
	if r.tracker, err = newTracker(r.o.MemoryLimit/3, r.scratch, r.room); err != nil {
		return err
	}
	if r.o.CompactAt > 0 && r.o.BumpRevision == 0 && !r.o.KeepHistory {
		r.tracker.twoSets = true
	}
	r.waiting = newSpool(r.o.MemoryLimit/3, r.scratch, r.room, r.tracker)
	r.leases = newSpool(r.o.MemoryLimit/16, r.scratch, r.room, r.tracker)
	if r.o.KeepHistory {
		r.leases.dead = func(o uint64) bool { return r.tracker.superseded.has(o) }
		r.out.begin(keyBucket)
	}
	// Deltas are decoded while the base is still being read.
	r.feed = newFeed(ctx, r.src.Deltas, &r.seeds, r.o.Parallel, r.o.MemoryLimit/12, codec.MaxEventBytes(r.o.MemoryLimit), r.newestOnly())
	for _, step := range []func(context.Context) error{r.readBase, r.scanBase, r.readDeltas, r.settle, r.write, r.verify} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	r.report.SpilledBytes = r.tracker.spilled() + r.waiting.bytes + r.leases.bytes
	return nil
}

// take gives a record its place: in the tracker, and in the file or the spool. Records of the
// base are read again when they are written.
func (r *rebuild) take(e *entry, k, v []byte, sum keySum) error {
	ordinal := r.ordinal
	r.ordinal++
	if r.tracker.twoSets && r.tracker.early == everything && e.main > max(r.o.CompactAt, r.floor) {
		r.tracker.early = ordinal
	}
	m := mark{sum: sum, ordinal: ordinal, version: e.version, create: e.create}
	if e.tombstone {
		m.ordinal |= tombstoneFlag
	}
	if err := r.tracker.add(m); err != nil {
		return err
	}
	if e.lease != 0 {
		if err := r.leases.add(spooled{ordinal: ordinal, main: e.main, lease: e.lease}); err != nil {
			return err
		}
	}
	if r.o.KeepHistory {
		return r.out.put(k, v)
	}
	return nil
}

// readDeltas takes the records of all deltas up to the target.
func (r *rebuild) readDeltas(ctx context.Context) error {
	if err := r.readLeases(); err != nil {
		return err
	}
	for i := range r.src.Deltas {
		if r.stopped {
			break
		}
		if err := r.readDelta(ctx, i); err != nil {
			return err
		}
		r.report.DeltasRead++
	}
	r.feed.close()
	if t := r.o.TargetRevision; t > 0 && r.reached != t {
		return &TargetError{Want: t, Earliest: max(r.floor, 1), Last: r.reached}
	}
	r.report.Reached = r.reached
	return nil
}

func (r *rebuild) readDelta(ctx context.Context, i int) error {
	d := &r.src.Deltas[i]
	known := r.reached // up to here the revisions are known from earlier sources
	last := snapshot.Revision(0)
	for {
		p, err := r.feed.next(ctx, i)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		for j := range p.batch.Records {
			rec := &p.batch.Records[j]
			last = rec.Main
			content := uint64(0)
			if r.feed.overlap {
				content = p.contents[j]
			}
			if err := r.takeChange(d, rec, p.keys[j], content, known); err != nil {
				return err
			}
		}
		r.feed.release(p)
		r.o.Progress(Progress{Phase: ReadingDeltas, Deltas: i, Events: r.report.Events, Revision: r.reached})
	}
	if err := r.revisions.endRepeated(d.Name); err != nil {
		return err
	}
	if d.Last != 0 && last != d.Last {
		return fmt.Errorf("%s: %w: its last revision is %d, want %d", d.Name, ErrNotAsNamed, last, d.Last)
	}
	r.table.note(r.feed.leases(i), r.reached)
	return nil
}

// takeChange takes one record of a delta, or leaves it out for one of three reasons: it is
// beyond the target, it repeats what is known, or it does not fit, which is an error.
func (r *rebuild) takeChange(d *Delta, rec *codec.Record, sum keySum, content uint64, known snapshot.Revision) error {
	switch target := r.o.TargetRevision; {
	case r.stopped || target > 0 && rec.Main > target:
		r.stopped = true
		r.report.EventsBeyond++
		return nil
	case rec.Main <= known:
		if !r.src.BaseInTime && rec.Main <= r.baseLast && r.late(rec) {
			return &LateError{Base: r.src.BaseName, Source: d.Name, Revision: rec.Main, Received: time.Unix(0, rec.Received), Want: r.o.TargetTime}
		}
		r.report.EventsOverlap++
		return r.compareRepeated(d, rec, content)
	case rec.Main == r.reached && rec.Sub == r.sub+1 && r.lastSource == d.Name:
	case rec.Main == r.reached+1 && rec.Sub == 0:
		if r.late(rec) {
			r.stopped = true
			r.report.EventsBeyond++
			return nil
		}
	case rec.Main > r.reached+1:
		return &GapError{After: r.reached, Next: rec.Main, Before: r.lastSource, Source: d.Name}
	default:
		want := int64(0)
		if rec.Main == r.reached {
			want = r.sub + 1
		}
		return &OrderError{Source: d.Name, Revision: rec.Main, Previous: r.reached, SubRevision: rec.Sub, WantedSubRevision: want}
	}
	r.reached, r.sub, r.lastSource = rec.Main, rec.Sub, d.Name
	if rec.Received != 0 {
		r.report.LastReceived = time.Unix(0, rec.Received)
	}
	r.report.Events++
	if r.feed.overlap {
		if err := r.revisions.note(rec.Main, rec.Sub, content); err != nil {
			return err
		}
	}
	broken := func(reason string) error {
		return &ChainError{Key: append([]byte(nil), rec.Key...), Revision: rec.Main, Reason: reason}
	}
	if !rec.Tombstone && (rec.Version == 1) != (rec.Create == rec.Main) {
		return broken(fmt.Sprintf("it has version %d and was created at revision %d", rec.Version, rec.Create))
	}
	var buf [tombstoneBytes]byte
	key := appendRevision(buf[:0], rec.Main, rec.Sub, rec.Tombstone)
	e := entry{main: rec.Main, sub: rec.Sub, tombstone: rec.Tombstone,
		stored: stored{create: int64(rec.Create), version: rec.Version, lease: rec.Lease}}
	ordinal := r.ordinal
	if err := r.take(&e, key, rec.Value, sum); err != nil {
		var b *breach
		if errors.As(err, &b) {
			return broken(b.reason)
		}
		return err
	}
	if r.o.KeepHistory || rec.Value == nil { // superseded, see newestOnly
		return nil
	}
	return r.waiting.add(spooled{ordinal: ordinal, main: rec.Main, sub: rec.Sub, tombstone: rec.Tombstone, value: rec.Value})
}

// newestOnly is the revision above which only the newest record of a key in each delta is needed,
// because everything is compacted at the last revision and nothing is compared with what another
// source has at the same revision. 0: all are needed.
func (r *rebuild) newestOnly() snapshot.Revision {
	o := &r.o
	if o.KeepHistory || o.CompactAt > 0 || o.TargetRevision > 0 || !o.TargetTime.IsZero() || !r.src.BaseInTime || overlap(r.src.Deltas) {
		return 0
	}
	return max(r.src.BaseLast, 1)
}

// late tells whether the record was received after the target time, which may lie in any year:
// the nanoseconds of an int64 end in 2262.
func (r *rebuild) late(rec *codec.Record) bool {
	t := r.o.TargetTime
	return !t.IsZero() && time.Unix(0, rec.Received).After(t)
}

// compareRepeated makes sure that a change known from an earlier source is the same there.
func (r *rebuild) compareRepeated(d *Delta, rec *codec.Record, content uint64) error {
	if rec.Main > r.baseLast {
		return r.revisions.repeat(d.Name, rec.Main, rec.Sub, content)
	}
	differs := func(reason string) error {
		return &OverlapError{Revision: rec.Main, Source: d.Name, Reason: reason}
	}
	if r.base == nil {
		return differs("the empty store has revision 1")
	}
	v, err := r.baseKeys.Get(appendRevision(nil, rec.Main, rec.Sub, rec.Tombstone))
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", r.src.BaseName, err)
	case rec.Value == nil:
		return differs(fmt.Sprintf("%s reaches revision %d, and its manifest says %d", r.src.BaseName, r.baseLast, r.src.BaseLast))
	case v == nil && rec.Main > r.floor:
		return differs(fmt.Sprintf("%s does not have its change of key %q", r.src.BaseName, rec.Key))
	case v != nil && string(v) != string(rec.Value):
		return differs(fmt.Sprintf("%s has another change there than that of key %q", r.src.BaseName, rec.Key))
	}
	return nil
}

// settle ends the collection: every chain is judged, and it is known what survives.
func (r *rebuild) settle(ctx context.Context) error {
	if r.report.Revision = r.reached; r.o.BumpRevision > 0 {
		if r.o.BumpRevision > MaxRevision-int64(r.reached) {
			return fmt.Errorf("a bump of %d from revision %d leaves etcd too few revisions: the sum may be %d at most", r.o.BumpRevision, r.reached, int64(MaxRevision))
		}
		r.report.Revision += snapshot.Revision(r.o.BumpRevision)
		e := entry{main: r.report.Revision}
		if r.o.KeepHistory {
			if err := r.take(&e, appendRevision(nil, e.main, 0, false), nil, r.seeds.key(nil)); err != nil {
				return err
			}
		} else if err := errors.Join(r.take(&e, nil, nil, r.seeds.key(nil)),
			r.waiting.add(spooled{ordinal: r.ordinal - 1, main: e.main})); err != nil {
			return err
		}
		r.bumps = true
	}
	if err := r.tracker.finish(); err != nil {
		var b *breach
		if errors.As(err, &b) {
			return r.nameBreach(b)
		}
		return err
	}
	r.report.Keys, r.report.AbsentDeletes = r.tracker.live, r.tracker.absent
	r.report.BaseIrregular += r.tracker.irregular
	return nil
}

// nameBreach finds the key of a record that was judged when only its ordinal was left.
func (r *rebuild) nameBreach(b *breach) error {
	broken := &ChainError{Reason: b.reason}
	none := func(uint64) bool { return false }
	if !r.o.KeepHistory {
		err := r.waiting.eachOf(none, func(s spooled) error {
			if s.ordinal == b.ordinal {
				kv, _ := parseStored(s.value)
				broken.Key, broken.Revision = append([]byte(nil), kv.key...), s.main
			}
			return nil
		})
		if err != nil {
			return errors.Join(broken, err)
		}
		return broken
	}
	// Everything went to the file: make it readable.
	r.out.begin(metaBucket)
	if err := r.out.finish(); err != nil {
		return errors.Join(broken, err)
	}
	file, keys, err := openKeys(r.out.file.Name())
	if err != nil {
		return errors.Join(broken, err)
	}
	defer file.Close()
	n := uint64(0)
	err = eachEntry(keys, 0, func(e *entry, _, _ []byte) error {
		if n == b.ordinal {
			broken.Key, broken.Revision = append([]byte(nil), e.key...), e.main
		}
		n++
		return nil
	})
	if err != nil {
		return errors.Join(broken, err)
	}
	return broken
}
