package workload

import (
	"context"
	"encoding/binary"
	"fmt"
	"path/filepath"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/server/v3/lease/leasepb"

	"druid.internal/druid/test/stores"
)

// NewDataDir makes the data directory of a new etcd at dir/default: a real one is started and
// stopped, so everything but the keys is as etcd writes it.
func NewDataDir(ctx context.Context, dir string) (string, error) {
	e, err := stores.StartEtcd(ctx, stores.EtcdOptions{Dir: dir, Durable: true})
	if err != nil {
		return "", err
	}
	defer e.Close()
	return e.DataDir(), e.Stop()
}

// DatabaseFile is where an etcd keeps its database.
func DatabaseFile(dataDir string) string { return filepath.Join(dataDir, "member", "snap", "db") }

// Writer puts the events of a history into the database of an etcd that does not run, in batches
// as etcd does, so that pages are filled and freed alike.
type Writer struct {
	db     *bolt.DB
	tx     *bolt.Tx
	keys   *bolt.Bucket
	queued int
	last   int64
}

// batchBytes is how much one transaction takes. etcd commits every 100 ms.
const batchBytes = 8 << 20

// OpenDatabase begins to write into an etcd database that holds no keys yet.
func OpenDatabase(path string) (*Writer, error) {
	db, err := bolt.Open(path, 0o600, &bolt.Options{NoSync: true, NoGrowSync: true, NoFreelistSync: true, FreelistType: bolt.FreelistMapType, InitialMmapSize: 16 << 30})
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	w := &Writer{db: db, last: 1}
	if err := w.begin(); err != nil {
		db.Close()
		return nil, err
	}
	return w, nil
}

func (w *Writer) begin() (err error) {
	if w.tx, err = w.db.Begin(true); err != nil {
		return err
	}
	if w.keys = w.tx.Bucket([]byte("key")); w.keys == nil {
		return fmt.Errorf("%s is no etcd database: it has no bucket of keys", w.db.Path())
	}
	w.keys.FillPercent = 0.9 // etcd's, for writes in the order of keys
	w.queued = 0
	return nil
}

// Put stores one event, the only one of its revision.
func (w *Writer) Put(e *mvccpb.Event) error {
	kv := e.Kv
	key := binary.BigEndian.AppendUint64(nil, uint64(kv.ModRevision))
	key = append(key, '_')
	key = binary.BigEndian.AppendUint64(key, 0)
	if e.Type == mvccpb.DELETE {
		key = append(key, 't')
		kv = &mvccpb.KeyValue{Key: kv.Key}
	}
	value, err := kv.Marshal()
	if err != nil {
		return err
	}
	if err := w.keys.Put(key, value); err != nil {
		return err
	}
	w.last = e.Kv.ModRevision
	if w.queued += len(value); w.queued < batchBytes {
		return nil
	}
	if err := w.tx.Commit(); err != nil {
		return err
	}
	return w.begin()
}

// Size is how large the file is, in bytes, without what is not committed yet.
func (w *Writer) Size() int64 { return w.tx.Size() }

// Last is the revision of the last event, 1 before the first.
func (w *Writer) Last() int64 { return w.last }

// Close stores the leases that keys are attached to, with the seconds they were granted, and
// brings everything to the disk.
func (w *Writer) Close(leases map[int64]int64) (err error) {
	defer func() {
		if cerr := w.db.Close(); err == nil {
			err = cerr
		}
	}()
	for id, ttl := range leases {
		l := leasepb.Lease{ID: id, TTL: ttl}
		v, err := l.Marshal()
		if err != nil {
			return err
		}
		if err := w.tx.Bucket([]byte("lease")).Put(binary.BigEndian.AppendUint64(nil, uint64(id)), v); err != nil {
			return err
		}
	}
	if err := w.tx.Commit(); err != nil {
		return err
	}
	return w.db.Sync()
}

// Abort gives the database up.
func (w *Writer) Abort() { w.tx.Rollback(); w.db.Close() }
