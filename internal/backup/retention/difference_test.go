package retention

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
)

// disturbedScene is one lineage of the original with what goes wrong in practice: missing,
// excluded and overlapping snapshots, deltas without a full, both layouts, locks, chunks, a
// writer whose clock is ahead, a delta retention period. Every key has one version.
func disturbedScene(r *rand.Rand) scene {
	s := regularScene(r, true)
	if r.IntN(2) == 0 {
		s.policy.DeltaRetention = time.Duration(r.Int64N(int64(30 * time.Hour)))
	}
	clean := s.bucket.Listing.Objects
	s.bucket.Listing.Objects, s.bucket.Locks = nil, map[timeline.Ref]*immutability.Retention{}
	if r.IntN(4) == 0 && len(clean) > 1 && clean[1].Key.Name.Kind == snapshot.Delta {
		clean = clean[1:] // the first full is gone
	}
	layout := func(k *snapshot.Key) {
		k.Layout, k.Dir = snapshot.V1, "Backup-1"
	}
	for i, o := range clean {
		n := o.Key.Name
		if i > 0 && n.Kind == snapshot.Delta && r.IntN(8) == 0 {
			continue // a gap
		}
		if n.Kind == snapshot.Delta && r.IntN(8) == 0 {
			n.Start = max(n.Start-snapshot.Revision(r.IntN(6)), 1) // it overlaps what another leader wrote
		}
		lock := unlocked()
		if r.IntN(6) == 0 {
			lock = &immutability.Retention{Mode: immutability.ModeCompliance, Until: s.now.Add(time.Duration(r.Int64N(int64(10*time.Hour))) - 5*time.Hour)}
		}
		added := s.add(n, lock)
		if added.Key == (snapshot.Key{}) {
			continue
		}
		added.Excluded = r.IntN(10) == 0
		if r.IntN(12) == 0 {
			delete(s.bucket.Locks, added.Ref)
			layout(&added.Key)
			s.bucket.Locks[added.Ref] = lock
		}
		if n.Kind == snapshot.Full && r.IntN(8) == 0 {
			chunk := *added
			chunk.Key.Object, chunk.Key.Chunk = snapshot.ChunkObject, "0000000001"
			s.bucket.Listing.Objects = append(s.bucket.Listing.Objects, chunk)
			s.bucket.Locks[chunk.Ref] = lock
		}
	}
	if n := len(clean); n > 0 && r.IntN(6) == 0 {
		// An upload that runs right now, of a full that is newer than anything.
		name := snapshot.Name{Kind: snapshot.Full, Last: clean[n-1].Key.Name.Last, Created: s.now.Unix() - 60, Compression: snapshot.Gzip}
		chunk := timeline.Object{Ref: timeline.Ref{Key: snapshot.SnapshotKey("ns/etcd-main", name)}, Size: 5, Modified: s.now.Add(-time.Minute)}
		chunk.Key.Object, chunk.Key.Chunk = snapshot.ChunkObject, "0000000001"
		if _, complete := s.bucket.Locks[timeline.Ref{Key: chunk.Key.Snapshot()}]; !complete {
			s.bucket.Listing.Objects = append(s.bucket.Listing.Objects, chunk)
			s.bucket.Locks[chunk.Ref] = unlocked()
		}
	}
	return s
}

// excused tells whether a reason for which a deletion of the original is not ours is true,
// judged from the listing alone.
func excused(s *scene, plan Plan, d Decision) error {
	var newer, kept []timeline.Object // newer than the object; usable deltas that we keep
	byKey := map[timeline.Ref]Decision{}
	for _, x := range plan.Decisions {
		byKey[x.Ref] = x
	}
	for _, o := range s.bucket.Listing.Objects {
		if o.Key.Object != snapshot.SnapshotObject {
			continue
		}
		if snapshot.Compare(o.Key.Name, d.Ref.Key.Name) > 0 {
			newer = append(newer, o)
		}
		if o.Key.Name.Kind == snapshot.Delta && !o.Excluded && byKey[o.Ref].Action == Keep && o.Key != d.Ref.Key {
			kept = append(kept, o)
		}
	}
	switch {
	case d.Action == Blocked && slices.ContainsFunc(d.Reasons, Reason.unproven):
		// The newest chain is proven here, so no newer full can be used.
		for _, o := range newer {
			if o.Key.Name.Kind == snapshot.Full && !o.Excluded {
				return fmt.Errorf("%s is newer and proven", o.Key)
			}
		}
		return nil
	case d.Action != Keep:
		return fmt.Errorf("it is not kept but %s", d.Action)
	case d.Has(NewestChain):
		// No usable full is newer than a base, and none reaches the end of a delta.
		for _, o := range newer {
			if o.Key.Name.Kind == snapshot.Full && !o.Excluded {
				return fmt.Errorf("%s is a newer base", o.Key)
			}
		}
		return nil
	case d.Has(CurrentStream):
		for _, o := range newer {
			if o.Key.Name.Kind == snapshot.Full {
				return fmt.Errorf("%s begins a newer stream", o.Key)
			}
		}
		return nil
	case d.Has(NeededByDelta):
		for _, o := range kept {
			if o.Key.Name.Last > d.Ref.Key.Name.Last || o.Key.Name.Last == d.Ref.Key.Name.Last && o.Key.Name.Start >= d.Ref.Key.Name.Start {
				return nil
			}
		}
		return fmt.Errorf("no delta that is kept comes after it")
	case d.Has(UploadMayRun):
		if d.Kind != Chunk || d.Created.Before(s.now.Add(-UploadGrace)) {
			return fmt.Errorf("it is no part of a recent upload")
		}
		return nil
	}
	return fmt.Errorf("no property forbids it")
}

func TestWhatTheOriginalKeepsIsNeverDeletedAndWhatItDeletesIsKeptOnlyForAProperty(t *testing.T) {
	var mu sync.Mutex
	differences := map[Reason]int{}
	t.Run("all", func(t *testing.T) {
		shards(t, *listings/5, func(t *testing.T, r *rand.Rand) {
			s := disturbedScene(r)
			wanted := s.oracle()
			plan := s.decide(t)
			for _, d := range plan.Decisions {
				switch {
				case d.Action == Delete && !wanted[d.Key]:
					t.Fatalf("only we delete %s:\n%s", d.Key, s.dump(plan, wanted))
				case d.Action != Delete && wanted[d.Key]:
					if err := excused(&s, plan, d); err != nil {
						t.Fatalf("the original deletes %s, we say %v, but %v:\n%s", d.Key, d.Reasons, err, s.dump(plan, wanted))
					}
					mu.Lock()
					differences[d.Reasons[len(d.Reasons)-1]]++
					mu.Unlock()
				}
			}
		})
	})
	t.Logf("deletions of the original that are not ours, by the property: %v", differences)
	for _, why := range []Reason{NewestChain, NeededByDelta, UploadMayRun} {
		if differences[why] == 0 {
			t.Errorf("no difference because of %s: that property was not tried", why)
		}
	}
}
