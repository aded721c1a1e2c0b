package snapshotter

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/etcd/codec"
	"druid.internal/druid/internal/etcd/member"
	"druid.internal/druid/internal/store"
)

// trace is what happened in one revision. An etcd that lost its last revisions, to a disk that
// lied or an old image of it, soon has the same numbers again with other content; where deltas go
// on, the last revision that was backed up must be the one etcd tells under its number.
type trace struct {
	rev snapshot.Revision // 0: none
	sum [sha256.Size]byte
}

// traceOf makes the trace of revision rev, of which events are all.
func traceOf(rev snapshot.Revision, events []*mvccpb.Event) trace {
	t, sum := trace{rev: rev}, sha256.New()
	var head [49]byte
	for _, e := range events {
		kv, b := e.Kv, head[:0]
		if e.Type == mvccpb.DELETE { // of which nothing but the key is known everywhere
			kv = &mvccpb.KeyValue{Key: e.Kv.Key}
		}
		b = append(b, byte(e.Type))
		for _, n := range []int64{int64(len(kv.Key)), int64(len(kv.Value)), kv.CreateRevision, kv.ModRevision, kv.Version, kv.Lease} {
			b = binary.BigEndian.AppendUint64(b, uint64(n))
		}
		sum.Write(b)
		sum.Write(kv.Key)
		sum.Write(kv.Value)
	}
	sum.Sum(t.sum[:0])
	return t
}

// lastTrace is the trace of the last revision of events, which are whole revisions.
func lastTrace(events []*mvccpb.Event) trace {
	last := events[len(events)-1].Kv.ModRevision
	from := len(events) - 1
	for from > 0 && events[from-1].Kv.ModRevision == last {
		from--
	}
	return traceOf(snapshot.Revision(last), events[from:])
}

// firstOf splits off the events of revision rev from the beginning of events.
func firstOf(events []*mvccpb.Event, rev snapshot.Revision) (first, rest []*mvccpb.Event) {
	n := slices.IndexFunc(events, func(e *mvccpb.Event) bool { return snapshot.Revision(e.Kv.ModRevision) != rev })
	if n < 0 {
		n = len(events)
	}
	return events[:n], events[n:]
}

// maxTraced bounds the keys and values of the revision that is compared, and each event: a delta may
// be forged, and unpack to anything. etcd takes transactions of 1.5 MB unless told otherwise.
const maxTraced = 32 << 20

// eventOverhead is about the memory of an event besides its key and value.
const eventOverhead = 256

// errUntraced: the last revision of a delta is too large to be compared.
var errUntraced = errors.New("its last revision is too large to be compared")

// storedTrace reads the delta d and returns the trace of its last revision.
func storedTrace(ctx context.Context, s store.Reader, d timeline.Snapshot) (trace, error) {
	body, err := s.Open(ctx, store.Version{Key: d.Key.String(), ID: d.Version}, 0, -1)
	if err != nil {
		return trace{}, err
	}
	defer body.Close()
	r, err := codec.NewDeltaReader(body, d.Name().Compression, codec.ReaderOptions{MaxEventBytes: maxTraced})
	if err != nil {
		return trace{}, fmt.Errorf("%s: %w", d.Name(), err)
	}
	defer r.Close()
	var events []*mvccpb.Event
	size := 0
	for {
		batch, err := r.Next()
		if err == io.EOF {
			return traceOf(d.Last, events), nil
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return trace{}, fmt.Errorf("%s: %w", d.Name(), err)
		}
		for _, rec := range batch.Records {
			if rec.Main != d.Last {
				continue
			}
			if size += len(rec.Value) + eventOverhead; size > maxTraced {
				return trace{}, fmt.Errorf("%s: %w", d.Name(), errUntraced)
			}
			e := &mvccpb.Event{Kv: &mvccpb.KeyValue{}}
			if err := e.Kv.Unmarshal(rec.Value); err != nil {
				return trace{}, fmt.Errorf("%s: revision %d: %w", d.Name(), rec.Main, err)
			}
			if e.Kv.ModRevision = int64(rec.Main); rec.Tombstone {
				e.Type = mvccpb.DELETE
			}
			events = append(events, e)
		}
		batch.Release() // what was unmarshalled is a copy
	}
}

// askPatience is how long etcd may take to tell one revision.
const askPatience = 30 * time.Second

// toldTrace asks etcd for the trace of revision rev, which it has reached.
func toldTrace(ctx context.Context, m Member, rev snapshot.Revision) (trace, error) {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	var t trace
	enough := errors.New("enough")
	err := m.WatchAll(ctx, rev, member.WatchPace{}, func(b member.Batch) error {
		if first, _ := firstOf(b.Events, rev); len(first) > 0 {
			t = traceOf(rev, first)
			return enough
		}
		return nil
	})
	if errors.Is(err, enough) {
		return t, nil
	}
	return trace{}, err
}

// retrace compares the end of what the bucket has of k with what etcd tells.
func (s *Snapshotter) retrace(ctx context.Context, m Member, k known) agreement {
	if k.tail == nil {
		return unknown
	}
	told, err := toldTrace(ctx, m, k.tail.Last)
	if err != nil { // compacted, most probably: then no delta continues there either
		return unknown
	}
	stored, err := storedTrace(ctx, s.cfg.Store, *k.tail)
	switch {
	case err != nil:
		s.log.Warn("the end of the backup cannot be compared with etcd", "snapshot", k.tail.Name().String(), "error", err)
		return unknown
	case stored != told:
		return differs
	}
	return agrees
}
