package snapshotter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/engine/replay"
	"druid.internal/druid/internal/engine/verifier"
	"druid.internal/druid/internal/etcd/datadir"
	"druid.internal/druid/internal/etcd/member"
)

// TestProofComparesDeltasWithNextFull takes a full, deltas and another full, from watches that lose a
// deletion in the midst of a transaction or do not.
func TestProofComparesDeltasWithNextFull(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lose    bool
		compact func(first, last snapshot.Revision) snapshot.Revision // 0: none
	}{
		"intact, never compacted":         {false, func(first, last snapshot.Revision) snapshot.Revision { return 0 }},
		"intact, compacted in the deltas": {false, func(first, last snapshot.Revision) snapshot.Revision { return (first + last) / 2 }},
		"intact, compacted at the end":    {false, func(first, last snapshot.Revision) snapshot.Revision { return last }},
		"lossy, never compacted":          {true, func(first, last snapshot.Revision) snapshot.Revision { return 0 }},
		"lossy, compacted in the deltas":  {true, func(first, last snapshot.Revision) snapshot.Revision { return (first + last) / 2 }},
		"lossy, compacted at the end":     {true, func(first, last snapshot.Revision) snapshot.Revision { return last }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, s := newEtcd(t), memory()
			cfg := config(e, s)
			cfg.Connect = func(ctx context.Context) (Member, error) {
				m, err := e.connect(ctx)
				if c.lose {
					m = forgetful{m}
				}
				return m, err
			}
			txn := func(ops ...clientv3.Op) snapshot.Revision {
				t.Helper()
				r, err := e.client.Txn(t.Context()).Then(ops...).Commit()
				if err != nil {
					t.Fatal(err)
				}
				return snapshot.Revision(r.Header.Revision)
			}
			lease, err := e.client.Grant(t.Context(), 3600)
			if err != nil {
				t.Fatal(err)
			}
			txn(clientv3.OpPut("lost", "1"), clientv3.OpPut("deleted", "1"))
			e.put(5)
			r := start(t, cfg)
			base := r.delivered(func(f *Taken) bool { return f != nil })
			first := e.put(20)
			r.delta()
			txn(clientv3.OpPut("a", "1", clientv3.WithLease(lease.ID)), clientv3.OpDelete("lost"))
			txn(clientv3.OpDelete("deleted"))
			txn(clientv3.OpPut("deleted", "2"), clientv3.OpDelete("key/", clientv3.WithPrefix()))
			e.put(5)
			last := txn(clientv3.OpDelete("deleted"), clientv3.OpPut("a", "2"))
			if at := c.compact(first, last); at > 0 {
				e.compact(at)
			}
			r.delta()
			next := r.full(false)
			e.put(5)
			r.delta()
			r.stop()

			for _, all := range []bool{true, false} {
				report, err := verifier.Verify(t.Context(), verifier.Request{
					From: replay.Options{Store: s, Timeline: read(t, s).Timeline, Log: slog.New(slog.DiscardHandler)},
					All:  all, Preceding: !all, ScratchDir: t.TempDir(), MemoryLimit: datadir.MinMemoryLimit,
				})
				if c.lose != errors.Is(err, verifier.ErrBroken) || !c.lose && err != nil {
					t.Fatalf("all %v: error %v, %+v", all, err, report)
				}
				if len(report.Chains) != 2 || !report.Chains[0].OK || report.Chains[0].Next != "" {
					t.Fatalf("all %v: %+v", all, report)
				}
				older := report.Chains[1]
				if older.Base != base.Key.Name.String() || older.Next != next.Key.Name.String() || older.OK == c.lose {
					t.Errorf("all %v: %+v, want it compared with %s", all, older, next.Key.Name)
				}
				if c.lose && (older.Code != verifier.HashMismatch || !strings.Contains(older.Reason, fmt.Sprintf("Incr-%08d", base.Key.Name.Last+1)) ||
					!strings.Contains(older.Reason, next.Key.Name.String()) || !strings.Contains(older.Reason, "etcd 3.6.16")) {
					t.Errorf("all %v: code %q, %s", all, older.Code, older.Reason)
				}
			}
		})
	}
}

// forgetful is a member whose watch lacks the deletion of one key, as of an etcd with a fault.
type forgetful struct{ Member }

func (f forgetful) WatchAll(ctx context.Context, from snapshot.Revision, pace member.WatchPace, fn func(member.Batch) error) error {
	return f.Member.WatchAll(ctx, from, pace, func(b member.Batch) error {
		b.Events = slices.DeleteFunc(slices.Clone(b.Events), func(ev *mvccpb.Event) bool {
			return ev.Type == mvccpb.DELETE && string(ev.Kv.Key) == "lost"
		})
		return fn(b)
	})
}
