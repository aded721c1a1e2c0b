package member

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/hosttest"
)

func put(t *testing.T, c *clientv3.Client, key, value string) snapshot.Revision {
	t.Helper()
	r, err := c.Put(t.Context(), key, value)
	if err != nil {
		t.Fatal(err)
	}
	return snapshot.Revision(r.Header.Revision)
}

// versioned waits until the database has a storage version: a new etcd learns it, and raises it, a moment after it started.
func versioned(t *testing.T, m *Member) Status {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		st, err := m.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(st.StorageVersion, "3.6") {
			return st
		}
		if time.Now().After(deadline) {
			t.Fatalf("a minute after its start the storage version of etcd is %q, want 3.6", st.StorageVersion)
		}
	}
}

func TestAMemberTellsWhoAndWhereItIs(t *testing.T) {
	t.Parallel()
	e := startEtcd(t, nil)
	m, c := connect(t, e)
	want := put(t, c, "a", "1")
	rev, err := m.Revision(t.Context())
	if err != nil || rev != want {
		t.Fatalf("revision %d (%v), want %d", rev, err, want)
	}
	st := versioned(t, m)
	if st.MemberID != uint64(e.Server.MemberID()) || st.Leader != st.MemberID || st.ClusterID == 0 || st.Learner ||
		st.Revision != want || st.DBSize == 0 || st.Version != "3.6.16" {
		t.Fatalf("status %+v", st)
	}
	lease, err := c.Grant(t.Context(), 300)
	if err != nil {
		t.Fatal(err)
	}
	if granted, left, err := m.LeaseTTL(t.Context(), int64(lease.ID)); err != nil || granted != 300 || left < 1 {
		t.Fatalf("lease granted %d, remaining %d (%v), want 300 granted", granted, left, err)
	}
	if granted, left, err := m.LeaseTTL(t.Context(), 4711); err != nil || granted != 0 || left != -1 {
		t.Fatalf("a lease nobody granted: granted %d, remaining %d (%v), want 0 and -1", granted, left, err)
	}
}

func TestHashKVNamesTheRevisionItIsAbout(t *testing.T) {
	t.Parallel()
	m, c := connect(t, startEtcd(t, nil))
	first := put(t, c, "a", "1")
	last := put(t, c, "a", "2")
	now, err := m.HashKV(t.Context(), 0)
	if err != nil || now.Revision != last {
		t.Fatalf("the newest hash: %+v (%v), want revision %d", now, err, last)
	}
	same, err := m.HashKV(t.Context(), last)
	if err != nil || same != now {
		t.Fatalf("hash at %d: %+v (%v), want %+v", last, same, err, now)
	}
	earlier, err := m.HashKV(t.Context(), first)
	if err != nil || earlier.Revision != first || earlier.Hash == now.Hash {
		t.Fatalf("hash at %d: %+v (%v), want another one than %+v", first, earlier, err, now)
	}
	if _, err := m.HashKV(t.Context(), last+5); !errors.Is(err, ErrFutureRev) {
		t.Fatalf("a hash of the future: %v, want ErrFutureRev", err)
	}
	if _, err := c.Compact(t.Context(), int64(last)); err != nil {
		t.Fatal(err)
	}
	if _, err := m.HashKV(t.Context(), first); !errors.Is(err, ErrCompacted) {
		t.Fatalf("a hash of the past: %v, want ErrCompacted", err)
	}
}

func TestTheSnapshotStreamEndsWithItsDigest(t *testing.T) {
	t.Parallel()
	m, c := connect(t, startEtcd(t, nil))
	put(t, c, "a", strings.Repeat("x", 1<<20))
	versioned(t, m)
	body, version, err := m.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	all, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	content, trailer := all[:len(all)-sha256.Size], all[len(all)-sha256.Size:]
	if sum := sha256.Sum256(content); string(sum[:]) != string(trailer) || !strings.HasPrefix(version, "3.6") {
		t.Fatalf("%d bytes, storage version %q: want a database, its digest and 3.6", len(all), version)
	}
	ctx, cancel := context.WithCancel(t.Context())
	body, _, err = m.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := io.Copy(io.Discard, body); !errors.Is(err, context.Canceled) {
		t.Fatalf("a cancelled stream: %v, want context.Canceled and no clean end", err)
	}
	body.Close()
}

// collect watches from a revision until it has seen upto, and returns every event.
func collect(t *testing.T, m *Member, from, upto snapshot.Revision) ([]*mvccpb.Event, int) {
	t.Helper()
	enough := errors.New("enough")
	var events []*mvccpb.Event
	batches := 0
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := m.WatchAll(ctx, from, WatchPace{}, func(b Batch) error {
		if len(b.Events) > 0 {
			batches++
		}
		events = append(events, b.Events...)
		if len(events) > 0 && snapshot.Revision(events[len(events)-1].Kv.ModRevision) >= upto {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) {
		t.Fatal(err)
	}
	return events, batches
}

func TestAWatchTellsEveryEventOfEveryRevisionInOrder(t *testing.T) {
	t.Parallel()
	m, c := connect(t, startEtcd(t, func(cfg *embed.Config) {
		cfg.MaxTxnOps, cfg.MaxRequestBytes = 12000, 2<<20
	}))
	last := put(t, c, "seed", "1")
	type want struct {
		rev snapshot.Revision
		n   int
	}
	var wants []want
	add := func(n int, ops ...clientv3.Op) {
		r, err := c.Txn(t.Context()).Then(ops...).Commit()
		if err != nil {
			t.Fatal(err)
		}
		last = snapshot.Revision(r.Header.Revision)
		wants = append(wants, want{last, n})
	}
	many := func(prefix string, n, size int) {
		ops := make([]clientv3.Op, n)
		for i := range ops {
			ops[i] = clientv3.OpPut(fmt.Sprintf("%s/%05d", prefix, i), strings.Repeat("v", size))
		}
		add(n, ops...)
	}
	for round := range 3 { // together more than one answer may hold
		many(fmt.Sprintf("large/%d", round), 1500, 1200)
	}
	many("small", 10001, 20)
	add(10001, clientv3.OpDelete("small/", clientv3.WithPrefix()))
	add(1, clientv3.OpPut("end", "1"))

	events, batches := collect(t, m, wants[0].rev, last)
	if batches < 2 {
		t.Fatalf("everything came in %d batch; the test wants fragments", batches)
	}
	for _, w := range wants {
		n := 0
		for n < len(events) && snapshot.Revision(events[n].Kv.ModRevision) == w.rev {
			n++
		}
		if n != w.n {
			t.Fatalf("revision %d has %d events, want %d", w.rev, n, w.n)
		}
		events = events[n:]
	}
	if len(events) != 0 {
		t.Fatalf("%d events too many", len(events))
	}
}

func TestAnEventLargerThanTenMegabytesArrives(t *testing.T) {
	t.Parallel()
	m, c := connect(t, startEtcd(t, func(cfg *embed.Config) { cfg.MaxRequestBytes = 64 << 20 }))
	big, err := clientv3.New(clientv3.Config{Endpoints: c.Endpoints(), MaxCallSendMsgSize: 32 << 20, MaxCallRecvMsgSize: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer big.Close()
	rev := put(t, big, "big", strings.Repeat("x", 20<<20))
	events, _ := collect(t, m, rev, rev)
	if len(events) != 1 || len(events[0].Kv.Value) != 20<<20 {
		t.Fatalf("%d events", len(events))
	}
}

func TestACompactedWatchSaysSo(t *testing.T) {
	t.Parallel()
	m, c := connect(t, startEtcd(t, nil))
	first := put(t, c, "a", "1")
	var last snapshot.Revision
	for range 10 {
		last = put(t, c, "a", "2")
	}
	if _, err := c.Compact(t.Context(), int64(last)); err != nil {
		t.Fatal(err)
	}
	err := m.WatchAll(t.Context(), first, WatchPace{}, func(b Batch) error {
		if len(b.Events) > 0 {
			return fmt.Errorf("got %d events", len(b.Events))
		}
		return nil
	})
	var gone *CompactedError
	if !errors.As(err, &gone) || !errors.Is(err, ErrCompacted) || gone.From != first || gone.Compacted != last {
		t.Fatalf("%v, want a CompactedError from %d at %d", err, first, last)
	}
}

func TestWatchFromCompactedRevisionFails(t *testing.T) {
	t.Parallel()
	m, c := connect(t, startEtcd(t, nil))
	put(t, c, "b", "1")
	r, err := c.Txn(t.Context()).Then(clientv3.OpPut("a", "1"), clientv3.OpDelete("b")).Commit()
	if err != nil {
		t.Fatal(err)
	}
	compacted := snapshot.Revision(r.Header.Revision)
	if _, err := c.Compact(t.Context(), int64(compacted)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"nothing follows", "a put follows"} {
		if name == "a put follows" {
			put(t, c, "a", "2")
		}
		err := m.WatchAll(t.Context(), compacted, WatchPace{}, func(b Batch) error {
			if len(b.Events) > 0 {
				return fmt.Errorf("got %d events", len(b.Events))
			}
			return nil
		})
		var gone *CompactedError
		if !errors.As(err, &gone) || gone.From != compacted || gone.Compacted != compacted {
			t.Errorf("%s: %v, want a CompactedError from %d at %d", name, err, compacted, compacted)
		}
	}
	if events, _ := collect(t, m, compacted+1, compacted+1); len(events) != 1 {
		t.Errorf("a watch behind the compacted revision has %d events, want 1", len(events))
	}
}

func TestWatchSurvivesCompactionOfItsPast(t *testing.T) {
	t.Parallel()
	m, c := connect(t, startEtcd(t, nil))
	first := put(t, c, "a", "1") + 1
	enough := errors.New("enough")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	const rounds = 5
	next := first
	err := m.WatchAll(ctx, first, WatchPace{}, func(b Batch) error {
		if len(b.Events) > 0 {
			if next += snapshot.Revision(len(b.Events)); next == first+rounds {
				return enough
			}
		}
		rev, err := c.Put(ctx, "a", "2")
		if err == nil {
			_, err = c.Compact(ctx, rev.Header.Revision) // before the watch hands the event over
		}
		return err
	})
	if !errors.Is(err, enough) {
		t.Fatal(err)
	}
}

func TestAQuietClusterStillGivesSignsOfLife(t *testing.T) {
	t.Parallel()
	m, c := connect(t, startEtcd(t, nil))
	last := put(t, c, "a", "1")
	enough := errors.New("enough")
	signs := 0
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := m.WatchAll(ctx, last+1, WatchPace{Ask: time.Millisecond}, func(b Batch) error {
		if b.Known != last || len(b.Events) != 0 {
			return fmt.Errorf("batch %+v, want only the known revision %d", b, last)
		}
		if signs++; signs == 3 {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) {
		t.Fatal(err)
	}
}

func TestAWatchEndsWhenItsMemberDoes(t *testing.T) {
	t.Parallel()
	e := startEtcd(t, nil)
	m, c := connect(t, e)
	put(t, c, "a", "1")
	seen := make(chan struct{}, 1)
	ended := make(chan error, 1)
	go func() {
		ended <- m.WatchAll(t.Context(), 1, WatchPace{}, func(b Batch) error {
			if len(b.Events) > 0 {
				seen <- struct{}{}
			}
			return nil
		})
	}()
	<-seen
	e.Close()
	if err := <-ended; err == nil {
		t.Fatal("a watch without its member ended well")
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := m.WatchAll(cancelled, 1, WatchPace{}, func(Batch) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Fatalf("%v, want context.Canceled", err)
	}
}

func TestAWatchEndsWhenItsClusterIsClosed(t *testing.T) {
	t.Parallel()
	e := startEtcd(t, nil)
	c, err := New(Config{Endpoints: []string{"http://" + address(e)}, InsecureTransport: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	m, err := c.Member(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	opened := make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		ended <- m.WatchAll(t.Context(), 2, WatchPace{}, func(Batch) error { close(opened); return nil })
	}()
	<-opened
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil {
		t.Error("a watch of a closed cluster ended well")
	}
	if err := m.WatchAll(t.Context(), 2, WatchPace{}, func(Batch) error { return nil }); err == nil {
		t.Error("a watch was opened in a closed cluster")
	}
}

func TestTheFirstMemberThatAnswersIsChosen(t *testing.T) {
	t.Parallel()
	e := startEtcd(t, nil)
	gone := hosttest.Nobody()
	c, err := New(Config{Endpoints: []string{"http://" + gone, "http://" + address(e)}, InsecureTransport: true, DialTimeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	m, err := c.Member(t.Context())
	if err != nil || m.Endpoint() != "http://"+address(e) {
		t.Fatalf("%v, want the member at %s", err, address(e))
	}
	only, err := New(Config{Endpoints: []string{"http://" + gone}, InsecureTransport: true, DialTimeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer only.Close()
	if _, err := only.Member(t.Context()); err == nil || !strings.Contains(err.Error(), gone) {
		t.Fatalf("%v, want an error that names %s", err, gone)
	}
}
