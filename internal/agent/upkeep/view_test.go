package upkeep

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

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
			running := map[string]Running{}
			for i := range v.Members {
				d := fmt.Sprint(i)
				running[v.Members[i].Name] = Running{URLs: old(i)}
				if strings.Contains(c.listed, d) {
					v.Members[i].PeerURLs = fresh(i)
				}
				if strings.Contains(c.running, d) {
					running[v.Members[i].Name] = Running{URLs: fresh(i)}
				}
			}
			got := DecidePeerURLs(URLFacts{View: v, Wanted: all, Running: running})
			if got.Act != c.want || !strings.Contains(got.Reason, c.because) {
				t.Errorf("got %q because %q, want %q because of %q", got.Act, got.Reason, c.want, c.because)
			}
		})
	}
}

func TestNewAuthoritiesRestartOneMemberAfterTheOther(t *testing.T) {
	cases := map[string]struct {
		line    string
		self    uint64
		running string // the authorities that each etcd was started with; ?: not known, -: its sidecar tells nothing
		files   string // what those of the own one hold now
		moves   string // members, by digit, whose peer URLs are not the wanted ones yet
		without time.Duration
		want    URLAct
		because string
	}{
		"nothing is new":                             {"m-0* m-1 m-2", 1, "aaa", "a", "", 0, URLsKeep, "the wanted ones"},
		"the lowest begins":                          {"m-0* m-1 m-2", 1, "aaa", "b", "", 0, URLsRestart, "etcd runs with former certificate authorities, its files hold others, and the others are healthy"},
		"the second waits for the first":             {"m-0* m-1 m-2", 2, "aaa", "b", "", 0, URLsWait, "m-0 is not known to run with the new certificate authorities yet"},
		"the second waits for the first's health":    {"m-0!restarting m-1* m-2", 2, "baa", "b", "", 0, URLsWait, "m-0 is not healthy: restarting"},
		"the second goes on":                         {"m-0 m-1* m-2", 2, "baa", "b", "", 0, URLsRestart, "the others are healthy"},
		"the last waits for all":                     {"m-0 m-1* m-2", 3, "baa", "b", "", 0, URLsWait, "m-1 is not known to run"},
		"the last one goes":                          {"m-0 m-1* m-2", 3, "bba", "b", "", 0, URLsRestart, "the others are healthy"},
		"all is done":                                {"m-0 m-1* m-2", 1, "bbb", "b", "", 0, URLsKeep, "the wanted ones"},
		"a later one is done, as its files may be":   {"m-0 m-1* m-2", 1, "aba", "b", "", 0, URLsRestart, "the others are healthy"},
		"nobody goes on while a later one is ill":    {"m-0 m-1* m-2!dead", 1, "aaa", "b", "", 0, URLsWait, "m-2 is not healthy: dead"},
		"nobody goes on before all have joined":      {"m-0* m-1", 1, "aa", "b", "", 0, URLsWait, "m-2 has not joined"},
		"the first has newer ones still":             {"m-0* m-1 m-2", 2, "caa", "b", "", 0, URLsWait, "m-0 is not known to run"},
		"the first's are not known":                  {"m-0* m-1 m-2", 2, "?aa", "b", "", 0, URLsWait, "m-0 is not known to run"},
		"the first's sidecar does not answer":        {"m-0* m-1 m-2", 2, "-aa", "b", "", 0, URLsWait, "m-0 is not known to run"},
		"a later one's sidecar does not answer":      {"m-0* m-1 m-2", 1, "aa-", "b", "", 0, URLsRestart, "the others are healthy"},
		"it is not known what etcd runs with":        {"m-0* m-1 m-2", 1, "?aa", "b", "", 0, URLsKeep, "the wanted ones"},
		"the own sidecar knows nothing":              {"m-0* m-1 m-2", 1, "-aa", "b", "", 0, URLsKeep, "the wanted ones"},
		"the files cannot be read":                   {"m-0* m-1 m-2", 1, "aaa", "?", "", 0, URLsKeep, "the wanted ones"},
		"there is no TLS":                            {"m-0* m-1 m-2", 1, "???", "?", "", 0, URLsKeep, "the wanted ones"},
		"a learner waits until it votes":             {"m-0* m-1 m-2+", 3, "bba", "b", "", 0, URLsWait, "is a learner; its etcd is restarted"},
		"a later one changes its peer URLs":          {"m-0* m-1 m-2", 1, "aaa", "b", "2", 0, URLsWait, "m-2 changes its peer URLs first"},
		"an earlier one changes its peer URLs":       {"m-0* m-1 m-2", 2, "baa", "b", "0", 0, URLsWait, "m-0 changes its peer URLs first"},
		"peer URLs do not wait for authorities":      {"m-0* m-1 m-2", 3, "aaa", "b", "2", 0, URLsUpdate, "m-2 is listed"},
		"while a leader is elected":                  {"m-0 m-1 m-2", 1, "aaa", "b", "", electionTime - 1, URLsWait, "the cluster has no leader"},
		"perhaps nobody trusts anybody":              {"m-0 m-1 m-2", 3, "aaa", "b", "", electionTime, URLsRestart, "the cluster has no leader"},
		"without a leader, and nothing is new":       {"m-0 m-1 m-2", 3, "aaa", "a", "", time.Hour, URLsKeep, "the wanted ones"},
		"without a leader peer URLs are not changed": {"m-0 m-1 m-2", 3, "aaa", "b", "2", time.Hour, URLsWait, "the cluster has no leader"},
		"a single member":                            {"m-0*", 1, "a", "b", "", 0, URLsRestart, "the others are healthy"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			v := parse(t, c.line)
			v.Self = c.self
			w := wanted(3)
			if len(v.Members) == 1 {
				w = w[:1]
			}
			f := URLFacts{View: v, Wanted: w, Running: map[string]Running{}, Authorities: strings.Trim(c.files, "?"), Leaderless: c.without}
			for i, m := range v.Members {
				if strings.Contains(c.moves, fmt.Sprint(i)) {
					w[i].PeerURLs = []string{fmt.Sprintf("https://m-%d:2380", i)}
				}
				if with := c.running[i : i+1]; with != "-" {
					f.Running[m.Name] = Running{URLs: m.PeerURLs, Authorities: strings.Trim(with, "?")}
				}
			}
			got := DecidePeerURLs(f)
			if got.Act != c.want || !strings.Contains(got.Reason, c.because) {
				t.Errorf("got %q because %q, want %q because of %q", got.Act, got.Reason, c.want, c.because)
			}
		})
	}
}

// New authorities show up in the members' files in any order, members fall ill meanwhile, and some
// change their peer URLs at the same time: whoever restarts is the only one, and in the end all have.
func TestAllGetTheirNewAuthoritiesAndNoTwoAtOnce(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 7))
		n := 1 + r.IntN(5)
		v := parse(t, "m-0* m-1 m-2 m-3 m-4")
		v.Members = v.Members[:n]
		w := wanted(n)
		files, running := make([]string, n), map[string]Running{}
		for i := range n {
			files[i], running[w[i].Name] = "old", Running{URLs: w[i].PeerURLs, Authorities: "old"}
			if r.IntN(4) == 0 {
				w[i].PeerURLs = []string{fmt.Sprintf("https://m-%d:2380", i)}
			}
		}
		left := func() (names []string) {
			for i := range w {
				if with := running[w[i].Name]; with.Authorities != "new" || !sameURLs(with.URLs, w[i].PeerURLs) {
					names = append(names, w[i].Name)
				}
			}
			return names
		}
		for range 100 * n {
			files[r.IntN(n)] = "new"
			for i := range v.Members {
				if v.Members[i].Ill = ""; r.IntN(8) == 0 {
					v.Members[i].Ill = "slow"
				}
			}
			var under []int
			for i := range v.Members { // all look at the same moment
				v.Self = v.Members[i].ID
				switch d := DecidePeerURLs(URLFacts{View: v, Wanted: w, Running: running, Authorities: files[i]}); d.Act {
				case URLsUpdate, URLsRestart:
					under = append(under, i)
				}
			}
			if len(under) > 1 {
				t.Fatalf("seed %d: %v restart at once, running %v, files %v", seed, under, running, files)
			}
			for _, i := range under {
				v.Members[i].PeerURLs = w[i].PeerURLs
				running[w[i].Name] = Running{URLs: w[i].PeerURLs, Authorities: files[i]}
			}
		}
		if names := left(); len(names) > 0 {
			t.Fatalf("seed %d: %v were never restarted, running %v", seed, names, running)
		}
	}
}

// At no time may two members be under way: whoever updates or restarts finds all before it done.
// There is one change of authorities at a time: whose files hold the old ones runs with these.
func TestNoTwoMembersChangeTheirPeerURLsOrAuthoritiesAtOnce(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	moved, trusting := 0, 0
	for range 10000 {
		v := anyView(r)
		w := wanted(len(v.Members))
		running := map[string]Running{}
		files := make([]string, len(w))
		for i := range w {
			w[i].PeerURLs = []string{fmt.Sprintf("https://m-%d:2380", i)}
			if r.IntN(2) == 0 {
				v.Members[i].PeerURLs = w[i].PeerURLs
			}
			switch r.IntN(3) {
			case 0:
				running[w[i].Name] = Running{URLs: w[i].PeerURLs}
			case 1:
				running[w[i].Name] = Running{URLs: v.Members[i].PeerURLs}
			}
			with := []string{"", "old", "new"}[r.IntN(3)]
			if files[i] = with; with == "old" && r.IntN(2) == 0 {
				files[i] = "new"
			}
			if known, ok := running[w[i].Name]; ok {
				known.Authorities = with
				running[w[i].Name] = known
			}
		}
		var under []string
		for i, m := range v.Members {
			v.Self = m.ID
			if d := DecidePeerURLs(URLFacts{View: v, Wanted: w, Running: running, Authorities: files[i]}); v.Leader != 0 && (d.Act == URLsUpdate || d.Act == URLsRestart) {
				under = append(under, m.Name)
				if strings.Contains(d.Reason, "authorities") {
					trusting++
				}
			}
		}
		moved += len(under)
		if len(under) > 1 {
			t.Fatalf("%v change at once in %+v, running %v, files %v", under, v, running, files)
		}
	}
	if moved < 100 || trusting < 20 {
		t.Fatalf("only %d of the random clusters had anything to change, %d of them authorities", moved, trusting)
	}
}
