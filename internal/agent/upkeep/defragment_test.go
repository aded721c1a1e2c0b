package upkeep

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"druid.internal/druid/internal/etcd/member"
)

func TestTheNextStepOfADefragmentation(t *testing.T) {
	corrupt := func(f *DefragFacts) { f.Alarms = []member.Alarm{{MemberID: 2, Kind: member.AlarmCorrupt}} }
	elsewhere := func(id uint64, ago time.Duration) func(*DefragFacts) {
		return func(f *DefragFacts) {
			f.Self = id
			if ago >= 0 {
				f.HandedOn = f.Now.Add(-ago)
			}
		}
	}
	cases := map[string]struct {
		line    string
		left    []uint64
		reason  string
		change  func(*DefragFacts)
		act     DefragAct
		member  uint64
		because string
	}{
		"the lowest follower first":                 {"m-0 m-1* m-2", []uint64{1, 2, 3}, ByRequest, nil, DefragNext, 1, "500 of 1000 bytes are free (request)"},
		"then the next follower":                    {"m-0 m-1* m-2", []uint64{2, 3}, ByRequest, nil, DefragNext, 3, "free"},
		"the leader hands on first":                 {"m-0 m-1* m-2", []uint64{2}, ByRequest, nil, DefragHandOn, 1, "m-0 leads instead of m-1"},
		"a leader that is locked shortly":           {"m-0 m-1* m-2", []uint64{2}, ByRequest, func(f *DefragFacts) { f.Longest, f.Stall = time.Second, time.Second }, DefragNext, 2, "free"},
		"a leader that is locked for longer":        {"m-0 m-1* m-2", []uint64{2}, ByRequest, func(f *DefragFacts) { f.Longest, f.Stall = time.Second+1, time.Second }, DefragHandOn, 1, "leads instead"},
		"the former leader follows":                 {"m-0* m-1 m-2", []uint64{2}, ByRequest, elsewhere(2, time.Second), DefragNext, 2, "free"},
		"the former leader is late":                 {"m-0* m-1 m-2", []uint64{2}, ByRequest, elsewhere(2, 30*time.Second), DefragStop, 0, "m-0 leads now"},
		"an election in between":                    {"m-0* m-1 m-2", []uint64{2, 3}, ByRequest, elsewhere(2, -1), DefragStop, 0, "m-0 leads now: its sidecar goes on"},
		"handed on, but not only the own is left":   {"m-0* m-1 m-2", []uint64{2, 3}, ByRequest, elsewhere(2, time.Second), DefragStop, 0, "m-0 leads now"},
		"a sole member":                             {"m-0*", []uint64{1}, BySchedule, nil, DefragNext, 1, "free"},
		"an ill member":                             {"m-0 m-1* m-2!dead", []uint64{1, 2, 3}, ByRequest, nil, DefragPostpone, 0, "m-2 is not healthy: dead"},
		"an ill member that had its turn":           {"m-0!dead m-1* m-2", []uint64{2, 3}, ByRequest, nil, DefragPostpone, 0, "m-0 is not healthy"},
		"a learner catches up":                      {"m-0 m-1* m-2 m-3+", []uint64{1, 2, 3}, ByRequest, nil, DefragPostpone, 0, "m-3 is a learner that catches up"},
		"a member that never started":               {"m-0 m-1* m-2 ?3", []uint64{1, 2, 3}, ByRequest, nil, DefragPostpone, 0, "never started"},
		"no leader":                                 {"m-0 m-1 m-2", []uint64{1, 2, 3}, ByRequest, nil, DefragPostpone, 0, "no leader"},
		"corrupt":                                   {"m-0 m-1* m-2", []uint64{1, 2, 3}, ByRequest, corrupt, DefragPostpone, 0, "CORRUPT"},
		"a member is gone":                          {"m-0 m-1*", []uint64{1, 2, 3}, ByRequest, nil, DefragSkip, 3, "gone"},
		"nothing to gain by schedule":               {"m-0 m-1* m-2", []uint64{1, 2, 3}, BySchedule, func(f *DefragFacts) { f.Members[1].DBSizeInUse = 951 }, DefragSkip, 2, "49 of 1000 bytes are free: nothing to gain"},
		"a little to gain by schedule":              {"m-0 m-1* m-2", []uint64{2}, BySchedule, func(f *DefragFacts) { f.Members[1].DBSizeInUse = 950 }, DefragHandOn, 1, "leads instead"},
		"nothing to gain, but on request":           {"m-0 m-1* m-2", []uint64{1}, ByRequest, func(f *DefragFacts) { f.Members[0].DBSizeInUse = 1000 }, DefragNext, 1, "0 of 1000"},
		"everybody had a turn":                      {"m-0 m-1* m-2", nil, ByRequest, nil, DefragFinish, 0, "every member had its turn"},
		"an ill one is not skipped as without gain": {"m-0 m-1* m-2!dead", []uint64{3}, BySchedule, func(f *DefragFacts) { f.Members[2].DBSize, f.Members[2].DBSizeInUse = 0, 0 }, DefragPostpone, 0, "m-2 is not healthy"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := DefragFacts{View: parse(t, c.line), Reason: c.reason, Left: c.left, Now: noon}
			if c.change != nil {
				c.change(&f)
			}
			got := DecideDefragmentation(f)
			if got.Act != c.act || got.Member != c.member || !strings.Contains(got.Reason, c.because) {
				t.Errorf("got %+v, want %s of member %d because of %q", got, c.act, c.member, c.because)
			}
		})
	}
}

// Several sidecars decide for themselves, as if each had a run that it believes in.
func TestNoLeaderAndNobodyBesideAnIllMemberIsDefragmented(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	done := 0
	for range 20000 {
		v := anyView(r)
		f := DefragFacts{View: v, Reason: []string{BySchedule, ByThreshold, ByRequest, ByAlarm}[r.IntN(4)], Now: noon}
		for _, m := range v.Members {
			if r.IntN(2) == 0 {
				f.Left = append(f.Left, m.ID)
			}
		}
		if r.IntN(3) == 0 {
			f.HandedOn = noon.Add(-time.Duration(r.IntN(60)) * time.Second)
		}
		d := DecideDefragmentation(f)
		switch d.Act {
		case DefragNext:
			done++
			if !slices.Contains(f.Left, d.Member) {
				t.Fatalf("%+v defragments who is not left", f)
			}
			if d.Member == v.Leader && len(v.Members) > 1 {
				t.Fatalf("%+v defragments the leader", f)
			}
			if v.Leader != v.Self && (d.Member != v.Self || len(f.Left) != 1) {
				t.Fatalf("%+v: another sidecar defragments %d", f, d.Member)
			}
		case DefragHandOn:
			if len(f.Left) != 1 || f.Left[0] != v.Leader {
				t.Fatalf("%+v hands on before the others had their turn", f)
			}
		default:
			continue
		}
		for _, m := range v.Members {
			if !m.Healthy() || m.Learner || len(v.Alarms) > 0 {
				t.Fatalf("%+v: %s while %s is ill, a learner or accused", f, d.Act, m)
			}
		}
	}
	if done < 200 {
		t.Fatalf("only %d of the random runs defragmented anything", done)
	}
}

func TestAMemberIsWorthADefragmentation(t *testing.T) {
	const mb = 1 << 20
	ago := func(d time.Duration, failed bool, promised, gave int64) *Attempt {
		return &Attempt{End: noon.Add(-d), Failed: failed, Promised: promised, Gave: gave}
	}
	cases := map[string]struct {
		size, used, quota int64
		last              *Attempt
		want              string
	}{
		"half of it is free":                        {400 * mb, 200 * mb, 8192 * mb, nil, "209715200 of 419430400 bytes are free"},
		"less than 45 percent are free":             {400 * mb, 221 * mb, 8192 * mb, nil, ""},
		"half of little":                            {100 * mb, 50 * mb, 8192 * mb, nil, ""},
		"near the quota with a tenth of it free":    {820 * mb, 717 * mb, 1000 * mb, nil, "of a quota of 1048576000"},
		"near the quota with less free":             {820 * mb, 721 * mb, 1000 * mb, nil, ""},
		"near the quota, which is off":              {820 * mb, 700 * mb, -1, nil, ""},
		"not near the quota":                        {790 * mb, 600 * mb, 1000 * mb, nil, ""},
		"done half an hour ago":                     {400 * mb, 200 * mb, 8192 * mb, ago(30*time.Minute, false, mb, mb), ""},
		"done an hour ago":                          {400 * mb, 200 * mb, 8192 * mb, ago(time.Hour, false, mb, mb), "free"},
		"done an hour ago without benefit":          {400 * mb, 200 * mb, 8192 * mb, ago(time.Hour, false, mb, mb/2-1), ""},
		"done an hour ago in vain":                  {400 * mb, 200 * mb, 8192 * mb, ago(time.Hour, true, 0, 0), ""},
		"done six hours ago in vain":                {400 * mb, 200 * mb, 8192 * mb, ago(6*time.Hour, true, 0, 0), "free"},
		"its size is not known":                     {0, 0, 8192 * mb, nil, ""},
		"more in use than there is, for one moment": {mb, 2 * mb, mb, nil, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := DefaultThresholds().Exceeds(Member{DBSize: c.size, DBSizeInUse: c.used}, c.quota, c.last, noon)
			if got == "" != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestThresholdsThatMakeNoSenseAreRefused(t *testing.T) {
	for name, change := range map[string]func(*Thresholds){
		"free share above one":   func(th *Thresholds) { th.FreeShare = 45 },
		"negative quota share":   func(th *Thresholds) { th.QuotaShare = -0.1 },
		"negative bytes":         func(th *Thresholds) { th.FreeBytes = -1 },
		"negative interval":      func(th *Thresholds) { th.MinInterval = -1 },
		"gain of the quota is 2": func(th *Thresholds) { th.QuotaGain = 2 },
	} {
		th := DefaultThresholds()
		if err := th.Validate(); err != nil {
			t.Fatal(err)
		}
		change(&th)
		if err := th.Validate(); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
