package verifier

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"druid.internal/druid/internal/backup/restoreplan"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/backup/timeline/timelinetest"
	"druid.internal/druid/internal/engine/catalog"
	"druid.internal/druid/internal/engine/enginetest"
	"druid.internal/druid/internal/engine/replay"
)

// Every full is read, and every delta with the newest good full before it.
func TestEveryFullIsVerifiedUpToTheNextGoodOne(t *testing.T) {
	tl := timeline.Build(timelinetest.MustParse(`full 100 at 1000
delta 101-150 at 1001
delta 151-220 at 1002
full 200 at 1003
delta 221-300 at 1004
full 300 at 1005
delta 301-310 at 1006
delta 311-320 at 1007`))
	for name, c := range map[string]struct {
		broken string // the full that turns out to be
		want   []string
	}{
		"all are good":               {"", []string{"300: 2 deltas to 320", "200: 2 deltas to 300", "100: 2 deltas to 220"}},
		"the newest full is broken":  {"300", []string{"300: 2 deltas to 320", "200: 4 deltas to 320", "100: 2 deltas to 220"}},
		"one in between is broken":   {"200", []string{"300: 2 deltas to 320", "200: 2 deltas to 300", "100: 3 deltas to 300"}},
		"the oldest full is no good": {"100", []string{"300: 2 deltas to 320", "200: 2 deltas to 300", "100: 2 deltas to 220"}},
	} {
		t.Run(name, func(t *testing.T) {
			next, err := Request{All: true, From: replay.Options{Timeline: tl}}.plans()
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for reached := snapshot.Revision(0); ; {
				p, more := next(reached)
				if !more {
					break
				}
				got = append(got, describe(p))
				if reached = p.Base.Last; fmt.Sprint(int64(reached)) == c.broken {
					reached = 0
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("plans (-want +got):\n%s", diff)
			}
		})
	}
}

func describe(p restoreplan.Plan) string {
	return fmt.Sprintf("%d: %d deltas to %d", p.Base.Last, len(p.Deltas), p.End)
}

// A week of hourly fulls with deltas every 20 seconds.
func TestVerifyingAllOfALongBackupKeepsOnePlanAtATime(t *testing.T) {
	const snapshots, fulls = 168 * 180, 168
	c, err := catalog.Read(t.Context(), enginetest.Shelf{Snapshots: snapshots, PerFull: snapshots / fulls}, enginetest.Prefix, catalog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	plans, deltas := 0, 0
	allocated, live := enginetest.Memory(t, func() any {
		next, err := Request{All: true, From: replay.Options{Timeline: c.Timeline}}.plans()
		if err != nil {
			t.Fatal(err)
		}
		for p, more := next(0); more; p, more = next(p.Base.Last) {
			plans, deltas = plans+1, deltas+len(p.Deltas)
		}
		return next
	})
	if plans != fulls || deltas != snapshots-fulls {
		t.Errorf("%d fulls and %d deltas are verified, want each of %d and %d once", plans, deltas, fulls, snapshots-fulls)
	}
	if allocated > 3000*snapshots || live > 1000*snapshots {
		t.Errorf("%d bytes were allocated for each snapshot and %d stay, want at most 3000 and 1000", allocated/snapshots, live/snapshots)
	}
}
