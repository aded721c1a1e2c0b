package verifier

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"druid.internal/druid/internal/backup/retention"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/engine/catalog"
	"druid.internal/druid/internal/engine/enginetest"
	"druid.internal/druid/internal/engine/replay"
	"druid.internal/druid/internal/etcd/datadir"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/storetest"
)

func verify(t *testing.T, s store.Store, all bool) (*Report, error) {
	t.Helper()
	c, err := catalog.Read(context.Background(), s, enginetest.Prefix, catalog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	scratch := t.TempDir()
	report, err := Verify(context.Background(), Request{
		From: replay.Options{Store: s, Timeline: c.Timeline, Log: slog.New(slog.DiscardHandler)},
		All:  all, ScratchDir: scratch, MemoryLimit: datadir.MinMemoryLimit,
	})
	if left, _ := os.ReadDir(scratch); len(left) > 0 {
		t.Errorf("%d things were left in the scratch directory", len(left))
	}
	return report, err
}

func TestAWholeChainIsProvenWithoutEtcd(t *testing.T) {
	for name, bucket := range map[string]func(*testing.T) *storetest.Memory{"of the original": enginetest.Original, "native": enginetest.Native} {
		t.Run(name, func(t *testing.T) {
			r, err := verify(t, bucket(t), false)
			if err != nil || !r.OK || len(r.Chains) != 1 {
				t.Fatalf("%+v, %v", r, err)
			}
			if c := r.Chains[0]; !c.OK || c.End != 871 || c.Keys != 252 || c.Deltas != 2 {
				t.Errorf("got %+v", c)
			}
		})
	}
}

func TestADamagedChainIsBrokenAndSaysWhich(t *testing.T) {
	s := enginetest.Native(t)
	s.Flip(store.Version{Key: enginetest.Key(enginetest.Delta856), ID: s.Versions(enginetest.Key(enginetest.Delta856))[0].ID}, -40)
	r, err := verify(t, s, true)
	if !errors.Is(err, ErrBroken) || r.OK || len(r.Chains) != 1 || r.Chains[0].OK {
		t.Fatalf("%+v, %v", r, err)
	}
	if !strings.Contains(r.Chains[0].Reason, enginetest.Delta856.String()) {
		t.Errorf("the reason does not name the delta: %s", r.Chains[0].Reason)
	}
}

func TestAnOutageProvesNothing(t *testing.T) {
	f := storetest.NewFaulty(enginetest.Native(t))
	c, err := catalog.Read(context.Background(), f, enginetest.Prefix, catalog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	f.Inject(storetest.Fail(store.ErrUnreachable).On(storetest.OpOpen, "Incr-").Always())
	r, err := Verify(context.Background(), Request{From: replay.Options{Store: f, Timeline: c.Timeline, Log: slog.New(slog.DiscardHandler)}, ScratchDir: t.TempDir()})
	if !errors.Is(err, store.ErrUnreachable) {
		t.Errorf("got %+v, %v", r, err)
	}
}

func TestNothingToVerifyIsAnError(t *testing.T) {
	for _, all := range []bool{false, true} {
		if r, err := verify(t, storetest.NewMemory(storetest.S3Like()), all); err == nil {
			t.Errorf("all %v: an empty bucket passed: %+v", all, r)
		}
	}
}

// newest proves the newest chain of the unnamed lineage, or of the one given.
func newest(t *testing.T, s store.Store) (retention.Proof, []replay.Damage, error) {
	t.Helper()
	c, err := catalog.Read(t.Context(), s, enginetest.Prefix, catalog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return Newest(t.Context(), Request{
		From:       replay.Options{Store: s, Timeline: c.Timeline, Lineage: &c.Timeline.Lineages[0].ID, Log: slog.New(slog.DiscardHandler)},
		ScratchDir: t.TempDir(), MemoryLimit: datadir.MinMemoryLimit,
	})
}

func TestNewestProvesTheNewestRestorableChain(t *testing.T) {
	flip := func(s *storetest.Memory, n snapshot.Name) {
		s.Flip(store.Version{Key: enginetest.Key(n), ID: s.Versions(enginetest.Key(n))[0].ID}, -40)
	}
	// forge stores content as a full of the same lineage that claims to be the newest.
	forge := func(t *testing.T, s *storetest.Memory, content []byte) {
		n := enginetest.Full204
		n.Last, n.Created = 2000, n.Created+3600
		enginetest.Put(t, s, enginetest.Key(n), content)
		m := snapshot.Manifest{Version: 1, Snapshot: n.String(), Lineage: enginetest.History, Digest: sha256.Sum256(content), Size: int64(len(content)), LastRevision: n.Last}
		enginetest.Put(t, s, snapshot.SnapshotKey(enginetest.Prefix, n).Manifest().String(), m.Encode())
	}
	for name, c := range map[string]struct {
		damage  func(t *testing.T, s *storetest.Memory)
		end     snapshot.Revision
		deltas  int
		damaged int
		broken  bool
	}{
		"whole":                               {func(*testing.T, *storetest.Memory) {}, 871, 2, 0, false},
		"the last delta":                      {func(_ *testing.T, s *storetest.Memory) { flip(s, enginetest.Delta871) }, 856, 1, 1, false},
		"the first delta":                     {func(_ *testing.T, s *storetest.Memory) { flip(s, enginetest.Delta856) }, 204, 0, 1, false},
		"every full":                          {func(_ *testing.T, s *storetest.Memory) { flip(s, enginetest.Full204) }, 0, 0, 1, true},
		"a full that is no database is newer": {func(t *testing.T, s *storetest.Memory) { forge(t, s, []byte("forged")) }, 871, 2, 1, false},
		"an old full claims to be newer": {func(t *testing.T, s *storetest.Memory) {
			r, err := s.Open(t.Context(), store.Version{Key: enginetest.Key(enginetest.Full204)}, 0, -1)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			content, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			forge(t, s, content)
		}, 871, 2, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := enginetest.Native(t)
			c.damage(t, s)
			p, damaged, err := newest(t, s)
			switch {
			case c.broken:
				if !Broken(err) || !p.ReadAt.IsZero() {
					t.Errorf("got %+v, %v", p, err)
				}
			case err != nil || p.End != c.end || len(p.Deltas) != c.deltas || len(damaged) != c.damaged || p.ReadAt.IsZero():
				t.Errorf("proven to %d with %d deltas, damaged %v, %v; want %d, %d, %d", p.End, len(p.Deltas), damaged, err, c.end, c.deltas, c.damaged)
			}
		})
	}
}

func TestScratchOfKilledProofIsRemoved(t *testing.T) {
	scratch := t.TempDir()
	left := filepath.Join(scratch, "etcdbrctl-scratch-verify-1")
	if err := os.Mkdir(left, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"lock": "", "0.db": "half a database"} {
		if err := os.WriteFile(filepath.Join(left, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := enginetest.Native(t)
	c, err := catalog.Read(t.Context(), s, enginetest.Prefix, catalog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Verify(t.Context(), Request{From: replay.Options{Store: s, Timeline: c.Timeline}, ScratchDir: scratch}); err != nil {
		t.Fatal(err)
	}
	if all, err := os.ReadDir(scratch); err != nil || len(all) > 0 {
		t.Errorf("%v are left in the scratch directory: %v", all, err)
	}
}
