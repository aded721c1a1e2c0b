package datadir

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/etcd/codec"
)

// sealedDeltas are native deltas of the history behind the base, each of so many revisions and
// beginning where the one before ends. told says whether they tell where they begin.
func (h *history) sealedDeltas(t *testing.T, revisions int, told bool) (deltas []Delta) {
	t.Helper()
	for at := h.baseRev; at < h.last; {
		d, err := codec.NewDelta(codec.DeltaOptions{First: at + 1})
		if err != nil {
			t.Fatal(err)
		}
		last := min(h.last, at+snapshot.Revision(revisions))
		for rev := at + 1; rev <= last; rev++ {
			i, _ := slices.BinarySearchFunc(h.events, int64(rev), func(e *mvccpb.Event, rev int64) int { return int(e.Kv.ModRevision - rev) })
			end := i
			for end < len(h.events) && h.events[end].Kv.ModRevision == int64(rev) {
				end++
			}
			if err := d.Append(time.Unix(0, received(int64(rev))), h.events[i:end]); err != nil {
				t.Fatal(err)
			}
		}
		sealed, err := d.Seal(time.Unix(1_700_000_000, 0), snapshot.Manifest{Lineage: snapshot.Lineage{ID: "one"}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { sealed.Close() })
		delta := Delta{Name: sealed.Name.String(), Last: last, Open: func(o codec.ReaderOptions) (Records, error) {
			return codec.NewDeltaReader(sealed.Reader(), sealed.Name.Compression, o)
		}}
		if told {
			delta.First = at + 1
		}
		deltas = append(deltas, delta)
		at = last
	}
	return deltas
}

// A restore that needs only the newest record of each key in a delta must not need more, and must
// see that everything before it is in order all the same.
func TestWhatIsSupersededWithinADeltaIsNotMissed(t *testing.T) {
	for seed := range uint64(3) {
		h := makeHistory(t, 70+seed, 300, 1500, seed == 1)
		for name, o := range map[string]Options{
			"compacted":               {},
			"compacted earlier":       {CompactAt: (h.baseRev + h.last) / 2},
			"with all history":        {KeepHistory: true},
			"up to a revision":        {TargetRevision: (h.baseRev + h.last) / 2},
			"up to a moment":          {TargetTime: time.Unix(0, received(int64(h.baseRev+h.last)/2))},
			"compacted and bumped":    {BumpRevision: 1000},
			"compacted, little space": {MemoryLimit: 1 << 20, unclamped: true},
		} {
			t.Run(fmt.Sprintf("%s, seed %d", name, seed), func(t *testing.T) {
				var got [2][]string
				for i, told := range []bool{false, true} {
					src := Source{Base: reader(h.base), BaseName: "base", BaseHashKV: &h.baseHash, BaseLast: h.baseRev, BaseInTime: true,
						Deltas: h.sealedDeltas(t, 250, told)}
					dir := filepath.Join(t.TempDir(), "data")
					report := mustRestore(t, src, o, dir)
					got[i] = keyRecords(t, filepath.Join(dir, "member", "snap", "db"))
					if name == "compacted" && report.Keys == 0 {
						t.Error("nothing was restored")
					}
				}
				if !slices.Equal(got[0], got[1]) {
					t.Errorf("%d records where all are put together, %d where only the newest are, or others", len(got[0]), len(got[1]))
				}
			})
		}
	}
}

func TestABaseBeyondItsManifestIsRefusedWhereThatMatters(t *testing.T) {
	h := makeHistory(t, 80, 200, 400, false)
	deltas := h.sealedDeltas(t, 1000, true)
	// The manifest says less than the base has, and the delta begins where the manifest ends.
	early := *h
	early.baseRev -= 50
	src := Source{Base: bytes.NewReader(h.base), BaseName: "base", BaseLast: early.baseRev, BaseInTime: true, Deltas: early.sealedDeltas(t, 1000, true)}
	_, err := Restore(context.Background(), src, Options{}, Target{Dir: filepath.Join(t.TempDir(), "data"), Member: solo})
	var overlap *OverlapError
	if err != nil && !errors.As(err, &overlap) {
		t.Errorf("error %v, want %T", err, overlap)
	}
	src = Source{Base: bytes.NewReader(h.base), BaseName: "base", BaseLast: h.baseRev, BaseInTime: true, Deltas: deltas}
	mustRestore(t, src, Options{}, filepath.Join(t.TempDir(), "data"))
}
