package datadir

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	"go.etcd.io/etcd/server/v3/lease/leasepb"

	"druid.internal/druid/internal/backup/snapshot"
)

// maxLeases bounds the leases and the states of leases that the records of deltas put into memory.
// What is beyond it is ignored, so that a forged record cannot make a restore fail.
const maxLeases = 1 << 20

// leaseTable holds etcd's leases as they were at the revision that the replay reached: those of the
// base, changed by the records of deltas in the order of their revisions.
type leaseTable struct {
	base     snapshot.Revision // last revision of the base
	leases   map[int64]leaseSeen
	recorded bool                   // a delta has records
	later    []snapshot.LeaseRecord // of revisions beyond the one reached
	laterN   int                    // states in later
}

// leaseSeen is a lease that exists.
type leaseSeen struct {
	ttl int64             // granted seconds; 0: never learned
	at  snapshot.Revision // when the lease had it
	// doubtful says that a key was attached after at, when etcd did not answer about the lease: it
	// may have been revoked and granted again in between.
	doubtful bool
}

func (r *rebuild) readLeases() error {
	r.table = &leaseTable{base: r.baseLast, leases: map[int64]leaseSeen{}}
	return r.eachBase(leaseBucket, func(k, v []byte) error {
		var l leasepb.Lease
		if err := l.Unmarshal(v); err != nil || len(k) != 8 || uint64(l.ID) != binary.BigEndian.Uint64(k) {
			return fmt.Errorf("%s: %w: lease %x", r.src.BaseName, ErrNotEtcd, k)
		}
		r.table.leases[l.ID] = leaseSeen{ttl: min(max(l.TTL, 1), snapshot.MaxLeaseTTL), at: r.baseLast}
		return nil
	})
}

// note takes the records of a delta that is replayed up to revision reached.
func (t *leaseTable) note(records []snapshot.LeaseRecord, reached snapshot.Revision) {
	for _, r := range records {
		t.recorded = true
		if r.Revision >= t.base && t.laterN+len(r.States) <= maxLeases {
			t.later = append(t.later, r)
			t.laterN += len(r.States)
		}
	}
	sort.SliceStable(t.later, func(i, j int) bool { return t.later[i].Revision < t.later[j].Revision })
	for len(t.later) > 0 && t.later[0].Revision <= reached {
		t.laterN -= len(t.later[0].States)
		t.apply(t.later[0])
		t.later = t.later[1:]
	}
}

func (t *leaseTable) apply(r snapshot.LeaseRecord) {
	// The stream of the base may have begun before or after etcd was asked at the same revision. A lease
	// too many ends by itself, one that is missing does not come back.
	adds := r.Revision == t.base
	if r.Between != nil && !adds {
		listed := map[int64]struct{}{}
		for _, s := range r.States {
			listed[s.ID] = struct{}{}
		}
		maps.DeleteFunc(t.leases, func(id int64, _ leaseSeen) bool {
			_, is := listed[id]
			return !is && r.Between.Contains(id)
		})
	}
	for _, s := range r.States {
		seen, exists := t.leases[s.ID]
		switch {
		case s.TTL == snapshot.LeaseGone && !adds:
			delete(t.leases, s.ID)
		case s.TTL == snapshot.LeaseGone || !exists && len(t.leases) >= maxLeases:
		case s.TTL == snapshot.LeaseUnknown:
			seen.doubtful = true
			t.leases[s.ID] = seen
		case adds && exists && s.TTL < seen.ttl:
		default:
			t.leases[s.ID] = leaseSeen{ttl: s.TTL, at: r.Revision}
		}
	}
}

// resolve decides the time to live of every lease of the result. needed has the leases that live keys
// are attached to, each with the revision of the oldest of these keys. assumed are those of which
// nothing tells for how long they were granted.
//
// A lease that is revoked takes its keys with it. So the lease of a key has been the same one since the key
// was put, and a lease may be another one than the record before only if all its keys are newer than that:
//
//	        record: 60 s          target     record: 86400 s
//	key put   |     |               |          |                 60 s
//	                |   key put     |          |                 either of the two: the longer one
func (t *leaseTable) resolve(needed map[int64]snapshot.Revision, assume int64) (ttls map[int64]int64, assumed []int64) {
	after := map[int64]int64{}
	for _, r := range t.later {
		for _, s := range r.States {
			_, seen := after[s.ID]
			if _, is := needed[s.ID]; is && !seen {
				after[s.ID] = s.TTL
			}
		}
	}
	ttls = map[int64]int64{}
	for id, seen := range t.leases {
		if _, is := needed[id]; !is && seen.ttl > 0 {
			ttls[id] = seen.ttl
		}
	}
	for id, oldest := range needed {
		seen := t.leases[id]
		next := after[id]
		switch {
		case seen.ttl > 0 && oldest <= seen.at:
			ttls[id] = seen.ttl
		case next > 0:
			ttls[id] = max(seen.ttl, next)
		case seen.ttl > 0 && !seen.doubtful && next != snapshot.LeaseUnknown:
			ttls[id] = seen.ttl
		default:
			ttls[id] = max(seen.ttl, assume)
			assumed = append(assumed, id)
		}
	}
	slices.SortFunc(assumed, snapshot.CompareLeases)
	return ttls, assumed
}

// writeLeases writes the lease bucket. No time that remained of a lease is written: it may have been
// kept alive since it was known, and without one etcd begins with all of the granted time.
func (r *rebuild) writeLeases(needed map[int64]snapshot.Revision) error {
	// A shorter one could delete keys that etcd kept. But where deltas have no records, as upstream's, nothing
	// tells of any lease, and most of them are short.
	r.report.AssumedLeaseTTL = snapshot.MaxLeaseTTL
	if r.report.DeltasRead > 0 && !r.table.recorded {
		r.report.AssumedLeaseTTL = r.o.LeaseTTL
	}
	inBase := map[int64]int64{}
	if err := r.eachBase(leaseBucket, func(_, v []byte) error {
		var l leasepb.Lease
		if err := l.Unmarshal(v); err != nil {
			return err
		}
		inBase[l.ID] = l.TTL
		return nil
	}); err != nil {
		return err
	}
	ttls, assumed := r.table.resolve(needed, r.report.AssumedLeaseTTL)
	r.report.LeasesMade = assumed
	for _, id := range slices.SortedFunc(maps.Keys(ttls), snapshot.CompareLeases) {
		l := leasepb.Lease{ID: id, TTL: ttls[id]}
		v, err := l.Marshal()
		if err != nil {
			return err
		}
		if err := r.out.put(binary.BigEndian.AppendUint64(nil, uint64(id)), v); err != nil {
			return err
		}
		if _, is := slices.BinarySearchFunc(assumed, id, snapshot.CompareLeases); !is && inBase[id] != l.TTL {
			r.report.LeasesFound = append(r.report.LeasesFound, id)
		}
	}
	return nil
}

// LeaseNote describes LeasesMade and what to do about them; empty: there are none.
func (r Report) LeaseNote() string {
	const most = 10 // ids that a person reads
	n := len(r.LeasesMade)
	if n == 0 {
		return ""
	}
	var ids strings.Builder
	for i, id := range r.LeasesMade {
		if i == most {
			ids.WriteString(" ...")
			break
		}
		fmt.Fprintf(&ids, " %016x", uint64(id)) // as etcdctl prints them
	}
	if r.AssumedLeaseTTL == snapshot.MaxLeaseTTL {
		return fmt.Sprintf("%d get the longest time to live, because no snapshot tells for how long they were granted; revoke those that nobody uses any more (etcdctl lease revoke ID):%s", n, &ids)
	}
	return fmt.Sprintf("%d get a time to live of %d s, because the deltas have no records of leases; their keys are deleted then unless a client keeps them alive:%s", n, r.AssumedLeaseTTL, &ids)
}
