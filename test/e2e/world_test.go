package e2e

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"sort"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"druid.internal/druid/test/history"
	"druid.internal/druid/test/sites"
	"druid.internal/druid/test/stores"
)

const prefix = sites.Prefix

// program is the etcdbrctl under test.
func program(t *testing.T) string {
	t.Helper()
	programs, err := built.Get()
	if err != nil {
		t.Fatal(err)
	}
	return programs.Etcdbrctl
}

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // there is more memory than time
	code := m.Run()
	if err := fleet.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	built.Remove()
	os.Exit(code)
}

// fleet are the servers of all tests that do not stop them.
var fleet sites.Fleet

// sharedMinIO is a running MinIO; each test makes buckets of its own in it.
func sharedMinIO(t *testing.T) *stores.MinIO {
	t.Helper()
	return sites.MinIOOf(fleet.Get(t, "MinIO"))
}

// newBucket makes a bucket that no other test uses and returns its name.
func newBucket(t *testing.T, m *stores.MinIO, protection stores.Protection) string {
	t.Helper()
	name := fmt.Sprintf("own-%s-%d", protection, buckets.Add(1))
	if err := m.CreateBucket(t.Context(), name, protection, 1); err != nil {
		t.Fatal(err)
	}
	return name
}

var buckets atomic.Int64

// everyOther takes half of what a test would try, beginning with the first or the second as chance has it. With -soak all are tried.
func everyOther[T any](t *testing.T, all []T) (some []T) {
	t.Helper()
	if *soak {
		return all
	}
	first := rand.IntN(2)
	t.Logf("of %d cases every other is tried, from number %d on", len(all), first+1)
	for i := first; i < len(all); i += 2 {
		some = append(some, all[i])
	}
	return some
}

// world is a real etcd, the record of what it did, and where its backup lies.
type world struct {
	place
	etcd    *stores.Etcd
	client  *clientv3.Client
	history *history.History
	load    *history.Load
}

func newWorld(t *testing.T, seed int64, keys int) *world {
	t.Helper()
	return newWorldWith(t, stores.EtcdOptions{}, seed, keys)
}

func newWorldWith(t *testing.T, o stores.EtcdOptions, seed int64, keys int) *world {
	t.Helper()
	w := &world{place: place{t: t, env: os.Environ()}, etcd: stores.RunEtcd(t, o)}
	w.client = connect(t, w.etcd)
	w.history = history.Record(w.client)
	t.Cleanup(w.history.Stop)
	w.load = history.NewLoad(w.client, seed, keys)
	return w
}

// connect makes a client that takes large messages and is closed when the test ends.
func connect(t *testing.T, e *stores.Etcd) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: e.Endpoints(), TLS: e.ClientTLS, DialTimeout: 10 * time.Second, MaxCallSendMsgSize: 256 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// useS3 keeps the backup in a bucket of m, reached at endpoint.
func (w *world) useS3(m *stores.MinIO, endpoint, bucket string) {
	w.t.Helper()
	w.place = inS3(w.t, m, endpoint, bucket, m.Root)
}

// useLocal keeps the backup in a directory.
func (w *world) useLocal(dir string) { w.place = inDirectory(w.t, dir) }

// write makes n random changes and waits until they are recorded.
func (w *world) write(n int) int64 {
	w.t.Helper()
	rev := w.history.Last()
	for range n {
		r, err := w.load.Step(context.Background())
		if err != nil {
			w.t.Fatal(err)
		}
		rev = r
	}
	if err := w.history.Reach(rev); err != nil {
		w.t.Fatal(err)
	}
	return rev
}

// check holds a restored directory against the record at revision rev.
func (w *world) check(dir string, rev int64) {
	w.t.Helper()
	got, last := keySpace(w.t, dir)
	if last > rev {
		w.t.Errorf("the restored database has revision %d, want at most %d", last, rev)
	}
	if diff := history.Diff(got, w.history.At(rev)); len(diff) > 0 {
		w.t.Errorf("the key space restored at revision %d differs:\n  %s", rev, strings.Join(diff, "\n  "))
	}
}

type keyValues = []*mvccpb.KeyValue

// keySpace reads the live keys of a data directory from its database file.
func keySpace(t *testing.T, dir string) (kvs []*mvccpb.KeyValue, last int64) {
	t.Helper()
	db, err := bolt.Open(filepath.Join(dir, "member", "snap", "db"), 0o400, &bolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	live := map[string]*mvccpb.KeyValue{}
	if err := db.View(func(tx *bolt.Tx) error {
		return tx.Bucket([]byte("key")).ForEach(func(k, v []byte) error {
			last = int64(binary.BigEndian.Uint64(k))
			kv := &mvccpb.KeyValue{}
			if err := kv.Unmarshal(v); err != nil {
				return err
			}
			if len(k) == 18 {
				delete(live, string(kv.Key))
			} else {
				live[string(kv.Key)] = kv
			}
			return nil
		})
	}); err != nil {
		t.Fatal(err)
	}
	for _, kv := range live {
		kvs = append(kvs, kv)
	}
	sort.Slice(kvs, func(i, j int) bool { return bytes.Compare(kvs[i].Key, kvs[j].Key) < 0 })
	return kvs, last
}

// boots starts a real etcd on a restored directory, compares what it serves, and writes to it.
func (w *world) boots(dir string, rev int64) {
	w.t.Helper()
	e := stores.RunEtcd(w.t, stores.EtcdOptions{DataDir: dir})
	defer e.Kill()
	c := connect(w.t, e)
	defer c.Close()
	got, at, err := history.Read(context.Background(), c, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	if at != rev {
		w.t.Errorf("the restored etcd is at revision %d, want %d", at, rev)
	}
	if diff := history.Diff(got, w.history.At(rev)); len(diff) > 0 {
		w.t.Errorf("the restored etcd serves something else at revision %d:\n  %s", rev, strings.Join(diff, "\n  "))
	}
	r, err := c.Put(context.Background(), "/after", "restore")
	if err != nil {
		w.t.Fatalf("the restored etcd accepts no writes: %v", err)
	}
	if r.Header.Revision != rev+1 {
		w.t.Errorf("the first write has revision %d, want %d", r.Header.Revision, rev+1)
	}
	leases, err := c.Leases(context.Background())
	if err != nil {
		w.t.Fatal(err)
	}
	known := map[int64]bool{}
	for _, l := range leases.Leases {
		known[int64(l.ID)] = true
	}
	for _, kv := range got {
		if kv.Lease != 0 && !known[kv.Lease] {
			w.t.Errorf("key %q is attached to lease %x, which the restored etcd does not have", kv.Key, kv.Lease)
		}
	}
}
