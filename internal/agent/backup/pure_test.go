package backup

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"druid.internal/druid/internal/agent/metrics"
	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/backup/timeline"
	"druid.internal/druid/internal/etcd/member"
)

func TestWhoLeadsEtcdWritesTheBackups(t *testing.T) {
	const patience = 3 * time.Second
	away := errors.New("connection refused")
	for name, c := range map[string]struct {
		status  member.Status
		err     error
		writes  bool
		unclear time.Duration
		want    bool
	}{
		"etcd leads":                                   {status: member.Status{MemberID: 1, Leader: 1}, want: true},
		"etcd leads and we write":                      {status: member.Status{MemberID: 1, Leader: 1}, writes: true, want: true},
		"another one leads":                            {status: member.Status{MemberID: 1, Leader: 2}},
		"another one leads now":                        {status: member.Status{MemberID: 1, Leader: 2}, writes: true},
		"a learner never writes":                       {status: member.Status{MemberID: 1, Leader: 2, Learner: true}, writes: true},
		"no leader, and we do not write":               {status: member.Status{MemberID: 1}},
		"no leader for a moment":                       {status: member.Status{MemberID: 1}, writes: true, unclear: time.Second, want: true},
		"no leader for long":                           {status: member.Status{MemberID: 1}, writes: true, unclear: patience},
		"etcd does not answer, and we do not write":    {err: away},
		"etcd does not answer for a moment":            {err: away, writes: true, unclear: time.Second, want: true},
		"etcd does not answer for long":                {err: away, writes: true, unclear: patience + 1},
		"an answer that comes with an error is no one": {status: member.Status{MemberID: 1, Leader: 1}, err: away},
	} {
		t.Run(name, func(t *testing.T) {
			seen, why := see(c.status, c.err)
			if got := write(c.writes, seen, c.unclear, patience); got != c.want || why == "" {
				t.Errorf("seen as %q (%s) it writes: %v, want %v", seen, why, got, c.want)
			}
		})
	}
}

// OSS, and containers of Azure with a policy, tell no dates of objects.
func TestALockThatWasComputedIsToldAsSuch(t *testing.T) {
	ref := timeline.Ref{Key: snapshot.SnapshotKey("p", snapshot.Name{Kind: snapshot.Full, Last: 9, Created: 1000})}
	for _, inferred := range []bool{false, true} {
		s := described(ref, &immutability.Retention{Mode: immutability.ModeCompliance, Until: time.Unix(2000, 0), Inferred: inferred})
		if s.ImmutableUntil.IsZero() || s.Inferred != inferred {
			t.Errorf("inferred %t: told as %+v", inferred, s)
		}
	}
}

func TestTheOldestChangeThatIsNotInTheBucketIsRemembered(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(1000+s), 0) }
	type look struct {
		second        int
		rev, uploaded snapshot.Revision
		want          int // second since when; -1: nothing is missing
	}
	for name, looks := range map[string][]look{
		"everything is uploaded":                     {{0, 7, 7, -1}, {1, 7, 7, -1}},
		"what was there at first counts from then":   {{5, 7, 0, 5}, {6, 7, 0, 5}, {7, 7, 7, -1}},
		"a change after quiet time is as old as it":  {{0, 7, 7, -1}, {60, 7, 7, -1}, {61, 8, 7, 60}, {90, 8, 7, 60}},
		"the next one counts when the first is done": {{0, 7, 7, -1}, {1, 8, 7, 0}, {2, 9, 7, 0}, {3, 12, 8, 1}, {4, 12, 9, 2}, {5, 12, 12, -1}},
		"an etcd that does not tell changes nothing": {{0, 7, 7, -1}, {1, 8, 7, 0}, {2, 0, 7, 0}, {3, 0, 8, -1}},
		"a bucket that is ahead":                     {{0, 7, 9, -1}, {1, 8, 9, -1}, {2, 10, 9, 1}},
		"another history begins anew":                {{0, 70, 70, -1}, {1, 71, 70, 0}, {2, 5, 0, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			var e exposure
			for _, l := range looks {
				e.look(at(l.second), l.rev, l.uploaded)
				want := time.Time{}
				if l.want >= 0 {
					want = at(l.want)
				}
				if got := e.since(); !got.Equal(want) {
					t.Fatalf("at second %d: since %v, want %v", l.second, got, want)
				}
			}
		})
	}
}

func TestWhatIsRememberedOfChangesIsBoundedAndNeverTooLate(t *testing.T) {
	var e exposure
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	const looks = 20 * maxMarks
	for i := 1; i <= looks; i++ {
		e.look(at(i), snapshot.Revision(10*i), 0)
		if len(e.marks) > maxMarks {
			t.Fatalf("%d marks are kept, want at most %d", len(e.marks), maxMarks)
		}
	}
	for up := 1; up < looks; up += 97 {
		e.look(at(looks), 10*looks, snapshot.Revision(10*up)) // change up+1 came after second up
		if got := e.since(); got.After(at(up)) {
			t.Fatalf("uploaded up to change %d: since %v, want %v or earlier", up, got, at(up))
		}
	}
	e.look(at(looks), 10*looks, 10*looks)
	if !e.since().IsZero() {
		t.Errorf("since %v, want nothing to be missing", e.since())
	}
}

func TestAMajorityDecidesWhichDataAreRight(t *testing.T) {
	ok := func(id uint64, hash uint32) vote {
		return vote{id: id, hash: snapshot.HashKV{Revision: 9, CompactRevision: 3, Hash: hash}}
	}
	compacted := func(v vote, at snapshot.Revision) vote { v.hash.CompactRevision = at; return v }
	away := func(id uint64) vote { return vote{id: id, err: errors.New("connection refused")} }
	gone := func(id uint64) vote { return vote{id: id, err: member.ErrCompacted} }
	for name, c := range map[string]struct {
		votes []vote
		want  metrics.Agreement
		with  int // members of the majority
	}{
		"one member":                                {[]vote{ok(1, 7)}, metrics.Agree, 1},
		"all three":                                 {[]vote{ok(1, 7), ok(2, 7), ok(3, 7)}, metrics.Agree, 3},
		"two of three":                              {[]vote{ok(1, 7), ok(2, 7), ok(3, 8)}, metrics.Dissent, 2},
		"two of three, one away":                    {[]vote{ok(1, 7), ok(2, 7), away(3)}, metrics.Agree, 2},
		"we are the one that differs":               {[]vote{ok(1, 8), ok(2, 7), ok(3, 7)}, metrics.Minority, 2},
		"three ways":                                {[]vote{ok(1, 7), ok(2, 8), ok(3, 9)}, metrics.NoMajority, 0},
		"only we answer":                            {[]vote{ok(1, 7), away(2), away(3)}, metrics.NoMajority, 0},
		"two of two":                                {[]vote{ok(1, 7), ok(2, 7)}, metrics.Agree, 2},
		"one against one":                           {[]vote{ok(1, 7), ok(2, 8)}, metrics.NoMajority, 0},
		"two against two":                           {[]vote{ok(1, 7), ok(2, 7), ok(3, 8), ok(4, 8)}, metrics.NoMajority, 0},
		"three of five, two away":                   {[]vote{ok(1, 7), ok(2, 7), ok(3, 7), away(4), away(5)}, metrics.Agree, 3},
		"two of five that answer":                   {[]vote{ok(1, 7), ok(2, 7), away(3), away(4), away(5)}, metrics.NoMajority, 0},
		"we do not tell":                            {[]vote{away(1), ok(2, 7), ok(3, 7)}, metrics.NoMajority, 0},
		"we compacted, the others not yet":          {[]vote{compacted(ok(1, 8), 5), ok(2, 7), ok(3, 7)}, metrics.NoMajority, 0},
		"another one compacted already":             {[]vote{ok(1, 7), compacted(ok(2, 8), 5), ok(3, 7)}, metrics.Agree, 2},
		"the revision was compacted away meanwhile": {[]vote{ok(1, 7), gone(2), gone(3)}, metrics.NoMajority, 0},
		"the same hash after another compaction":    {[]vote{ok(1, 7), compacted(ok(2, 7), 5), compacted(ok(3, 7), 5)}, metrics.NoMajority, 0},
	} {
		t.Run(name, func(t *testing.T) {
			got := count(c.votes, 1)
			if got.agreement != c.want || len(got.majority) != c.with {
				t.Errorf("it is %q with %d members, want %q with %d", got.agreement, len(got.majority), c.want, c.with)
			}
			for _, v := range got.majority {
				if c.want == metrics.Minority && v.id == 1 {
					t.Error("this member is in the majority that differs from it")
				}
			}
		})
	}
}

// Ten are told. Whoever may write can leave as many of one kind as he likes, before he does something else.
func TestNoKindOfTamperingHidesAnotherOne(t *testing.T) {
	var seen []timeline.Finding
	add := func(n int, code timeline.Code, severity timeline.Severity) {
		for i := range n {
			seen = append(seen, timeline.Finding{Code: code, Severity: severity, Text: fmt.Sprintf("%s %d", code, i)})
		}
	}
	add(12, timeline.ForeignObject, timeline.Info) // as a listing never has them, and should it
	add(12, timeline.MissingSnapshot, timeline.Warning)
	add(1, timeline.Stranger, timeline.Warning)
	add(2, timeline.Gone, timeline.Danger)
	add(1, timeline.DigestMismatch, timeline.Danger)
	add(1, timeline.Gap, timeline.Danger) // is no tampering
	b := describeBucket(timeline.Timeline{Findings: seen}, timeline.Lineage{}, immutability.Summary{}, time.Now())
	var got []string
	for _, f := range b.Tampering {
		got = append(got, f.Text)
	}
	want := []string{"gone 0", "digest-mismatch 0", "gone 1", "missing-snapshot 0", "stranger 0", "missing-snapshot 1", "missing-snapshot 2", "missing-snapshot 3", "missing-snapshot 4", "missing-snapshot 5"}
	if !slices.Equal(got, want) || b.TamperingCount != 28 {
		t.Errorf("%d findings, of which are told %q, want 28 and %q", b.TamperingCount, got, want)
	}
}
