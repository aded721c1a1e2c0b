package snapshotter

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/etcd/codec"
	"druid.internal/druid/internal/etcd/member"
)

// buffer holds the events between the watch and the store: one delta that grows, and those
// that were cut and wait for their upload. Its size is bounded: when it is full, add waits,
// and with it the watch. Safe for concurrent use.
type buffer struct {
	options codec.DeltaOptions
	limit   int64 // cut at so many bytes
	spill   int64 // hold no more than so many

	mu       sync.Mutex
	next     snapshot.Revision // where the watch goes on
	known    snapshot.Revision // newest revision etcd is known to have
	open     *codec.Delta      // nil without events
	etcd     string            // version of the etcd that open was watched on
	queue    []*cutDelta       // oldest first
	cuts     int               // number of the last cut
	uploads  int               // number of the last cut that is in the bucket
	failures int               // failed attempts so far
	lastErr  error             // of the last failed attempt
	waiting  bool              // add waits for room
	broken   error             // why nothing more can be added
	paused   bool              // nothing is added until resume: there is no room for it
	tight    bool              // there is no room on disk: only what fits into memory is held
	baseless *hold             // what waits for a full; nil: nothing does
	changed  chan struct{}     // closed at the next change of anything
}

// hold keeps deltas back that continue nothing in the bucket: they would be of no use before
// there is a full, and a crash before there is one would leave a bucket whose newest revisions
// nobody can restore.
type hold struct {
	after int               // cuts up to this number may go
	from  snapshot.Revision // first revision that waits
}

// cutDelta is a delta that takes no more events.
type cutDelta struct {
	*codec.Delta
	number  int
	etcd    string        // version of the etcd that it was watched on
	bytes   int64         // before packing, when it was cut: the delta itself belongs to the uploader
	sealed  *codec.Sealed // once its upload was begun
	covered bool          // by a full, so that it need not be uploaded
}

func newBuffer(o codec.DeltaOptions, limit, spill int64, next snapshot.Revision) *buffer {
	o.Packers = new(codec.Packers)
	return &buffer{options: o, limit: limit, spill: spill, next: next, known: next - 1, changed: make(chan struct{})}
}

// holdAll keeps everything back from here on, until a full is in the bucket. The caller holds mu,
// or nobody else knows the buffer yet.
func (b *buffer) holdAll() { b.baseless = &hold{after: b.cuts, from: b.next} }

// based lets go what a full, named after revision last, is the base of, and forgets what was
// held back and ends there: the full contains it, and nothing leads to it.
func (b *buffer) based(last snapshot.Revision) {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.change()
	b.tight = false // look again whether there is room on disk
	if b.baseless == nil || last < b.baseless.from-1 {
		return
	}
	for _, d := range b.queue {
		d.covered = d.number > b.baseless.after && d.Last() <= last
	}
	b.baseless = nil
}

// change wakes everybody who waits. The caller holds mu.
func (b *buffer) change() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// await waits until ready, which is called with mu held, says so.
func (b *buffer) await(ctx context.Context, ready func() bool) error {
	for {
		b.mu.Lock()
		ok := ready()
		changed := b.changed
		b.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// add takes a batch of the watch, waiting for room if need be, in pieces: so that deltas are cut near
// their limit however much comes at once. It may take the first revisions of the batch and fail at a
// later one.
func (b *buffer) add(ctx context.Context, batch member.Batch) error {
	b.mu.Lock()
	most := b.limit / 4
	if b.tight {
		most = min(most, tightPiece)
	}
	b.mu.Unlock()
	for _, events := range pieces(batch.Events, most) {
		piece := batch
		piece.Events = events
		if err := b.addWhole(ctx, piece); err != nil {
			return err
		}
	}
	return nil
}

func (b *buffer) addWhole(ctx context.Context, batch member.Batch) error {
	err := b.await(ctx, func() bool {
		full := len(batch.Events) > 0 && b.crowded() && b.broken == nil
		if full && !b.waiting {
			b.waiting = true
			b.change()
		}
		b.waiting = full
		return !full
	})
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.broken != nil {
		return b.broken
	}
	b.known = max(b.known, batch.Known)
	if n := len(batch.Events); n > 0 {
		if b.tight && b.open != nil && b.open.ContentSize()+sizeOf(batch.Events) > b.limitNow() {
			b.cutLocked()
		}
		if err := b.append(batch); err != nil {
			if errors.As(err, new(*codec.GapError)) || errors.As(err, new(*codec.OrderError)) || errors.Is(err, codec.ErrMalformed) {
				b.broken = fmt.Errorf("buffer etcd's events: %w", err)
				b.change()
				return b.broken
			}
			b.dropLocked() // at once: nobody may cut what cannot be sealed
			return fmt.Errorf("%w: %w", errRoom, err)
		}
		b.next = snapshot.Revision(batch.Events[n-1].Kv.ModRevision) + 1
		b.known = max(b.known, b.next-1)
		b.paused = false
		if b.open.ContentSize() >= b.limitNow() || b.open.Leases() >= leaseBatch {
			b.cutLocked()
		}
	}
	b.change()
	return nil
}

func (b *buffer) append(batch member.Batch) error {
	if b.open == nil {
		o := b.options
		o.First = b.next
		d, err := codec.NewDelta(o)
		if err != nil {
			return err
		}
		b.open = d
	}
	if err := b.open.Append(batch.Received, batch.Events); err != nil {
		return err
	}
	if b.tight && b.open.ContentSize() > 2*tightLimit {
		return b.open.Park() // now, rather than find no room when it is sealed
	}
	return nil
}

// errRoom: the delta that grows has lost what it held, for example because the disk is full. The
// events are still in etcd.
var errRoom = errors.New("there is no room to buffer etcd's events")

// dropLocked forgets the delta that grows, after errRoom, and pauses: what was cut before is
// uploaded, and nothing waits for events that do not come. The watch has to go on at the first
// revision that is forgotten.
func (b *buffer) dropLocked() {
	first := b.next
	if b.open != nil {
		if !b.open.Empty() {
			first = b.open.First()
		}
		_ = b.open.Discard() // a temporary file without a name
		b.open = nil
	}
	b.next, b.paused = first, true
	b.change()
}

// dropped are the revisions that errRoom cost, as far as they are known.
func (b *buffer) dropped() (first, last snapshot.Revision) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.next, max(b.next, b.known)
}

// resume ends the pause; the watch goes on at next. Nothing before it is waited for.
func (b *buffer) resume(next snapshot.Revision) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.next, b.known, b.paused = next, max(b.known, next-1), false
	b.change()
}

// crowded reports whether add has to wait. The caller holds mu.
func (b *buffer) crowded() bool {
	return b.held() >= b.spill || b.tight && len(b.queue) >= tightQueue
}

// held is how many bytes are buffered, before packing. The caller holds mu.
func (b *buffer) held() int64 {
	var n int64
	if b.open != nil {
		n = b.open.ContentSize()
	}
	for _, d := range b.queue {
		n += d.bytes
	}
	return n
}

// watchedOn sets the version of the etcd that the next events come from. No delta has events of two versions.
func (b *buffer) watchedOn(version string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if version == b.etcd {
		return
	}
	b.cutLocked()
	b.etcd = version
	b.change()
}

// cut ends the delta that grows. It returns the last revision buffered so far, or else the one
// before the first that is expected, and the number of the last cut.
func (b *buffer) cut() (last snapshot.Revision, number int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cutLocked()
	b.change()
	return b.next - 1, b.cuts
}

func (b *buffer) cutLocked() {
	if b.open == nil || b.open.Empty() {
		b.options.Packers.Drop() // there were no events since the last cut
		return
	}
	b.cuts++
	b.queue = append(b.queue, &cutDelta{Delta: b.open, number: b.cuts, etcd: b.etcd, bytes: b.open.ContentSize()})
	// Either says why it failed again when it is sealed, or only needs more memory.
	if len(b.queue) > 1 && !b.tight { // it has to wait, and there may be hundreds
		_ = b.open.Park()
	} else {
		_ = b.open.Rest()
	}
	b.open = nil
}

// restart goes on at another revision, because those in between are lost.
func (b *buffer) restart(next snapshot.Revision) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cutLocked()
	b.next, b.known = next, max(b.known, next-1)
	b.holdAll()
	b.change()
}

// head is the delta to upload next; nil if there is none, or it has to wait for a full.
func (b *buffer) head() *cutDelta {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.queue) > 0 && b.queue[0].covered {
		d := b.queue[0]
		b.queue, b.uploads = b.queue[1:], d.number
		d.discard()
		b.change()
	}
	if len(b.queue) == 0 || b.baseless != nil && b.queue[0].number > b.baseless.after {
		return nil
	}
	return b.queue[0]
}

// uploaded removes the head.
func (b *buffer) uploaded(d *cutDelta) {
	b.mu.Lock()
	b.queue = b.queue[1:]
	b.uploads = d.number
	b.change()
	b.mu.Unlock()
	d.discard()
}

func (d *cutDelta) discard() {
	if d.sealed != nil {
		d.sealed.Close()
	}
	_ = d.Discard() // a temporary file without a name
}

// failed tells those who wait for an upload that an attempt failed.
func (b *buffer) failed(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures++
	b.lastErr = err
	b.change()
}

// flush cuts and waits until everything buffered so far is in the bucket, or until an attempt
// that began since has failed. What is held back waits for a full, so whoever is about to take
// that full must not wait for it: forFull.
func (b *buffer) flush(ctx context.Context, forFull bool) (last snapshot.Revision, err error) {
	b.mu.Lock()
	failures := b.failures
	b.mu.Unlock()
	last, number := b.cut()
	held := func() bool { return forFull && b.baseless != nil && number > b.baseless.after }
	err = b.await(ctx, func() bool { return b.uploads >= number || b.failures > failures || b.broken != nil || held() })
	if err != nil {
		return last, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.uploads >= number:
		return last, nil
	case b.broken != nil:
		return last, b.broken
	case held():
		return last, nil
	}
	return last, b.lastErr
}

// drained waits until everything up to rev was received, or fails because it will not be.
func (b *buffer) drained(ctx context.Context, rev snapshot.Revision) error {
	if err := b.await(ctx, func() bool { return b.next > rev || b.broken != nil || b.paused }); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.broken != nil:
		return b.broken
	case b.next > rev:
		return nil
	}
	return errRoom
}

func (b *buffer) position() (next, known snapshot.Revision) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.next, b.known
}

// pending are the revisions that are held; last is 0 if there are none.
func (b *buffer) pending() (first, last snapshot.Revision) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, d := range b.queue {
		if first == 0 {
			first = d.First()
		}
		last = d.Last()
	}
	if b.open != nil && !b.open.Empty() {
		if first == 0 {
			first = b.open.First()
		}
		last = b.open.Last()
	}
	return first, last
}

// close makes everybody who waits return, and frees what is held.
func (b *buffer) close(why error) {
	b.mu.Lock()
	if b.broken == nil {
		b.broken = why
	}
	open, queue := b.open, b.queue
	b.open, b.queue = nil, nil
	b.change()
	b.mu.Unlock()
	if open != nil {
		_ = open.Discard() // a temporary file without a name
	}
	for _, d := range queue {
		d.discard()
	}
}

// wake is closed at the next change.
func (b *buffer) wake() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.changed
}
