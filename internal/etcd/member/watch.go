package member

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"druid.internal/druid/internal/backup/snapshot"
)

// Batch is what one step of a watch delivers.
type Batch struct {
	// Events are whole revisions, ascending and without holes, every event of each in etcd's
	// order. Empty for a sign of life.
	Events []*mvccpb.Event
	// Known is the newest revision etcd is known to have reached. Above the last event it only
	// says that there is more to come.
	Known snapshot.Revision
	// Received is when the batch came from the network.
	Received time.Time
}

// GapError says that etcd told revisions with a hole between them. A watch of everything never
// has one, so history was cut: for example the data was replaced under the watch.
type GapError struct {
	Want, Got snapshot.Revision
}

func (e *GapError) Error() string {
	return fmt.Sprintf("etcd's watch went from revision %d to %d: what happened between them is not known", e.Want-1, e.Got)
}

// WatchPace says when a watch that is told nothing asks etcd for its revision, which is handed
// over as Batch.Known, and how long etcd may be ahead of it without telling anything before the
// watch fails with ErrStalled. (etcd's own progress notifications cannot serve: it sends none
// as long as nothing happened since the watch began.)
type WatchPace struct {
	Ask   time.Duration // 0 means 30 s
	Stall time.Duration // 0 means 3 minutes
}

// WatchAll hands every change from revision from on to fn, until fn or the watch fails or ctx
// ends; it never returns nil. Little is read ahead: while fn works, etcd waits and keeps the
// history. Events are handed over only when their revision is complete, so that calling again
// with the revision after the last one handed over continues exactly. Those of a busy etcd come
// about a tenth of a second late and many at a time, see gatherPause.
//
// Errors: fn's own, unwrapped; *CompactedError when etcd no longer has the revision, or may have
// dropped deletions of it (see intact); *GapError; ErrCancelled and ErrStalled; ErrNoLeader; ErrUnreachable.
//
// etcd cuts large answers into fragments here. Fragments are read as they come and only an
// unfinished revision is held back, so the memory used is that of one fragment, the largest
// revision and what is read ahead, about 2 MiB, whatever the number of revisions etcd puts into one answer (1000 after an
// interruption, which may be gigabytes). The price is paid by etcd, whose cutting takes time
// with the square of the number of events in a fragment: seconds for an answer of several
// times 10,000 tiny events, nothing to speak of otherwise.
func (m *Member) WatchAll(ctx context.Context, from snapshot.Revision, pace WatchPace, fn func(Batch) error) error {
	if pace.Ask <= 0 {
		pace.Ask = 30 * time.Second
	}
	if pace.Stall <= 0 {
		pace.Stall = 3 * time.Minute
	}
	ctx, cancel := context.WithCancelCause(clientv3.WithRequireLeader(ctx))
	defer cancel(nil)
	from = max(from, 2) // an empty etcd is at revision 1, so 2 is the first that can have events
	conn, err := m.forWatches()
	if err != nil {
		return err
	}
	ws, err := pb.NewWatchClient(conn).Watch(ctx, grpc.ForceCodecV2(wire{}))
	if err != nil {
		return explain("open etcd's watch", m.endpoint, err)
	}
	if err := ws.Send(createAll(from)); err != nil {
		return explain("open etcd's watch", m.endpoint, recvError(ws, err))
	}

	r := newReader(ws.Recv)
	go r.run()
	defer func() { cancel(nil); close(r.stop); <-r.done }()

	fn = m.intact(ctx, from, fn)
	asm := assembler{next: from}
	ask := time.NewTicker(pace.Ask)
	defer ask.Stop()
	last := time.Now() // when etcd last answered, or had nothing to tell
	for {
		select {
		case <-ask.C:
			if time.Since(last) < pace.Ask {
				continue
			}
			known, err := m.Revision(ctx)
			if err != nil {
				continue // a dead connection ends the watch by itself
			}
			if known < asm.next {
				last = time.Now()
			} else if silent := time.Since(last); silent > pace.Stall {
				return fmt.Errorf("watch at %s: %w: it is at revision %d and told nothing from %d on for %s",
					m.endpoint, ErrStalled, known, asm.next, silent.Round(time.Second))
			}
			if err := fn(Batch{Known: known, Received: time.Now()}); err != nil {
				return err
			}
		case <-r.some:
			answers, received, ended := r.take()
			if len(answers) > 0 {
				if err := m.hand(&asm, answers, received, fn); err != nil {
					return err
				}
				last = time.Now() // after fn: its time is not etcd's silence
			}
			switch {
			case ended == nil:
			case ctx.Err() != nil:
				return fmt.Errorf("watch at %s: %w", m.endpoint, ctx.Err())
			default:
				return explain("watch etcd", m.endpoint, ended)
			}
		}
	}
}

// intact returns fn, preceded by a check that the first revision of the watch is complete.
//
// A compaction at revision R keeps the puts of R, but etcd before 3.5.16 drops its deletions, and
// etcd before 3.5.19 drops them if it stops during the compaction:
//
//	5: put a, delete b   compact at 5   watch from 5   → 5: put a
//
// A watch from 6 is complete, one from 4 is refused. No event shows that one is missing, and the
// version of the member that answers now is not the version that compacted. Only the first revision
// of a watch is concerned, and only if it is read from the database, that is if etcd had reached it
// when the watch began. The last check comes after the events of that revision, so no compaction can
// come between. The checks before it serve a watch of which all events are missing: there is one
// each time that WatchAll asks for etcd's revision.
func (m *Member) intact(ctx context.Context, from snapshot.Revision, fn func(Batch) error) func(Batch) error {
	created, proven := false, false
	return func(b Batch) error {
		if !created && len(b.Events) == 0 { // etcd has answered the request, and may still refuse it
			created, proven = true, b.Known < from
			return fn(b)
		}
		if !proven {
			err := m.readable(ctx, from-1)
			if errors.Is(err, ErrCompacted) {
				return &CompactedError{From: from, Compacted: from}
			}
			if err != nil {
				return err
			}
			proven = len(b.Events) > 0
		}
		return fn(b)
	}
}

// readable returns nil if etcd can still read at revision rev: then no later revision is compacted.
// The read is linearizable, so it sees every compaction that any member had applied before.
func (m *Member) readable(ctx context.Context, rev snapshot.Revision) error {
	ctx, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	_, err := m.client.Get(ctx, "\x00", clientv3.WithCountOnly(), clientv3.WithRev(int64(rev)))
	return explain(fmt.Sprintf("read at revision %d", rev), m.endpoint, err)
}

// hand calls fn with what answers hold, events in one batch as far as nothing else is between them.
// What came before an error of etcd is handed over.
func (m *Member) hand(asm *assembler, answers []*pb.WatchResponse, received time.Time, fn func(Batch) error) error {
	var events Batch
	flush := func() error {
		b := events
		events = Batch{}
		if len(b.Events) == 0 {
			return nil
		}
		return fn(b)
	}
	for _, answer := range answers {
		b, err := asm.add(answer, received)
		if len(b.Events) > 0 {
			b.Events = append(events.Events, b.Events...)
			events = b
			continue
		}
		if err := flush(); err != nil {
			return err
		}
		if err != nil {
			return explain("watch etcd", m.endpoint, err)
		}
		if b.Known > 0 {
			if err := fn(b); err != nil {
				return err
			}
		}
	}
	return flush()
}

// recvError is why a Send failed: gRPC tells only on the receiving side.
func recvError(ws pb.Watch_WatchClient, err error) error {
	if errors.Is(err, io.EOF) {
		if _, why := ws.Recv(); why != nil {
			return why
		}
	}
	return err
}

// createAll watches the whole key space, unfiltered: a filter would break both contiguity and
// the position of events in their revision.
func createAll(from snapshot.Revision) *pb.WatchRequest {
	return &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: &pb.WatchCreateRequest{
		Key: []byte{0}, RangeEnd: []byte{0}, StartRevision: int64(from), ProgressNotify: true, Fragment: true,
	}}}
}

// assembler makes whole revisions of answers and checks that none is missing.
type assembler struct {
	next    snapshot.Revision // of the next whole revision to hand over
	partial []*mvccpb.Event   // the events so far of a revision that continues in the next fragment
}

// add takes one answer. The batch may be empty of events.
func (a *assembler) add(r *pb.WatchResponse, received time.Time) (Batch, error) {
	switch {
	case r.CompactRevision != 0:
		return Batch{}, &CompactedError{From: a.next, Compacted: snapshot.Revision(r.CompactRevision)}
	case r.Canceled:
		if r.CancelReason != "" {
			return Batch{}, fmt.Errorf("%w: %s", ErrCancelled, r.CancelReason)
		}
		return Batch{}, ErrCancelled
	case r.Created:
		return Batch{Known: snapshot.Revision(r.Header.GetRevision()), Received: received}, nil
	}
	events := r.Events
	if len(a.partial) > 0 {
		events = append(a.partial, events...)
	}
	whole := len(events)
	if r.Fragment { // the last revision of a fragment may continue in the next one
		for whole > 0 && events[whole-1].Kv.ModRevision == events[len(events)-1].Kv.ModRevision {
			whole--
		}
	}
	for i, e := range events[:whole] {
		switch rev := snapshot.Revision(e.Kv.ModRevision); {
		case rev == a.next:
			a.next++
		case i > 0 && rev == a.next-1: // one more event of the revision before it
		default:
			return Batch{}, &GapError{Want: a.next, Got: rev}
		}
	}
	a.partial = append([]*mvccpb.Event(nil), events[whole:]...)
	b := Batch{Events: events[:whole:whole], Received: received, Known: a.next - 1}
	if known := snapshot.Revision(r.Header.GetRevision()); known > b.Known {
		b.Known = known
	}
	return b, nil
}
