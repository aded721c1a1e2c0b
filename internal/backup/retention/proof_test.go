package retention

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
)

// wildProofs are of some chains, some only as far as a delta, and some of objects that changed since.
func wildProofs(r *rand.Rand, tl timeline.Timeline) []Proof {
	var proofs []Proof
	for _, l := range tl.Lineages {
		for _, c := range l.Chains() {
			if r.IntN(3) > 0 {
				continue
			}
			if n := len(c.Deltas); n > 0 && r.IntN(3) == 0 {
				c.Deltas = c.Deltas[:r.IntN(n)]
			}
			p := proofOf(c)
			if r.IntN(4) == 0 {
				p.Base.Modified = p.Base.Modified.Add(time.Second)
			}
			if n := len(p.Deltas); n > 0 && r.IntN(4) == 0 {
				p.Deltas[r.IntN(n)].Size++
			}
			proofs = append(proofs, p)
		}
	}
	r.Shuffle(len(proofs), func(i, j int) { proofs[i], proofs[j] = proofs[j], proofs[i] })
	return proofs
}

// holds reports whether the object is in the lineage as it was read, by trying all of them.
func holds(l timeline.Lineage, o timeline.Object) bool {
	return slices.ContainsFunc(l.Snapshots, func(s timeline.Snapshot) bool {
		return s.Usable() && s.Ref == o.Ref && s.Size == o.Size && s.Modified.Equal(o.Modified)
	})
}

// newestProven is the proof with the farthest reaching base among those that hold in the lineage.
func newestProven(l timeline.Lineage, proofs []Proof) (Proof, bool) {
	for _, base := range l.Bases() {
		for _, p := range proofs {
			if p.Base.Ref == base.Ref && holds(l, p.Base) {
				return p, true
			}
		}
	}
	return Proof{}, false
}

// tryProofs runs fn on random buckets with random proofs. deleted are the snapshots that lose their
// content.
func tryProofs(t *testing.T, fn func(t *testing.T, l timeline.Lineage, proofs []Proof, deleted map[timeline.Ref]bool)) {
	t.Helper()
	deletions, successions := 0, 0
	r := rand.New(rand.NewPCG(5, 12))
	for range *buckets {
		s := wildScene(r)
		s.build()
		s.bucket.Proofs = wildProofs(r, s.bucket.Timeline)
		plan, err := Decide(s.bucket, s.policy, s.now, immutability.DeleteMargin)
		if err != nil {
			t.Fatal(err)
		}
		deleted := map[timeline.Ref]bool{}
		for _, d := range plan.Deletions() {
			if d.Kind == Full || d.Kind == Delta {
				deleted[d.Ref] = true
			}
		}
		deletions += len(deleted)
		for i, l := range s.bucket.Timeline.Lineages {
			if slices.ContainsFunc(s.bucket.Timeline.Lineages[:i], func(newer timeline.Lineage) bool {
				_, is := newestProven(newer, s.bucket.Proofs)
				return is && !l.LastWrite().After(newer.LastWrite())
			}) {
				successions++
				continue // a newer lineage that is proven has taken its place
			}
			fn(t, l, s.bucket.Proofs, deleted)
			if t.Failed() {
				t.Fatal(s.dump(plan, nil))
			}
		}
	}
	if deletions == 0 || successions == 0 {
		t.Errorf("%d snapshots were deleted and %d lineages succeeded, so nothing was tried", deletions, successions)
	}
}

func TestNewestProvenChainIsNeverDeleted(t *testing.T) {
	tryProofs(t, func(t *testing.T, l timeline.Lineage, proofs []Proof, deleted map[timeline.Ref]bool) {
		p, is := newestProven(l, proofs)
		if !is {
			return
		}
		for i, o := range append([]timeline.Object{p.Base}, p.Deltas...) {
			if i > 0 && !holds(l, o) {
				break
			}
			if deleted[o.Ref] {
				t.Errorf("%s is deleted", o.Ref)
			}
		}
	})
}

func TestNothingIsDeletedUnlessANewerChainIsProven(t *testing.T) {
	tryProofs(t, func(t *testing.T, l timeline.Lineage, proofs []Proof, deleted map[timeline.Ref]bool) {
		p, is := newestProven(l, proofs)
		for _, s := range l.Snapshots {
			if !deleted[s.Ref] {
				continue
			}
			switch {
			case !is:
				t.Errorf("%s is deleted without a proof", s.Ref)
			case snapshot.Compare(s.Name(), p.Base.Key.Name) >= 0 || s.Last > p.Base.Key.Name.Last && !s.Full():
				t.Errorf("%s is deleted, although the newest proven chain begins with %s", s.Ref, p.Base.Ref)
			}
		}
	})
}

// Markers, manifests and chunks may be what is left of the newest good chain.
func TestNothingAtAllIsDeletedWithoutAProof(t *testing.T) {
	try(t, func(t *testing.T, _ *rand.Rand, s *scene, proven Plan) {
		s.bucket.Proofs = nil
		plan, err := Decide(s.bucket, s.policy, s.now, 0)
		if err != nil {
			t.Fatal(err)
		}
		if d := plan.Deletions(); len(d) > 0 {
			t.Fatalf("%s is deleted", d[0].Ref)
		}
		if len(plan.Deletions()) < len(proven.Deletions()) && len(plan.Unproven()) == 0 {
			t.Fatal("no lineage is named for reading")
		}
	})
}

// What is asked for is enough: once the newest chain of each named lineage is proven, nothing waits.
func TestProofsOfTheUnprovenLineagesAreEnough(t *testing.T) {
	try(t, func(t *testing.T, _ *rand.Rand, s *scene, proven Plan) {
		s.bucket.Proofs = nil
		for range 3 {
			plan, err := Decide(s.bucket, s.policy, s.now, 0)
			if err != nil {
				t.Fatal(err)
			}
			if len(plan.Unproven()) == 0 {
				break
			}
			for _, id := range plan.Unproven() {
				l, _ := s.bucket.Timeline.Lineage(id)
				if c, ok := l.NewestChain(); ok {
					s.bucket.Proofs = append(s.bucket.Proofs, proofOf(c))
				}
			}
		}
		plan, err := Decide(s.bucket, s.policy, s.now, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := len(plan.Deletions()), len(proven.Deletions()); got != want {
			t.Fatalf("%d versions are deleted, want %d", got, want)
		}
	})
}
