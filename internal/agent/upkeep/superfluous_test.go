package upkeep

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// forLong has everybody superfluous for an hour.
func forLong(v View, w []Wanted, now time.Time) map[uint64]time.Time {
	since := map[uint64]time.Time{}
	for _, m := range Superfluous(v, w) {
		since[m.ID] = now.Add(-time.Hour)
	}
	return since
}

func TestSuperfluousMembersGoOneByOneWithoutCostingTheQuorum(t *testing.T) {
	cases := map[string]struct {
		line    string
		wanted  int
		act     RemovalAct
		member  uint64
		because string
	}{
		"nobody is superfluous":                          {"m-0* m-1 m-2", 3, KeepAll, 0, "every member is wanted"},
		"a wanted learner that has not started":          {"m-0* m-1 ?2+", 3, KeepAll, 0, "every member is wanted"},
		"a learner that never started":                   {"m-0* m-1 m-2 ?3+", 3, Remove, 4, "never started"},
		"a voter that never started":                     {"m-0* m-1 m-2 ?3", 3, Remove, 4, "never started"},
		"after a failed 3 to 5 the learner goes first":   {"m-0* m-1 m-2 m-3!dead ?4+", 3, Remove, 5, "never started"},
		"then the dead voter":                            {"m-0* m-1 m-2 m-3!dead", 3, Remove, 4, "m-3 is not among the 3 wanted"},
		"the highest of the healthy ones":                {"m-0* m-1 m-2 m-3 m-4", 3, Remove, 5, "m-4"},
		"a dead one before a healthy one":                {"m-0* m-1 m-2 m-3!dead m-4", 3, Remove, 4, "m-3"},
		"a healthy one that the quorum needs stays":      {"m-0* m-1 m-2!dead m-3!dead m-4", 3, Remove, 4, "m-3"},
		"three of five where two wanted are dead":        {"m-0* m-1!dead m-2!dead m-3 m-4", 3, Wait, 0, "2 healthy of 4 voters were left"},
		"from three to one":                              {"m-0* m-1 m-2", 1, Remove, 3, "m-2"},
		"from three to one with a dead one":              {"m-0* m-1!dead m-2", 1, Remove, 2, "m-1"},
		"from two to one":                                {"m-0* m-1", 1, Remove, 2, "m-1"},
		"from two to one where the wanted one is dead":   {"m-0!dead m-1*", 1, Wait, 0, "no wanted member is a healthy voter"},
		"the leader is superfluous and hands on":         {"m-0 m-1 m-2*", 2, HandOn, 1, "m-2 leads and is not wanted: m-0 leads instead"},
		"the leader is superfluous and hands on at last": {"m-0 m-1 m-2 m-3*", 2, Remove, 3, "m-2"},
		"a configuration of other members":               {"m-5* m-6 m-7", 3, Wait, 0, "no wanted member is a healthy voter; check initial-cluster"},
		"an empty configuration":                         {"m-0* m-1", 0, Wait, 0, "the configuration names no member"},
		"without a leader":                               {"m-0 m-1 m-2 m-3", 3, Wait, 0, "no leader"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			v, w := parse(t, c.line), wanted(c.wanted)
			got := DecideRemoval(RemovalFacts{View: v, Wanted: w, Since: forLong(v, w, noon), Grace: time.Minute, Now: noon})
			if got.Act != c.act || got.Member != c.member || !strings.Contains(got.Reason, c.because) {
				t.Errorf("got %+v, want %s of member %d because of %q", got, c.act, c.member, c.because)
			}
		})
	}
}

func TestAMemberGoesOnlyAfterItWasSuperfluousForAWhile(t *testing.T) {
	v, w := parse(t, "m-0* m-1 m-2 m-3 m-4!dead"), wanted(3)
	for name, c := range map[string]struct {
		since map[uint64]time.Time
		want  Removal
	}{
		"just seen":                       {map[uint64]time.Time{4: noon, 5: noon}, Removal{Act: Wait, Reason: "m-4 is not wanted; it is removed if that lasts for 1m0s"}},
		"never noted":                     {nil, Removal{Act: Wait, Reason: "m-4 is not wanted; it is removed if that lasts for 1m0s"}},
		"the second one has lasted":       {map[uint64]time.Time{4: noon.Add(-time.Minute), 5: noon}, Removal{Act: Remove, Member: 4, Reason: "m-3 is not among the 3 wanted members"}},
		"the first one has just lasted":   {map[uint64]time.Time{4: noon, 5: noon.Add(-time.Minute)}, Removal{Act: Remove, Member: 5, Reason: "m-4 is not among the 3 wanted members"}},
		"one nanosecond is missing to it": {map[uint64]time.Time{4: noon, 5: noon.Add(-time.Minute + 1)}, Removal{Act: Wait, Reason: "m-4 is not wanted; it is removed if that lasts for 1m0s"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := DecideRemoval(RemovalFacts{View: v, Wanted: w, Since: c.since, Grace: time.Minute, Now: noon}); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

// The property of the whole: whatever a cluster looks like, removing what is decided, again and
// again, never leaves fewer healthy voters than a quorum, and never touches who is wanted.
func TestARemovalNeverLeavesTheHealthyVotersWithoutAQuorum(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	removed := 0
	for range 20000 {
		v, w := anyView(r), wanted(r.IntN(6))
		for range 10 {
			voters, healthy := v.votes()
			had := healthy >= quorum(voters)
			d := DecideRemoval(RemovalFacts{View: v, Wanted: w, Since: forLong(v, w, noon), Grace: time.Minute, Now: noon})
			if d.Act == HandOn {
				to, ok := v.Member(d.Member)
				if !ok || to.Learner || !to.Healthy() || !isWanted(to, w) || d.Member == v.Leader {
					t.Fatalf("%+v hands on wrongly: %+v", v, d)
				}
				v.Leader = d.Member
				continue
			}
			if d.Act != Remove {
				break
			}
			removed++
			m, _ := v.Member(d.Member)
			if isWanted(m, w) || d.Member == v.Leader {
				t.Fatalf("%s is wanted or leads, and goes: %+v", m, d)
			}
			v.Members = append([]Member{}, v.Members...)
			for i := range v.Members {
				if v.Members[i].ID == d.Member {
					v.Members = append(v.Members[:i], v.Members[i+1:]...)
					break
				}
			}
			if voters, healthy = v.votes(); !m.Learner && healthy < quorum(voters) || had && healthy < quorum(voters) {
				t.Fatalf("after %s went %d healthy of %d voters are left", m, healthy, voters)
			}
		}
	}
	if removed < 1000 {
		t.Fatalf("only %d removals in all the random clusters", removed)
	}
}

func TestTheFurthestHealthyVoterSucceedsTheLeader(t *testing.T) {
	v := parse(t, "m-0* m-1 m-2!dead m-3+ m-4 ?5")
	v.Members[2].Revision, v.Members[3].Revision, v.Members[4].Revision = 900, 900, 200
	got, ok := v.successor(func(Member) bool { return true })
	if !ok || got.Name != "m-4" {
		t.Errorf("got %s, want m-4", got)
	}
	if got, ok := v.successor(func(m Member) bool { return m.Name == "m-2" }); ok {
		t.Errorf("the dead %s succeeds", got)
	}
}
