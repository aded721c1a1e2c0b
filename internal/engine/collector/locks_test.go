package collector

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"druid.internal/druid/internal/engine/enginetest"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/storetest"
)

func askLast(t *testing.T) {
	locksLast = true
	t.Cleanup(func() { locksLast = false })
}

func TestTheRulesHoldWhereLocksAreAskedAboutLast(t *testing.T) {
	askLast(t)
	for name, rule := range map[string]func(*testing.T){
		"policy":      TestWhatThePolicyLetsGoIsDeletedAndTheNewestChainStays,
		"order":       TestTheOrderLeavesChainsBehind,
		"other":       TestOfTwoClustersOnlyTheOneAskedForIsCollected,
		"v1":          TestObjectsOfLayoutV1AndChunksAreCollectedToo,
		"outage":      TestAnOutageIsNeverReadAsAnEmptyBucket,
		"forgeries":   TestNothingOfACollectedKeyStaysAndNoForgeryEverCounts,
		"locked one":  TestALockedForgeryKeepsTheGenuineVersionAndItsManifest,
		"crashes":     TestACrashBetweenAnyTwoStepsLeavesEverythingKeptRestorable,
		"upload":      TestAnUploadBetweenPlanAndExecutionSurvivesWithItsChain,
		"changes":     TestWhatThePlanSawMustStillBeTrue,
		"excluded":    TestWhenTheNewestFullIsExcludedTheOneBeforeIsSpared,
		"old plan":    TestADecisionThatGrowsOldIsMadeAgain,
		"refusal":     TestARefusalOfTheStoreIsABlockAndKeepsWhatItNeeds,
		"lies":        TestAListingThatLiesOnceDeletesNothingThatIsNeeded,
		"lineages":    TestALineageGoesOnlyWhenANewerOneIsRestorable,
		"last look":   TestWhatHappensAfterTheLastLookIsSeenBeforeEachDeletion,
		"hidden":      TestVersionsThatNothingHidesAreDeletedWhereThereAreNoMarkers,
		"not to know": TestAVersionThatCannotBeAskedAboutCountsAsProtected,
		"surplus":     TestASurplusVersionThatStaysKeepsTheGenuineOne,
		"further":     TestAFurtherVersionThatThePlanDidNotSeeSparesTheKey,
	} {
		t.Run(name, rule)
	}
}

func TestWhatIsLockedStaysWithItsChainUntilTheLockHasEnded(t *testing.T) {
	askLast(t)
	for title, p := range profiles() {
		t.Run(title, func(t *testing.T) {
			b := newBucket(t, p)
			until := start.Add(30 * 24 * time.Hour)
			newest := threeStreams[2] // of the first stream
			b.fill("a", threeStreams, func(name string) store.PutOptions {
				if name == newest {
					return lockedUntil(until)
				}
				return store.PutOptions{}
			})
			c := New(b, b, b.proven(b.options(keepOne)))
			plan(t, c)
			r := collect(t, c)
			if !p.InlineRetention {
				if got := result(t, r, newest); got.Result != Blocked || !got.Until.Equal(until.Add(margin)) {
					t.Errorf("it is %s until %s, want %s until %s", got.Result, got.Until, Blocked, until.Add(margin))
				}
				if diff := cmp.Diff(enginetest.WithManifests(slices.Concat(threeStreams[:3], threeStreams[5:])...), b.keys()); diff != "" {
					t.Errorf("what is left (-want +got):\n%s", diff)
				}
			}
			b.Clock.Advance(until.Sub(b.Clock.Now()) + time.Hour)
			collect(t, c)
			if diff := cmp.Diff(enginetest.WithManifests(threeStreams[5:]...), b.keys()); diff != "" {
				t.Errorf("after the lock, what is left (-want +got):\n%s", diff)
			}
		})
	}
}

func TestALockThatIsNotToldBlocksAndNamesTheRight(t *testing.T) {
	askLast(t)
	prof := storetest.S3Like()
	prof.MuteRetention = true
	b := newBucket(t, prof)
	b.fill("a", threeStreams, nil)
	want := b.keys()
	r := collect(t, New(b, b, b.proven(b.options(keepOne))))
	if diff := cmp.Diff(want, b.keys()); diff != "" {
		t.Errorf("something went (-want +got):\n%s", diff)
	}
	if got := result(t, r, threeStreams[2]); got.Result != Blocked || !strings.Contains(got.Why, "GetObjectRetention") {
		t.Errorf("it is %s: %s", got.Result, got.Why)
	}
}

// The locks of fulls are known from the answers that tell whether they are excluded.
func TestEachDeltaThatGoesIsAskedAboutOnce(t *testing.T) {
	const deltas = 30
	asked := func(last bool) int {
		locksLast = last
		defer func() { locksLast = false }()
		b := newBucket(t, storetest.S3Like())
		names := []string{full(10, 0)}
		for i := range deltas {
			names = append(names, delta(10*i+11, 10*i+20, i+1))
		}
		b.fill("a", append(names, full(10*deltas+20, 1440)), nil)
		f := storetest.NewFaulty(b.Memory)
		r := collect(t, New(f, f, b.proven(b.options(keepOne))))
		if n := r.Total(Deleted).Objects; n != 2*len(names) {
			t.Fatalf("%d objects went, want %d snapshots and their manifests", n, len(names))
		}
		return f.Count(storetest.OpStat)
	}
	before, last := asked(false), asked(true)
	if want := 2*deltas + 1; before-last != want {
		t.Errorf("%d requests if locks are asked about for the plan, %d if not; want %d less: one for each delta and manifest", before, last, want)
	}
}

// Without its marker, a snapshot that somebody deleted would come back. Where there are tags, the lock of a hidden one is known
// from the answer that tells them.
func TestAMarkerStaysOverALockedVersion(t *testing.T) {
	askLast(t)
	untagged := storetest.S3Like()
	untagged.Tags = false
	b := newBucket(t, untagged)
	hidden := threeStreams[1]
	b.fill("a", threeStreams, func(name string) store.PutOptions {
		if name == hidden {
			return lockedUntil(start.Add(30 * 24 * time.Hour))
		}
		return store.PutOptions{}
	})
	if _, err := b.Hide(key(hidden)); err != nil {
		t.Fatal(err)
	}
	collect(t, New(b, b, b.options(keepOne)))
	if got := b.Versions(key(hidden)); len(got) != 2 {
		t.Errorf("of the marker and the locked version %d are left: %+v", len(got), got)
	}
}
