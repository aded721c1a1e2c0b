package compactor

import (
	"bytes"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"druid.internal/druid/internal/backup/restoreplan"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/engine/catalog"
	"druid.internal/druid/internal/engine/enginetest"
	"druid.internal/druid/internal/engine/replay"
	"druid.internal/druid/internal/etcd/codec"
	"druid.internal/druid/internal/etcd/datadir"
	"druid.internal/druid/internal/store"
)

// A full that went on beyond all deltas while it was streamed holds revisions whose time nobody
// knows. The compacted full must not claim that they are as old as the last delta.
func TestACompactedFullClaimsNoTimeForWhatNoDeltaHas(t *testing.T) {
	s := enginetest.Original(t)
	c, err := catalog.Read(t.Context(), s, enginetest.Prefix, catalog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	o := replay.Options{Store: s, Timeline: c.Timeline, Log: slog.New(slog.DiscardHandler)}
	plan, err := replay.Plan(o)
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "db")
	if err := replay.Once(t.Context(), o, plan, func(_ restoreplan.Plan, src datadir.Source) error {
		_, err := datadir.Rebuild(t.Context(), src, datadir.Options{KeepHistory: true}, out)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	whole, _, err := datadir.NewSnapshotReader(out)
	if err != nil {
		t.Fatal(err)
	}
	defer whole.Close()
	packed, err := codec.Compress(whole, snapshot.Gzip)
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	ahead, err := io.ReadAll(packed)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.List(t.Context(), "", func(o store.Object) error {
		if strings.Contains(o.Key, "Full-") {
			s.Replace(o.Version, bytes.Clone(ahead))
		}
		if strings.Contains(o.Key, "Incr-00000857") {
			s.Lose(o.Version)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	res, err := compact(t, s, History{Period: 24 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if res.Name.Last != 871 || !res.Manifest.Latest.IsZero() {
		t.Errorf("%s claims to end at %s", res.Name, res.Manifest.Latest)
	}
	if c, err = catalog.Read(t.Context(), s, enginetest.Prefix, catalog.Options{}); err != nil {
		t.Fatal(err)
	}
	plan, err = replay.Plan(replay.Options{Store: s, Timeline: c.Timeline, Target: restoreplan.AtTime(enginetest.Delta856.CreatedAt().Add(2 * time.Second))})
	if err == nil && plan.Base.Name() == res.Name {
		t.Errorf("a time right after the last delta is restored from %s", plan.Base.Name())
	}
}
