package snapshotter

import (
	"context"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/etcd/codec"
	"druid.internal/druid/internal/etcd/member"
)

// TestAFullDoesNotWaitForDeltasThatWaitForIt loses history between the moment at which a full
// finds that no delta is held back and the moment at which it flushes: what comes after the loss
// waits for that very full.
func TestAFullDoesNotWaitForDeltasThatWaitForIt(t *testing.T) {
	b := newBuffer(codec.DeltaOptions{Format: codec.Native, SpillDir: t.TempDir()}, 1<<20, 1<<20, 2)
	defer b.close(ErrStopped)
	b.restart(10)
	add := func(rev int64) {
		event := &mvccpb.Event{Kv: &mvccpb.KeyValue{Key: []byte("k"), CreateRevision: rev, ModRevision: rev, Version: 1}}
		if err := b.add(t.Context(), member.Batch{Events: []*mvccpb.Event{event}, Received: time.Now()}); err != nil {
			t.Fatal(err)
		}
	}
	add(10)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	last, err := b.flush(ctx, true)
	if err != nil || last != 10 {
		t.Fatalf("flushed to %d: %v, want 10", last, err)
	}
	if b.head() != nil {
		t.Fatal("the delta goes before there is a full")
	}
	add(11) // while the full is taken
	b.cut()
	b.based(last)
	d := b.head()
	if d == nil || d.First() != 11 {
		t.Fatalf("with a full up to 10 in the bucket %+v is next, want the delta that begins with 11 and not the one before", d)
	}
}

// TestDeltasThatWaitCostNoMemory queues as many deltas as an outage of the store does, of values
// that cannot be packed.
func TestDeltasThatWaitCostNoMemory(t *testing.T) {
	const limit = 128 << 20 // one delta that grows and one that is next take 60 MB together
	b := newBuffer(codec.DeltaOptions{Format: codec.Native, SpillDir: t.TempDir()}, 1<<20, 1<<40, 2)
	defer b.close(ErrStopped)
	random, value := rand.NewChaCha8([32]byte{1}), make([]byte, 256<<10)
	for rev := int64(2); len(b.queue) < 100; rev++ {
		random.Read(value)
		event := &mvccpb.Event{Kv: &mvccpb.KeyValue{Key: []byte("k"), Value: value, CreateRevision: 2, ModRevision: rev, Version: rev - 1}}
		if err := b.add(t.Context(), member.Batch{Events: []*mvccpb.Event{event}, Received: time.Now()}); err != nil {
			t.Fatal(err)
		}
	}
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if m.HeapAlloc > limit {
		t.Errorf("100 deltas of 1 MiB that wait take %d MiB of memory, want at most %d", m.HeapAlloc>>20, limit>>20)
	}
}

// TestDeltasAreCutNearTheirLimitHoweverMuchComesAtOnce adds a batch of many limits, in which one
// revision alone is above the limit.
func TestDeltasAreCutNearTheirLimitHoweverMuchComesAtOnce(t *testing.T) {
	const limit, revisions, large = 64 << 10, 400, 200
	b := newBuffer(codec.DeltaOptions{Format: codec.Native, SpillDir: t.TempDir()}, limit, 1<<40, 2)
	defer b.close(ErrStopped)
	var all []*mvccpb.Event
	for rev := int64(2); rev < 2+revisions; rev++ {
		n := 1
		if rev == large {
			n = 100
		}
		for range n {
			all = append(all, &mvccpb.Event{Kv: &mvccpb.KeyValue{Key: []byte("k"), Value: make([]byte, 1000), CreateRevision: 2, ModRevision: rev, Version: rev - 1}})
		}
	}
	if err := b.add(t.Context(), member.Batch{Events: all, Received: time.Now()}); err != nil {
		t.Fatal(err)
	}
	b.cut()
	if len(b.queue) < revisions*1000/limit {
		t.Errorf("%d deltas, want one for each %d bytes", len(b.queue), limit)
	}
	next := snapshot.Revision(2)
	for _, d := range b.queue {
		if d.First() != next {
			t.Errorf("a delta begins at revision %d, want %d", d.First(), next)
		}
		most := int64(limit + limit/4 + 1<<10)
		if d.First() <= large && large <= d.Last() {
			most += 101_000
		}
		if d.bytes > most {
			t.Errorf("the delta of revisions %d to %d has %d bytes, want at most %d", d.First(), d.Last(), d.bytes, most)
		}
		next = d.Last() + 1
	}
	if next != 2+revisions {
		t.Errorf("the deltas end before revision %d, want %d", next, 2+revisions)
	}
}
