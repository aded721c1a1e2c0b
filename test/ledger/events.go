package ledger

import (
	"context"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Event is one change of one key.
type Event struct {
	Revision int64
	Key      string
	Value    string
	Deleted  bool
}

func (e Event) String() string {
	if e.Deleted {
		return fmt.Sprintf("deletion of %q at revision %d", e.Key, e.Revision)
	}
	return fmt.Sprintf("write of %q at revision %d (%.40q)", e.Key, e.Revision, e.Value)
}

// Watched reads the events of a live etcd from a revision, which must not be compacted, to another.
func Watched(ctx context.Context, c *clientv3.Client, from, to int64) ([]Event, error) {
	if from > to {
		return nil, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var events []Event
	ctx = clientv3.WithRequireLeader(ctx) // the context also says whose progress is asked for
	watch := c.Watch(ctx, "\x00", clientv3.WithFromKey(), clientv3.WithRev(from), clientv3.WithFragment(), clientv3.WithCreatedNotify())
	// A watch that is still catching up does not answer.
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for {
		select {
		case <-again.C:
			if err := c.RequestProgress(ctx); err != nil {
				return nil, fmt.Errorf("watch from revision %d: %w", from, err)
			}
		case r, ok := <-watch:
			if !ok {
				return nil, fmt.Errorf("the watch from revision %d ended after %d events: %w", from, len(events), context.Cause(ctx))
			}
			if err := r.Err(); err != nil {
				return nil, fmt.Errorf("watch from revision %d: %w", from, err)
			}
			for _, e := range r.Events {
				if e.Kv.ModRevision > to {
					return events, nil
				}
				events = append(events, Event{e.Kv.ModRevision, string(e.Kv.Key), string(e.Kv.Value), e.Type == mvccpb.DELETE})
			}
			// A response has revisions as a whole. The last one has no event if a restore skipped it.
			if len(events) > 0 && events[len(events)-1].Revision == to || r.IsProgressNotify() && r.Header.Revision >= to {
				return events, nil
			}
		}
	}
}

// lockTimeout bounds the wait for a database that a server has open.
const lockTimeout = 30 * time.Second

// Stored reads the events that the database of a data directory still has, in the order of their
// revisions. No server may be running on it.
func Stored(dataDir string) ([]Event, error) {
	path := filepath.Join(dataDir, "member", "snap", "db")
	db, err := bolt.Open(path, 0o400, &bolt.Options{ReadOnly: true, Timeout: lockTimeout})
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	defer db.Close()
	var events []Event
	err = db.View(func(tx *bolt.Tx) error {
		b := tx.Bucket([]byte("key"))
		if b == nil {
			return fmt.Errorf("%s has no keys", path)
		}
		return b.ForEach(func(k, v []byte) error {
			var kv mvccpb.KeyValue
			if err := kv.Unmarshal(v); err != nil {
				return fmt.Errorf("%s: record %x: %w", path, k, err)
			}
			// The main revision, a line, the sub-revision, and a mark if it is a deletion.
			if len(k) < 17 {
				return fmt.Errorf("%s: record %x is too short", path, k)
			}
			events = append(events, Event{int64(binary.BigEndian.Uint64(k)), string(kv.Key), string(kv.Value), len(k) > 17})
			return nil
		})
	})
	return events, err
}

// Differ says what differs between two histories from one revision to another.
func Differ(got, want []Event, from, to int64) []string {
	within := func(all []Event) []Event {
		var some []Event
		for _, e := range all {
			if e.Revision >= from && e.Revision <= to {
				some = append(some, e)
			}
		}
		return some
	}
	got, want = within(got), within(want)
	var out []string
	for i := 0; i < max(len(got), len(want)) && len(out) < enough; i++ {
		switch {
		case i >= len(got):
			out = append(out, fmt.Sprintf("the %s is missing", want[i]))
		case i >= len(want):
			out = append(out, fmt.Sprintf("the %s should not be there", got[i]))
		case got[i] != want[i]:
			return append(out, fmt.Sprintf("event %d is the %s, want the %s", i, got[i], want[i]))
		}
	}
	return out
}
