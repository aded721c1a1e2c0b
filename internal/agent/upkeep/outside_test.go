package upkeep

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/etcd/member"
)

// beside are the wanted members m-0 to m-(n-1), and those of the cluster outside that they joined.
func beside(n int, outside ...string) []Wanted {
	all := wanted(n)
	for _, name := range outside {
		all = append(all, Wanted{Name: name, PeerURLs: []string{"http://" + name + ":2380"}, Outside: true})
	}
	return all
}

func TestMembersOutsideAreRemovedOnlyAfterTheConfigurationForgotThem(t *testing.T) {
	for name, c := range map[string]struct {
		line    string
		wanted  []Wanted
		act     RemovalAct
		member  uint64
		because string
	}{
		"all are named":                             {"m-0* m-1 m-2 old-7 old-8 old-9", beside(3, "old-7", "old-8", "old-9"), KeepAll, 0, "every member is wanted"},
		"one of theirs is not named":                {"m-0* m-1 m-2 old-7 old-8", beside(3, "old-7"), KeepAll, 0, "every member is wanted"},
		"they add one of theirs":                    {"m-0* m-1 m-2 old-7 ?8", beside(3, "old-7"), KeepAll, 0, "every member is wanted"},
		"one of ours is too many":                   {"m-0* m-1 m-2 m-3 old-7", beside(3, "old-7"), Remove, 4, "m-3 is not among the 3 wanted"},
		"a leader of ours is too many":              {"m-0 m-1 m-2 m-3* old-7", beside(3, "old-7"), HandOn, 1, "m-0 leads instead"},
		"none is named any more":                    {"m-0* m-1 m-2 old-7 old-8 old-9", beside(3), Remove, 10, "old-9 is not among the 3 wanted"},
		"none is named, and one is dead":            {"m-0* m-1 m-2 old-7 old-8!dead old-9", beside(3), Remove, 9, "old-8"},
		"none is named, one of ours is ill":         {"m-0* m-1!dead m-2 old-7", beside(3), Wait, 0, "leaves when all who are wanted are healthy voters: m-1 is not healthy: dead"},
		"none is named, one of ours has no vote":    {"m-0* m-1 m-2+ old-7", beside(3), Wait, 0, "m-2 has no vote yet"},
		"none is named, one of ours has not joined": {"m-0* m-1 old-7", beside(3), Wait, 0, "m-2 has not joined"},
		"none is named, one of ours never started":  {"m-0* m-1 ?2 old-7", beside(3), Wait, 0, "never started"},
	} {
		t.Run(name, func(t *testing.T) {
			v := parse(t, c.line)
			got := DecideRemoval(RemovalFacts{View: v, Wanted: c.wanted, Since: forLong(v, c.wanted, noon), Grace: time.Minute, Now: noon})
			if got.Act != c.act || got.Member != c.member || !strings.Contains(got.Reason, c.because) {
				t.Errorf("got %+v, want %s of member %d because of %q", got, c.act, c.member, c.because)
			}
		})
	}
}

func TestPeerURLsDoNotWaitForMembersOutside(t *testing.T) {
	v := parse(t, "m-0* m-1")
	w := append([]Wanted{{Name: "m-0", PeerURLs: []string{"https://m-0:2380"}}, wanted(2)[1]}, beside(0, "old-7")...)
	running := map[string]Running{"m-0": {URLs: []string{"http://m-0:2380"}}, "m-1": {URLs: []string{"http://m-1:2380"}}}
	if got := DecidePeerURLs(URLFacts{View: v, Wanted: w, Running: running}); got.Act != URLsUpdate {
		t.Errorf("got %+v, want %s", got, URLsUpdate)
	}
}

func TestALeaderOutsideIsRelievedWhenAllVote(t *testing.T) {
	for name, c := range map[string]struct {
		line    string
		self    uint64
		since   time.Duration
		act     ClaimAct
		because string
	}{
		"one of ours leads":              {"m-0* m-1 m-2 old-7", 1, time.Hour, ClaimNone, ""},
		"one of ours, too many, leads":   {"m-0 m-1 m-2 m-3* old-7", 1, time.Hour, ClaimNone, ""},
		"nobody leads":                   {"m-0 m-1 m-2 old-7", 1, time.Hour, ClaimNone, ""},
		"one outside leads":              {"m-0 m-1 m-2 old-7*", 1, time.Hour, ClaimLead, "no backups are written until a member of this cluster leads"},
		"it leads for a moment":          {"m-0 m-1 m-2 old-7*", 1, time.Second, ClaimWait, "if that lasts for 1m0s"},
		"another one of ours is to lead": {"m-0 m-1 m-2 old-7*", 2, time.Hour, ClaimWait, "which m-0 is about to"},
		"one of ours has no vote":        {"m-0 m-1 m-2+ old-7*", 1, time.Hour, ClaimWait, "m-2 has no vote yet"},
		"one of ours has not joined":     {"m-0 m-1 old-7*", 1, time.Hour, ClaimWait, "m-2 has not joined"},
		"one of ours is ill":             {"m-0 m-1!dead m-2 old-7*", 1, time.Hour, ClaimWait, "m-1 is not healthy: dead"},
		"another one outside is ill":     {"m-0 m-1 m-2 old-7* old-8!dead", 1, time.Hour, ClaimLead, ""},
	} {
		for _, w := range [][]Wanted{beside(3, "old-7", "old-8"), beside(3)} { // named, and no more
			v := parse(t, c.line)
			v.Self = c.self
			got := DecideClaim(ClaimFacts{View: v, Wanted: w, Since: noon.Add(-c.since), Grace: time.Minute, Now: noon})
			if got.Act != c.act || !strings.Contains(got.Reason, c.because) {
				t.Errorf("%s, %d outside: got %+v, want %s because of %q", name, len(w)-3, got, c.act, c.because)
			}
		}
	}
}

func TestAClaimantAsksTheLeaderAndSaysWhatItWaitsFor(t *testing.T) {
	f, c := fake(t, "m-0 m-1 m-2 old-7*")
	f.Self = 1
	var told []string
	claimant := NewClaimant(f, func(context.Context) ([]Wanted, error) { return beside(3, "old-7"), nil },
		func(what string) { told = append(told, what) }, Common{Now: c.Now})
	claimant.tick(t.Context())
	expect(t, f)
	c.advance(time.Minute)
	f.fail["move leader 8 to 1"] = errors.New("it does not want to")
	claimant.tick(t.Context())
	expect(t, f, "move leader 8 to 1")
	if last := told[len(told)-1]; !strings.Contains(last, "no backups are written") || !strings.Contains(last, "it does not want to; move the leadership with etcdctl") {
		t.Errorf("it told %q", last)
	}
	claimant.tick(t.Context()) // not again at once
	expect(t, f)
	delete(f.fail, "move leader 8 to 1")
	c.advance(time.Minute)
	claimant.tick(t.Context())
	expect(t, f, "move leader 8 to 1")
	f.Leader = 1
	claimant.tick(t.Context())
	if last := told[len(told)-1]; last != "" {
		t.Errorf("it tells %q though it leads", last)
	}
}

func TestMembersOutsideAreNotDefragmented(t *testing.T) {
	f, c := fake(t, "m-0* m-1 old-7")
	d, err := NewDefragmenter(f, DefragOptions{NoSchedule: true, Settle: time.Second, Common: Common{Now: c.Now},
		Spare: func(p member.Peer) bool { return p.Name == "old-7" }})
	if err != nil {
		t.Fatal(err)
	}
	d.Request()
	for range 20 {
		d.tick(t.Context())
		c.advance(5 * time.Second)
	}
	for _, did := range f.took() {
		if strings.Contains(did, "defragment 8") {
			t.Errorf("it did %q", did)
		}
	}
	if o := d.Operation(); o.Status != agentapi.Success || o.Total != 2 {
		t.Errorf("the operation is %+v, want both members of ours done", o)
	}
}
