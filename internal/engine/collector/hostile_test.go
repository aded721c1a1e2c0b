package collector

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"druid.internal/druid/internal/engine/enginetest"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/storetest"
)

// attacked is a bucket in which every key of the first stream was overwritten, hidden, or both.
func attacked(t *testing.T, p storetest.Profile) bucket {
	b := newBucket(t, p)
	b.fill("a", threeStreams, nil)
	for i, n := range threeStreams[:3] {
		if i != 1 {
			b.Overwrite(key(n), []byte("forged "+n))
			b.Clock.Advance(time.Second)
		}
		if i != 2 {
			if _, err := b.Hide(key(n)); err != nil {
				t.Fatal(err)
			}
			b.Clock.Advance(time.Second)
		}
	}
	b.Overwrite(key(threeStreams[0]), []byte("forged once more"))
	b.Overwrite(key("Manifest-"+threeStreams[0]), []byte("{}"))
	return b
}

// forged are the snapshots for which a version counts that nobody of ours wrote.
func (b bucket) forged() []string {
	b.T.Helper()
	var all []string
	for _, l := range b.Catalog(prefix).Timeline.Lineages {
		for _, s := range l.Snapshots {
			if s.Usable() && s.Size != int64(len("content of "+s.Name().String())) {
				all = append(all, s.Ref.String())
			}
		}
	}
	return all
}

// Overwritten versions and delete markers.
func TestNothingOfACollectedKeyStaysAndNoForgeryEverCounts(t *testing.T) {
	for title, p := range map[string]storetest.Profile{"locks asked for": storetest.S3Like(), "locks listed": storetest.AzureLike(), "no conditions": storetest.CephLike()} {
		t.Run(title, func(t *testing.T) {
			b := attacked(t, p)
			f := storetest.NewFaulty(b.Memory)
			f.Hook(func(op storetest.Op, _ string, phase storetest.Phase) {
				if op == storetest.OpDelete && phase == storetest.After {
					if got := b.forged(); len(got) > 0 {
						t.Errorf("between two deletions a forgery counts: %s", got)
					}
				}
			})
			r := collect(t, New(f, f, b.options(keepOne)))
			if diff := cmp.Diff(enginetest.WithManifests(threeStreams[5:]...), b.keys()); diff != "" {
				t.Errorf("what is left (-want +got):\n%s", diff)
			}
			if len(r.Remaining) > 0 {
				t.Errorf("remaining: %v", r.Remaining)
			}
		})
	}
}

func TestALockedForgeryKeepsTheGenuineVersionAndItsManifest(t *testing.T) {
	b := newBucket(t, storetest.S3Like())
	b.fill("a", threeStreams, nil)
	b.Plant(store.Object{Version: store.Version{Key: key(threeStreams[3])}, Retention: lockedUntil(start.AddDate(1, 0, 0)).Retention}, []byte("forged"))
	collect(t, New(b, b, b.options(keepOne)))
	want := slices.Concat([]string{threeStreams[3]}, enginetest.WithManifests(slices.Concat(threeStreams[3:4], threeStreams[5:])...))
	slices.Sort(want)
	if diff := cmp.Diff(want, b.keys()); diff != "" {
		t.Errorf("what is left (-want +got):\n%s", diff)
	}
	if got := b.forged(); len(got) > 0 {
		t.Errorf("a forgery counts: %s", got)
	}
}

func TestACrashBetweenAnyTwoStepsLeavesEverythingKeptRestorable(t *testing.T) {
	for title, p := range profiles() {
		t.Run(title, func(t *testing.T) {
			make := func() bucket {
				if p.Versions {
					return attacked(t, p)
				}
				b := newBucket(t, p)
				b.fill("a", threeStreams, nil)
				return b
			}
			b := make()
			whole := storetest.NewFaulty(b.Memory)
			collect(t, New(whole, whole, b.options(keepOne)))
			for step := 1; step <= whole.Steps(); step++ {
				b := make()
				f := storetest.NewFaulty(b.Memory)
				f.DieAt(step)
				c := New(f, f, b.options(keepOne))
				if p, err := c.Plan(t.Context()); err == nil {
					if _, err = c.Execute(t.Context(), p); !errors.Is(err, storetest.ErrDead) {
						t.Fatalf("dead at step %d: Execute = %v, want ErrDead", step, err)
					}
				}
				tl := b.Catalog(prefix).Timeline
				if got := enginetest.Windows(tl); len(got) == 0 || got[len(got)-1] != "lineage a 10-60" && got[len(got)-1] != "lineage a 30-60" && got[len(got)-1] != "lineage a 40-60" {
					t.Errorf("dead at step %d: restorable is %q", step, got)
				}
				if got := dangers(tl); len(got) > 0 {
					t.Errorf("dead at step %d: %s", step, got)
				}
				if got := b.forged(); len(got) > 0 {
					t.Errorf("dead at step %d: a forgery counts: %s", step, got)
				}
				collect(t, New(b, b, b.options(keepOne)))
				if diff := cmp.Diff(enginetest.WithManifests(threeStreams[5:]...), b.keys()); diff != "" {
					t.Errorf("dead at step %d and run again, what is left (-want +got):\n%s", step, diff)
				}
			}
		})
	}
}

func TestAnUploadBetweenPlanAndExecutionSurvivesWithItsChain(t *testing.T) {
	for title, uploaded := range map[string][]string{
		"the next delta":              {delta(61, 70, 4320)},
		"a full and a delta":          {full(60, 4320), delta(61, 70, 4330)},
		"a delta of an older stream":  {delta(41, 45, 4320)},
		"an older full comes late":    {full(5, 4320)},
		"a full at an old revision":   {full(30, 4320), delta(31, 39, 4321)},
		"a delta that overlaps twice": {delta(35, 65, 4320)},
	} {
		t.Run(title, func(t *testing.T) {
			b := newBucket(t, storetest.S3Like())
			b.fill("a", threeStreams, nil)
			c := New(b, b, b.options(keepOne))
			p := plan(t, c)
			for _, n := range uploaded {
				b.put(n, "a", store.PutOptions{})
			}
			if _, err := c.Execute(t.Context(), p); err != nil {
				t.Fatal(err)
			}
			for _, n := range append(uploaded, threeStreams[5:]...) {
				if !slices.Contains(b.keys(), n) {
					t.Errorf("%s is gone", n)
				}
			}
			if got := enginetest.Windows(b.Catalog(prefix).Timeline); len(got) == 0 || !strings.Contains(got[len(got)-1], "-60") && !strings.Contains(got[len(got)-1], "-70") && !strings.Contains(got[len(got)-1], "-65") {
				t.Errorf("restorable is %q", got)
			}
		})
	}
}

func TestWhatThePlanSawMustStillBeTrue(t *testing.T) {
	type situation struct {
		change func(t *testing.T, b bucket)
		want   Result
		why    string
	}
	victim, vkey := threeStreams[0], key(threeStreams[0]) // the oldest full
	genuine := func(b bucket) store.Version { return b.Versions(vkey)[len(b.Versions(vkey))-1].Version }
	for title, c := range map[string]situation{
		"a hold was set": {func(t *testing.T, b bucket) {
			if err := b.SetHold(t.Context(), genuine(b), true); err != nil {
				t.Fatal(err)
			}
		}, Blocked, "under a hold"},
		"it was overwritten": {func(t *testing.T, b bucket) { b.Overwrite(vkey, []byte("forged")) }, Spared, "appeared"},
		"it was hidden": {func(t *testing.T, b bucket) {
			if _, err := b.Hide(vkey); err != nil {
				t.Fatal(err)
			}
		}, Spared, "appeared"},
		"it was removed": {func(t *testing.T, b bucket) { b.Lose(store.Version{Key: vkey}) }, Gone, ""},
		"the newest full was excluded": {func(t *testing.T, b bucket) {
			v := b.Versions(key(threeStreams[5]))[0].Version
			if err := b.SetTag(t.Context(), v, "x-etcd-snapshot-exclude", "true"); err != nil {
				t.Fatal(err)
			}
			if _, err := b.Hide(key(threeStreams[5])); err != nil {
				t.Fatal(err)
			}
		}, Blocked, "no newer chain is proven"},
	} {
		t.Run(title, func(t *testing.T) {
			b := newBucket(t, storetest.S3Like())
			b.fill("a", threeStreams, nil)
			col := New(b, b, b.options(keepOne))
			p := plan(t, col)
			c.change(t, b)
			r, err := col.Execute(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			if got := result(t, r, victim); got.Result != c.want || !strings.Contains(got.Why, c.why) {
				t.Errorf("the oldest full is %s (%s), want %s (%s)", got.Result, got.Why, c.want, c.why)
			}
			if c.want == Spared || c.want == Blocked {
				if len(b.Versions(key("Manifest-"+victim))) == 0 {
					t.Error("its manifest is gone")
				}
			}
			if got := enginetest.Windows(b.Catalog(prefix).Timeline); len(got) == 0 {
				t.Error("nothing can be restored any more")
			}
		})
	}
}

func TestWhenTheNewestFullIsExcludedTheOneBeforeIsSpared(t *testing.T) {
	b := newBucket(t, storetest.AzureLike())
	b.fill("a", threeStreams, nil)
	c := New(b, b, b.options(keepOne))
	p := plan(t, c)
	if err := b.SetTag(t.Context(), b.Versions(key(threeStreams[5]))[0].Version, "x-etcd-snapshot-exclude", "true"); err != nil {
		t.Fatal(err)
	}
	r, err := c.Execute(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range threeStreams[3:5] {
		if got := result(t, r, n); got.Result != Spared {
			t.Errorf("%s is %s (%s), want %s", n, got.Result, got.Why, Spared)
		}
	}
	if diff := cmp.Diff([]string{"lineage a 10-60"}, enginetest.Windows(b.Catalog(prefix).Timeline)); diff != "" {
		t.Errorf("restorable (-want +got):\n%s", diff)
	}
}

func TestADecisionThatGrowsOldIsMadeAgain(t *testing.T) {
	b := newBucket(t, storetest.AzureLike())
	b.fill("a", threeStreams, nil)
	f := storetest.NewFaulty(b.Memory)
	c := New(f, f, b.options(keepOne))
	p := plan(t, c)
	f.Hook(func(op storetest.Op, name string, phase storetest.Phase) {
		if op == storetest.OpDelete && phase == storetest.After {
			b.Clock.Advance(time.Hour) // a slow store
			if strings.HasSuffix(name, threeStreams[2]) {
				v := b.Versions(key(threeStreams[5]))[0].Version
				if err := b.SetTag(t.Context(), v, "x-etcd-snapshot-exclude", "true"); err != nil {
					t.Error(err)
				}
			}
		}
	})
	r, err := c.Execute(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if got := result(t, r, threeStreams[3]); got.Result != Spared {
		t.Errorf("the full that became the newest is %s (%s), want %s", got.Result, got.Why, Spared)
	}
	if diff := cmp.Diff([]string{"lineage a 10-20", "lineage a 30-60"}, enginetest.Windows(b.Catalog(prefix).Timeline)); diff != "" {
		t.Errorf("restorable (-want +got):\n%s", diff)
	}
}

func TestAForgeryBetweenTheSnapshotAndItsManifestIsReportedAndRecognised(t *testing.T) {
	b := newBucket(t, storetest.S3Like())
	b.fill("a", threeStreams, nil)
	f := storetest.NewFaulty(b.Memory)
	f.Hook(func(op storetest.Op, k string, phase storetest.Phase) {
		if op == storetest.OpDelete && phase == storetest.After && k == key(threeStreams[0]) {
			b.Overwrite(k, []byte("forged at the worst moment"))
		}
	})
	r := collect(t, New(f, f, b.options(keepOne)))
	if len(r.Remaining) != 1 || r.Remaining[0].Key != key(threeStreams[0]) {
		t.Errorf("remaining = %+v, want the forgery", r.Remaining)
	}
	if got := b.forged(); len(got) > 0 {
		t.Errorf("a forgery counts: %s", got)
	}
	collect(t, New(b, b, b.options(keepOne)))
	if diff := cmp.Diff(enginetest.WithManifests(threeStreams[5:]...), b.keys()); diff != "" {
		t.Errorf("after the next run, what is left (-want +got):\n%s", diff)
	}
}

func TestARefusalOfTheStoreIsABlockAndKeepsWhatItNeeds(t *testing.T) {
	b := newBucket(t, storetest.S3Like())
	b.fill("a", threeStreams, nil)
	until := start.AddDate(0, 1, 0)
	f := storetest.NewFaulty(b.Memory)
	f.Inject(storetest.Fail(&store.ImmutableError{Until: until}).On(storetest.OpDelete, "/"+threeStreams[1]))
	r := collect(t, New(f, f, b.options(keepOne)))
	if got := result(t, r, threeStreams[1]); got.Result != Blocked || !got.Until.Equal(until) {
		t.Errorf("the refused delta is %s until %s, want %s until %s", got.Result, got.Until, Blocked, until)
	}
	want := enginetest.WithManifests(slices.Concat(threeStreams[:2], threeStreams[5:])...)
	if diff := cmp.Diff(want, b.keys()); diff != "" {
		t.Errorf("what is left (-want +got):\n%s", diff)
	}
}

func TestAStoreThatFailsIsGivenUpAfterAFewFailures(t *testing.T) {
	b := newBucket(t, storetest.S3Like())
	var names []string
	for i := range 20 {
		names = append(names, full(10*(i+1), 1440*i))
	}
	b.fill("a", names, nil)
	f := storetest.NewFaulty(b.Memory)
	f.Inject(storetest.Fail(store.ErrUnreachable).On(storetest.OpDelete, "").Always())
	c := New(f, f, b.options(keepOne))
	r, err := c.Execute(t.Context(), plan(t, c))
	if !errors.Is(err, store.ErrUnreachable) {
		t.Errorf("Execute = %v, want ErrUnreachable", err)
	}
	if n := f.Count(storetest.OpDelete); n != 5 || r.Total(Failed).Objects != 5 || r.Total(Untried).Objects == 0 {
		t.Errorf("%d deletions were tried, %d failed, %d untried, want 5, 5 and more than 0", n, r.Total(Failed).Objects, r.Total(Untried).Objects)
	}
	if got := len(b.keys()); got != 40 {
		t.Errorf("%d objects are left, want all 40", got)
	}
}

func TestALostResponseToADeletionIsAskedForAgain(t *testing.T) {
	b := newBucket(t, storetest.S3Like())
	b.fill("a", threeStreams, nil)
	f := storetest.NewFaulty(b.Memory)
	f.Inject(storetest.LoseResponse().On(storetest.OpDelete, threeStreams[0]))
	r := collect(t, New(f, f, b.options(keepOne)))
	if got := r.Total(Deleted).Objects; got != 10 {
		t.Errorf("%d deletions are reported, want 10", got)
	}
}

// A listing that lies by leaving things out may make too much look deletable. The second look
// tells the truth, and only what both let go goes.
func TestAListingThatLiesOnceDeletesNothingThatIsNeeded(t *testing.T) {
	for n := range 16 {
		b := newBucket(t, storetest.S3Like())
		b.fill("a", threeStreams, nil)
		f := storetest.NewFaulty(b.Memory)
		f.Inject(storetest.LieInList(n).On(storetest.OpList, ""))
		c := New(f, f, b.options(keepOne))
		if _, err := c.Execute(t.Context(), plan(t, c)); err != nil {
			t.Fatal(err)
		}
		for _, want := range enginetest.WithManifests(threeStreams[5:]...) {
			if !slices.Contains(b.keys(), want) {
				t.Errorf("a listing of %d objects: %s is gone", n, want)
			}
		}
		if got := dangers(b.Catalog(prefix).Timeline); len(got) > 0 {
			t.Errorf("a listing of %d objects: %s", n, got)
		}
	}
}

func TestALineageGoesOnlyWhenANewerOneIsRestorable(t *testing.T) {
	b := newBucket(t, storetest.S3Like())
	b.fill("a", threeStreams[:3], nil)
	fork := []string{delta(31, 35, 2890)} // lineage b has no full yet
	for _, n := range fork {
		b.put(n, "b", store.PutOptions{})
	}
	collect(t, New(b, b, b.options(keepOne)))
	if got := enginetest.Windows(b.Catalog(prefix).Timeline); !slices.Contains(got, "lineage a 10-30") {
		t.Errorf("restorable is %q, want lineage a", got)
	}
}

func TestAnInterruptionStopsDeleting(t *testing.T) {
	b := newBucket(t, storetest.S3Like())
	b.fill("a", threeStreams, nil)
	f := storetest.NewFaulty(b.Memory)
	c := New(f, f, b.options(keepOne))
	p := plan(t, c)
	ctx, cancel := context.WithCancel(t.Context())
	f.Hook(func(op storetest.Op, _ string, phase storetest.Phase) {
		if op == storetest.OpDelete && phase == storetest.After {
			cancel()
		}
	})
	r, err := c.Execute(ctx, p)
	if !errors.Is(err, context.Canceled) || f.Count(storetest.OpDelete) != 1 || r.Total(Deleted).Objects != 1 {
		t.Errorf("Execute = %v after %d deletions of which %d are reported, want Canceled after 1", err, f.Count(storetest.OpDelete), r.Total(Deleted).Objects)
	}
}
