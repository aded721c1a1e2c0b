package upkeep

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/etcd/member"
)

// parse makes a view of a line such as "m-0* m-1 m-2!dead m-3+ ?4+": the leader has a star, an
// ill member a bang with the reason, a learner a plus, and a member that never started is called
// ?n. Ids are the last digit plus one. Self is the leader.
func parse(t testing.TB, line string) View {
	t.Helper()
	var v View
	for word := range strings.FieldsSeq(line) {
		word, ill, _ := strings.Cut(word, "!")
		name := strings.TrimRight(word, "*+")
		var n uint64
		if _, err := fmt.Sscanf(name[len(name)-1:], "%d", &n); err != nil {
			t.Fatal(err)
		}
		m := Member{Ill: ill, Revision: 100, DBSize: 1000, DBSizeInUse: 500}
		m.Peer = member.Peer{ID: n + 1, Name: name, PeerURLs: []string{fmt.Sprintf("http://m-%d:2380", n)}, Learner: strings.HasSuffix(word, "+")}
		if name[0] == '?' {
			m.Name = ""
		}
		if strings.HasSuffix(word, "*") {
			v.Leader, v.Self = m.ID, m.ID
		}
		v.Members = append(v.Members, m)
	}
	return v
}

// wanted are m-0 to m-(n-1).
func wanted(n int) []Wanted {
	var all []Wanted
	for i := range n {
		all = append(all, Wanted{Name: fmt.Sprintf("m-%d", i), PeerURLs: []string{fmt.Sprintf("http://m-%d:2380", i)}})
	}
	return all
}

// anyView is a random cluster with a leader most of the time.
func anyView(r *rand.Rand) View {
	var v View
	n := 1 + r.IntN(7)
	for i := range n {
		m := Member{Revision: snapshot.Revision(r.IntN(3)), DBSize: 1000, DBSizeInUse: int64(r.IntN(1001))}
		m.Peer = member.Peer{ID: uint64(i + 1), Name: fmt.Sprintf("m-%d", i), Learner: r.IntN(4) == 0,
			PeerURLs: []string{fmt.Sprintf("http://m-%d:2380", i)}}
		if r.IntN(5) == 0 {
			m.Name = ""
		} else if r.IntN(4) == 0 {
			m.Ill = "dead"
		}
		v.Members = append(v.Members, m)
	}
	leader := v.Members[r.IntN(n)]
	if leader.Healthy() && !leader.Learner {
		v.Leader = leader.ID
	}
	v.Self = v.Members[r.IntN(n)].ID
	if r.IntN(2) == 0 && v.Leader != 0 {
		v.Self = v.Leader
	}
	if r.IntN(8) == 0 {
		v.Alarms = []member.Alarm{{MemberID: 1, Kind: member.AlarmCorrupt}}
	}
	return v
}

func TestMembersAreOrderedByTheNumberTheirNameEndsIn(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"etcd-main-2", "etcd-main-10", -1},
		{"etcd-main-10", "etcd-main-2", 1},
		{"a-1", "b-1", -1},
		{"default", "m-0", -1},
		{"m-", "m-x", -1},
		{"m-1", "m-1", 0},
		{"m-12345678901234567890", "m-0", -1},
	} {
		if got := byOrdinal(c.a, c.b); got != c.want {
			t.Errorf("byOrdinal(%q, %q) = %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

func TestALearnerIsPromotedWhenItHasCaughtUp(t *testing.T) {
	lagging := func(by snapshot.Revision) func(*View) {
		return func(v *View) { v.Members[0].Revision, v.Members[2].Revision = 100000, 100000-by }
	}
	cases := map[string]struct {
		line   string
		self   uint64
		change func(*View)
		wanted int
		want   Promotion
	}{
		"caught up":                      {"m-0* m-1 m-2+", 3, nil, 3, Promotion{Promote: true, Reason: "the learner has caught up"}},
		"a little behind":                {"m-0* m-1 m-2+", 3, lagging(5000), 3, Promotion{Promote: true, Reason: "the learner has caught up"}},
		"far behind":                     {"m-0* m-1 m-2+", 3, lagging(5001), 3, Promotion{Reason: "the learner is at revision 94999, the leader at 100000"}},
		"leader's revision is not known": {"m-0* m-1 m-2+", 3, func(v *View) { v.Members[0].Revision = 0 }, 3, Promotion{Promote: true, Reason: "the learner has caught up"}},
		"a voter":                        {"m-0* m-1 m-2", 3, nil, 3, Promotion{Done: true, Reason: "the member is a voter"}},
		"not listed":                     {"m-0* m-1", 3, nil, 3, Promotion{Reason: "the member is not listed in the cluster"}},
		"not wanted":                     {"m-0* m-1 m-2+", 3, nil, 2, Promotion{Reason: "m-2 is not wanted: it stays a learner until it is removed"}},
		"no leader":                      {"m-0 m-1 m-2+", 3, nil, 3, Promotion{Reason: "the learner sees no leader"}},
		"an ill voter is no obstacle":    {"m-0* m-1!dead m-2+", 3, nil, 3, Promotion{Promote: true, Reason: "the learner has caught up"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			v := parse(t, c.line)
			v.Self = c.self
			if c.change != nil {
				c.change(&v)
			}
			if diff := cmp.Diff(c.want, DecidePromotion(v, wanted(c.wanted))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPeerURLsChangeOneMemberAfterTheOther(t *testing.T) {
	old, fresh := func(i int) []string { return []string{fmt.Sprintf("http://m-%d:2380", i)} }, func(i int) []string { return []string{fmt.Sprintf("https://m-%d:2380", i)} }
	all := []Wanted{{Name: "m-0", PeerURLs: fresh(0)}, {Name: "m-1", PeerURLs: fresh(1)}, {Name: "m-2", PeerURLs: fresh(2)}}
	cases := map[string]struct {
		line    string
		self    uint64
		listed  string // members, by digit, that are listed with the new URLs
		running string // members that run with them
		want    URLAct
		because string
	}{
		"the lowest begins":                              {"m-0* m-1 m-2", 1, "", "", URLsUpdate, "m-0 is listed with http://m-0:2380 and wants https://m-0:2380"},
		"the second waits for the first's list":          {"m-0* m-1 m-2", 2, "", "", URLsWait, "m-0 changes its peer URLs first"},
		"the second waits for the first's restart":       {"m-0* m-1 m-2", 2, "0", "", URLsWait, "m-0 is not known to run with its new peer URLs yet"},
		"the second waits for the first's health":        {"m-0!restarting m-1* m-2", 2, "0", "0", URLsWait, "m-0 is not healthy: restarting"},
		"the second goes on":                             {"m-0 m-1* m-2", 2, "0", "0", URLsUpdate, "m-1 is listed"},
		"nobody goes on while a later one is ill":        {"m-0 m-1* m-2!dead", 1, "", "", URLsWait, "m-2 is not healthy: dead"},
		"nobody goes on before all have joined":          {"m-0* m-1", 1, "", "", URLsWait, "m-2 has not joined"},
		"the list is right and etcd is not":              {"m-0* m-1 m-2", 1, "0", "", URLsRestart, "the others are healthy"},
		"without a leader only the restart can help":     {"m-0 m-1 m-2", 1, "0", "", URLsRestart, "the cluster has no leader"},
		"without a leader nothing is listed":             {"m-0 m-1 m-2", 1, "", "", URLsWait, "no leader"},
		"all is done":                                    {"m-0* m-1 m-2", 1, "012", "012", URLsKeep, "the peer URLs are the wanted ones"},
		"a learner waits until it votes":                 {"m-0* m-1 m-2+", 3, "01", "01", URLsWait, "is a learner"},
		"the last one goes":                              {"m-0* m-1 m-2", 3, "01", "01", URLsUpdate, "m-2 is listed"},
		"a restarted first one does not restart for all": {"m-0* m-1 m-2", 1, "0", "0", URLsKeep, "the wanted ones"},
		"one that the others look for elsewhere":         {"m-0!dead m-1* m-2!gone", 3, "", "2", URLsList, "m-2 is listed with http"},
		"the same, that sees no leader":                  {"m-0 m-1 m-2", 3, "", "2", URLsList, "m-2 is listed with http"},
		"the same, as a learner":                         {"m-0* m-1 m-2+", 3, "", "2", URLsWait, "is a learner"},
		"a member that is not wanted":                    {"m-0* m-1 m-2 m-3", 4, "", "", URLsWait, "not listed or not wanted"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			v := parse(t, c.line)
			v.Self = c.self
			running := map[string][]string{}
			for i := range v.Members {
				d := fmt.Sprint(i)
				running[v.Members[i].Name] = old(i)
				if strings.Contains(c.listed, d) {
					v.Members[i].PeerURLs = fresh(i)
				}
				if strings.Contains(c.running, d) {
					running[v.Members[i].Name] = fresh(i)
				}
			}
			got := DecidePeerURLs(URLFacts{View: v, Wanted: all, Running: running})
			if got.Act != c.want || !strings.Contains(got.Reason, c.because) {
				t.Errorf("got %q because %q, want %q because of %q", got.Act, got.Reason, c.want, c.because)
			}
		})
	}
}

// At no time may two members be under way: whoever updates or restarts finds all before it done.
func TestNoTwoMembersChangeTheirPeerURLsAtOnce(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	moved := 0
	for range 5000 {
		v := anyView(r)
		w := wanted(len(v.Members))
		running := map[string][]string{}
		for i := range w {
			w[i].PeerURLs = []string{fmt.Sprintf("https://m-%d:2380", i)}
			if r.IntN(2) == 0 {
				v.Members[i].PeerURLs = w[i].PeerURLs
			}
			switch r.IntN(3) {
			case 0:
				running[w[i].Name] = w[i].PeerURLs
			case 1:
				running[w[i].Name] = v.Members[i].PeerURLs
			}
		}
		var under []string
		for _, m := range v.Members {
			v.Self = m.ID
			if d := DecidePeerURLs(URLFacts{View: v, Wanted: w, Running: running}); v.Leader != 0 && (d.Act == URLsUpdate || d.Act == URLsRestart) {
				under = append(under, m.Name)
			}
		}
		moved += len(under)
		if len(under) > 1 {
			t.Fatalf("%v change at once in %+v, running %v", under, v, running)
		}
	}
	if moved < 50 {
		t.Fatalf("only %d of the random clusters had anything to change", moved)
	}
}
