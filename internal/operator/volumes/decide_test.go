package volumes

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

var testNow = time.Date(2025, 6, 1, 3, 0, 0, 0, time.UTC)

func size(s string) resource.Quantity { return resource.MustParse(s) }

// cluster is one of n members of which nothing is wrong; the last one leads. Its class makes volumes and
// cannot grow them.
func cluster(n int, change ...func(*Facts)) Facts {
	f := Facts{Now: testNow, Acts: true, Want: size("10Gi"), Template: size("10Gi"), SetUID: "set", Wanted: n, Voters: n, MembersKnown: true, BackupHealthy: true}
	for i := range n {
		f.Members = append(f.Members, Member{
			Ordinal: i, Name: fmt.Sprintf("main-%d", i), Pod: fmt.Sprintf("main-%d", i), PodUID: fmt.Sprintf("pod-%d", i),
			Voter: true, Healthy: true, Leader: i == n-1, Worked: testNow.Add(-time.Hour), Why: fmt.Sprintf("main-%d takes no part", i),
			Claim: &Claim{Name: fmt.Sprintf("claim-%d", i), UID: fmt.Sprintf("uid-%d", i), Volume: fmt.Sprintf("pv-%d", i), Asks: size("10Gi"), Has: size("10Gi"), Class: "disk", Makes: true},
		})
	}
	for _, c := range change {
		c(&f)
	}
	return f
}

func at(i int, change func(*Member)) func(*Facts) {
	return func(f *Facts) { change(&f.Members[i]) }
}

func every(change func(*Member)) func(*Facts) {
	return func(f *Facts) {
		for i := range f.Members {
			change(&f.Members[i])
		}
	}
}

func ill(i int) func(*Facts) { return at(i, func(m *Member) { m.Healthy, m.Leader = false, false }) }

func full(i int) func(*Facts) { return at(i, func(m *Member) { m.Full = true }) }

func readOnly(i int) func(*Facts) {
	return at(i, func(m *Member) { m.Healthy, m.Leader, m.Trouble, m.Confirmed = false, false, ReadOnly, true })
}

func mismatch(i int) func(*Facts) {
	return at(i, func(m *Member) {
		m.Healthy, m.Leader, m.Trouble, m.Confirmed, m.Found = false, false, Mismatch, true, "somebody"
	})
}

func replaced(i int, volume, claim string) func(*Facts) {
	return at(i, func(m *Member) {
		m.Record.Replace = &Replaced{Volume: volume, Claim: claim, At: testNow.Add(-time.Minute)}
	})
}

func grown(i int, to, claim string) func(*Facts) {
	return at(i, func(m *Member) {
		m.Record.Grow = &Grown{Size: size(to), Claim: claim, At: testNow.Add(-time.Minute)}
	})
}

func restarted(i int, pod string, volumes ...string) func(*Facts) {
	return at(i, func(m *Member) {
		m.Record.Restart = &Restart{Volumes: volumes, Pod: pod, At: testNow.Add(-time.Minute)}
	})
}

func going(i int) func(*Facts) { return at(i, func(m *Member) { m.Claim.Going = true }) }

// gone: a member has neither claim nor pod.
func gone(i int) func(*Facts) {
	return at(i, func(m *Member) { m.Claim, m.Pod, m.PodUID = nil, "", "" })
}

func wants(s string) func(*Facts) { return func(f *Facts) { f.Want = size(s) } }

// templated: the template has been made anew.
func templated(f *Facts) { f.Template = f.Want }

func growable(m *Member) { m.Claim.Grows = true }

// The rules by their numbers. want begins with the kind; the rest must be in the reason, and in the name of
// what is acted on.
var rules = []struct {
	rule, phrase string
	facts        Facts
	want         string // the kind, and what it acts on
	says         string // in the reason
}{
	{"", "nothing to do", cluster(3), "", ""},
	{"", "nobody acts on the specification", cluster(3, wants("20Gi"), func(f *Facts) { f.Acts = false }), "", ""},

	{"1.1", "the StatefulSet goes", cluster(3, wants("20Gi"), func(f *Facts) { f.SetGoing = true }), "Wait", "made anew"},
	{"1.2", "a claim goes, its pod is gone", cluster(3, wants("20Gi"), templated, going(2), grown(2, "20Gi", "uid-2"), ill(2), at(2, func(m *Member) { m.Pod = "" })), "Wait", "claim-2 is about to go"},
	{"1.2", "a claim goes, its pod is going", cluster(3, wants("20Gi"), templated, going(2), grown(2, "20Gi", "uid-2"), at(2, func(m *Member) { m.PodGoing = true })), "Wait", ""},
	{"1.3", "a claim goes, another member has failed since", cluster(3, wants("20Gi"), templated, going(2), grown(2, "20Gi", "uid-2"), ill(0)), "Wait", "stays until main-0 takes no part"},
	{"1.4", "a claim goes, its pod is there", cluster(3, wants("20Gi"), templated, going(2), grown(2, "20Gi", "uid-2")), "DeletePod main-2 pod-2", "claim-2"},
	{"1.4", "the claim of a read-only volume goes, its pod is there", cluster(3, readOnly(0), going(0), replaced(0, "pv-0", "uid-0")), "DeletePod main-0 pod-0", ""},
	{"1.5", "a claim is gone, its pod is not there", cluster(3, wants("20Gi"), templated, gone(2), grown(2, "20Gi", "uid-2"), ill(2)), "Remind set uid-2", "the former claim of main-2 is gone"},
	{"1.5", "a claim is gone, after that of another member", cluster(3, gone(1), replaced(1, "pv-1", "uid-1"), ill(1), func(f *Facts) { f.Reminded = "uid-2" }), "Remind set uid-1", ""},
	{"1.6", "a claim is gone, and the controller was told", cluster(3, wants("20Gi"), templated, gone(2), grown(2, "20Gi", "uid-2"), ill(2), func(f *Facts) { f.Reminded = "uid-2" }), "Wait", "the pod of main-2 is being made"},
	{"", "a claim goes that somebody else deleted", cluster(3, going(0)), "", ""},
	{"3.12", "a claim goes that somebody else deleted, and volumes shall grow", cluster(3, wants("20Gi"), templated, going(0)), "Wait", "claim-0 is being deleted"},

	{"2.1", "read-only, and the record is broken", cluster(3, readOnly(1), at(1, func(m *Member) { m.Unreadable = "not JSON" })), "Report", "not JSON"},
	{"2.2", "the only member's is read-only", cluster(1, readOnly(0)), "Report", "only member's"},
	{"2.2", "the member that stays alone has a read-only one", cluster(3, readOnly(0), func(f *Facts) { f.Wanted = 1 }), "Report", "only member's"},
	{"2.3", "two of five are read-only", cluster(5, readOnly(1), readOnly(2)), "Report", "claim-1, claim-2"},
	{"2.4", "the same volume is bound again", cluster(3, readOnly(1), replaced(1, "pv-1", "uid-former")), "Report", "pv-1 was replaced at 2025-06-01T02:59:00Z already"},
	{"2.5", "the volume instead of it is read-only at once", cluster(3, readOnly(1), replaced(1, "pv-former", "uid-former"), at(1, func(m *Member) { m.Worked = testNow.Add(-time.Hour) })), "Report", "not worked since"},
	{"2.6", "nobody would make another", cluster(3, readOnly(1), at(1, func(m *Member) { m.Claim.Makes = false })), "Report", "disk is gone"},
	{"2.7", "what the member said may be old", cluster(3, readOnly(1), at(1, func(m *Member) { m.Confirmed = false })), "Wait", "sidecar says itself"},
	{"", "what the member said is over", cluster(3, readOnly(1), at(1, func(m *Member) { m.Healthy = true })), "", ""},
	{"", "a member that leaves has a read-only one", cluster(3, readOnly(2), func(f *Facts) { f.Wanted = 1 }), "", ""},
	{"", "another claim is not bound yet", cluster(3, readOnly(1), at(1, func(m *Member) { m.Claim.Volume = "" })), "", ""},
	{"2.8", "nobody knows the members", cluster(3, readOnly(1), func(f *Facts) { f.MembersKnown = false }), "Wait", "no member answers"},
	{"2.8", "another member is ill", cluster(5, readOnly(1), ill(2)), "Wait", "main-2 takes no part"},
	{"2.8", "the others are no majority", cluster(3, readOnly(1), func(f *Facts) { f.Voters = 4 }), "Wait", "2 of 4"},
	{"2.8", "somebody unknown is listed", cluster(3, readOnly(1), func(f *Facts) { f.Strangers = "main-7 is none of this Etcd's" }), "Wait", "main-7"},
	{"2.8", "a pod is being replaced", cluster(3, readOnly(1), func(f *Facts) { f.Replacing = true }), "Wait", "another pod"},
	{"2.8", "another claim is being deleted", cluster(3, readOnly(1), going(0)), "Wait", "claim-0 is being deleted"},
	{"2.9", "read-only", cluster(3, readOnly(1)), "WriteDown main-1 replace pv-1 uid-1", "claim-1"},
	{"2.9", "read-only, its claim goes, and nobody wrote down why", cluster(3, readOnly(1), going(1)), "WriteDown main-1 replace pv-1 uid-1", ""},
	{"2.8", "the same, and another member is ill", cluster(3, readOnly(1), going(1), at(2, func(m *Member) { m.Healthy, m.Why = false, "main-2 is ill" })), "Wait", "main-2 is ill"},
	{"", "the same, and its pod goes", cluster(3, readOnly(1), going(1), at(1, func(m *Member) { m.PodGoing = true })), "", ""},
	{"", "the same, of a single member", cluster(1, readOnly(0), going(0)), "", ""},
	{"2.9", "read-only, after another one was long ago", cluster(3, readOnly(1), replaced(1, "pv-former", "uid-former"), at(1, func(m *Member) { m.Worked = testNow.Add(-time.Second) })), "WriteDown main-1 replace pv-1 uid-1", ""},
	{"2.9", "read-only, while the size changes and the backups are ill", cluster(3, readOnly(1), func(f *Facts) { f.Resizing, f.Rolling, f.BackupHealthy = "a", "b", false }), "WriteDown main-1 replace pv-1 uid-1", ""},
	{"2.10", "read-only, and written down", cluster(3, readOnly(1), replaced(1, "pv-1", "uid-1")), "DeleteClaim claim-1 uid-1", ""},

	{"2.11", "a wrong volume, and the record is broken", cluster(3, mismatch(1), at(1, func(m *Member) { m.Unreadable = "not JSON" })), "Report", "not JSON"},
	{"2.12", "a wrong volume after the restart", cluster(3, mismatch(1), restarted(1, "pod-former", "somebody on pv-1")), "Report", "restarted once, at 2025-06-01T02:59:00Z"},
	{"2.12", "a wrong volume of which one was restarted before another", cluster(3, mismatch(1), restarted(1, "pod-former", "somebody on pv-1", "else on pv-1")), "Report", ""},
	{"2.13", "a wrong volume, the pod goes", cluster(3, mismatch(1), at(1, func(m *Member) { m.PodGoing = true })), "Wait", ""},
	{"2.14", "what the member said of a wrong volume may be old", cluster(3, mismatch(1), at(1, func(m *Member) { m.Confirmed = false })), "Wait", ""},
	{"2.15", "a wrong volume while another member is ill", cluster(3, mismatch(1), ill(0)), "Wait", "main-0 takes no part"},
	{"2.16", "a wrong volume", cluster(3, mismatch(1)), "WriteDown main-1 restart [somebody on pv-1] pod-1", `"somebody"`},
	{"2.16", "another wrong volume", cluster(3, mismatch(1), restarted(1, "pod-former", "else on pv-1")), "WriteDown main-1 restart [else on pv-1 somebody on pv-1] pod-1", ""},
	{"2.16", "another volume of the same owner", cluster(3, mismatch(1), restarted(1, "pod-former", "somebody on pv-former")), "WriteDown main-1 restart [somebody on pv-former somebody on pv-1] pod-1", ""},
	{"2.16", "the only member has a wrong volume", cluster(1, mismatch(0)), "WriteDown main-0 restart [somebody on pv-0] pod-0", ""},
	{"2.17", "a wrong volume, and written down", cluster(3, mismatch(1), restarted(1, "pod-1", "somebody on pv-1")), "DeletePod main-1 pod-1", ""},

	{"3.1", "the class grows", cluster(3, wants("20Gi"), every(growable)), "Expand claim-0, claim-1, claim-2 20Gi", ""},
	{"3.1", "the class grows, and everybody is ill", cluster(3, wants("20Gi"), every(growable), ill(0), ill(1), ill(2)), "Expand claim-0, claim-1, claim-2 20Gi", ""},
	{"2.18", "a wrong volume, and somebody deletes its claim", cluster(3, mismatch(1), at(1, func(m *Member) { m.Claim.Going = true })), "Report", "claim-1 is being deleted and would go with it"},

	{"3.1", "the class grows, and a volume cannot be mended", cluster(3, wants("20Gi"), every(growable), mismatch(1), restarted(1, "pod-former", "somebody on pv-1")), "Expand claim-0, claim-1, claim-2 20Gi", ""},
	{"3.1", "the only member's grows", cluster(1, wants("20Gi"), every(growable)), "Expand claim-0 20Gi", ""},
	{"3.1", "some asked already", cluster(3, wants("20Gi"), every(growable), at(0, func(m *Member) { m.Claim.Asks = size("20480Mi") })), "Expand claim-1, claim-2 20Gi", ""},
	{"3.2", "the template is another one in other ways", cluster(3, wants("20Gi"), func(f *Facts) { f.TemplateKept = "its name is data" }), "Report", "its name is data"},
	{"3.3", "the size changes", cluster(3, wants("20Gi"), func(f *Facts) { f.Resizing = "from 3 members to 5" }), "Wait", "from 3 members to 5"},
	{"3.4", "pods are replaced", cluster(3, wants("20Gi"), func(f *Facts) { f.Rolling = "main-1 is being replaced" }), "Wait", "main-1"},
	{"3.5", "all claims asked", cluster(3, wants("20Gi"), every(func(m *Member) { m.Claim.Asks = size("20Gi") })), "ReplaceTemplate set", "from 10Gi to 20Gi"},
	{"3.5", "a fixed class", cluster(3, wants("20Gi")), "ReplaceTemplate set", ""},
	{"3.5", "a fixed class, a pod is waited for whose volume is full", cluster(3, wants("20Gi"), ill(0), full(0), func(f *Facts) { f.Rolling = "main-0 is not ready" }), "ReplaceTemplate set", ""},
	{"3.6", "the class grows, and a claim is not bound", cluster(3, wants("20Gi"), templated, every(growable), every(func(m *Member) { m.Claim.Volume = "" })), "Wait", "when it is bound"},
	{"3.7", "no class", cluster(3, wants("20Gi"), templated, every(func(m *Member) { m.Claim.Makes, m.Claim.Class = false, "" })), "Report", "no StorageClass"},
	{"3.8", "a fixed class, asleep", cluster(3, wants("20Gi"), templated, func(f *Facts) { f.Wanted = 0 }), "Report", "awake"},
	{"3.9", "a fixed class, the only member", cluster(1, wants("20Gi"), templated), "Report", "set spec.replicas to 3"},
	{"3.10", "a fixed class, and the record is broken", cluster(3, wants("20Gi"), templated, at(1, func(m *Member) { m.Unreadable = "not JSON" })), "Report", "not JSON"},
	{"3.11", "the new volume is as small", cluster(3, wants("20Gi"), templated, grown(1, "20Gi", "uid-former")), "Report", "no larger"},
	{"3.12", "a fixed class, another member is ill", cluster(3, wants("20Gi"), templated, ill(0)), "Wait", "main-0 takes no part"},
	{"3.12", "a fixed class, the member itself is ill", cluster(3, wants("20Gi"), templated, ill(1)), "Wait", "main-1 takes no part"},
	{"3.13", "a fixed class, the member is down as its volume is full", cluster(3, wants("20Gi"), templated, ill(0), full(0)), "WriteDown main-0 grow 20Gi uid-0", ""},
	{"3.13", "the same, and its pod is waited for", cluster(3, wants("20Gi"), templated, ill(0), full(0), func(f *Facts) { f.Rolling = "main-0 is not ready" }), "WriteDown main-0 grow 20Gi uid-0", ""},
	{"3.12", "a fixed class, two are down as they are full", cluster(3, wants("20Gi"), templated, ill(0), full(0), ill(1), full(1)), "Wait", "main-0 takes no part"},
	{"3.13", "a fixed class, a volume is full and its member works", cluster(3, wants("20Gi"), templated, full(0)), "WriteDown main-1 grow 20Gi uid-1", ""},
	{"3.12", "a fixed class, the backups are ill", cluster(3, wants("20Gi"), templated, func(f *Facts) { f.BackupHealthy, f.BackupWhy = false, "no bucket" }), "Wait", "(no bucket)"},
	{"3.12", "a fixed class, the size changes", cluster(3, wants("20Gi"), templated, func(f *Facts) { f.Resizing = "from 3 members to 5" }), "Wait", "from 3"},
	{"3.12", "a fixed class, pods are replaced", cluster(3, wants("20Gi"), templated, func(f *Facts) { f.Rolling = "main-1 waits" }), "Wait", "main-1 waits"},
	{"3.13", "a fixed class", cluster(3, wants("20Gi"), templated), "WriteDown main-1 grow 20Gi uid-1", ""},
	{"3.13", "a fixed class, no store", cluster(3, wants("20Gi"), templated, func(f *Facts) { f.BackupHealthy, f.NoStore = false, true }), "WriteDown main-1 grow 20Gi uid-1", ""},
	{"3.13", "grown once before, to less", cluster(3, wants("20Gi"), templated, grown(1, "10Gi", "uid-former")), "WriteDown main-1 grow 20Gi uid-1", ""},
	{"3.13", "written down, and then another size is wanted", cluster(3, wants("30Gi"), templated, grown(1, "20Gi", "uid-1")), "WriteDown main-1 grow 30Gi uid-1", ""},
	{"3.13", "the leader is last", cluster(3, wants("20Gi"), templated, at(0, func(m *Member) { m.Claim.Asks = size("20Gi") }), at(1, func(m *Member) { m.Claim.Asks = size("20Gi") })), "WriteDown main-2 grow 20Gi uid-2", ""},
	{"3.14", "a fixed class, and written down", cluster(3, wants("20Gi"), templated, grown(1, "20Gi", "uid-1")), "DeleteClaim claim-1 uid-1", ""},
	{"3.14", "who was written down is first, though it leads by now", cluster(3, wants("20Gi"), templated, grown(2, "20Gi", "uid-2")), "DeleteClaim claim-2 uid-2", ""},
	{"3.15", "less is wanted", cluster(3, wants("5Gi")), "Report", "set it to 10Gi"},
	{"3.16", "the volumes are on their way", cluster(3, every(func(m *Member) { m.Claim.Has = size("5Gi") })), "Report", "claim-0 from 5Gi to 10Gi"},
}

// did is an action in words.
func did(a Action) string {
	on := ""
	switch r := a.Record; a.Kind {
	case WriteDown:
		on = a.Member
		if a.Rule == "2.9" {
			on += fmt.Sprintf(" replace %s %s", r.Replace.Volume, r.Replace.Claim)
		} else if r.Restart != nil && a.Rule == "2.16" {
			on += fmt.Sprintf(" restart %v %s", r.Restart.Volumes, r.Restart.Pod)
		} else {
			on += fmt.Sprintf(" grow %s %s", r.Grow.Size.String(), r.Grow.Claim)
		}
	case Expand:
		on = names(a.Claims) + " " + a.Size.String()
	case DeleteClaim:
		on = a.Claim + " " + a.UID
	case DeletePod:
		on = a.Pod + " " + a.UID
	case ReplaceTemplate:
		on = a.UID
	case Remind:
		on = a.UID + " " + a.Claim
	}
	return strings.TrimSpace(string(a.Kind) + " " + on)
}

func TestTheRules(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range rules {
		a := Decide(c.facts)
		if a.Rule != c.rule || did(a) != c.want || !strings.Contains(a.Reason, c.says) {
			t.Errorf("%s: rule %q, %q, %q; want rule %q, %q, with %q", c.phrase, a.Rule, did(a), a.Reason, c.rule, c.want, c.says)
		}
		if a.Kind != None && (a.Reason == "" || a.About == "") {
			t.Errorf("%s: %+v has no reason, or is about nothing", c.phrase, a)
		}
		seen[c.rule] = true
	}
	for _, last := range []string{"1.6", "2.17", "3.16"} {
		group, n, _ := strings.Cut(last, ".")
		var until int
		fmt.Sscan(n, &until)
		for i := range until {
			if rule := fmt.Sprintf("%s.%d", group, i+1); !seen[rule] {
				t.Errorf("rule %s has no case", rule)
			}
		}
	}
}

func TestARecordIsReadAsItWasWritten(t *testing.T) {
	r := Record{Grow: &Grown{size("20Gi"), "uid-1", testNow}, Replace: &Replaced{"pv-1", "uid-1", testNow}}.restart("somebody", "pod-1", testNow)
	again, err := ParseRecord(r.String())
	if err != nil || again.String() != r.String() || again.Grow.Size.Cmp(size("20Gi")) != 0 {
		t.Errorf("%s became %s (%v)", r, again, err)
	}
	for _, bad := range []string{"x", "{", `{"grow":{"size":"a"}}`, `{"other":1}`, "{} {}"} {
		if r, err := ParseRecord(bad); err == nil {
			t.Errorf("%q is read as %s, want an error", bad, r)
		}
	}
	for i := range 30 {
		r = r.restart(fmt.Sprint(i), "pod-1", testNow)
	}
	if n := len(r.Restart.Volumes); n != maxVolumes || !r.restarted("29") || r.restarted("3") {
		t.Errorf("after thirty wrong volumes it has %d: %v", n, r.Restart.Volumes)
	}
}
