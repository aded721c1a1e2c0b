package snapshotter

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/engine/catalog"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/storetest"
)

// noise puts more into etcd than is kept in memory, however it is packed.
func (e *etcd) noise() {
	e.t.Helper()
	noise := make([]byte, 1<<20)
	source := rand.NewChaCha8([32]byte{})
	for i := range 12 {
		_, _ = source.Read(noise)
		if _, err := e.client.Put(e.t.Context(), fmt.Sprint("noise", i), string(noise)); err != nil {
			e.t.Fatal(err)
		}
	}
}

// TestWhatFindsNoRoomIsAnnouncedAndUploadedInSmallDeltas has no room for what is buffered: the
// directory for it does not exist. Whether or not that is made good, every event is fetched again
// and uploaded in deltas that fit into memory, and no full is taken for it.
func TestWhatFindsNoRoomIsAnnouncedAndUploadedInSmallDeltas(t *testing.T) {
	t.Parallel()
	for name, repaired := range map[string]bool{"for a while": true, "for good": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, s := newEtcd(t), memory()
			e.put(5)
			cfg := config(e, s)
			r := start(t, cfg)
			first := r.full(false)
			if err := r.stop(); err != nil {
				t.Fatal(err)
			}
			e.noise()
			cfg.SpillDir = filepath.Join(t.TempDir(), "missing")
			cfg.DeltaLimit, cfg.DeltaPeriod = 100<<20, time.Hour
			cfg.OnEvent = func(ev Event) {
				if repaired && ev.Code == BufferDropped {
					if err := os.MkdirAll(cfg.SpillDir, 0o700); err != nil {
						t.Error(err)
					}
				}
			}
			r = start(t, cfg)
			end := e.put(10)
			until(t, s, "deltas of the noise", func(c *catalog.Catalog) bool {
				_, chain, ok := newest(c)
				if ok && chain.End < end {
					_, _ = r.TakeDelta(t.Context()) // fails while there is no room
				}
				return ok && chain.End >= end
			})
			if err := r.stop(); err != nil {
				t.Fatal(err)
			}
			if chain := wantRestorable(t, e, s, end); chain.Base.Key != first.Key || len(chain.Deltas) < 3 {
				t.Errorf("%v: want at least 3 deltas behind %s and no other full", names(read(t, s)), first.Key.Name)
			}
			if !r.events.has(BufferDropped) || r.events.has(HistoryLost) {
				t.Errorf("told: %+v", r.events.all)
			}
			l, _, _ := newest(read(t, s))
			for _, ev := range r.events.all {
				if ev.Code == BufferDropped && (ev.Revision != first.Manifest.LastRevision+1 || !strings.Contains(ev.Text, "missing")) {
					t.Errorf("%+v does not say what was dropped, from revision %d on, and why", ev, first.Manifest.LastRevision+1)
				}
			}
			if got := len(l.Windows()); got != 1 {
				t.Errorf("there are %d windows: %+v", got, l.Windows())
			}
		})
	}
}

// TestFullsForWantOfRoomKeepADistance writes revisions that fit neither into memory nor onto the
// disk. The first one has a full taken at once, the second one only when the clock says so, and
// that is told before.
func TestFullsForWantOfRoomKeepADistance(t *testing.T) {
	t.Parallel()
	const revisionSize = 12 << 20
	server := embed.NewConfig()
	server.Dir, server.MaxRequestBytes = filepath.Join(t.TempDir(), "data"), 2*revisionSize
	e, s := runEtcd(t, server), memory()
	client, err := clientv3.New(clientv3.Config{Endpoints: e.client.Endpoints(), DialTimeout: patience, MaxCallSendMsgSize: 2 * revisionSize})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	source, value := rand.NewChaCha8([32]byte{}), make([]byte, revisionSize)
	big := func() snapshot.Revision {
		t.Helper()
		_, _ = source.Read(value)
		r, err := client.Put(t.Context(), "big", string(value))
		if err != nil {
			t.Fatal(err)
		}
		return snapshot.Revision(r.Header.Revision)
	}
	var seconds atomic.Int64
	seconds.Store(1_800_000_000)
	lost, delayed := make(chan Event, 10), make(chan Event, 10)
	cfg := config(e, s)
	cfg.Now = func() time.Time { return time.Unix(seconds.Load(), 0) }
	cfg.SpillDir = filepath.Join(t.TempDir(), "missing")
	cfg.OnEvent = func(ev Event) {
		switch {
		case ev.Code == HistoryLost:
			lost <- ev
		case ev.Code == BufferDropped && strings.Contains(ev.Text, "tried again"):
			delayed <- ev
		}
	}
	r := start(t, cfg)
	first := r.full(false)
	wait := func(what string, from <-chan Event) Event {
		t.Helper()
		select {
		case ev := <-from:
			return ev
		case <-time.After(patience):
			t.Fatalf("nothing was %s: %+v", what, r.events.all)
			panic("unreachable")
		}
	}
	rev := big()
	if ev := wait("lost", lost); ev.Revision != rev {
		t.Errorf("%+v, want revision %d", ev, rev)
	}
	count := fulls(read(t, s))
	if count < 2 {
		t.Errorf("%d fulls after %s, want one that makes up for it", count, first.Key.Name)
	}
	rev = big()
	ev := wait("delayed", delayed)
	if ev.Revision != rev || !strings.Contains(ev.Text, "make room") || !strings.Contains(ev.Text, "missing") {
		t.Errorf("%+v does not say what waits, from revision %d on, why and the remedy", ev, rev)
	}
	if n := fulls(read(t, s)); n != count {
		t.Errorf("%d fulls while the clock stands still, want %d", n, count)
	}
	seconds.Add(3600)
	if ev := wait("lost", lost); ev.Revision != rev {
		t.Errorf("%+v, want revision %d", ev, rev)
	}
	if n := fulls(read(t, s)); n != count+1 {
		t.Errorf("%d fulls an hour later, want %d", n, count+1)
	}
	end := e.put(10)
	r.delta()
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	wantRestorable(t, e, s, end)
}

// TestTheDistanceBetweenFullsForWantOfRoomGrowsUpToThePeriod and begins anew after a quiet time.
func TestTheDistanceBetweenFullsForWantOfRoomGrowsUpToThePeriod(t *testing.T) {
	t.Parallel()
	var r roomless
	now, retry := time.Unix(1_800_000_000, 0), Backoff{}.complete()
	take := func() time.Duration {
		delay := r.note(now, retry, time.Hour)
		r.next = now.Add(delay)
		now = r.next
		return delay
	}
	want := []time.Duration{128, 256, 512, 1024, 2048, 3600, 3600}
	for i := range want {
		if got := take(); got != want[i]*time.Second {
			t.Errorf("after full %d none is taken for %s, want %s", i+1, got, want[i]*time.Second)
		}
	}
	now = now.Add(2 * time.Hour)
	if got := take(); got != want[0]*time.Second {
		t.Errorf("after a quiet time none is taken for %s, want %s", got, want[0]*time.Second)
	}
}

// TestWhatIsNotUploadedInTheEndIsAnnounced stops while the store does not answer.
func TestWhatIsNotUploadedInTheEndIsAnnounced(t *testing.T) {
	t.Parallel()
	e := newEtcd(t)
	f := storetest.NewFaulty(memory())
	cfg := config(e, f)
	cfg.Grace = time.Millisecond
	r := start(t, cfg)
	r.full(false)
	f.Inject(storetest.Fail(store.ErrUnreachable).On(storetest.OpPut, "/Incr-").Always())
	last := e.put(10)
	current, err := r.session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := current.buffer.drained(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if !r.events.has(BufferDropped) {
		t.Errorf("told: %+v", r.events.all)
	}
}
