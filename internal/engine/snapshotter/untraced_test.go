package snapshotter

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/etcd/codec"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/storetest"
)

func TestAForgedDeltaIsNotTracedBeyondABound(t *testing.T) {
	for name, c := range map[string]struct {
		events, size int
		want         error
	}{
		"a usual revision": {10, 100, nil},
		"many events":      {200_000, 10, errUntraced},
		"a large event":    {1, 2 * maxTraced, codec.ErrTooLarge},
		"large in all":     {40, 1 << 20, errUntraced},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := codec.NewDelta(codec.DeltaOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer d.Discard()
			var events []*mvccpb.Event
			for i := range c.events {
				events = append(events, &mvccpb.Event{Kv: &mvccpb.KeyValue{Key: fmt.Appendf(nil, "%09d", i), Value: make([]byte, c.size), CreateRevision: 2, ModRevision: 2, Version: 1}})
			}
			if err := d.Append(time.Unix(1000, 0), events); err != nil {
				t.Fatal(err)
			}
			sealed, err := d.Seal(time.Unix(2000, 0), snapshot.Manifest{})
			if err != nil {
				t.Fatal(err)
			}
			defer sealed.Close()
			s := storetest.NewMemory(storetest.Bare())
			key := snapshot.SnapshotKey("p", sealed.Name)
			if _, err := s.Put(t.Context(), key.String(), sealed.Reader(), store.PutOptions{}); err != nil {
				t.Fatal(err)
			}
			_, err = storedTrace(t.Context(), s, timeline.Snapshot{Object: timeline.Object{Ref: timeline.Ref{Key: key}}, Last: 2})
			if !errors.Is(err, c.want) || c.want == nil && err != nil {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}
