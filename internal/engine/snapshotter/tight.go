package snapshotter

import (
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// When the disk for growing deltas is full, deltas are cut so small that they never leave memory,
// in which a delta may keep 8 MiB after packing.
const (
	tightLimit = 4 << 20   // cut at so many bytes before packing
	tightPiece = 256 << 10 // bytes of keys and values that are added at once
	tightQueue = 2         // so many may wait for their upload
)

// tighten has no delta grow out of memory until the next full, if that can help: already says
// that it did not, and neither is true if deltas cannot be uploaded before there is a full.
func (b *buffer) tighten() (helps, already bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.tight:
		return false, true
	case b.baseless != nil:
		return false, false
	}
	b.tight = true
	b.change()
	return true, false
}

// limitNow is the size at which the delta that grows is cut. The caller holds mu.
func (b *buffer) limitNow() int64 {
	if b.tight {
		return min(b.limit, tightLimit)
	}
	return b.limit
}

// pieces splits events into runs of whole revisions, each of at most so many bytes and leases, or of one
// revision. It returns one empty run if there are no events.
func pieces(events []*mvccpb.Event, most int64) [][]*mvccpb.Event {
	var all [][]*mvccpb.Event
	begin, size, leased := 0, int64(0), 0
	for i, e := range events {
		next := sizeOf(events[i : i+1])
		if i > begin && e.Kv.ModRevision != events[i-1].Kv.ModRevision && (size+next > most || leased >= leaseBatch/4) {
			all = append(all, events[begin:i])
			begin, size, leased = i, 0, 0
		}
		if size += next; e.Kv.Lease != 0 {
			leased++
		}
	}
	return append(all, events[begin:])
}

// sizeOf is the size of the keys and values of events, in bytes.
func sizeOf(events []*mvccpb.Event) int64 {
	var n int64
	for _, e := range events {
		n += int64(len(e.Kv.Key) + len(e.Kv.Value))
	}
	return n
}

// noteTight has the next session begin tight.
func (s *Snapshotter) noteTight() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tight = true
}

// tightNow reports whether noteTight was called since it was asked last.
func (s *Snapshotter) tightNow() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	tight := s.tight
	s.tight = false
	return tight
}
