package retention

import (
	"math/rand/v2"
	"slices"
	"time"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
)

// wildScene is a bucket in which anything may have happened: several lineages with and
// without manifests, gaps, overlaps, damage, exclusions, overwritten and hidden keys, locks of
// every kind, chunks, vanished snapshots, any policy.
func wildScene(r *rand.Rand) scene {
	s := scene{now: moments[r.IntN(len(moments))].Add(time.Duration(r.Int64N(int64(24 * time.Hour))))}
	s.bucket.Locks = map[timeline.Ref]*immutability.Retention{}
	s.policy = wildPolicy(r)
	lineages := []snapshot.Lineage{{}, {ID: "a"}, {ID: "b", Parent: "a", Fork: 20}, {ID: "c", Parent: "b", Fork: 40}}
	step := []time.Duration{time.Minute, 10 * time.Minute, time.Hour, 20 * time.Hour, 4 * 24 * time.Hour}[r.IntN(5)]
	rev, at := snapshot.Revision(1+r.IntN(30)), s.now.Add(-30*step)
	for _, lineage := range lineages {
		if r.IntN(2) == 0 {
			continue
		}
		for range r.IntN(8) {
			n := snapshot.Name{Kind: snapshot.Delta, Start: rev + 1, Last: rev + 1 + snapshot.Revision(r.IntN(5)), Compression: snapshot.Zstd}
			if r.IntN(3) == 0 {
				n.Kind, n.Start, n.Last = snapshot.Full, 0, rev
			}
			switch r.IntN(12) {
			case 0:
				n.Last += 3 // it overlaps the next
			case 1:
				rev += 2 // a gap before the next
			case 2:
				if n.Kind == snapshot.Delta {
					n.Start = max(1, n.Start-3)
				}
			}
			if n.Kind == snapshot.Delta {
				rev = n.Last
			}
			at = at.Add(time.Duration(r.Int64N(int64(2 * step))))
			n.Created = at.Unix()
			s.wildObject(r, n, lineage)
		}
		rev = max(1, rev-snapshot.Revision(r.IntN(20)))
	}
	return s
}

func wildPolicy(r *rand.Rand) Policy {
	var p Policy
	switch r.IntN(5) {
	case 0, 1:
		p.Method, p.MaxBackups = LimitBased, 1+r.IntN(4)
	case 2:
		p.Method = Exponential
	case 3:
		p.Keep = Counts{Last: r.IntN(3), Hourly: r.IntN(3), Daily: r.IntN(3), Weekly: r.IntN(3), Monthly: r.IntN(2)}
	}
	if r.IntN(3) == 0 {
		p.DeltaRetention = time.Duration(r.Int64N(int64(60 * time.Hour)))
	}
	if r.IntN(4) == 0 {
		p.MaxAge = time.Duration(r.Int64N(int64(300 * time.Hour)))
	}
	if r.IntN(4) == 0 {
		p.MaxSize = 1 + r.Int64N(120)
	}
	return p
}

func wildLock(r *rand.Rand, now time.Time) *immutability.Retention {
	until := now.Add(time.Duration(r.Int64N(int64(40*time.Hour))) - 20*time.Hour)
	switch r.IntN(12) {
	case 0:
		return nil
	case 1:
		return &immutability.Retention{Mode: immutability.ModeUnknown}
	case 2:
		return &immutability.Retention{Mode: immutability.ModeNone, Hold: true}
	case 3:
		return &immutability.Retention{Mode: immutability.ModeCompliance}
	case 4, 5:
		return &immutability.Retention{Mode: immutability.ModeCompliance, Until: until}
	case 6:
		return &immutability.Retention{Mode: immutability.ModeCompliance, Until: now.Add(-time.Duration(r.IntN(30)) * time.Minute)}
	}
	return unlocked()
}

// wildObject puts a snapshot into the bucket with whatever may be beside it.
func (s *scene) wildObject(r *rand.Rand, n snapshot.Name, lineage snapshot.Lineage) {
	key := snapshot.SnapshotKey("ns/etcd-main", n)
	chance := func(n int) bool { return r.IntN(n) == 0 }
	put := func(o timeline.Object) {
		if _, again := s.bucket.Locks[o.Ref]; again {
			return
		}
		s.bucket.Listing.Objects = append(s.bucket.Listing.Objects, o)
		s.bucket.Locks[o.Ref] = wildLock(r, s.now)
	}
	digest := snapshot.Digest{1}
	o := timeline.Object{Ref: timeline.Ref{Key: key, Version: "1"}, Size: 10, Modified: n.CreatedAt(), Digest: digest, Excluded: chance(9)}
	if chance(12) {
		o.Digest = snapshot.Digest{2}
	}
	if !chance(12) {
		put(o)
	}
	if chance(9) {
		f := o
		f.Version, f.Digest, f.Modified = "2", snapshot.Digest{3}, n.CreatedAt().Add(time.Duration(r.IntN(100)-30)*time.Minute)
		put(f)
	}
	if chance(9) {
		put(timeline.Object{Ref: timeline.Ref{Key: key, Version: "3"}, Modified: n.CreatedAt().Add(time.Hour), Marker: true})
	}
	for i := range r.IntN(3) {
		if !chance(5) {
			break
		}
		c := timeline.Object{Ref: timeline.Ref{Key: key, Version: "c"}, Size: 5, Modified: n.CreatedAt().Add(-time.Minute)}
		c.Key.Object, c.Key.Chunk = snapshot.ChunkObject, []string{"0000000001", "0000000002"}[i]
		put(c)
	}
	for i := range r.IntN(3) {
		if i == 0 && lineage.ID == "" && !chance(20) {
			break
		}
		if i == 1 && !chance(9) {
			break
		}
		m := timeline.StoredManifest{Key: key.Manifest(), Version: []string{"m1", "m2"}[i], Modified: n.CreatedAt().Add(time.Duration(i+1) * time.Second)}
		switch {
		case chance(15):
			m.Err = snapshot.ErrManifest
		case chance(15):
			m.Marker = true
		default:
			m.Manifest = &snapshot.Manifest{Version: 1, Snapshot: n.String(), Lineage: lineage, Digest: digest, Size: 10, LastRevision: n.Last}
			if n.Kind == snapshot.Full && chance(4) {
				m.Manifest.LastRevision += snapshot.Revision(r.IntN(4))
			}
		}
		ref := timeline.Ref{Key: m.Key, Version: m.Version}
		if _, again := s.bucket.Locks[ref]; again {
			continue
		}
		s.bucket.Listing.Manifests = append(s.bucket.Listing.Manifests, m)
		s.bucket.Locks[ref] = wildLock(r, s.now)
	}
}

// after is the listing that is left when the given deletions were done.
func (s *scene) after(deletions []Decision) timeline.Listing {
	gone := map[timeline.Ref]bool{}
	for _, d := range deletions {
		gone[d.Ref] = true
	}
	return timeline.Listing{
		Objects: slices.DeleteFunc(slices.Clone(s.bucket.Listing.Objects), func(o timeline.Object) bool { return gone[o.Ref] }),
		Manifests: slices.DeleteFunc(slices.Clone(s.bucket.Listing.Manifests), func(m timeline.StoredManifest) bool {
			return gone[timeline.Ref{Key: m.Key, Version: m.Version}]
		}),
	}
}

// reaches is how far one can restore in a lineage beginning at most at from, by trying every
// usable delta until nothing changes; 0: not at all. It shares nothing with the timeline's chains.
func reaches(l timeline.Lineage, from snapshot.Revision) snapshot.Revision {
	var pos snapshot.Revision
	for _, s := range l.Snapshots {
		if s.Full() && s.Usable() && s.Last <= from {
			pos = max(pos, s.Last)
		}
	}
	for moved := pos > 0; moved; {
		moved = false
		for _, s := range l.Snapshots {
			if !s.Full() && s.Usable() && s.Name().Start <= pos+1 && s.Last > pos {
				pos, moved = s.Last, true
			}
		}
	}
	return pos
}

const everything = snapshot.Revision(1 << 60)
