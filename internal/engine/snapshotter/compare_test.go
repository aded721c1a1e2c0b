package snapshotter

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"druid.internal/druid/internal/backup/snapshot"
)

func TestAFullSaysWhatComparingTheMembersShowed(t *testing.T) {
	e, s := newEtcd(t), memory()
	e.put(5)
	told := snapshot.HashKV{CompactRevision: -1, Hash: 4711}
	const why = "two of three told another hash"
	var doubt atomic.Bool
	cfg := config(e, s)
	cfg.Compare = func(_ context.Context, _ Member, rev snapshot.Revision) (Comparison, error) {
		h := told
		h.Revision = rev
		c := Comparison{HashKV: &h}
		if doubt.Load() {
			c.Suspect = why
		}
		return c, nil
	}
	r := start(t, cfg)
	first := r.full(false)
	doubt.Store(true)
	second := r.full(false)
	if first.Manifest.Suspect != "" || second.Manifest.Suspect != why {
		t.Errorf("the manifests say %q and %q, want nothing and %q", first.Manifest.Suspect, second.Manifest.Suspect, why)
	}
	if second.Manifest.HashKV == nil || second.Manifest.HashKV.Hash != told.Hash {
		t.Errorf("the manifest tells the hash %v, want the one of the comparison", second.Manifest.HashKV)
	}
}

func TestAComparisonThatForbidsAFullDoesNotStopDeltas(t *testing.T) {
	e, s := newEtcd(t), memory()
	e.put(5)
	different := errors.New("the others have other data")
	var forbid atomic.Bool
	cfg := config(e, s)
	cfg.Compare = func(context.Context, Member, snapshot.Revision) (Comparison, error) {
		if forbid.Load() {
			return Comparison{}, different
		}
		return Comparison{}, nil
	}
	r := start(t, cfg)
	r.full(false)
	forbid.Store(true)
	if _, err := r.TakeFull(t.Context(), false); !errors.Is(err, different) {
		t.Errorf("the full ended with %v, want the comparison's error", err)
	}
	want := e.put(3)
	if d := r.delta(); d != nil && d.Manifest.LastRevision != want {
		t.Errorf("the last delta ends at %d, want %d", d.Manifest.LastRevision, want)
	}
	if got := r.Standing(); !got.Active || got.Uploaded() != want || got.Deltas == 0 || got.DeltaBytes == 0 {
		t.Errorf("it stands at %+v, want revision %d and its deltas", got, want)
	}
}

func TestRetiredMetricsShowNoSnapshot(t *testing.T) {
	e, registry := newEtcd(t), prometheus.NewRegistry()
	e.put(1)
	cfg := config(e, memory())
	cfg.Metrics = NewMetrics(registry)
	r := start(t, cfg)
	r.full(false)
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	shown := func() bool {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() == "etcdbr_snapshot_latest_revision" {
				return true
			}
		}
		return false
	}
	if !shown() {
		t.Fatal("the newest snapshot is not shown while it should be")
	}
	cfg.Metrics.Retire()
	if shown() {
		t.Error("the newest snapshot is still shown")
	}
	if got := (Standing{}).Uploaded(); got != 0 {
		t.Errorf("nothing was uploaded up to %d, want 0", got)
	}
}
