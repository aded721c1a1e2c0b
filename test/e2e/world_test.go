package e2e

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"druid.internal/druid/test/history"
	"druid.internal/druid/test/stores"
)

const prefix = "ns--uid/etcd-main"

var build struct {
	once sync.Once
	path string
	err  error
}

// program is the etcdbrctl under test, built from this tree.
func program(t *testing.T) string {
	t.Helper()
	build.once.Do(func() {
		dir, err := os.MkdirTemp("", "etcdbrctl-")
		if err != nil {
			build.err = err
			return
		}
		build.path = filepath.Join(dir, "etcdbrctl")
		cmd := exec.Command("go", "build", "-o", build.path, "./cmd/etcdbrctl")
		cmd.Dir = "../.." // the product's module
		if out, err := cmd.CombinedOutput(); err != nil {
			build.err = fmt.Errorf("build etcdbrctl: %w\n%s", err, out)
		}
	})
	if build.err != nil {
		t.Fatal(build.err)
	}
	return build.path
}

func TestMain(m *testing.M) {
	code := m.Run()
	if build.path != "" {
		os.RemoveAll(filepath.Dir(build.path))
	}
	os.Exit(code)
}

// world is a real etcd, the record of what it did, and a bucket.
type world struct {
	t       *testing.T
	etcd    *stores.Etcd
	client  *clientv3.Client
	history *history.History
	load    *history.Load
	store   []string // flags
	env     []string
}

func newWorld(t *testing.T, seed int64, keys int) *world {
	t.Helper()
	w := &world{t: t, etcd: stores.RunEtcd(t, stores.EtcdOptions{}), env: os.Environ()}
	var err error
	if w.client, err = clientv3.New(clientv3.Config{Endpoints: w.etcd.Endpoints(), DialTimeout: 10 * time.Second}); err != nil {
		t.Fatal(err)
	}
	w.history = history.Record(w.client)
	t.Cleanup(func() { w.history.Stop(); w.client.Close() })
	w.load = history.NewLoad(w.client, seed, keys)
	return w
}

// useS3 keeps the backup in a bucket of m, reached at endpoint.
func (w *world) useS3(m *stores.MinIO, endpoint, bucket string) {
	w.t.Helper()
	dir := w.t.TempDir()
	for file, content := range map[string]string{
		"accessKeyID": m.Root.AccessKeyID, "secretAccessKey": m.Root.SecretAccessKey, "region": m.Region,
		"trustedCaCert": string(m.CA.PEM), "s3ForcePathStyle": "true",
	} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600); err != nil {
			w.t.Fatal(err)
		}
	}
	w.env = append(os.Environ(), "AWS_APPLICATION_CREDENTIALS="+dir)
	w.store = []string{"--storage-provider=S3", "--store-container=" + bucket, "--store-prefix=" + prefix, "--store-endpoint-override=" + endpoint}
}

// useLocal keeps the backup in a directory.
func (w *world) useLocal(dir string) {
	w.store = []string{"--storage-provider=Local", "--store-container=" + dir, "--store-prefix=" + prefix}
}

func (w *world) command(verb string, args ...string) *exec.Cmd {
	cmd := exec.Command(program(w.t), append(append([]string{verb}, w.store...), args...)...)
	cmd.Env = w.env
	return cmd
}

// write makes n random changes and waits until they are recorded.
func (w *world) write(n int) int64 {
	w.t.Helper()
	var rev int64
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

// list is what `etcdbrctl list -o json` tells.
type list struct {
	Lineages []struct {
		ID         string
		Newest     int64
		Restorable []struct{ From, To int64 }
		Snapshots  []struct {
			Name     string
			From, To int64
			Problem  string
		}
	}
	Findings []struct{ Severity, Code, Text string }
}

func (w *world) list() list {
	w.t.Helper()
	cmd := w.command("list", "-o", "json")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		w.t.Fatalf("list: %v\n%s", err, stderr.Bytes())
	}
	var l list
	if err := json.Unmarshal(out, &l); err != nil {
		w.t.Fatalf("list: %v in\n%s", err, out)
	}
	return l
}

// restore restores into a new directory and returns it.
func (w *world) restore(args ...string) (dir string, err error) {
	w.t.Helper()
	dir = filepath.Join(w.t.TempDir(), "restored")
	cmd := w.command("restore", append([]string{"--data-dir=" + dir, "--initial-cluster=default=http://127.0.0.1:2380", "--initial-advertise-peer-urls=http://127.0.0.1:2380"}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return dir, fmt.Errorf("restore %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return dir, nil
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
	c, err := clientv3.New(clientv3.Config{Endpoints: e.Endpoints(), DialTimeout: 10 * time.Second})
	if err != nil {
		w.t.Fatal(err)
	}
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
