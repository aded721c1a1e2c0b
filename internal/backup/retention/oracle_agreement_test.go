package retention

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
)

var listings = flag.Int("listings", 100_000, "random listings to compare with the original")

// scene is a random bucket with the time and the policy to decide by.
type scene struct {
	bucket Bucket
	policy Policy
	now    time.Time
}

// hours around which scenes take place: midnight, noon, the turn of a year.
var moments = []time.Time{
	time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC),
	time.Date(2026, 3, 4, 12, 30, 15, 500, time.UTC),
	time.Date(2026, 1, 1, 0, 30, 0, 0, time.UTC),
	time.Date(2025, 12, 31, 23, 59, 59, 0, time.UTC),
}

func unlocked() *immutability.Retention {
	return &immutability.Retention{Mode: immutability.ModeNone}
}

// cleanScene is what one writer without a disturbance leaves behind: fulls in a regular or
// irregular rhythm, deltas without a gap, nothing else.
func cleanScene(r *rand.Rand) scene { return regularScene(r, false) }

// regularScene is a clean scene, or with ahead one whose writer's clock may be ahead of ours.
func regularScene(r *rand.Rand, ahead bool) scene {
	s := scene{now: moments[r.IntN(len(moments))].Add(time.Duration(r.Int64N(int64(24 * time.Hour))))}
	s.bucket.Locks = map[timeline.Ref]*immutability.Retention{}
	switch r.IntN(2) {
	case 0:
		s.policy = Policy{Method: LimitBased, MaxBackups: 1 + r.IntN(8)}
	case 1:
		s.policy = Policy{Method: Exponential}
	}
	rhythms := []time.Duration{10 * time.Minute, time.Hour, 3 * time.Hour, 24 * time.Hour, 4 * 24 * time.Hour, 11 * 24 * time.Hour}
	rhythm := rhythms[r.IntN(len(rhythms))]
	n := 1 + r.IntN(8)
	at := s.now.Add(-time.Duration(n) * rhythm)
	aligned := false
	if r.IntN(6) == 0 {
		// To the second at the end of a day, where the original's sections begin and end.
		rhythm, aligned = time.Duration([]int{1, 4, 5, 7}[r.IntN(4)])*day, true
		at = s.now.Add(-time.Duration(n) * rhythm).Truncate(day).Add(-time.Second)
	}
	if ahead && r.IntN(4) == 0 {
		at = at.Add(time.Duration(r.IntN(4)) * rhythm)
	}
	rev := snapshot.Revision(1 + r.IntN(100))
	for i := range n {
		if at.After(s.now) && !ahead {
			break
		}
		step := rhythm
		if !aligned && r.IntN(2) == 0 {
			step = time.Duration(r.Int64N(int64(2 * rhythm)))
		}
		deltas := r.IntN(3)
		s.add(snapshot.Name{Kind: snapshot.Full, Last: rev, Created: at.Unix(), Compression: snapshot.Gzip,
			Final: i == n-1 && r.IntN(5) == 0}, unlocked())
		for j := range deltas {
			last := rev + 1 + snapshot.Revision(r.IntN(9))
			created := at.Add(step * time.Duration(j+1) / time.Duration(deltas+1))
			if created.After(s.now) && !ahead {
				break
			}
			s.add(snapshot.Name{Kind: snapshot.Delta, Start: rev + 1, Last: last, Created: created.Unix(), Compression: snapshot.Gzip}, unlocked())
			rev = last
		}
		if at = at.Add(step); aligned && r.IntN(4) == 0 {
			at = at.Add(rhythm) // one was left out
		}
		if made := at.Add(-step / 8); r.IntN(10) == 0 && (ahead || !made.After(s.now)) {
			// A compaction: a full of what the deltas reached, named after them.
			s.add(snapshot.Name{Kind: snapshot.Full, Last: rev, Created: made.Unix(), Compression: snapshot.Gzip}, unlocked())
		}
	}
	return s
}

// add puts an object under the given name into the bucket and returns it.
func (s *scene) add(n snapshot.Name, lock *immutability.Retention) *timeline.Object {
	key := snapshot.SnapshotKey("ns/etcd-main", n)
	o := timeline.Object{Ref: timeline.Ref{Key: key}, Size: 10, Modified: n.CreatedAt(), Latest: true}
	if _, again := s.bucket.Locks[o.Ref]; again {
		return &timeline.Object{} // the same name again, which a store without versions cannot hold
	}
	s.bucket.Listing.Objects = append(s.bucket.Listing.Objects, o)
	s.bucket.Locks[o.Ref] = lock
	return &s.bucket.Listing.Objects[len(s.bucket.Listing.Objects)-1]
}

// oracle asks the original about the scene, which must have one version per key.
func (s *scene) oracle() map[string]bool {
	p := oraclePolicy{exponential: s.policy.Method == Exponential, maxBackups: s.policy.MaxBackups, deltaRetention: s.policy.DeltaRetention}
	var list []oracleObject
	for _, o := range s.bucket.Listing.Objects {
		n := o.Key.Name
		x := oracleObject{key: o.Key.String(), full: n.Kind == snapshot.Full, chunk: o.Key.Object == snapshot.ChunkObject,
			start: int64(n.Start), last: int64(n.Last), created: n.CreatedAt()}
		if lock := s.bucket.Locks[o.Ref]; lock.Mode != immutability.ModeNone {
			x.expiry = lock.Until
		}
		if !x.chunk {
			p.prevLast = max(p.prevLast, x.last)
		}
		list = append(list, x)
	}
	return oracle(list, p, s.now)
}

// build builds the timeline, and proves the newest chain of each lineage.
func (s *scene) build() {
	s.bucket.Timeline = timeline.Build(s.bucket.Listing)
	s.bucket.Proofs = proveAll(s.bucket.Timeline)
}

// proveAll are proofs of the newest chain of each lineage.
func proveAll(tl timeline.Timeline) []Proof {
	var proofs []Proof
	for _, l := range tl.Lineages {
		if c, ok := l.NewestChain(); ok {
			proofs = append(proofs, proofOf(c))
		}
	}
	return proofs
}

func proofOf(c timeline.Chain) Proof {
	var deltas []timeline.Snapshot
	for _, d := range c.Deltas {
		deltas = append(deltas, d.Snapshot)
	}
	return NewProof(c.Base, deltas, c.End, time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC))
}

// decide builds the timeline and decides, with no margin, as the original has none.
func (s *scene) decide(t *testing.T) Plan {
	t.Helper()
	s.build()
	plan, err := Decide(s.bucket, s.policy, s.now, 0)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

func (s *scene) dump(plan Plan, wanted map[string]bool) string {
	text := fmt.Sprintf("%s at %s\n", s.policy, s.now.Format(time.RFC3339Nano))
	for _, d := range plan.Decisions {
		original := "keeps"
		if wanted[d.Key] {
			original = "deletes"
		}
		text += fmt.Sprintf("%-8s %s %v (the original %s)\n", d.Action, d.Key, d.Reasons, original)
	}
	return text
}

// shards runs n rounds on as many sources of randomness as there are workers.
func shards(t *testing.T, n int, fn func(t *testing.T, r *rand.Rand)) {
	const workers = 4
	for w := range workers {
		t.Run(fmt.Sprint("seed ", w), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(uint64(w), 20260301))
			for range n / workers {
				fn(t, r)
				if t.Failed() {
					return
				}
			}
		})
	}
}

func TestOnCleanListingsTheOutcomeIsTheOriginals(t *testing.T) {
	shards(t, *listings, func(t *testing.T, r *rand.Rand) {
		s := cleanScene(r)
		wanted := s.oracle()
		plan := s.decide(t)
		for _, d := range plan.Decisions {
			if (d.Action == Delete) != wanted[d.Key] {
				t.Fatalf("%s differs:\n%s", d.Key, s.dump(plan, wanted))
			}
		}
	})
}
