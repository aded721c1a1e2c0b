package upkeep

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/etcd/member"
)

func TestTheNextStepAgainstNOSPACE(t *testing.T) {
	sizes := func(pairs ...int64) func(*ReliefFacts) {
		return func(f *ReliefFacts) {
			for i := range f.Members {
				f.Members[i].DBSize, f.Members[i].DBSizeInUse = pairs[2*i], pairs[2*i+1]
			}
		}
	}
	cases := map[string]struct {
		line      string
		accused   []uint64
		quota     int64
		can, did  snapshot.Revision
		change    func(*ReliefFacts)
		act       ReliefAct
		alarm     uint64
		because   string
		wantCount int // members to defragment
	}{
		"too much seems in use, for an hour":        {line: "m-0* m-1 m-2", accused: []uint64{2}, quota: 1000, can: 50, did: 50, change: func(f *ReliefFacts) { sizes(1000, 950, 1000, 500, 1000, 950)(f); f.Tried = noon.Add(-time.Hour) }, act: ReliefDefragment, because: "may be free since the last compaction", wantCount: 2},
		"no alarm":                                  {line: "m-0* m-1 m-2", quota: 1000, act: ReliefNone, because: "no NOSPACE"},
		"files small enough":                        {line: "m-0* m-1 m-2", accused: []uint64{2, 3}, quota: 1112, act: ReliefDisarm, alarm: 2, because: "every file is below 1001 bytes"},
		"files just too large":                      {line: "m-0* m-1 m-2", accused: []uint64{2}, quota: 1111, act: ReliefDefragment, because: "1000 bytes of a quota of 1111, of which 500 are free", wantCount: 3},
		"one file too large":                        {line: "m-0* m-1 m-2", accused: []uint64{2}, quota: 1000, change: sizes(800, 500, 1000, 500, 899, 899), act: ReliefDefragment, because: "m-1", wantCount: 1},
		"too much in use, history to remove":        {line: "m-0* m-1 m-2", accused: []uint64{2}, quota: 1000, can: 50, did: 49, change: sizes(1000, 950, 1000, 500, 1000, 500), act: ReliefCompact, because: "the history before revision 50 goes"},
		"too much in use, no more history":          {line: "m-0* m-1 m-2", accused: []uint64{2}, quota: 1000, can: 50, did: 50, change: sizes(1000, 950, 1000, 500, 1000, 500), act: ReliefReport, because: "delete keys and compact, or raise quota-backend-bytes"},
		"who raised it is gone":                     {line: "m-0* m-1", accused: []uint64{3}, quota: 1000, act: ReliefDisarm, alarm: 3, because: "gone"},
		"a file's size is not known":                {line: "m-0* m-1!dead m-2", accused: []uint64{1}, quota: 5000, change: sizes(1000, 500, 0, 0, 1000, 500), act: ReliefReport, because: "size of m-1 is not known: dead"},
		"the quota was switched off":                {line: "m-0*", accused: []uint64{1}, quota: -1, act: ReliefDisarm, alarm: 1},
		"etcd's default quota":                      {line: "m-0*", accused: []uint64{1}, quota: 0, change: sizes(2<<30, 1<<20), act: ReliefDefragment, because: "quota of 2147483648", wantCount: 1},
		"a member that never started has no size":   {line: "m-0* ?1+", accused: []uint64{1}, quota: 5000, change: sizes(1000, 500, 0, 0), act: ReliefDisarm, alarm: 1},
		"compaction comes before defragmentation":   {line: "m-0* m-1", accused: []uint64{1}, quota: 1000, can: 5, change: sizes(1000, 950, 1000, 400), act: ReliefCompact},
		"defragmentation is of no use while in use": {line: "m-0* m-1", accused: []uint64{1}, quota: 1000, change: sizes(1000, 950, 1000, 400), act: ReliefReport},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := ReliefFacts{View: parse(t, c.line), Quota: c.quota, Compactable: c.can, Compacted: c.did, Now: noon, Tried: noon.Add(-time.Hour + 1)}
			for _, id := range c.accused {
				f.Alarms = append(f.Alarms, member.Alarm{MemberID: id, Kind: member.AlarmNoSpace})
			}
			if c.change != nil {
				c.change(&f)
			}
			got := DecideRelief(f)
			if got.Act != c.act || got.Alarm.MemberID != c.alarm || len(got.Members) != c.wantCount || !strings.Contains(got.Reason, c.because) {
				t.Errorf("got %+v, want %s because of %q", got, c.act, c.because)
			}
			if got.Act == ReliefCompact && got.Compact != c.can {
				t.Errorf("compacts to %d, want %d", got.Compact, c.can)
			}
		})
	}
}

func TestOnlyHistoryOlderThanTheRetentionAndUploadedIsCompactable(t *testing.T) {
	half := Retention{Period: 30 * time.Minute}
	var h History
	for m := range 61 { // one revision a minute, from 1000 on
		h.Add(snapshot.Revision(1000+m), half, noon.Add(time.Duration(m)*time.Minute))
	}
	now := noon.Add(time.Hour)
	for name, c := range map[string]struct {
		history  *History
		r        Retention
		uploaded snapshot.Revision
		want     snapshot.Revision
	}{
		"half an hour ago":                {&h, half, -1, 1030},
		"not uploaded so far":             {&h, half, 1010, 1010},
		"nothing uploaded":                {&h, half, 0, 0},
		"uploaded further":                {&h, half, 1050, 1030},
		"a period longer than was seen":   {&h, Retention{Period: 61 * time.Minute}, -1, 0},
		"auto-compaction is off":          {&h, Retention{}, -1, 0},
		"a number of revisions":           {&h, Retention{Revisions: 40}, -1, 1020},
		"a number above all":              {&h, Retention{Revisions: 4000}, -1, 0},
		"a sidecar that has just started": {&History{}, half, -1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.history.Compactable(c.r, 1060, c.uploaded, now); got != c.want {
				t.Errorf("got %d, want %d", got, c.want)
			}
		})
	}
}

// Whatever is sampled, nothing younger than the period is given up, and little is kept in memory.
func TestHistoryKeepsThePeriodWithFewSamples(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, period := range []time.Duration{time.Second, 30 * time.Minute, 24 * time.Hour} {
		var h History
		type truth struct {
			at  time.Time
			rev snapshot.Revision
		}
		var all []truth
		now, rev := noon, snapshot.Revision(1)
		found := 0
		for range 3000 {
			now = now.Add(time.Duration(r.Int64N(int64(period) / 100)))
			rev += snapshot.Revision(r.IntN(100))
			h.Add(rev, Retention{Period: period}, now)
			all = append(all, truth{now, rev})
			got := h.Compactable(Retention{Period: period}, rev, -1, now)
			if got > 0 {
				found++
			}
			for _, s := range all {
				if now.Sub(s.at) < period && got > s.rev {
					t.Fatalf("%v: at %v revision %d is given up, and %d is of %v", period, now, got, s.rev, s.at)
				}
			}
		}
		if len(h.seen) > historyLength || found < 1000 {
			t.Errorf("%v: %d samples, found %d times", period, len(h.seen), found)
		}
	}
}

func TestHistoryForgetsWhenTheRevisionGoesBack(t *testing.T) {
	var h History
	r := Retention{Period: time.Minute}
	h.Add(500, r, noon)
	h.Add(20, r, noon.Add(time.Hour))
	if got := h.Compactable(r, 20, -1, noon.Add(time.Hour)); got != 0 {
		t.Errorf("revision %d of another history is compactable", got)
	}
}

func TestTheNextStepAgainstCORRUPT(t *testing.T) {
	// hashes are by digit: "aab" are the hashes of members 1 to 3, a dot is none, upper case is of
	// another compaction.
	cases := map[string]struct {
		line    string
		self    uint64
		accused []uint64
		hashes  string
		want    VerdictAct
		because string
	}{
		"no alarm":                                     {"m-0* m-1 m-2", 1, nil, "aaa", VerdictNone, "no CORRUPT"},
		"accused and different":                        {"m-0* m-1 m-2", 3, []uint64{3}, "aab", VerdictQuarantine, "m-2 has hash"},
		"accused and different, and the leader":        {"m-0* m-1 m-2", 1, []uint64{1}, "baa", VerdictQuarantine, "m-0 has hash"},
		"accused without a hash":                       {"m-0* m-1 m-2", 3, []uint64{3}, "aa.", VerdictQuarantine, "no comparable hash"},
		"accused with a hash that cannot be compared":  {"m-0* m-1 m-2", 3, []uint64{3}, "aaA", VerdictQuarantine, "no comparable hash"},
		"the whole cluster accused, this one differs":  {"m-0* m-1 m-2", 2, []uint64{0}, "aba", VerdictQuarantine, "m-1 has hash"},
		"the whole cluster accused, this one silent":   {"m-0* m-1 m-2", 2, []uint64{0}, "a.a", VerdictReport, "waiting"},
		"the whole cluster accused, this one agrees":   {"m-0* m-1 m-2", 1, []uint64{0}, "aab", VerdictReport, "waiting"},
		"another one is accused":                       {"m-0* m-1 m-2", 1, []uint64{3}, "aab", VerdictReport, "against m-2; waiting until it has left, as 2 of 3 voters agree without it: its own sidecar gives its data up. If that lasts for minutes, as its disk, its node or its sidecar is broken: etcdctl member remove 3;"},
		"different, but another one is accused":        {"m-0* m-1 m-2", 2, []uint64{3}, "aba", VerdictReport, "waiting"},
		"all three differ":                             {"m-0* m-1 m-2", 3, []uint64{0}, "abc", VerdictReport, "no majority"},
		"two members differ":                           {"m-0* m-1", 2, []uint64{2}, "ab", VerdictReport, "no majority of the 2 voters"},
		"the others are no majority, one is dead":      {"m-0* m-1!dead m-2", 3, []uint64{3}, "a.b", VerdictReport, "no majority"},
		"one of the others is ill although it agrees":  {"m-0* m-1!slow m-2", 3, []uint64{3}, "aab", VerdictReport, "no majority"},
		"learners do not count for the majority":       {"m-0* m-1 m-2+ m-3+", 2, []uint64{2}, "abaa", VerdictReport, "no majority"},
		"a sole member":                                {"m-0*", 1, []uint64{1}, "a", VerdictReport, "no majority of the 1 voters"},
		"two of five":                                  {"m-0* m-1 m-2 m-3 m-4", 5, []uint64{4, 5}, "aaabb", VerdictQuarantine, "3 of 5 voters"},
		"three of five":                                {"m-0* m-1 m-2 m-3 m-4", 5, []uint64{3, 4, 5}, "aabcd", VerdictReport, "no majority"},
		"who was accused has left":                     {"m-0* m-1", 1, []uint64{3}, "aa", VerdictDisarm, "gone"},
		"who was accused has left, seen by a follower": {"m-0* m-1", 2, []uint64{3}, "a.", VerdictReport, ""},
		"all agree":                              {"m-0* m-1 m-2", 1, []uint64{2}, "aaa", VerdictDisarm, "all 3 members have the same hash"},
		"all agree, seen by a follower":          {"m-0* m-1 m-2", 2, []uint64{2}, "aaa", VerdictReport, "waiting"},
		"all agree but a learner that is silent": {"m-0* m-1 m-2 m-3+", 1, []uint64{2}, "aaa.", VerdictReport, "waiting"},
		"an accused learner":                     {"m-0* m-1 m-2+", 3, []uint64{3}, "aab", VerdictQuarantine, "m-2 has hash"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			v := parse(t, c.line)
			v.Self = c.self
			for _, id := range c.accused {
				v.Alarms = append(v.Alarms, member.Alarm{MemberID: id, Kind: member.AlarmCorrupt})
			}
			got := DecideCorrupt(v, hashesOf(c.hashes))
			if got.Act != c.want || !strings.Contains(got.Reason, c.because) {
				t.Errorf("got %+v, want %s because of %q", got, c.want, c.because)
			}
		})
	}
}

func hashesOf(letters string) Hashes {
	h := Hashes{}
	for i, c := range letters {
		switch {
		case c >= 'A' && c <= 'Z':
			h[uint64(i+1)] = snapshot.HashKV{Revision: 100, CompactRevision: 60, Hash: uint32(c)}
		case c != '.':
			h[uint64(i+1)] = snapshot.HashKV{Revision: 100, CompactRevision: 50, Hash: uint32(c)}
		}
	}
	return h
}

// If every member follows its own decision at once, a healthy majority of the voters that there
// were still agrees and serves.
func TestHoweverManyAreQuarantinedAMajorityServesOn(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	quarantined := 0
	for range 20000 {
		v := anyView(r)
		v.Alarms = nil
		letters := ""
		for range v.Members {
			letters += string("aaab.A"[r.IntN(6)])
		}
		for range 1 + r.IntN(2) {
			v.Alarms = append(v.Alarms, member.Alarm{MemberID: uint64(r.IntN(len(v.Members) + 1)), Kind: member.AlarmCorrupt})
		}
		voters, _ := v.votes()
		stay := 0
		for _, m := range v.Members {
			v.Self = m.ID
			if DecideCorrupt(v, hashesOf(letters)).Act == VerdictQuarantine {
				quarantined++
			} else if m.Healthy() && !m.Learner {
				stay++
			}
		}
		if quarantined > 0 && stay < quorum(voters) {
			for _, m := range v.Members {
				v.Self = m.ID
				if DecideCorrupt(v, hashesOf(letters)).Act == VerdictQuarantine {
					t.Fatalf("%d of %d voters stay in %+v, hashes %s", stay, voters, v, letters)
				}
			}
		}
	}
	if quarantined < 100 {
		t.Fatalf("only %d members were quarantined in all the random clusters", quarantined)
	}
}
