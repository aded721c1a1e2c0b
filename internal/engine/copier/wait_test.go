package copier

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/storetest"
)

// A full that is final and beyond which another full goes is of a stop that is over, and so is one of ours after which any full was taken.
func TestTheFinalFullIsLookedForAmongTheLatestFour(t *testing.T) {
	type put struct {
		lineage    snapshot.Lineage
		name       string
		copiedFrom string
	}
	six := func(finalAt int) []put {
		var all []put
		for i := range 6 {
			n := full(10*i+1, i)
			if i == finalAt {
				n = final(10*i+1, i)
			}
			all = append(all, put{lineage: lineageA, name: n})
		}
		return all
	}
	for title, c := range map[string]struct {
		puts []put
		want string
		note bool
	}{
		"the newest is final":                                             {six(5), final(51, 5), false},
		"one is final, and fulls follow":                                  {six(2), "", false},
		"one is final, and deltas follow":                                 {append(six(5), put{lineageA, delta(52, 60, 6), ""}), final(51, 5), false}, // what clients or ending leases wrote before the members stopped
		"copies of it, made to be locked anew":                            {[]put{{lineageA, final(21, 2), ""}, {lineageA, full(21, 3), final(21, 2)}, {lineageA, full(21, 4), final(21, 2)}}, final(21, 2), true},
		"a woken cluster took a full of the same revision":                {[]put{{lineageA, final(21, 2), ""}, {lineageA, full(21, 3), ""}}, "", false},
		"the original, the fourth newest is final, and none goes further": {[]put{{unnamed, final(21, 2), ""}, {unnamed, full(21, 3), ""}, {unnamed, full(21, 4), ""}, {unnamed, full(21, 5), ""}}, final(21, 2), true},
		"the original, the fifth newest is final, and none goes further":  {[]put{{unnamed, final(21, 1), ""}, {unnamed, full(21, 2), ""}, {unnamed, full(21, 3), ""}, {unnamed, full(21, 4), ""}, {unnamed, full(21, 5), ""}}, "", false},
		"none is final":                    {six(-1), "", false},
		"nothing is there":                 {nil, "", false},
		"only an older lineage has a one":  {[]put{{lineageA, final(10, 0), ""}, {lineageB, full(36, 10), ""}}, "", false},
		"a bucket of the original has one": {[]put{{unnamed, full(10, 0), ""}, {unnamed, final(20, 1), ""}}, final(20, 1), false},
	} {
		t.Run(title, func(t *testing.T) {
			from, to := newBucket(t, storetest.S3Like()), newBucket(t, storetest.S3Like())
			for _, p := range c.puts {
				if p.copiedFrom == "" {
					from.put(oldHome, p.name, p.lineage)
					continue
				}
				m := manifest(t, p.name, p.lineage)
				m.CopiedFrom = p.copiedFrom
				from.raw(v2(oldHome, p.name), content(p.name))
				from.raw(v2(oldHome, "Manifest-"+p.name), m.Encode())
			}
			w, err := newCopier(t, from.Memory, to.Memory, from.options()).WaitForFinal(t.Context(), time.Second)
			if err != nil {
				t.Fatal(err)
			}
			if w.Final != c.want || w.TimedOut != (c.want == "") || (w.Note != "") != (c.note || w.TimedOut) {
				t.Errorf("waited for %+v, want %q", w, c.want)
			}
		})
	}
}

func TestWaitingLooksEveryFifteenSecondsUntilTheTimeout(t *testing.T) {
	from, to := source(t, storetest.S3Like(), lineageA), newBucket(t, storetest.S3Like())
	f := storetest.NewFaulty(from.Memory)
	o := from.options()
	var pauses []time.Duration
	o.Wait = func(_ context.Context, d time.Duration) error {
		pauses = append(pauses, d)
		from.Clock.Advance(d)
		return nil
	}
	c := newCopier(t, f, to.Memory, o)
	w, err := c.WaitForFinal(t.Context(), 40*time.Second)
	if err != nil || !w.TimedOut {
		t.Errorf("waited for %+v, %v, want a timeout", w, err)
	}
	if want := []time.Duration{15 * time.Second, 15 * time.Second, 10 * time.Second}; !slices.Equal(pauses, want) {
		t.Errorf("paused for %v, want %v", pauses, want)
	}
	if n := f.Count(storetest.OpOpen); n != 0 {
		t.Errorf("%d objects were read, want none while no name is final", n)
	}
	mustRun(t, c) // the copy is made all the same
	to.wantCopies(streams...)
}

func TestWaitingWithoutATimeoutGoesOnThroughAnOutage(t *testing.T) {
	from, to := source(t, storetest.S3Like(), lineageA), newBucket(t, storetest.S3Like())
	f := storetest.NewFaulty(from.Memory)
	f.Inject(storetest.Fail(store.ErrUnreachable).On(storetest.OpList, "").For(2))
	o := from.options()
	looks := 0
	o.Wait = func(_ context.Context, d time.Duration) error {
		if looks++; looks == 500 {
			from.put(oldHome, final(60, 3000), lineageA)
		}
		from.Clock.Advance(d)
		return nil
	}
	w, err := newCopier(t, f, to.Memory, o).WaitForFinal(t.Context(), 0)
	if err != nil || w.Final != final(60, 3000) || looks != 500 {
		t.Errorf("waited for %+v, %v, after %d looks, want the final full after 500", w, err, looks)
	}
}

func TestWaitingEndsWhenTheStoreRefusesOrTheCallerLeaves(t *testing.T) {
	from, to := source(t, storetest.S3Like(), lineageA), newBucket(t, storetest.S3Like())
	f := storetest.NewFaulty(from.Memory)
	f.Inject(storetest.Fail(store.ErrForbidden).On(storetest.OpList, ""))
	if _, err := newCopier(t, f, to.Memory, from.options()).WaitForFinal(t.Context(), 0); !errors.Is(err, store.ErrForbidden) {
		t.Errorf("waiting = %v, want ErrForbidden", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	o := from.options()
	o.Wait = func(ctx context.Context, _ time.Duration) error { cancel(); return ctx.Err() }
	_, err := newCopier(t, from.Memory, to.Memory, o).WaitForFinal(ctx, 0)
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "final") {
		t.Errorf("waiting = %v, want Canceled", err)
	}
}
