package enginetest

import (
	"context"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/store"
)

// Shelf is a store that lists a long backup below Prefix and holds nothing: so many snapshots, a
// full and then deltas, one a minute, locked for an hour.
type Shelf struct {
	Snapshots int
	PerFull   int // snapshots of a stream, with its full
}

// List tells the snapshots.
func (s Shelf) List(_ context.Context, _ string, fn func(store.Object) error) error {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	last := snapshot.Revision(1)
	for i := range s.Snapshots {
		at := start.Add(time.Duration(i) * time.Minute)
		n := snapshot.Name{Kind: snapshot.Full, Last: last, Created: at.Unix(), Compression: snapshot.Gzip}
		if i%s.PerFull != 0 {
			n.Kind, n.Start, n.Last = snapshot.Delta, last+1, last+10
			last += 10
		}
		o := store.Object{Version: store.Version{Key: Key(n), ID: "0123456789abcdef0123456789abcdef"}, Size: 1000, Modified: at, Latest: true,
			Retention: &immutability.Retention{Mode: immutability.ModeCompliance, Until: at.Add(time.Hour)}}
		if err := fn(o); err != nil {
			return err
		}
	}
	return nil
}

// Open opens something empty.
func (s Shelf) Open(context.Context, store.Version, int64, int64) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader("")), nil
}

// Stat tells the store's clock.
func (s Shelf) Stat(context.Context, store.Version) (store.Object, error) {
	return store.Object{ServerTime: time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)}, nil
}

// Capabilities are those of a store that lists locks.
func (s Shelf) Capabilities() store.Capabilities {
	return store.Capabilities{Provider: "Shelf", Versions: true, InlineRetention: true}
}

// Memory tells how many bytes work allocates, and how many of them are in use for as long as
// what it returns is.
func Memory(t *testing.T, work func() any) (allocated, live int64) {
	t.Helper()
	var before, after, kept runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	result := work()
	runtime.ReadMemStats(&after)
	runtime.GC()
	runtime.ReadMemStats(&kept)
	runtime.KeepAlive(result)
	return int64(after.TotalAlloc - before.TotalAlloc), int64(kept.HeapAlloc) - int64(before.HeapAlloc)
}
