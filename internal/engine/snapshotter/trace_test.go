package snapshotter

import (
	"context"
	"errors"
	"fmt"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/engine/catalog"
	"druid.internal/druid/internal/etcd/codec"
)

// TestAnEtcdThatWentBackAndCaughtUpIsNotContinued loses the last revisions of an etcd, as a disk
// that lied about a write or an old image of it does, and has clients write as many again before
// anybody looks. No revision number tells, and etcd's hash does not either once it has compacted.
func TestAnEtcdThatWentBackAndCaughtUpIsNotContinued(t *testing.T) {
	t.Parallel()
	for name, format := range map[string]codec.Format{"native": codec.Native, "v2-json": codec.V2JSON} {
		for _, stopped := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, stopped %v", name, stopped), func(t *testing.T) {
				t.Parallel()
				before, after, s := newEtcd(t), newEtcd(t), memory()
				cfg := config(before, s)
				cfg.Format, cfg.Data = format, &memoryIdentity{}
				if format == codec.V2JSON {
					cfg.DeltaCompression = snapshot.Gzip
				}
				broken, switched := &watchBreaker{next: make(chan error, 1)}, make(chan struct{})
				cfg.Connect = func(ctx context.Context) (Member, error) {
					at := before
					select {
					case <-switched:
						at = after
					default:
					}
					m, err := at.connect(ctx)
					return breaking{m, broken}, err
				}
				before.put(10)
				after.put(10)
				r := start(t, cfg)
				r.full(false)
				if _, err := before.client.Put(t.Context(), "only/before", "x"); err != nil {
					t.Fatal(err)
				}
				before.put(9)
				r.delta()
				if stopped {
					r.stop()
				}
				if _, err := after.client.Put(t.Context(), "only/after", "x"); err != nil {
					t.Fatal(err)
				}
				after.put(3)
				after.put(20)
				after.compact(15)
				close(switched)
				if stopped {
					r = start(t, cfg)
				} else {
					broken.fail(errors.New("connection lost"))
				}
				until(t, s, "a second lineage", func(c *catalog.Catalog) bool { return len(c.Timeline.Lineages) == 2 })
				if !r.events.has(RolledBack) {
					t.Fatal("the way back is not told")
				}
				last := after.put(3)
				r.delta()
				until(t, s, "its full", func(c *catalog.Catalog) bool { _, chain, _ := newest(c); return chain.End == last })
			})
		}
	}
}

// TestTheSameHistoryIsRecognisedInEveryShape ends deltas in everything a revision can be, and
// breaks the watch and restarts after each: none of it may pass for another history.
func TestTheSameHistoryIsRecognisedInEveryShape(t *testing.T) {
	t.Parallel()
	for name, format := range map[string]codec.Format{"native": codec.Native, "v2-json": codec.V2JSON} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, s := newEtcd(t), memory()
			cfg := config(e, s)
			cfg.Format, cfg.Data, cfg.SkipHashKV = format, &memoryIdentity{}, true
			lease, err := e.client.Grant(t.Context(), 3600)
			if err != nil {
				t.Fatal(err)
			}
			do := func(op clientv3.Op, err error) {
				t.Helper()
				if err == nil {
					_, err = e.client.Do(t.Context(), op)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			e.put(5)
			r := start(t, cfg)
			r.full(false)
			if err := r.stop(); err != nil {
				t.Fatal(err)
			}
			shapes := map[string]func(){
				"a put":              func() { do(clientv3.OpPut("a", "1"), nil) },
				"an empty value":     func() { do(clientv3.OpPut("a", ""), nil) },
				"bytes":              func() { do(clientv3.OpPut("\x00\xff", "\xfe\x00"), nil) },
				"a lease":            func() { do(clientv3.OpPut("b", "2", clientv3.WithLease(lease.ID)), nil) },
				"a deletion":         func() { do(clientv3.OpDelete("b"), nil) },
				"a range of several": func() { do(clientv3.OpDelete("key/", clientv3.WithPrefix()), nil); e.put(7) },
				"a deleted range":    func() { do(clientv3.OpDelete("key/", clientv3.WithPrefix()), nil) },
				"a transaction": func() {
					do(clientv3.OpTxn(nil, []clientv3.Op{clientv3.OpPut("c", "3"), clientv3.OpDelete("a"), clientv3.OpPut("d", "4")}, nil), nil)
				},
				"a compacted deletion": func() {
					do(clientv3.OpPut("z", "1"), nil)
					do(clientv3.OpDelete("z"), nil)
				},
			}
			for name, change := range shapes {
				r := start(t, cfg)
				change()
				r.delta()
				if err := r.stop(); err != nil {
					t.Fatal(err)
				}
				if name == "a compacted deletion" {
					e.compact(e.revision())
				}
				r = start(t, cfg)
				do(clientv3.OpPut("after", name), nil)
				r.delta()
				if err := r.stop(); err != nil {
					t.Fatal(err)
				}
				if r.events.has(RolledBack) || len(read(t, s).Timeline.Lineages) != 1 {
					t.Fatalf("after %s it passes for another history: %v", name, r.events.all)
				}
			}
		})
	}
}
