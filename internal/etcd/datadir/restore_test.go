package datadir

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"druid.internal/druid/internal/backup/snapshot"
	bolt "go.etcd.io/bbolt"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/google/go-cmp/cmp"
)

// rounds is how many random histories are tried: DATADIR_ROUNDS=100 for a long run.
func rounds(t *testing.T) int {
	if s := os.Getenv("DATADIR_ROUNDS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return 2
}

func boltCheck(t *testing.T, path string) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.View(func(tx *bolt.Tx) error {
		for err := range tx.Check() {
			t.Error("bolt's check:", err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func TestARestoredEtcdIsTheSourceAtTheTarget(t *testing.T) {
	for round := range rounds(t) {
		for _, compacted := range []bool{false, true} {
			t.Run(fmt.Sprintf("round %d compacted %v", round, compacted), func(t *testing.T) {
				seed := uint64(round*2 + 17)
				h := makeHistory(t, seed, 150, 300, compacted)
				rnd := rand.New(rand.NewPCG(seed, 2))
				target := h.baseRev + snapshot.Revision(rnd.IntN(int(h.last-h.baseRev)))
				inBase := max(h.compact, 1) + snapshot.Revision(rnd.IntN(int(h.baseRev-max(h.compact, 1))))
				for name, c := range map[string]struct {
					o    Options
					want snapshot.Revision
				}{
					"everything":                 {Options{}, h.last},
					"everything, spilled":        {Options{MemoryLimit: 16 << 10, unclamped: true}, h.last},
					"with history":               {Options{KeepHistory: true}, h.last},
					"with history, spilled":      {Options{KeepHistory: true, MemoryLimit: 16 << 10, unclamped: true}, h.last},
					"to a revision":              {Options{TargetRevision: target}, target},
					"to a revision with history": {Options{TargetRevision: target, KeepHistory: true}, target},
					"to a revision of the base":  {Options{TargetRevision: inBase}, inBase},
					"to a time":                  {Options{TargetTime: time.Unix(0, received(int64(target))+1)}, target},
					"compacted in between":       {Options{CompactAt: target}, h.last},
					"compacted, spilled":         {Options{CompactAt: target, MemoryLimit: 16 << 10, unclamped: true}, h.last},
				} {
					t.Run(name, func(t *testing.T) {
						dir := filepath.Join(t.TempDir(), "restored")
						r := mustRestore(t, h.source(rnd), c.o, dir)
						boltCheck(t, databasePath(dir))
						if r.Revision != c.want || !r.BaseHashKVChecked {
							t.Errorf("revision %d, want %d; HashKV of the base checked: %v", r.Revision, c.want, r.BaseHashKVChecked)
						}
						if r.AbsentDeletes+r.BaseIrregular > 0 {
							t.Errorf("a healthy history has %d absent deletes, %d irregularities", r.AbsentDeletes, r.BaseIrregular)
						}
						if spills := c.o.unclamped; spills && r.SpilledBytes == 0 {
							t.Error("nothing was spilled")
						}
						s := startEtcd(t, dir)
						if diff := cmp.Diff(stateAt(h.events, c.want), s.listing(t)); diff != "" {
							t.Errorf("state (-source +restored):\n%s", diff)
						}
						if got := s.revision(t); got != c.want {
							t.Errorf("etcd is at revision %d, want %d", got, c.want)
						}
						if got := s.hashKV(t, 0); got != r.HashKV {
							t.Errorf("etcd's HashKV %+v, reported %+v", got, r.HashKV)
						}
						if c.o.KeepHistory && c.want == h.last && r.HashKV != h.hash {
							t.Errorf("HashKV %+v, the source's was %+v", r.HashKV, h.hash)
						}
						// It goes on where the source was.
						p, err := s.c.Put(context.Background(), "new", "value")
						if err != nil || p.Header.Revision != int64(c.want)+1 {
							t.Errorf("put: %+v, %v", p, err)
						}
					})
				}
			})
		}
	}
}

// What we keep is, record for record, what etcd's own compaction leaves.
func TestSurvivorsAreThoseOfEtcdsOwnCompaction(t *testing.T) {
	h := makeHistory(t, 5, 150, 250, true)
	rnd := rand.New(rand.NewPCG(5, 2))
	deletes := snapshot.Revision(0)
	for _, r := range h.records {
		if r.Tombstone && r.Main > h.baseRev {
			deletes = r.Main
		}
	}
	for name, o := range map[string]Options{
		"at the last revision":             {},
		"at a deletion, the last revision": {TargetRevision: deletes},
		"at a deletion in between":         {CompactAt: deletes},
		"in the middle of the deltas":      {CompactAt: (h.baseRev + h.last) / 2},
		"in the base":                      {CompactAt: h.baseRev - 10},
		"below what the base has":          {CompactAt: 2},
	} {
		t.Run(name, func(t *testing.T) {
			whole, ours := filepath.Join(t.TempDir(), "whole"), filepath.Join(t.TempDir(), "ours")
			mustRestore(t, h.source(rnd), Options{KeepHistory: true, TargetRevision: o.TargetRevision}, whole)
			r := mustRestore(t, h.source(rnd), o, ours)
			s := startEtcd(t, whole)
			if r.CompactRevision > h.compact {
				if _, err := s.c.Compact(context.Background(), int64(r.CompactRevision), clientv3.WithCompactPhysical()); err != nil {
					t.Fatal(err)
				}
			}
			s.stop()
			if diff := cmp.Diff(keyRecords(t, databasePath(whole)), keyRecords(t, databasePath(ours))); diff != "" {
				t.Errorf("records (-etcd's compaction +ours):\n%s", diff)
			}
		})
	}
}

func TestTheEmptyStoreIsABaseToo(t *testing.T) {
	h := makeHistory(t, 9, 100, 100, false)
	src := Source{Deltas: []Delta{deltaOf("all", h.records)}}
	for name, o := range map[string]Options{"compacted": {}, "with history": {KeepHistory: true}} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "restored")
			r := mustRestore(t, src, o, dir)
			s := startEtcd(t, dir)
			if diff := cmp.Diff(h.listing, s.listing(t)); diff != "" {
				t.Errorf("state (-source +restored):\n%s", diff)
			}
			if o.KeepHistory && r.HashKV != h.hash {
				t.Errorf("HashKV %+v, want %+v", r.HashKV, h.hash)
			}
			if len(r.LeasesMade) == 0 {
				t.Error("no lease was made, though no source has any")
			}
		})
	}
}

func TestNothingAtAllRestoresToTheEmptyStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "restored")
	r := mustRestore(t, Source{}, Options{}, dir)
	s := startEtcd(t, dir)
	if r.Revision != 1 || r.CompactRevision != -1 || s.revision(t) != 1 {
		t.Errorf("revision %d compacted at %d, etcd is at %d", r.Revision, r.CompactRevision, s.revision(t))
	}
	if got := s.hashKV(t, 0); got != r.HashKV {
		t.Errorf("HashKV %+v, etcd's %+v", r.HashKV, got)
	}
}

// The last revision of a chain may be a deletion: without its record etcd would count from an
// earlier revision.
func TestADeletionAsTheLastRevisionKeepsTheRevision(t *testing.T) {
	s := startEtcd(t, filepath.Join(t.TempDir(), "source"))
	w := s.watch()
	ctx := context.Background()
	base := s.snapshot(t)
	for _, k := range []string{"a", "b"} {
		if _, err := s.c.Put(ctx, k, "v"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.c.Delete(ctx, "a", clientv3.WithRange("z")); err != nil {
		t.Fatal(err)
	}
	last := s.revision(t)
	records := recordsOf(t, collect(t, w, last), received)
	s.stop()
	dir := filepath.Join(t.TempDir(), "restored")
	r := mustRestore(t, Source{Base: reader(base), BaseName: "base", Deltas: []Delta{deltaOf("delta", records)}}, Options{}, dir)
	if r.Keys != 0 || r.RecordsWritten != 2 {
		t.Errorf("%d keys, %d records written, want none and the 2 tombstones", r.Keys, r.RecordsWritten)
	}
	again := startEtcd(t, dir)
	if got := again.revision(t); got != last {
		t.Errorf("etcd starts at revision %d, want %d", got, last)
	}
	if got := again.hashKV(t, 0); got != r.HashKV {
		t.Errorf("HashKV %+v, etcd's %+v", r.HashKV, got)
	}
}

func TestABumpedRestoreGoesOnFarAhead(t *testing.T) {
	h := makeHistory(t, 21, 100, 100, false)
	rnd := rand.New(rand.NewPCG(21, 2))
	for name, o := range map[string]Options{
		"compacted":    {BumpRevision: 1000},
		"with history": {BumpRevision: 1000, KeepHistory: true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "restored")
			r := mustRestore(t, h.source(rnd), o, dir)
			if r.Reached != h.last || r.Revision != h.last+1000 {
				t.Errorf("reached %d, bumped to %d, want %d and 1000 more", r.Reached, r.Revision, h.last)
			}
			s := startEtcd(t, dir)
			if got := s.revision(t); got != h.last+1000 {
				t.Errorf("etcd is at %d", got)
			}
			if diff := cmp.Diff(h.listing, s.listing(t)); diff != "" {
				t.Errorf("state (-source +restored):\n%s", diff)
			}
			if _, err := s.c.Get(context.Background(), "k", clientv3.WithRev(int64(h.last))); err == nil {
				t.Error("the revision before the bump can still be read")
			}
			if got := s.hashKV(t, 0); got != r.HashKV {
				t.Errorf("HashKV %+v, etcd's %+v", r.HashKV, got)
			}
			// A backup of the bumped cluster restores in turn, over the jump.
			w := s.c.Watch(context.Background(), "\x00", clientv3.WithFromKey(), clientv3.WithRev(int64(h.last)+1001))
			base := s.snapshot(t)
			workload(t, s.c, rnd, 50)
			last, want := s.revision(t), s.listing(t)
			var records = recordsOf(t, collectFrom(t, w, h.last+1000, last), received)
			s.stop()
			next := filepath.Join(t.TempDir(), "next")
			mustRestore(t, Source{Base: reader(base), BaseName: "base", Deltas: []Delta{deltaOf("delta", records)}}, Options{BumpRevision: 500}, next)
			s = startEtcd(t, next)
			if diff := cmp.Diff(want, s.listing(t)); diff != "" {
				t.Errorf("state after the second bump (-source +restored):\n%s", diff)
			}
			if got := s.revision(t); got != last+500 {
				t.Errorf("etcd is at %d, want %d", got, last+500)
			}
		})
	}
}
