package snapshotter

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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

// TestWhatFindsNoRoomIsAnnouncedAndAFullContinuesTheChain has no room for what is buffered: the
// directory for it does not exist. Where that is made good the events are fetched again, and
// none is missing; where it is not, a full makes up for them, and that is said.
func TestWhatFindsNoRoomIsAnnouncedAndAFullContinuesTheChain(t *testing.T) {
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
			end := e.revision()
			until(t, s, "a full after the noise", func(c *catalog.Catalog) bool {
				_, chain, ok := newest(c)
				return ok && chain.End >= end && chain.Base.Key != first.Key && (repaired || r.events.has(HistoryLost))
			})
			end = e.put(10)
			r.delta()
			if err := r.stop(); err != nil {
				t.Fatal(err)
			}
			wantRestorable(t, e, s, end)
			if !r.events.has(BufferDropped) || r.events.has(HistoryLost) == repaired {
				t.Errorf("told: %+v", r.events.all)
			}
			l, _, _ := newest(read(t, s))
			for _, ev := range r.events.all {
				if ev.Code == BufferDropped && (ev.Revision != first.Manifest.LastRevision+1 || !strings.Contains(ev.Text, "missing")) {
					t.Errorf("%+v does not say what was dropped, from revision %d on, and why", ev, first.Manifest.LastRevision+1)
				}
			}
			if got := len(l.Windows()); repaired && got != 1 || !repaired && got != 2 {
				t.Errorf("there are %d windows: %+v", got, l.Windows())
			}
		})
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
