package compactor

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"druid.internal/druid/internal/backup/restoreplan"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/engine/catalog"
	"druid.internal/druid/internal/engine/enginetest"
	"druid.internal/druid/internal/engine/replay"
	"druid.internal/druid/internal/etcd/datadir"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/storetest"
)

var now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func compact(t *testing.T, s store.Store, keep History, change ...func(*Request)) (*Result, error) {
	t.Helper()
	c, err := catalog.Read(context.Background(), s, enginetest.Prefix, catalog.Options{})
	if err != nil {
		return nil, err
	}
	q := Request{
		From: replay.Options{Store: s, Timeline: c.Timeline, Log: slog.New(slog.DiscardHandler)},
		Into: s, Prefix: enginetest.Prefix, Keep: keep, Compression: snapshot.Zstd,
		ScratchDir: t.TempDir(), MemoryLimit: datadir.MinMemoryLimit, Writer: "test", Now: func() time.Time { return now },
	}
	for _, c := range change {
		c(&q)
	}
	return Compact(context.Background(), q)
}

func TestTheCompactedFullIsTheNewBaseAndHoldsTheSameData(t *testing.T) {
	for name, bucket := range map[string]func(*testing.T) *storetest.Memory{"of the original": enginetest.Original, "native": enginetest.Native} {
		t.Run(name, func(t *testing.T) {
			s := bucket(t)
			res, err := compact(t, s, History{Period: 24 * time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			if res.Name.Last != 871 || res.Replayed.HashKV.Hash != enginetest.WantHash(t) {
				t.Errorf("%s has HashKV %+v", res.Name, res.Replayed.HashKV)
			}
			c, err := catalog.Read(context.Background(), s, enginetest.Prefix, catalog.Options{})
			if err != nil {
				t.Fatal(err)
			}
			plan, err := replay.Plan(replay.Options{Store: s, Timeline: c.Timeline})
			if err != nil {
				t.Fatal(err)
			}
			if plan.Base.Name() != res.Name || len(plan.Deltas) != 0 || plan.End != 871 {
				t.Errorf("a restore would begin with %s and %d deltas and end at %d", plan.Base.Name(), len(plan.Deltas), plan.End)
			}
			if diff := cmp.Diff(res.Plan.Lineage, plan.Lineage); diff != "" {
				t.Errorf("the lineage changed:\n%s", diff)
			}
			// What was stored is what the manifest says, and has the hash it tells.
			if err := replay.Once(context.Background(), replay.Options{Store: s}, plan, func(_ restoreplan.Plan, src datadir.Source) error {
				r, err := datadir.Rebuild(context.Background(), src, datadir.Options{KeepHistory: true, ScratchDir: t.TempDir(), MemoryLimit: datadir.MinMemoryLimit}, t.TempDir()+"/db")
				if err == nil && (!r.BaseHashKVChecked || r.HashKV != *res.Manifest.HashKV) {
					t.Errorf("read back it has %+v, checked %v", r.HashKV, r.BaseHashKVChecked)
				}
				return err
			}); err != nil {
				t.Error(err)
			}
		})
	}
}

// spoilt reads other bytes at its end than were written to a key.
type spoilt struct {
	*storetest.Memory
	key string
}

func (s spoilt) Open(ctx context.Context, v store.Version, offset, length int64) (io.ReadCloser, error) {
	r, err := s.Memory.Open(ctx, v, offset, length)
	if err != nil || v.Key != s.key {
		return r, err
	}
	defer r.Close()
	o, err := s.Stat(ctx, v)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(r)
	for i := range b { // behind the header, which a listing reads
		if offset+int64(i) >= o.Size-64 {
			b[i] ^= 0xff
		}
	}
	return io.NopCloser(bytes.NewReader(b)), err
}

func TestWhereTheFirstDeltaIsDamagedThereIsNothingToCompact(t *testing.T) {
	m := enginetest.Native(t)
	c, err := catalog.Read(t.Context(), m, enginetest.Prefix, catalog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := replay.Plan(replay.Options{Store: m, Timeline: c.Timeline, Log: slog.New(slog.DiscardHandler)})
	if err != nil || len(plan.Deltas) == 0 {
		t.Fatalf("%d deltas, %v", len(plan.Deltas), err)
	}
	f := storetest.NewFaulty(spoilt{m, plan.Deltas[0].Key.String()})
	res, err := compact(t, f, History{}, func(q *Request) { q.From.AcceptLossTo = plan.Base.Last })
	if err != nil || !res.Nothing() || len(res.Damaged) == 0 || f.Count(storetest.OpPut) != 0 {
		t.Errorf("nothing to do %t, damaged %v, %d puts, %v", res != nil && res.Nothing(), res, f.Count(storetest.OpPut), err)
	}
}

func TestWithoutDeltasThereIsNothingToCompact(t *testing.T) {
	s := enginetest.Native(t)
	if _, err := compact(t, s, History{}); err != nil {
		t.Fatal(err)
	}
	f := storetest.NewFaulty(s)
	res, err := compact(t, f, History{})
	if err != nil || !res.Nothing() || f.Count(storetest.OpPut) != 0 {
		t.Errorf("nothing %v, %d puts, %v", res.Nothing(), f.Count(storetest.OpPut), err)
	}
}

// TestACrashAtAnyStepOfACompactionLeavesTheBucketRestorable dies before and after every
// operation of the store, and compacts again.
func TestACrashAtAnyStepOfACompactionLeavesTheBucketRestorable(t *testing.T) {
	count := storetest.NewFaulty(enginetest.Native(t))
	if _, err := compact(t, count, History{}); err != nil {
		t.Fatal(err)
	}
	for step := 1; step <= count.Steps(); step++ {
		s := enginetest.Native(t)
		dying := storetest.NewFaulty(s)
		dying.DieAt(step)
		if _, err := compact(t, dying, History{}); !errors.Is(err, storetest.ErrDead) && err != nil {
			t.Errorf("step %d: %v", step, err)
		}
		if _, err := compact(t, s, History{}); err != nil {
			t.Errorf("after step %d the bucket is not restorable: %v", step, err)
		}
	}
}

func TestALostResponseIsSettled(t *testing.T) {
	for _, part := range []string{"/Full-", "Manifest-"} {
		f := storetest.NewFaulty(enginetest.Native(t))
		f.Inject(storetest.LoseResponse().On(storetest.OpPut, part))
		if _, err := compact(t, f, History{}); err != nil {
			t.Errorf("%s: %v", part, err)
		}
	}
}

func TestHistoryIsKeptAsAskedFor(t *testing.T) {
	for name, c := range map[string]struct {
		keep History
		want snapshot.Revision // compacted at
	}{
		"nothing":                {History{}, 871},
		"the last 100":           {History{Revisions: 100}, 771},
		"more than there is":     {History{Revisions: 10000}, 1},
		"the last second":        {History{Period: time.Second}, 856},
		"longer than the backup": {History{Period: time.Hour}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			res, err := compact(t, enginetest.Native(t), c.keep)
			if err != nil {
				t.Fatal(err)
			}
			if got := res.Replayed.CompactRevision; got != c.want && !(c.want == 1 && got == -1) {
				t.Errorf("compacted at %d, want %d", got, c.want)
			}
		})
	}
}

func TestWordsOfEtcdForHistoryAreUnderstood(t *testing.T) {
	for _, c := range []struct {
		mode, retention string
		want            History
		bad             bool
	}{
		{"periodic", "30m", History{Period: 30 * time.Minute}, false},
		{"periodic", "2", History{Period: 2 * time.Hour}, false},
		{"periodic", "0", History{}, false},
		{"revision", "1000", History{Revisions: 1000}, false},
		{"revision", "30m", History{}, true},
		{"periodic", "-1h", History{}, true},
		{"periodic", "99999999999999", History{}, true},
		{"sometimes", "1h", History{}, true},
	} {
		got, err := ParseHistory(c.mode, c.retention)
		if (err != nil) != c.bad || got != c.want {
			t.Errorf("%s %s: %+v, %v", c.mode, c.retention, got, err)
		}
	}
}
