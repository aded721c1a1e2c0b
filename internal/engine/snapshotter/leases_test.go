package snapshotter

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"druid.internal/druid/internal/backup/restoreplan"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/engine/compactor"
	"druid.internal/druid/internal/engine/replay"
	"druid.internal/druid/internal/etcd/member"
	"druid.internal/druid/internal/store"
)

func (e *etcd) grant(id clientv3.LeaseID, ttl int64) {
	e.t.Helper()
	w := writer{etcd: e, leases: map[int64]int64{}}
	if err := w.grantFor(id, ttl); err != nil {
		e.t.Error(err)
	}
}

func (e *etcd) revoke(id clientv3.LeaseID) {
	e.t.Helper()
	if _, err := e.client.Revoke(e.t.Context(), id); err != nil {
		e.t.Fatal(err)
	}
}

// attach puts a key with a lease and returns the revision.
func (e *etcd) attach(key string, id clientv3.LeaseID) snapshot.Revision {
	e.t.Helper()
	r, err := e.client.Put(e.t.Context(), key, "x", withLease(id))
	if err != nil {
		e.t.Error(err)
		return 0
	}
	return snapshot.Revision(r.Header.Revision)
}

func TestLeaseGrantedAgainComesBackAsItWas(t *testing.T) {
	eachFormat(t, func(t *testing.T, cfg func(*etcd, store.Store) Config) {
		for name, ttls := range map[string][2]int64{"for longer": {60, 86400}, "for less": {86400, 60}} {
			t.Run(name, func(t *testing.T) {
				e, s := newEtcd(t), memory()
				e.grant(7, ttls[0])
				before := e.attach("a", 7)
				r := start(t, cfg(e, s))
				r.full(false)
				middle := e.put(1)
				e.revoke(7)
				e.grant(7, ttls[1])
				e.attach("b", 7)
				r.delta()
				live := e.state(0)
				if result := wantLeases(t, live, s, restoreplan.Latest()); len(result.Restored.LeasesMade) > 0 || len(result.Restored.LeasesFound) != 1 {
					t.Errorf("made %x, found %x, want that 7 is found", result.Restored.LeasesMade, result.Restored.LeasesFound)
				}
				for _, rev := range []snapshot.Revision{before, middle} {
					earlier, _ := restored(t, s, restoreplan.AtRevision(rev))
					if got := earlier.state(0).Leases[7].Granted; got != ttls[0] {
						t.Errorf("at revision %d lease 7 has %d s, want %d", rev, got, ttls[0])
					}
					earlier.close()
				}
				if _, err := compactor.Compact(t.Context(), compactor.Request{
					From: replay.Options{Store: s, Timeline: read(t, s).Timeline}, Into: s, Prefix: prefix, ScratchDir: t.TempDir(), Now: time.Now,
				}); err != nil {
					t.Fatal(err)
				}
				wantLeases(t, live, s, restoreplan.Latest())
			})
		}
	})
}

func TestLeasesWithoutKeysComeBackAsTheyWere(t *testing.T) {
	eachFormat(t, func(t *testing.T, cfg func(*etcd, store.Store) Config) {
		e, s := newEtcd(t), memory()
		for id := range clientv3.LeaseID(5) {
			e.grant(id+1, 1000+int64(id))
		}
		r := start(t, cfg(e, s))
		r.full(false)
		e.revoke(1)
		e.revoke(2)
		e.grant(2, 86400)
		e.grant(-9, 500)
		e.put(1)
		r.delta()
		wantLeases(t, e.state(0), s, restoreplan.Latest())
		e.revoke(2)
		e.grant(2, 77)
		e.put(1)
		r.delta()
		wantLeases(t, e.state(0), s, restoreplan.Latest())
		r.stop()
		e.revoke(3) // while nobody looks
		e.revoke(4)
		e.grant(4, 99)
		e.grant(6, 66)
		e.put(1)
		r = start(t, cfg(e, s))
		r.delta()
		wantLeases(t, e.state(0), s, restoreplan.Latest())
	})
}

// deafMember answers no question about leases while deaf says so.
type deafMember struct {
	Member
	deaf *atomic.Bool
}

func (m deafMember) Leases(ctx context.Context) ([]int64, error) {
	if m.deaf.Load() {
		return nil, member.ErrUnreachable
	}
	return m.Member.Leases(ctx)
}

func (m deafMember) LeaseTTL(ctx context.Context, id int64) (granted, remaining int64, err error) {
	if m.deaf.Load() {
		<-ctx.Done()
		return 0, 0, ctx.Err()
	}
	return m.Member.LeaseTTL(ctx, id)
}

// TestLeaseThatEtcdDoesNotAnswerAboutIsNotShortened: keys that etcd had must not vanish because it was overloaded.
func TestLeaseThatEtcdDoesNotAnswerAboutIsNotShortened(t *testing.T) {
	eachFormat(t, func(t *testing.T, cfg func(*etcd, store.Store) Config) {
		e, s := newEtcd(t), memory()
		e.grant(7, 60)
		e.attach("a", 7)
		var deaf atomic.Bool
		c := cfg(e, s)
		c.Connect = func(ctx context.Context) (Member, error) {
			m, err := e.connect(ctx)
			return deafMember{m, &deaf}, err
		}
		r := start(t, c)
		r.full(false)
		deaf.Store(true)
		e.revoke(7)
		e.grant(7, 86400)
		e.attach("b", 7)
		e.grant(8, 7200)
		e.attach("c", 8)
		r.delta()
		e1, result := restored(t, s, restoreplan.Latest())
		for id := int64(7); id <= 8; id++ {
			if got := e1.state(0).Leases[id].Granted; got != snapshot.MaxLeaseTTL {
				t.Errorf("lease %x has %d s, want the longest", id, got)
			}
		}
		if made := result.Restored.LeasesMade; len(made) != 2 {
			t.Errorf("leases with a time to live that nothing tells: %x, want 7 and 8", made)
		}
		e1.close()
		deaf.Store(false)
		e.put(1)
		r.delta()
		wantLeases(t, e.state(0), s, restoreplan.Latest())
	})
}

// TestShortLeasesAreKnownInTheMiddleOfADelta: a delta may last minutes, and leases end before it does.
func TestShortLeasesAreKnownInTheMiddleOfADelta(t *testing.T) {
	eachFormat(t, func(t *testing.T, cfg func(*etcd, store.Store) Config) {
		e, s := newEtcd(t), memory()
		r := start(t, cfg(e, s))
		r.full(false)
		e.grant(7, 86400)
		used := e.attach("a", 7)
		learned := func() bool {
			l := r.current.leases
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.known[7] == 86400
		}
		for deadline := time.Now().Add(patience); !learned(); time.Sleep(2 * time.Millisecond) { // between two looks
			if time.Now().After(deadline) {
				t.Fatal("etcd was not asked while the delta grew")
			}
		}
		live := e.state(0)
		e.revoke(7)
		e.put(1)
		r.delta()
		wantLeases(t, live, s, restoreplan.AtRevision(used))
		wantLeases(t, e.state(0), s, restoreplan.Latest())
	})
}

func TestManyLeasesAreRecordedInSeveralManifests(t *testing.T) {
	eachFormat(t, func(t *testing.T, cfg func(*etcd, store.Store) Config) {
		e, s := newEtcd(t), memory()
		r := start(t, cfg(e, s))
		r.full(false)
		const n = 3 * leaseBatch
		var g errgroup.Group
		g.SetLimit(32)
		for i := range n {
			g.Go(func() error {
				id := clientv3.LeaseID((uint64(i) + 1) * 0x9e3779b97f4a7c15) // as far from each other as they can be
				e.grant(id, 86400+int64(i))
				e.attach(fmt.Sprint("key/", i), id)
				return nil
			})
		}
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
		r.delta()
		l, chain, _ := newest(read(t, s))
		if len(chain.Deltas) < 3 {
			t.Errorf("%d deltas, want some more", len(chain.Deltas))
		}
		for _, d := range l.Snapshots {
			if records := deltaLeases(t, s, d); !d.Full() && len((snapshot.Manifest{Leases: records}).Encode()) > leaseBytes+1000 {
				t.Errorf("%s has more records than fit", d.Name())
			}
		}
		if result := wantLeases(t, e.state(0), s, restoreplan.Latest()); len(result.Restored.LeasesMade) > 0 {
			t.Errorf("nothing tells of %d leases", len(result.Restored.LeasesMade))
		}
	})
}

func TestEventsAreCutByTheirLeases(t *testing.T) {
	var events []*mvccpb.Event
	for i := range 10 * leaseBatch {
		events = append(events, &mvccpb.Event{Kv: &mvccpb.KeyValue{Key: []byte("k"), ModRevision: int64(i + 2), Lease: int64(i + 1)}})
	}
	n := 0
	for _, piece := range pieces(events, 1<<30) {
		if n += len(piece); len(piece) > leaseBatch/4 {
			t.Errorf("a piece of %d events with a lease, want %d at most", len(piece), leaseBatch/4)
		}
	}
	if n != len(events) {
		t.Errorf("%d events of %d", n, len(events))
	}
}

// busyMember fails half of the questions.
type busyMember struct {
	Member
	asked *atomic.Int64
}

func (m busyMember) LeaseTTL(ctx context.Context, id int64) (granted, remaining int64, err error) {
	if m.asked.Add(1)%2 == 0 {
		return 0, 0, errors.New("too many requests")
	}
	return m.Member.LeaseTTL(ctx, id)
}

func TestAnswersBeforeAnErrorCount(t *testing.T) {
	e := newEtcd(t)
	e.grant(1, 1000)
	e.grant(2, 2000)
	m, err := e.connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l := newLeases()
	l.pending = map[int64]struct{}{1: {}, 2: {}}
	busy := busyMember{m, &atomic.Int64{}}
	for tries := 0; l.waits(); tries++ {
		if err := l.ask(t.Context(), busy, []int64{1, 2}); err == nil && l.waits() {
			t.Fatal("no error, and not all answers")
		}
		if tries > 100 {
			t.Fatal("the answers before an error are lost")
		}
	}
	if l.known[1] != 1000 || l.known[2] != 2000 {
		t.Errorf("known %v, want 1000 s and 2000 s", l.known)
	}
}
