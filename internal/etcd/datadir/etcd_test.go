package datadir

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.uber.org/zap"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/etcd/codec"
)

// server is a real etcd in this process.
type server struct {
	*embed.Etcd
	c   *clientv3.Client
	dir string
}

func startEtcd(t testing.TB, dir string) *server {
	t.Helper()
	cfg := embed.NewConfig()
	cfg.Dir = dir
	cfg.Name = "default"
	cfg.LogLevel = "panic"
	cfg.LogOutputs = []string{filepath.Join(t.TempDir(), "log")}
	cfg.UnsafeNoFsync = true
	cfg.TickMs, cfg.ElectionMs = 10, 50
	any, _ := url.Parse("http://127.0.0.1:0")
	cfg.ListenPeerUrls, cfg.ListenClientUrls = []url.URL{*any}, []url.URL{*any}
	cfg.AdvertisePeerUrls, cfg.AdvertiseClientUrls = []url.URL{*any}, []url.URL{*any}
	cfg.InitialCluster = "default=http://127.0.0.1:0"
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		t.Fatalf("start etcd on %s: %v", dir, err)
	}
	s := &server{Etcd: e, c: v3client.New(e.Server), dir: dir}
	t.Cleanup(s.stop)
	select {
	case <-e.Server.ReadyNotify():
	case <-time.After(time.Minute):
		t.Fatal("etcd did not become ready")
	}
	return s
}

func (s *server) stop() {
	if s.Etcd != nil {
		s.c.Close()
		s.Close()
		s.Etcd = nil
	}
}

func (s *server) revision(t testing.TB) snapshot.Revision {
	t.Helper()
	r, err := s.c.Get(context.Background(), "k")
	if err != nil {
		t.Fatal(err)
	}
	return snapshot.Revision(r.Header.Revision)
}

func (s *server) snapshot(t testing.TB) []byte {
	t.Helper()
	// Over the network: the client in the process does not end this stream as it should.
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{s.Clients[0].Addr().String()}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r, err := c.Snapshot(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (s *server) hashKV(t testing.TB, rev snapshot.Revision) snapshot.HashKV {
	t.Helper()
	h, _, err := s.Server.KV().HashStorage().HashByRev(int64(rev))
	if err != nil {
		t.Fatal(err)
	}
	return snapshot.HashKV{Revision: snapshot.Revision(h.Revision), CompactRevision: snapshot.Revision(h.CompactRevision), Hash: h.Hash}
}

// listing is every key alive with all that etcd knows of it, one line each.
func (s *server) listing(t testing.TB) string {
	t.Helper()
	r, err := s.c.Get(context.Background(), "\x00", clientv3.WithFromKey())
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, kv := range r.Kvs {
		b.WriteString(line(kv))
	}
	return b.String()
}

func line(kv *mvccpb.KeyValue) string {
	return fmt.Sprintf("%s=%.20q create %d mod %d version %d lease %x\n", kv.Key, kv.Value, kv.CreateRevision, kv.ModRevision, kv.Version, kv.Lease)
}

// events collects what a watch from revision 2 sees, up to the last revision.
func (s *server) watch() clientv3.WatchChan {
	return s.c.Watch(context.Background(), "\x00", clientv3.WithFromKey(), clientv3.WithRev(2))
}

func collect(t testing.TB, w clientv3.WatchChan, last snapshot.Revision) []*mvccpb.Event {
	t.Helper()
	return collectFrom(t, w, 1, last)
}

// collectFrom is collect for a watch that begins after a revision.
func collectFrom(t testing.TB, w clientv3.WatchChan, after, last snapshot.Revision) []*mvccpb.Event {
	t.Helper()
	var all []*mvccpb.Event
	for reached := int64(after); reached < int64(last); {
		select {
		case r := <-w:
			if r.Err() != nil {
				t.Fatal(r.Err())
			}
			for _, e := range r.Events {
				all = append(all, (*mvccpb.Event)(e))
				reached = e.Kv.ModRevision
			}
		case <-time.After(time.Minute):
			t.Fatalf("the watch stays at revision %d of %d", reached, last)
		}
	}
	return all
}

// stateAt replays events in a map: what etcd would answer at the revision.
func stateAt(events []*mvccpb.Event, rev snapshot.Revision) string {
	kvs := map[string]*mvccpb.KeyValue{}
	for _, e := range events {
		if e.Kv.ModRevision > int64(rev) {
			break
		}
		if e.Type == mvccpb.DELETE {
			delete(kvs, string(e.Kv.Key))
		} else {
			kvs[string(e.Kv.Key)] = e.Kv
		}
	}
	var lines []string
	for _, kv := range kvs {
		lines = append(lines, line(kv))
	}
	sort.Strings(lines)
	return strings.Join(lines, "")
}

// recordsOf turns events into records; received is the receive time of every revision.
func recordsOf(t testing.TB, events []*mvccpb.Event, received func(rev int64) int64) []codec.Record {
	var rs []codec.Record
	for _, e := range events {
		kv := *e.Kv
		r := codec.Record{Main: snapshot.Revision(kv.ModRevision), Tombstone: e.Type == mvccpb.DELETE, Received: received(kv.ModRevision)}
		if n := len(rs); n > 0 && rs[n-1].Main == r.Main {
			r.Sub = rs[n-1].Sub + 1
		}
		if r.Tombstone {
			kv = mvccpb.KeyValue{Key: kv.Key}
		}
		r.Create, r.Version, r.Lease, r.Key = snapshot.Revision(kv.CreateRevision), kv.Version, kv.Lease, kv.Key
		var err error
		if r.Value, err = kv.Marshal(); err != nil {
			t.Fatal(err)
		}
		rs = append(rs, r)
	}
	return rs
}

// memoryDelta is a delta whose records lie in memory.
type memoryDelta struct {
	records []codec.Record
	leases  []snapshot.LeaseRecord
	batch   int
	fail    error // instead of io.EOF
}

func (d *memoryDelta) Next() (*codec.Batch, error) {
	if len(d.records) == 0 {
		if d.fail != nil {
			return nil, d.fail
		}
		return nil, io.EOF
	}
	n := min(d.batch, len(d.records))
	b := &codec.Batch{Records: d.records[:n:n]}
	d.records = d.records[n:]
	return b, nil
}
func (d *memoryDelta) Leases() []snapshot.LeaseRecord { return d.leases }
func (d *memoryDelta) Close() error                   { return nil }

func deltaOf(name string, records []codec.Record, leases ...snapshot.LeaseRecord) Delta {
	d := Delta{Name: name, Open: func(o codec.ReaderOptions) (Records, error) {
		return &memoryDelta{records: records, leases: leases, batch: 7}, nil
	}}
	if n := len(records); n > 0 {
		d.Last = records[n-1].Main
	}
	return d
}

// between are the records with revisions in [first, last].
func between(rs []codec.Record, first, last snapshot.Revision) []codec.Record {
	a := sort.Search(len(rs), func(i int) bool { return rs[i].Main >= first })
	b := sort.Search(len(rs), func(i int) bool { return rs[i].Main > last })
	return rs[a:b]
}

var solo = Membership{Name: "default", InitialCluster: "default=http://127.0.0.1:2380", Token: "test"}

// keyRecords lists the key bucket of a database file.
func keyRecords(t testing.TB, path string) []string {
	t.Helper()
	db, err := OpenDB(path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var rs []string
	if err := eachEntry(db.keys, 0, func(e *entry, k, v []byte) error {
		rs = append(rs, fmt.Sprintf("%d.%d tombstone=%v %s %x", e.main, e.sub, e.tombstone, e.key, v))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return rs
}

func mustRestore(t testing.TB, src Source, o Options, dir string) *Restored {
	t.Helper()
	r, err := Restore(context.Background(), src, o, Target{Dir: dir, Member: solo})
	if err != nil {
		t.Fatal(err)
	}
	for _, left := range []string{dir + ".part", dir + ".part.lock"} {
		if _, err := os.Lstat(left); !os.IsNotExist(err) {
			t.Errorf("%s is left over", left)
		}
	}
	return r
}

func reader(b []byte) io.Reader { return bytes.NewReader(b) }

// valueOf is the value field of a stored record.
func valueOf(stored []byte) []byte {
	var kv mvccpb.KeyValue
	if err := kv.Unmarshal(stored); err != nil {
		panic(err)
	}
	return kv.Value
}

// trailed appends the SHA-256 as etcd does.
func trailed(b []byte) []byte {
	sum := sha256.Sum256(b)
	return append(b, sum[:]...)
}
