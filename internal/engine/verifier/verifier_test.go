package verifier

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"

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
