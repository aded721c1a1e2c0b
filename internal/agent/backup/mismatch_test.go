package backup

import (
	"context"
	"slices"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/engine/verifier"
	"druid.internal/druid/internal/etcd/member"
)

// TestDeltasThatDifferFromNextFullAreReported has a watch lose a deletion, and a proof after the next full.
func TestDeltasThatDifferFromNextFullAreReported(t *testing.T) {
	t.Parallel()
	e, bucket := newEtcds(t, 1), memory()
	cfg := e.config(0, to(bucket))
	cfg.SurveyEvery = 20 * time.Millisecond
	local := cfg.Local
	cfg.Local = func(ctx context.Context) (Member, error) {
		m, err := local(ctx)
		return forgetful{m}, err
	}
	sc := run(t, cfg)
	if _, err := e.client.Put(t.Context(), "lost", "1"); err != nil {
		t.Fatal(err)
	}
	e.put(5)
	full(t, sc)
	// A transaction: without the only event of a revision the watch would have a gap.
	if _, err := e.client.Txn(t.Context()).Then(clientv3.OpPut("a", "1"), clientv3.OpDelete("lost")).Commit(); err != nil {
		t.Fatal(err)
	}
	reaches(t, bucket, e.put(5))
	full(t, sc)
	if _, err := sc.Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
	reported := func() []agentapi.Tampering {
		if s := sc.board.now().Snapshots; s != nil && s.Bucket != nil {
			return s.Bucket.Tampering
		}
		return nil
	}
	until(t, "the difference is reported", func() bool {
		return slices.ContainsFunc(reported(), func(f agentapi.Tampering) bool { return f.Code == string(verifier.HashMismatch) })
	})
	if o := operation(sc, "verify"); o.Status != agentapi.Success {
		t.Errorf("the newest chain is as etcd's data, and its proof is %+v", o)
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
