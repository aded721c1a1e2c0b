package snapshotter

import (
	"context"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

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
