package retention

import (
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
)

var buckets = flag.Int("buckets", 1_000, "random buckets to try each property on")

// newestRestorable is the first lineage in which anything can be restored.
func newestRestorable(tl timeline.Timeline) (id snapshot.LineageID, end snapshot.Revision) {
	for _, l := range tl.Lineages {
		if end := reaches(l, everything); end > 0 {
			return l.ID, end
		}
	}
	return "", 0
}

// prefixes are some of the states that a collector may be interrupted in.
func prefixes(r *rand.Rand, deletions []Decision) [][]Decision {
	cuts := [][]Decision{deletions}
	for range 3 {
		if len(deletions) > 0 {
			cuts = append(cuts, deletions[:r.IntN(len(deletions))])
		}
	}
	return cuts
}

// try runs fn on random buckets, and fails if too few of them have anything to delete.
func try(t *testing.T, fn func(t *testing.T, r *rand.Rand, s *scene, plan Plan)) {
	t.Helper()
	shards(t, *buckets, func(t *testing.T, r *rand.Rand) {
		s := wildScene(r)
		plan := s.decide(t)
		defer func() {
			if t.Failed() {
				t.Log(s.dump(plan, nil))
			}
		}()
		fn(t, r, &s, plan)
	})
}

// Whatever a plan is narrowed to, the snapshots meant keep their decisions, and nothing of others goes.
func TestANarrowedPlanDeletesNothingElse(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 9))
	narrowed := 0
	for range 500 {
		s := wildScene(r)
		s.build()
		whole, err := Decide(s.bucket, s.policy, s.now, immutability.DeleteMargin)
		if err != nil {
			t.Fatal(err)
		}
		meant := func(key string) bool { return len(key)%2 == 0 }
		for i, d := range whole.Narrow(meant).Decisions {
			before := whole.Decisions[i]
			switch {
			case before.Action == Keep || meant(d.Snapshot):
				if diff := cmp.Diff(before, d, cmpopts.IgnoreUnexported(Decision{})); diff != "" {
					t.Fatalf("it changed (-whole +narrow):\n%s", diff)
				}
			case d.Action != Keep || !d.Has(NotMeant) || !d.Until.IsZero():
				t.Fatalf("not meant, and %+v", d)
			default:
				narrowed++
			}
		}
	}
	if narrowed == 0 {
		t.Error("nothing was narrowed")
	}
}

func TestTheRandomBucketsGiveEveryReasonToBeTold(t *testing.T) {
	seen := map[Reason]bool{}
	r := rand.New(rand.NewPCG(7, 7))
	for i := range 5_000 {
		s := wildScene(r)
		s.build()
		if i%2 == 0 {
			s.bucket.Proofs = wildProofs(r, s.bucket.Timeline)
		}
		plan, err := Decide(s.bucket, s.policy, s.now, immutability.DeleteMargin)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range plan.Decisions {
			for _, why := range d.Reasons {
				seen[why] = true
			}
		}
	}
	for why := range texts {
		if !seen[why] && why != NotMeant { // of Plan.Narrow

			t.Errorf("%s never happened: the properties are not tried on it", why)
		}
	}
	for why := range seen {
		if _, known := texts[why]; !known {
			t.Errorf("%s has no text", why)
		}
	}
}

func TestTheNewestRestorableChainIsNeverShortened(t *testing.T) {
	try(t, func(t *testing.T, r *rand.Rand, s *scene, plan Plan) {
		wantID, wantEnd := newestRestorable(s.bucket.Timeline)
		for _, done := range prefixes(r, plan.Deletions()) {
			id, end := newestRestorable(timeline.Build(s.after(done)))
			if id != wantID || end != wantEnd {
				t.Fatalf("after %d deletions lineage %q ends at %d, want lineage %q at %d", len(done), id, end, wantID, wantEnd)
			}
		}
	})
}

func TestTheCurrentLineageIsNeverShortened(t *testing.T) {
	try(t, func(t *testing.T, r *rand.Rand, s *scene, plan Plan) {
		if len(s.bucket.Timeline.Lineages) == 0 {
			return
		}
		current := s.bucket.Timeline.Lineages[0]
		want := reaches(current, everything)
		for _, done := range prefixes(r, plan.Deletions()) {
			left, _ := timeline.Build(s.after(done)).Lineage(current.ID)
			if got := reaches(left, everything); got != want {
				t.Fatalf("after %d deletions lineage %q ends at %d, want %d", len(done), current.ID, got, want)
			}
		}
	})
}

// letsGo are the reasons of a policy to let a snapshot go.
var letsGo = map[Reason]bool{OverMaxBackups: true, NotLastOfPeriod: true, OlderThanWeeks: true, NotCounted: true,
	OldDelta: true, BaseGoes: true, OverMaxAge: true, OverMaxSize: true}

func TestADeltaThatIsKeptStaysRestorable(t *testing.T) {
	try(t, func(t *testing.T, r *rand.Rand, s *scene, plan Plan) {
		// A delta that the policy lets go and that stays only because another needs it is a
		// means, not an end: of its own revisions only those that the other needs must stay.
		kept := map[timeline.Ref]bool{}
		for _, d := range plan.Decisions {
			means := d.Has(NeededByDelta) && letsGo[d.Reasons[0]]
			kept[d.Ref] = d.Action == Keep && !means
		}
		lefts := []timeline.Timeline{}
		for _, done := range prefixes(r, plan.Deletions()) {
			lefts = append(lefts, timeline.Build(s.after(done)))
		}
		for _, l := range s.bucket.Timeline.Lineages {
			for _, x := range l.Snapshots {
				before := x.Name().Start - 1
				if x.Full() || !x.Usable() || !kept[x.Ref] || reaches(l, before) < x.Last {
					continue
				}
				for _, left := range lefts {
					l, _ := left.Lineage(l.ID)
					if got := reaches(l, before); got < x.Last {
						t.Fatalf("%s is kept, but one gets no farther than %d from %d or before", x.Key, got, before)
					}
				}
			}
		}
	})
}

func TestALineageGoesOnlyWhenANewerOneCanBeRestored(t *testing.T) {
	try(t, func(t *testing.T, r *rand.Rand, s *scene, plan Plan) {
		for _, done := range prefixes(r, plan.Deletions()) {
			left := timeline.Build(s.after(done))
			newer := false
			for _, l := range s.bucket.Timeline.Lineages {
				after, _ := left.Lineage(l.ID)
				if !newer && reaches(l, everything) != reaches(after, everything) {
					t.Fatalf("lineage %q loses its end while nothing newer can be restored", l.ID)
				}
				newer = newer || reaches(after, everything) > 0
			}
		}
	})
}

func TestNothingProtectedIsEverDeleted(t *testing.T) {
	blocked := 0
	r := rand.New(rand.NewPCG(9, 9))
	for range *buckets {
		s := wildScene(r)
		margin := time.Duration(r.IntN(60)) * time.Minute
		s.build()
		plan, err := Decide(s.bucket, s.policy, s.now, margin)
		if err != nil {
			t.Fatal(err)
		}
		markers := map[timeline.Ref]bool{}
		for _, o := range s.bucket.Listing.Objects {
			markers[o.Ref] = o.Marker
		}
		for _, m := range s.bucket.Listing.Manifests {
			markers[timeline.Ref{Key: m.Key, Version: m.Version}] = m.Marker
		}
		for _, d := range plan.Decisions {
			lock := s.bucket.Locks[d.Ref]
			free := markers[d.Ref] || lock != nil && !lock.Hold &&
				(lock.Mode == immutability.ModeNone || lock.Mode == immutability.ModeCompliance && !lock.Until.IsZero() && s.now.After(lock.Until.Add(margin)))
			switch {
			case d.Action == Delete && !free:
				t.Fatalf("%s is deleted under %+v at %s", d.Ref, lock, s.now)
			case d.Action == Blocked:
				blocked++
				if !d.Until.IsZero() && !d.Until.After(s.now.Add(-time.Nanosecond)) {
					t.Fatalf("%s is blocked until %s, which is past", d.Ref, d.Until)
				}
				if lock != nil && !markers[d.Ref] && lock.Mode == immutability.ModeCompliance && !d.Until.IsZero() && d.Until.Before(lock.Until.Add(margin)) {
					t.Fatalf("%s is said to be free at %s, before %s", d.Ref, d.Until, lock.Until)
				}
			}
		}
	}
	if blocked < *buckets/10 {
		t.Errorf("only %d versions were blocked: the property was hardly tried", blocked)
	}
}

func TestAKeyGoesWholeAndTheVersionThatCountsLast(t *testing.T) {
	try(t, func(t *testing.T, r *rand.Rand, s *scene, plan Plan) {
		actions := map[string]Action{}
		for _, d := range plan.Decisions {
			if d.Kind == Chunk {
				continue
			}
			if before, seen := actions[d.Key]; seen && before != d.Action {
				t.Fatalf("one version of %s is %s, another %s", d.Key, before, d.Action)
			}
			actions[d.Key] = d.Action
		}
		genuine := map[string]int{}
		deletions := plan.Deletions()
		for i, d := range deletions {
			if d.Kind == Full || d.Kind == Delta {
				genuine[d.Snapshot] = i + 1
			}
		}
		for i, d := range deletions {
			at := genuine[d.Snapshot]
			ofManifest := d.Ref.Key.Object == snapshot.ManifestObject
			switch {
			case at == 0:
				if ofManifest && actions[d.Snapshot] != "" && actions[d.Snapshot] != Delete {
					t.Fatalf("the manifest of %s goes without it", d.Snapshot)
				}
			case (d.Kind == Surplus || d.Kind == Marker && !ofManifest) && i+1 > at:
				t.Fatalf("%s %s is deleted after the version that counts", d.Kind, d.Ref)
			case ofManifest && i+1 < at:
				t.Fatalf("%s is deleted before its snapshot", d.Ref)
			case d.Kind == Chunk && d.Has(SnapshotGoes) && i+1 > at:
				t.Fatalf("%s is deleted after the snapshot it is part of", d.Ref)
			}
		}
	})
}

func TestAnUploadThatMayRunIsLeftAlone(t *testing.T) {
	try(t, func(t *testing.T, r *rand.Rand, s *scene, plan Plan) {
		complete := map[snapshot.Key]bool{}
		for _, o := range s.bucket.Listing.Objects {
			if o.Key.Object == snapshot.SnapshotObject && !o.Marker {
				complete[o.Key] = true
			}
		}
		for _, d := range plan.Deletions() {
			if d.Kind == Chunk && !complete[d.Ref.Key.Snapshot()] && !d.Created.Before(s.now.Add(-UploadGrace)) {
				t.Fatalf("%s may belong to an upload that runs", d.Ref)
			}
		}
	})
}

func TestEveryVersionGetsOneDecisionWithReasons(t *testing.T) {
	try(t, func(t *testing.T, r *rand.Rand, s *scene, plan Plan) {
		want := map[timeline.Ref]int{}
		for _, o := range s.bucket.Listing.Objects {
			want[o.Ref] = 1
		}
		for _, m := range s.bucket.Listing.Manifests {
			want[timeline.Ref{Key: m.Key, Version: m.Version}] = 1
		}
		got := map[timeline.Ref]int{}
		for _, d := range plan.Decisions {
			got[d.Ref]++
			if len(d.Reasons) == 0 || d.Action == "" {
				t.Fatalf("%s: %q %v", d.Ref, d.Action, d.Reasons)
			}
			if d.Key != d.Ref.Key.String() || d.Version != d.Ref.Version {
				t.Fatalf("%s is told as %s@%s", d.Ref, d.Key, d.Version)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("-want +got:\n%s", diff)
		}
	})
}

func TestWhatThePolicyWantsDoesNotDependOnLocks(t *testing.T) {
	try(t, func(t *testing.T, r *rand.Rand, s *scene, plan Plan) {
		// A store that lists no locks: first nothing may go, and what is asked about then is
		// enough to decide as if everything had been known from the start.
		locks := s.bucket.Locks
		s.bucket.Locks = nil
		first := s.decide(t)
		for _, d := range first.Decisions {
			if d.Action == Delete && d.Kind != Marker {
				t.Fatalf("%s is deleted without knowing its lock", d.Ref)
			}
		}
		s.bucket.Locks = map[timeline.Ref]*immutability.Retention{}
		for _, ref := range first.Unknown() {
			s.bucket.Locks[ref] = locks[ref]
		}
		second := s.decide(t)
		s.bucket.Locks = locks
		if diff := cmp.Diff(plan.Table(), second.Table()); diff != "" {
			t.Fatalf("-all known +asked about the blocked: %s", diff)
		}
	})
}

func TestNoPolicyDeletesNothing(t *testing.T) {
	try(t, func(t *testing.T, r *rand.Rand, s *scene, _ Plan) {
		s.policy = Policy{}
		for _, d := range s.decide(t).Decisions {
			if d.Action != Keep {
				t.Fatalf("%s: %s, %v", d.Ref, d.Action, d.Reasons)
			}
		}
	})
}

func TestTheDecisionDoesNotDependOnTheOrderOfTheListing(t *testing.T) {
	try(t, func(t *testing.T, r *rand.Rand, s *scene, plan Plan) {
		want := plan.Table()
		l := &s.bucket.Listing
		r.Shuffle(len(l.Objects), func(i, j int) { l.Objects[i], l.Objects[j] = l.Objects[j], l.Objects[i] })
		r.Shuffle(len(l.Manifests), func(i, j int) { l.Manifests[i], l.Manifests[j] = l.Manifests[j], l.Manifests[i] })
		if diff := cmp.Diff(want, s.decide(t).Table()); diff != "" {
			t.Fatalf("another order of the listing gives other decisions: -want +got:\n%s", diff)
		}
	})
}
