package datadir

import (
	"encoding/binary"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/lease/leasepb"

	"druid.internal/druid/internal/backup/snapshot"
)

// TestLeaseTTLAtTheTarget has a base at revision 100 with lease 7 of 60 s, and a target at revision 200.
func TestLeaseTTLAtTheTarget(t *testing.T) {
	const assume = 1_000_000
	at := func(rev snapshot.Revision, states ...snapshot.LeaseState) snapshot.LeaseRecord {
		return snapshot.LeaseRecord{Revision: rev, States: states}
	}
	between := func(r snapshot.LeaseRecord, from, to int64) snapshot.LeaseRecord {
		r.Between = &snapshot.LeaseRange{from, to}
		return r
	}
	type needs = map[int64]snapshot.Revision // lease to its oldest key
	for name, c := range map[string]struct {
		records []snapshot.LeaseRecord
		needed  needs
		want    map[int64]int64
		assumed []int64
	}{
		"nothing is recorded":                     {nil, needs{7: 90}, map[int64]int64{7: 60}, nil},
		"a lease without keys stays":              {nil, nil, map[int64]int64{7: 60}, nil},
		"granted again before the target":         {[]snapshot.LeaseRecord{at(150, snapshot.LeaseState{ID: 7, TTL: 86400})}, needs{7: 140}, map[int64]int64{7: 86400}, nil},
		"granted again for a shorter time":        {[]snapshot.LeaseRecord{at(150, snapshot.LeaseState{ID: 7, TTL: 5})}, needs{7: 140}, map[int64]int64{7: 5}, nil},
		"granted again without keys":              {[]snapshot.LeaseRecord{at(150, snapshot.LeaseState{ID: 7, TTL: 5})}, nil, map[int64]int64{7: 5}, nil},
		"granted again after the target":          {[]snapshot.LeaseRecord{at(250, snapshot.LeaseState{ID: 7, TTL: 86400})}, needs{7: 90}, map[int64]int64{7: 60}, nil},
		"granted again around the target":         {[]snapshot.LeaseRecord{at(250, snapshot.LeaseState{ID: 7, TTL: 86400})}, needs{7: 190}, map[int64]int64{7: 86400}, nil},
		"granted for less around the target":      {[]snapshot.LeaseRecord{at(250, snapshot.LeaseState{ID: 7, TTL: 5})}, needs{7: 190}, map[int64]int64{7: 60}, nil},
		"ended before the target":                 {[]snapshot.LeaseRecord{at(150, snapshot.LeaseState{ID: 7, TTL: snapshot.LeaseGone})}, nil, map[int64]int64{}, nil},
		"ended after the target":                  {[]snapshot.LeaseRecord{at(250, snapshot.LeaseState{ID: 7, TTL: snapshot.LeaseGone})}, needs{7: 90}, map[int64]int64{7: 60}, nil},
		"ended, and used again":                   {[]snapshot.LeaseRecord{at(150, snapshot.LeaseState{ID: 7, TTL: snapshot.LeaseGone})}, needs{7: 180}, map[int64]int64{7: assume}, []int64{7}},
		"a new one":                               {[]snapshot.LeaseRecord{at(150, snapshot.LeaseState{ID: 9, TTL: 300})}, needs{9: 150}, map[int64]int64{7: 60, 9: 300}, nil},
		"a new one that is known later":           {[]snapshot.LeaseRecord{at(250, snapshot.LeaseState{ID: 9, TTL: 300})}, needs{9: 150}, map[int64]int64{7: 60, 9: 300}, nil},
		"a new one of later":                      {[]snapshot.LeaseRecord{at(250, snapshot.LeaseState{ID: 9, TTL: 300})}, nil, map[int64]int64{7: 60}, nil},
		"one that ended in between":               {[]snapshot.LeaseRecord{at(250, snapshot.LeaseState{ID: 9, TTL: snapshot.LeaseGone})}, needs{9: 150}, map[int64]int64{7: 60, 9: assume}, []int64{9}},
		"etcd did not answer":                     {[]snapshot.LeaseRecord{at(200, snapshot.LeaseState{ID: 9, TTL: snapshot.LeaseUnknown})}, needs{9: 150}, map[int64]int64{7: 60, 9: assume}, []int64{9}},
		"etcd did not answer, and no key is left": {[]snapshot.LeaseRecord{at(200, snapshot.LeaseState{ID: 9, TTL: snapshot.LeaseUnknown})}, nil, map[int64]int64{7: 60}, nil},
		"etcd did not answer about a known one":   {[]snapshot.LeaseRecord{at(200, snapshot.LeaseState{ID: 7, TTL: snapshot.LeaseUnknown})}, needs{7: 150}, map[int64]int64{7: assume}, []int64{7}},
		"the known one has an older key":          {[]snapshot.LeaseRecord{at(200, snapshot.LeaseState{ID: 7, TTL: snapshot.LeaseUnknown})}, needs{7: 90}, map[int64]int64{7: 60}, nil},
		"etcd answered later":                     {[]snapshot.LeaseRecord{at(200, snapshot.LeaseState{ID: 7, TTL: snapshot.LeaseUnknown}), at(220, snapshot.LeaseState{ID: 7, TTL: 86400})}, needs{7: 150}, map[int64]int64{7: 86400}, nil},
		"etcd answered before the target":         {[]snapshot.LeaseRecord{at(150, snapshot.LeaseState{ID: 7, TTL: snapshot.LeaseUnknown}), at(160, snapshot.LeaseState{ID: 7, TTL: 60})}, needs{7: 150}, map[int64]int64{7: 60}, nil},
		"all are listed":                          {[]snapshot.LeaseRecord{between(at(150, snapshot.LeaseState{ID: 9, TTL: 300}), 0, -1)}, nil, map[int64]int64{9: 300}, nil},
		"some are listed":                         {[]snapshot.LeaseRecord{between(at(150, snapshot.LeaseState{ID: 9, TTL: 300}), 8, -1)}, nil, map[int64]int64{7: 60, 9: 300}, nil},
		"all are listed after the target":         {[]snapshot.LeaseRecord{between(at(250, snapshot.LeaseState{ID: 9, TTL: 300}), 0, -1)}, nil, map[int64]int64{7: 60}, nil},
		"older than the base":                     {[]snapshot.LeaseRecord{between(at(99, snapshot.LeaseState{ID: 9, TTL: 300}), 0, -1)}, nil, map[int64]int64{7: 60}, nil},
		"as old as the base only adds":            {[]snapshot.LeaseRecord{between(at(100, snapshot.LeaseState{ID: 9, TTL: 300}), 0, -1)}, nil, map[int64]int64{7: 60, 9: 300}, nil},
		"out of order":                            {[]snapshot.LeaseRecord{at(160, snapshot.LeaseState{ID: 7, TTL: 5}), at(150, snapshot.LeaseState{ID: 7, TTL: 86400})}, nil, map[int64]int64{7: 5}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			table := &leaseTable{base: 100, leases: map[int64]leaseSeen{7: {ttl: 60, at: 100}}}
			table.note(c.records, 200)
			got, assumed := table.resolve(c.needed, assume)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("want - got +\n%s", diff)
			}
			if diff := cmp.Diff(c.assumed, assumed); diff != "" {
				t.Errorf("assumed: want - got +\n%s", diff)
			}
		})
	}
}

func TestRecordsWaitForTheirRevision(t *testing.T) {
	table := &leaseTable{base: 1, leases: map[int64]leaseSeen{}}
	table.note([]snapshot.LeaseRecord{{Revision: 25, States: snapshot.LeaseStates{{ID: 7, TTL: 86400}}}}, 20)
	if got, _ := table.resolve(nil, 1); len(got) != 0 {
		t.Errorf("leases %v before their revision", got)
	}
	table.note(nil, 30)
	if got, _ := table.resolve(nil, 1); got[7] != 86400 {
		t.Errorf("leases %v, want 7 with 86400 s", got)
	}
}

// TestFloodOfLeasesIsBounded: who can write to a bucket can forge records.
func TestFloodOfLeasesIsBounded(t *testing.T) {
	table := &leaseTable{base: 1, leases: map[int64]leaseSeen{}}
	id := int64(0)
	for range 3 * maxLeases / 10_000 {
		r := snapshot.LeaseRecord{Revision: 1 << 40}
		for range 10_000 {
			id++
			r.States = append(r.States, snapshot.LeaseState{ID: id, TTL: 5})
		}
		now := r
		now.Revision = 10
		table.note([]snapshot.LeaseRecord{r, now}, 10)
	}
	if len(table.leases) > maxLeases || table.laterN > maxLeases {
		t.Errorf("%d leases and %d waiting states are held, want at most %d", len(table.leases), table.laterN, maxLeases)
	}
}

func TestLeaseNoteNamesTheAssumption(t *testing.T) {
	var many []int64
	for id := range int64(11) {
		many = append(many, id+1)
	}
	for name, c := range map[string]struct {
		report Report
		want   string
	}{
		"none":       {Report{AssumedLeaseTTL: 3600}, ""},
		"no records": {Report{AssumedLeaseTTL: 3600, LeasesMade: []int64{7}}, "1 get a time to live of 3600 s, because the deltas have no records of leases; their keys are deleted then unless a client keeps them alive: 0000000000000007"},
		"no answer":  {Report{AssumedLeaseTTL: snapshot.MaxLeaseTTL, LeasesMade: []int64{7, -1}}, "2 get the longest time to live, because no snapshot tells for how long they were granted; revoke those that nobody uses any more (etcdctl lease revoke ID): 0000000000000007 ffffffffffffffff"},
	} {
		if got := c.report.LeaseNote(); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
	if got := (Report{LeasesMade: many}).LeaseNote(); !strings.HasSuffix(got, " 000000000000000a ...") {
		t.Errorf("got %q, want ten ids", got)
	}
}

// TestRemainingTimeOfALeaseIsNotKept: the lease may have been kept alive since the full was taken.
func TestRemainingTimeOfALeaseIsNotKept(t *testing.T) {
	s := startEtcd(t, filepath.Join(t.TempDir(), "source"))
	lease, err := s.c.Grant(t.Context(), 3600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.c.Put(t.Context(), "k", "v", clientv3.WithLease(lease.ID)); err != nil {
		t.Fatal(err)
	}
	s.stop()
	db, err := bbolt.Open(filepath.Join(s.dir, "member", "snap", "db"), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error { // as etcd does every five minutes
		l := leasepb.Lease{ID: int64(lease.ID), TTL: 3600, RemainingTTL: 5}
		v, err := l.Marshal()
		if err != nil {
			return err
		}
		return tx.Bucket([]byte(leaseBucket)).Put(binary.BigEndian.AppendUint64(nil, uint64(lease.ID)), v)
	})
	if cerr := db.Close(); err != nil || cerr != nil {
		t.Fatal(err, cerr)
	}
	s = startEtcd(t, s.dir)
	base := s.snapshot(t)
	s.stop()
	dir := filepath.Join(t.TempDir(), "restored")
	mustRestore(t, Source{Base: reader(base), BaseName: "base"}, Options{}, dir)
	s = startEtcd(t, dir)
	defer s.stop()
	got, err := s.c.TimeToLive(t.Context(), lease.ID)
	if err != nil || got.GrantedTTL != 3600 || got.TTL < 3000 {
		t.Errorf("lease granted %d s, remaining %d s (%v), want all of 3600 s", got.GrantedTTL, got.TTL, err)
	}
}
