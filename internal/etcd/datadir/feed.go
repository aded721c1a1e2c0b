package datadir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/etcd/codec"
)

// parcel is a batch of records with what can be computed of them in parallel.
type parcel struct {
	batch    *codec.Batch
	keys     []keySum
	contents []uint64 // only where deltas may overlap
	size     int64
}

// feed decodes deltas ahead of their use: several at a time, within a budget of bytes, and hands
// out their parcels in order. The delta in use may always go on, so the budget blocks nothing
// for ever.
//
//	delta 0  ####>            in use
//	delta 1  ######|          decoded, waits to be used
//	delta 2  ###              being decoded
//	delta 3                   not opened: only so many at a time
type feed struct {
	deltas  []Delta
	seeds   *seeds
	budget  int64
	overlap bool // the deltas may repeat each other's revisions
	// newest is the revision above which only the newest record of a key in a delta needs its
	// value; 0: all need theirs
	newest snapshot.Revision
	cores  int
	whole  int64 // content up to this size is unpacked at once
	// maxEvent bounds one event, in bytes; 0: as the codec does.
	maxEvent int
	mu       sync.Mutex
	change   sync.Cond
	queues   []queue
	current  int   // delta in use
	held     int64 // bytes in queues
	active   int   // deltas that are being unpacked
	stopped  bool
	wait     sync.WaitGroup
	cancel   context.CancelFunc
	spare    sync.Pool // of *parcel

	contents codec.Contents
}

type queue struct {
	parcels []*parcel
	leases  []snapshot.LeaseRecord
	err     error // io.EOF: complete
}

// currentAhead is how many parcels of the delta in use may wait for twice the budget. One may wait
// whatever its size.
const currentAhead = 4

// newFeed begins to decode. What waits as parcels takes at most the budget, what is unpacked at
// once half as much again.
func newFeed(ctx context.Context, deltas []Delta, s *seeds, parallel int, budget int64, maxEvent int, newest snapshot.Revision) *feed {
	ctx, cancel := context.WithCancel(ctx)
	f := &feed{deltas: deltas, seeds: s, budget: budget, overlap: overlap(deltas), newest: newest, maxEvent: maxEvent, cores: runtime.GOMAXPROCS(0), queues: make([]queue, len(deltas)), cancel: cancel}
	f.whole = budget * 3 / int64(2*f.cores+1) // so many are unpacked at the most
	f.change.L = &f.mu
	f.spare.New = func() any { return new(parcel) }
	context.AfterFunc(ctx, func() {
		f.mu.Lock()
		f.stopped = true
		f.change.Broadcast()
		f.mu.Unlock()
	})
	var next int
	var mu sync.Mutex
	for range min(parallel, len(deltas)) {
		f.wait.Go(func() {
			for {
				mu.Lock()
				i := next
				next++
				mu.Unlock()
				if i >= len(deltas) || ctx.Err() != nil {
					return
				}
				leases, err := f.pump(i)
				f.mu.Lock()
				f.queues[i].leases, f.queues[i].err = leases, err
				f.held += leasesSize(leases)
				f.change.Broadcast()
				f.mu.Unlock()
			}
		})
	}
	return f
}

// turn waits until the delta i may be unpacked: it is soon to be used, or a processor has
// nothing else to do and little waits to be used. Otherwise memory would be taken that is used much
// later. It fails when the feed is stopped.
func (f *feed) turn(i int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for !f.stopped && i > f.current+f.cores && (f.active >= f.cores || f.held >= f.budget/2) {
		f.change.Wait()
	}
	if f.stopped {
		return context.Canceled
	}
	f.active++
	return nil
}

// alone waits until the delta i is in use: only that one may take more memory than usual.
func (f *feed) alone(i int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for !f.stopped && i != f.current {
		f.change.Wait()
	}
	if f.stopped {
		return context.Canceled
	}
	return nil
}

// close stops decoding and waits until every delta is closed.
func (f *feed) close() {
	f.cancel()
	f.wait.Wait()
}

// pump decodes the delta i to its end, which is io.EOF.
func (f *feed) pump(i int) (_ []snapshot.LeaseRecord, err error) {
	named := func(err error) error { return fmt.Errorf("%s: %w", f.deltas[i].Name, err) }
	unpacking := false
	defer func() {
		if unpacking {
			f.mu.Lock()
			f.active--
			f.change.Broadcast()
			f.mu.Unlock()
		}
	}()
	r, err := f.deltas[i].Open(codec.ReaderOptions{
		Wait: func() (err error) {
			if err = f.turn(i); err == nil {
				unpacking = true
			}
			return err
		},
		Grow:          func(int) error { return f.alone(i) },
		MaxEventBytes: f.maxEvent,
		Whole:         &codec.Whole{MaxBytes: f.whole, Memory: &f.contents, Newest: f.newest > 0 && f.deltas[i].First > f.newest},
	})
	if err != nil {
		return nil, named(err)
	}
	defer func() {
		if cerr := r.Close(); cerr != nil && errors.Is(err, io.EOF) {
			err = named(cerr)
		}
	}()
	for {
		b, err := r.Next()
		if err == io.EOF {
			return r.Leases(), io.EOF
		}
		if err != nil {
			return nil, named(err)
		}
		p := f.spare.Get().(*parcel)
		p.batch, p.keys, p.contents, p.size = b, p.keys[:0], p.contents[:0], 0
		for j := range b.Records {
			rec := &b.Records[j]
			p.keys = append(p.keys, f.seeds.key(rec.Key))
			if f.overlap {
				p.contents = append(p.contents, f.seeds.content(rec.Value, rec.Tombstone))
			}
			p.size += int64(len(rec.Value)) + 64 // and what is computed of it
		}
		p.size = max(p.size, b.Bytes())
		if !f.put(i, p) {
			return nil, context.Canceled
		}
	}
}

// put queues the parcel when there is room for it.
func (f *feed) put(i int, p *parcel) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for !f.stopped {
		q := &f.queues[i]
		switch {
		case f.held+p.size <= f.budget,
			i == f.current && len(q.parcels) == 0,
			i == f.current && len(q.parcels) < currentAhead && f.held+p.size <= 2*f.budget:
			q.parcels = append(q.parcels, p)
			f.held += p.size
			f.change.Broadcast()
			return true
		}
		f.change.Wait()
	}
	return false
}

// next returns the next parcel of the delta i, to be given to release. io.EOF: it is complete.
// Deltas are asked for in order, each to its end.
func (f *feed) next(ctx context.Context, i int) (*parcel, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.current != i {
		f.current = i
		f.change.Broadcast()
	}
	q := &f.queues[i]
	for len(q.parcels) == 0 && q.err == nil && !f.stopped {
		f.change.Wait()
	}
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	if len(q.parcels) == 0 {
		if q.err == nil {
			return nil, context.Canceled
		}
		return nil, q.err
	}
	p := q.parcels[0]
	q.parcels = q.parcels[1:]
	return p, nil
}

// leases are the records of leases of the delta i, after its io.EOF. They are handed out once.
func (f *feed) leases(i int) []snapshot.LeaseRecord {
	f.mu.Lock()
	defer f.mu.Unlock()
	records := f.queues[i].leases
	f.queues[i].leases = nil
	f.held -= leasesSize(records)
	f.change.Broadcast()
	return records
}

// leasesSize is the memory of records, in bytes.
func leasesSize(records []snapshot.LeaseRecord) int64 {
	n := int64(0)
	for _, r := range records {
		n += 64 + 16*int64(len(r.States))
	}
	return n
}

func (f *feed) release(p *parcel) {
	p.batch.Release()
	p.batch = nil
	f.mu.Lock()
	f.held -= p.size
	f.change.Broadcast()
	f.mu.Unlock()
	f.spare.Put(p)
}
