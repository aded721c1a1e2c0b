package datadir

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/etcd/codec"
)

// workload does n random requests: puts with and without leases, transactions that put and
// delete, deletions of ranges, revoked leases.
func workload(t testing.TB, c *clientv3.Client, rnd *rand.Rand, n int) {
	t.Helper()
	ctx := context.Background()
	var leases []clientv3.LeaseID
	key := func() string { return fmt.Sprintf("/registry/%c/%02d", 'a'+rune(rnd.IntN(3)), rnd.IntN(40)) }
	value := func() string { return strings.Repeat(string('a'+rune(rnd.IntN(26))), rnd.IntN(300)) }
	put := func(k string) clientv3.Op {
		if len(leases) > 0 && rnd.IntN(4) == 0 {
			return clientv3.OpPut(k, value(), clientv3.WithLease(leases[rnd.IntN(len(leases))]))
		}
		return clientv3.OpPut(k, value())
	}
	for range n {
		var err error
		switch p := rnd.IntN(100); {
		case p < 3:
			var l *clientv3.LeaseGrantResponse
			if l, err = c.Grant(ctx, 3600+int64(rnd.IntN(1000))); err == nil {
				leases = append(leases, l.ID)
			}
		case p < 4 && len(leases) > 0:
			i := rnd.IntN(len(leases))
			_, err = c.Revoke(ctx, leases[i])
			leases = append(leases[:i], leases[i+1:]...)
		case p < 7:
			_, err = c.Delete(ctx, fmt.Sprintf("/registry/%c/%d", 'a'+rune(rnd.IntN(3)), rnd.IntN(4)), clientv3.WithPrefix())
		case p < 15:
			_, err = c.Delete(ctx, key())
		case p < 40:
			var ops []clientv3.Op
			used := map[string]bool{}
			for range 1 + rnd.IntN(10) {
				k := key()
				if used[k] {
					continue
				}
				used[k] = true
				if rnd.IntN(3) == 0 {
					ops = append(ops, clientv3.OpDelete(k))
				} else {
					ops = append(ops, put(k))
				}
			}
			_, err = c.Txn(ctx).Then(ops...).Commit()
		default:
			_, err = c.Do(ctx, put(key()))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// history is what the tests restore from: a real etcd's snapshot and events.
type history struct {
	base     []byte // taken somewhere in the middle
	baseHash snapshot.HashKV
	baseRev  snapshot.Revision
	compact  snapshot.Revision // before the base was taken
	events   []*mvccpb.Event   // from revision 2 on
	records  []codec.Record
	last     snapshot.Revision
	listing  string
	hash     snapshot.HashKV
}

// received is the receive time of a revision in all test histories.
func received(rev int64) int64 {
	return time.Unix(1_700_000_000, 0).UnixNano() + rev*int64(time.Second)
}

func makeHistory(t testing.TB, seed uint64, before, after int, compact bool) *history {
	t.Helper()
	rnd := rand.New(rand.NewPCG(seed, 1))
	s := startEtcd(t, filepath.Join(t.TempDir(), "source"))
	w := s.watch()
	h := &history{compact: -1}
	workload(t, s.c, rnd, before/2)
	if compact {
		h.compact = s.revision(t)
		// Read everything first: a compaction cancels a watch that is behind.
		h.events = collect(t, w, h.compact)
		if _, err := s.c.Compact(context.Background(), int64(h.compact), clientv3.WithCompactPhysical()); err != nil {
			t.Fatal(err)
		}
	}
	workload(t, s.c, rnd, before-before/2)
	h.base, h.baseRev = s.snapshot(t), s.revision(t)
	h.baseHash = s.hashKV(t, h.baseRev)
	workload(t, s.c, rnd, after)
	h.last, h.listing = s.revision(t), s.listing(t)
	h.hash = s.hashKV(t, h.last)
	already := snapshot.Revision(1)
	if n := len(h.events); n > 0 {
		already = snapshot.Revision(h.events[n-1].Kv.ModRevision)
	}
	h.events = append(h.events, collectFrom(t, w, already, h.last)...)
	s.stop()
	h.records = recordsOf(t, h.events, received)
	if got := stateAt(h.events, h.last); got != h.listing {
		t.Fatalf("the watch tells another state than the listing:\n%s\nlisting:\n%s", got, h.listing)
	}
	return h
}

// source cuts the history behind the base into deltas that overlap the base and each other.
func (h *history) source(rnd *rand.Rand) Source {
	src := Source{Base: bytes.NewReader(h.base), BaseName: "base", BaseHashKV: &h.baseHash}
	at := h.baseRev
	for at < h.last {
		first := at + 1 - snapshot.Revision(rnd.IntN(30))
		if at == h.baseRev && rnd.IntN(2) == 0 {
			first = at + 1
		}
		first = max(first, 2, h.compact+1)
		last := min(h.last, at+1+snapshot.Revision(rnd.IntN(100)))
		src.Deltas = append(src.Deltas, deltaOf(fmt.Sprintf("delta-%d-%d", first, last), between(h.records, first, last)))
		at = last
	}
	return src
}
