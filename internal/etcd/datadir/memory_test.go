package datadir

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"druid.internal/druid/internal/etcd/codec"
)

// Whatever the memory, the same file comes out.
func TestLittleMemoryChangesNothingButTheSpill(t *testing.T) {
	var text strings.Builder
	for rev := 2; rev < 4000; rev++ {
		if rev%11 == 0 && rev > 600 {
			fmt.Fprintf(&text, "%d delete k%d\n", rev, rev%11*50+rev/11%50)
			continue
		}
		fmt.Fprintf(&text, "%d put k%d\n", rev, (rev*rev)%701)
	}
	records := without(story(t, text.String()), func(r codec.Record) bool { return false })
	base := baseOf(t, between(records, 2, 1500))
	build := func(limit int64, o Options) ([]byte, *Report) {
		o.MemoryLimit, o.unclamped = limit, true
		path := filepath.Join(t.TempDir(), "out")
		r, err := Rebuild(context.Background(), Source{Base: reader(base), BaseName: "base",
			Deltas: []Delta{deltaOf("d1", between(records, 1400, 2500)), deltaOf("d2", between(records, 2500, 3999))}}, o, path)
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return b, r
	}
	for name, o := range map[string]Options{"compacted": {}, "in the middle": {CompactAt: 2000}, "with history": {KeepHistory: true}} {
		t.Run(name, func(t *testing.T) {
			want, report := build(64<<20, o)
			if report.SpilledBytes != 0 {
				t.Errorf("%d bytes were spilled of plenty", report.SpilledBytes)
			}
			for _, limit := range []int64{1, 3000, 30_000, 200_000} {
				got, r := build(limit, o)
				if !bytes.Equal(got, want) {
					t.Errorf("limit %d: the file differs", limit)
				}
				if limit < 30_000 && r.SpilledBytes == 0 {
					t.Errorf("limit %d: nothing was spilled", limit)
				}
				r.SpilledBytes = 0
				if diff := cmp.Diff(report, r); diff != "" {
					t.Errorf("limit %d: report (-plenty +little):\n%s", limit, diff)
				}
			}
		})
	}
}

// Memory may run out when the table already knows keys that changed several times.
func TestAChainIsFollowedAcrossTheBeginningOfTheSpill(t *testing.T) {
	var text strings.Builder
	for rev := 2; rev < 800; rev++ {
		if rev < 300 {
			fmt.Fprintf(&text, "%d put k%d\n", rev, rev%60)
		} else {
			fmt.Fprintf(&text, "%d put k%d, put n%d\n", rev, rev%60, rev)
		}
	}
	src := Source{Deltas: []Delta{deltaOf("d", story(t, text.String()))}}
	want, err := Rebuild(context.Background(), src, Options{}, filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := Rebuild(context.Background(), src, Options{MemoryLimit: 48_000, unclamped: true}, filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	if got.HashKV != want.HashKV || got.Keys != want.Keys || got.AbsentDeletes != 0 {
		t.Errorf("%+v, want %+v", got, want)
	}
}
