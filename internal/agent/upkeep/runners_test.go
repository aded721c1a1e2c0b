package upkeep

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/etcd/member"
)

func expect(t *testing.T, f *fakeEtcd, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, f.took()); diff != "" {
		t.Errorf("done (-want +got):\n%s", diff)
	}
}

// defragmenter has led for long.
func defragmenter(t *testing.T, f *fakeEtcd, c *clock, o DefragOptions) *Defragmenter {
	t.Helper()
	o.Now = c.Now
	d, err := NewDefragmenter(f, o)
	if err != nil {
		t.Fatal(err)
	}
	d.tick(t.Context())
	c.advance(2 * time.Minute)
	return d
}

func TestARequestDefragmentsEveryMemberTheLeaderLast(t *testing.T) {
	f, c := fake(t, "m-0* m-1 m-2")
	var told []string
	last := map[string]agentapi.Defragmentation{}
	d := defragmenter(t, f, c, DefragOptions{Result: func(p member.Peer, r agentapi.Defragmentation) {
		told, last[p.Name] = append(told, p.Name+" "+string(r.Status)), r
	}})
	if op := d.Request(); op.Status != agentapi.InProgress || op.Kind != "defragment" {
		t.Errorf("the request answers %+v", op)
	}
	var phases []string
	f.during = func(string) {
		op := d.Operation()
		phases = append(phases, op.Phase)
		c.advance(time.Second)
	}
	d.tick(t.Context())
	expect(t, f, "defragment 2", "defragment 3", "move leader 1 to 2", "defragment 1")
	if diff := cmp.Diff([]string{"defragments m-1", "defragments m-2", "hands the leadership to m-1", "defragments m-0"}, phases); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"m-1 In-Progress", "m-1 Success", "m-2 In-Progress", "m-2 Success", "m-0 In-Progress", "m-0 Success"}, told); diff != "" {
		t.Error(diff)
	}
	end := noon.Add(2*time.Minute + 4*time.Second)
	want := &agentapi.Operation{Kind: "defragment", Status: agentapi.Success, Start: noon.Add(2 * time.Minute), End: &end, Done: 3, Total: 3,
		Message: "m-1: 1000 bytes, now 500; m-2: 1000 bytes, now 500; m-0: 1000 bytes, now 500"}
	if diff := cmp.Diff(want, d.Operation()); diff != "" {
		t.Error(diff)
	}
	began, ended := noon.Add(2*time.Minute), noon.Add(2*time.Minute+time.Second)
	if diff := cmp.Diff(agentapi.Defragmentation{Start: began, End: &ended, Status: agentapi.Success, Reason: "request", InitialDBSize: 1000, FinalDBSize: 500}, last["m-1"]); diff != "" {
		t.Error(diff)
	}
}

func TestTheScheduleIsPostponedUntilEveryMemberIsHealthy(t *testing.T) {
	f, c := fake(t, "m-0* m-1 m-2")
	d := defragmenter(t, f, c, DefragOptions{Schedule: "0 13 * * *"})
	d.tick(t.Context())
	expect(t, f)
	f.during = func(what string) {
		if what == "defragment 2" { // m-2 fails while m-1 is defragmented
			f.change(3, func(m *Member) { m.Ill = "dead" })
		}
	}
	c.advance(time.Hour) // it is past one
	d.tick(t.Context())
	expect(t, f, "defragment 2")
	if op := d.Operation(); op.Status != agentapi.InProgress || op.Phase != "postponed: member m-2 is not healthy: dead" || op.Done != 1 {
		t.Errorf("got %+v", op)
	}
	f.change(3, func(m *Member) { m.Ill = "" })
	c.advance(59 * time.Second)
	d.tick(t.Context())
	expect(t, f)
	c.advance(time.Second)
	d.tick(t.Context())
	expect(t, f, "defragment 3", "move leader 1 to 2", "defragment 1")

	f.Leader = 1 // and leads again
	for range 20 {
		c.advance(time.Hour)
		d.tick(t.Context())
	}
	expect(t, f)
}

func TestTheNextLeadersSidecarDoesWhatIsLeftOfTheSchedule(t *testing.T) {
	f, c := fake(t, "m-0 m-1* m-2")
	f.Self = 1
	d := defragmenter(t, f, c, DefragOptions{Schedule: "0 13 * * *"})
	c.advance(time.Hour) // one o'clock passes while m-1 leads
	d.tick(t.Context())
	expect(t, f)
	f.change(2, func(m *Member) { m.DBSize = m.DBSizeInUse }) // m-1's sidecar got so far
	f.Leader = 1
	d.tick(t.Context())
	c.advance(59 * time.Second)
	d.tick(t.Context())
	expect(t, f) // the former leader may still be at work
	c.advance(time.Second)
	d.tick(t.Context())
	expect(t, f, "defragment 3", "move leader 1 to 2", "defragment 1")
	if op := d.Operation(); !strings.HasPrefix(op.Message, "m-1: 0 of 500 bytes are free: nothing to gain; m-2") {
		t.Errorf("got %+v", op)
	}
}

func TestAScheduleThatNobodyCouldFollowInTimeIsForgotten(t *testing.T) {
	f, c := fake(t, "m-0 m-1* m-2")
	f.Self = 1
	d := defragmenter(t, f, c, DefragOptions{Schedule: "0 13 * * *"})
	c.advance(time.Hour)
	d.tick(t.Context())
	c.advance(time.Hour + time.Second)
	d.tick(t.Context())
	f.Leader = 1
	d.tick(t.Context())
	c.advance(2 * time.Minute)
	d.tick(t.Context())
	expect(t, f)
}

func TestARunEndsWhenAnotherMemberIsElected(t *testing.T) {
	f, c := fake(t, "m-0* m-1 m-2")
	d := defragmenter(t, f, c, DefragOptions{})
	d.Request()
	f.during = func(what string) {
		if what == "defragment 2" {
			f.Leader = 3
		}
	}
	d.tick(t.Context())
	expect(t, f, "defragment 2")
	if op := d.Operation(); op.Status != agentapi.Failed || op.Done != 1 || !strings.HasSuffix(op.Message, "2 members left: m-2 leads now: its sidecar goes on") {
		t.Errorf("got %+v", op)
	}
}

func TestTheFormerLeaderIsWaitedForOnlyShortly(t *testing.T) {
	f, c := fake(t, "m-0* m-1 m-2")
	d := defragmenter(t, f, c, DefragOptions{})
	d.Request()
	f.during = func(what string) {
		if what == "move leader 1 to 2" {
			f.change(3, func(m *Member) { m.Ill = "slow" })
		}
	}
	d.tick(t.Context())
	expect(t, f, "defragment 2", "defragment 3", "move leader 1 to 2")
	c.advance(quick)
	d.tick(t.Context())
	expect(t, f)
	f.change(3, func(m *Member) { m.Ill = "" })
	c.advance(handedOnFor)
	d.tick(t.Context())
	expect(t, f)
	if op := d.Operation(); op.Status != agentapi.Failed || !strings.Contains(op.Message, "1 members left: m-1 leads now") {
		t.Errorf("got %+v", op)
	}
}

func TestAMemberThatFailsIsTriedThreeTimesAndTheOthersHaveTheirTurn(t *testing.T) {
	f, c := fake(t, "m-0* m-1 m-2")
	f.fail["defragment 2"] = errors.New("no room on the volume")
	last := map[string]agentapi.Defragmentation{}
	d := defragmenter(t, f, c, DefragOptions{Result: func(p member.Peer, r agentapi.Defragmentation) { last[p.Name] = r }})
	d.Request()
	for range 3 {
		d.tick(t.Context())
		d.tick(t.Context()) // not before a minute has passed
		c.advance(time.Minute)
	}
	expect(t, f, "defragment 2", "defragment 2", "defragment 2", "defragment 3", "move leader 1 to 2", "defragment 1")
	op := d.Operation()
	if op.Status != agentapi.Failed || !strings.Contains(op.Message, "m-1: no room on the volume; m-2: 1000 bytes, now 500") {
		t.Errorf("got %+v", op)
	}
	if r := last["m-1"]; r.Status != agentapi.Failed || r.Message != "no room on the volume" || r.End == nil {
		t.Errorf("got %+v", r)
	}
}

func TestARequestFailsWhenItCannotBeDone(t *testing.T) {
	t.Run("by a follower's sidecar", func(t *testing.T) {
		f, c := fake(t, "m-0 m-1*")
		f.Self = 1
		d := defragmenter(t, f, c, DefragOptions{})
		d.Request()
		d.tick(t.Context())
		if op := d.Operation(); op.Status != agentapi.Failed || !strings.Contains(op.Message, "does not lead") || op.End == nil {
			t.Errorf("got %+v", op)
		}
		expect(t, f)
	})
	t.Run("for an hour", func(t *testing.T) {
		f, c := fake(t, "m-0* m-1 m-2!dead")
		d := defragmenter(t, f, c, DefragOptions{})
		d.Request()
		for range 62 {
			d.tick(t.Context())
			c.advance(time.Minute)
		}
		if op := d.Operation(); op.Status != agentapi.Failed || !strings.Contains(op.Message, "given up after 1h0m0s: member m-2 is not healthy: dead") {
			t.Errorf("got %+v", op)
		}
		expect(t, f)
	})
}

func TestASecondRequestIsTheFirst(t *testing.T) {
	f, c := fake(t, "m-0* m-1!dead")
	d := defragmenter(t, f, c, DefragOptions{})
	d.Request()
	d.tick(t.Context())
	c.advance(time.Minute)
	if op := d.Request(); op.Phase != "postponed: member m-1 is not healthy: dead" || !op.Start.Equal(noon.Add(2*time.Minute)) {
		t.Errorf("got %+v", op)
	}
	f.change(2, func(m *Member) { m.Ill = "" })
	d.tick(t.Context())
	d.tick(t.Context())
	expect(t, f, "defragment 2", "move leader 1 to 2", "defragment 1")
}

func TestAMemberAboveTheThresholdIsDefragmentedOnceAndNotWithoutBenefit(t *testing.T) {
	f, c := fake(t, "m-0* m-1 m-2")
	th := DefaultThresholds()
	th.FreeBytes = 100
	f.change(1, func(m *Member) { m.DBSizeInUse = 900 })
	f.change(2, func(m *Member) { m.DBSizeInUse = 900 })
	d := defragmenter(t, f, c, DefragOptions{NoSchedule: true, Thresholds: &th, Quota: func() int64 { return -1 }})
	f.during = func(string) { f.change(3, func(m *Member) { m.DBSizeInUse = m.DBSize }) } // it gives back nothing
	d.tick(t.Context())
	expect(t, f, "defragment 3")
	f.change(3, func(m *Member) { m.DBSize, m.DBSizeInUse = 1000, 500 })
	for range 359 {
		c.advance(time.Minute)
		d.tick(t.Context())
	}
	expect(t, f)
	c.advance(time.Minute)
	d.tick(t.Context())
	expect(t, f, "defragment 3")
}

// By default a full and a defragmentation are due in the same second.
func TestNobodyIsDefragmentedWhileASnapshotIsReadFromIt(t *testing.T) {
	f, c := fake(t, "m-0*")
	streams := true
	d := defragmenter(t, f, c, DefragOptions{Streams: func() bool { return streams }})
	d.Request()
	d.tick(t.Context())
	expect(t, f)
	if op := d.Operation(); op.Status != agentapi.InProgress || !strings.Contains(op.Phase, "a full snapshot is read") {
		t.Errorf("it is told %+v", op)
	}
	streams = false
	c.advance(time.Minute)
	d.tick(t.Context())
	expect(t, f, "defragment 1")
}

// Of several members the others are, and the one that leads keeps the leadership: with it the full snapshot would be lost.
func TestNobodyLosesTheLeadershipWhileASnapshotIsReadFromIt(t *testing.T) {
	f, c := fake(t, "m-0* m-1 m-2")
	streams := true
	d := defragmenter(t, f, c, DefragOptions{Streams: func() bool { return streams }})
	d.Request()
	d.tick(t.Context())
	expect(t, f, "defragment 2", "defragment 3")
	streams = false
	c.advance(time.Minute)
	d.tick(t.Context())
	expect(t, f, "move leader 1 to 2", "defragment 1")
}

func TestBadDefragmentationOptionsAreRefusedWithTheRemedy(t *testing.T) {
	for name, o := range map[string]struct {
		DefragOptions
		want string
	}{
		"schedule":  {DefragOptions{Schedule: "0 0 * *"}, `defragmentation: schedule "0 0 * *"`},
		"threshold": {DefragOptions{Thresholds: &Thresholds{FreeShare: 2}}, "write a number from 0 (off) to 1"},
		"timeout":   {DefragOptions{Timeout: -1}, "negative"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := NewDefragmenter(nil, o.DefragOptions); err == nil || !strings.Contains(err.Error(), o.want) {
				t.Errorf("got %v, want %q", err, o.want)
			}
		})
	}
}

func TestNOSPACEIsHealedStepByStep(t *testing.T) {
	f, c := fake(t, "m-0* m-1 m-2")
	for i := range f.View.Members {
		f.change(uint64(i+1), func(m *Member) { m.DBSizeInUse = 950 })
	}
	f.View.Alarms = []member.Alarm{{MemberID: 1, Kind: member.AlarmNoSpace}, {MemberID: 3, Kind: member.AlarmNoSpace}}
	d := defragmenter(t, f, c, DefragOptions{NoSchedule: true})
	h := NewHealer(f, d, HealerOptions{
		Quota: func() int64 { return 1000 }, Retention: func() Retention { return Retention{Period: 30 * time.Minute} },
		Uploaded: func() snapshot.Revision { return 80 }, Common: Common{Now: c.Now},
	})
	look := func() { h.tick(t.Context()); d.tick(t.Context()); c.advance(10 * time.Second) }
	h.tried = c.Now() // in doubt, without benefit
	look()
	expect(t, f) // too much is in use, and the history is young
	c.advance(30 * time.Minute)
	look()
	expect(t, f, "compact 80") // no further than what is uploaded
	look()
	expect(t, f, "defragment 2", "defragment 3", "move leader 1 to 2", "defragment 1")
	f.Self = 2 // the sidecar of the new leader
	d2 := defragmenter(t, f, c, DefragOptions{NoSchedule: true})
	h = NewHealer(f, d2, HealerOptions{Quota: func() int64 { return 1000 }, Common: Common{Now: c.Now}})
	look()
	look()
	look()
	expect(t, f, "disarm NOSPACE 1", "disarm NOSPACE 3")
}

func TestWhatSomebodyCompactsEndsNOSPACEAtOnce(t *testing.T) {
	f, c := fake(t, "m-0*")
	f.change(1, func(m *Member) { m.DBSize, m.DBSizeInUse, m.Revision = 1000, 950, 100 })
	f.View.Alarms = []member.Alarm{{MemberID: 1, Kind: member.AlarmNoSpace}}
	d := defragmenter(t, f, c, DefragOptions{NoSchedule: true})
	waits := ""
	h := NewHealer(f, d, HealerOptions{Quota: func() int64 { return 1000 }, Waits: func(what string) { waits = what }, Common: Common{Now: c.Now}})
	look := func(times int) {
		for range times {
			h.tick(t.Context())
			d.tick(t.Context())
			c.advance(2 * time.Second)
		}
	}
	look(10)
	expect(t, f, "defragment 1") // in doubt, and once
	if !strings.Contains(waits, "delete keys and compact") {
		t.Errorf("it waits for %q", waits)
	}
	f.change(1, func(m *Member) { m.Revision = 110 }) // keys were deleted
	look(10)
	expect(t, f)
	f.compacted = 110
	look(10) // nobody wrote since, so that etcd still takes everything for used
	expect(t, f, "defragment 1")
	f.change(1, func(m *Member) { m.DBSize, m.DBSizeInUse = 100, 100 })
	look(2)
	expect(t, f, "disarm NOSPACE 1")
	if waits != "" {
		t.Errorf("it still waits for %q", waits)
	}
}

func TestTheAccusedMemberIsQuarantinedByItsOwnSidecarAfterASecondLook(t *testing.T) {
	f, c := fake(t, "m-0* m-1 m-2")
	f.Self = 3
	f.View.Alarms = []member.Alarm{{MemberID: 3, Kind: member.AlarmCorrupt}}
	f.hashes = hashesOf("aab")
	var why []string
	waits := ""
	h := NewHealer(f, nil, HealerOptions{Quarantine: func(_ context.Context, reason string) error {
		why = append(why, reason)
		return nil
	}, Waits: func(what string) { waits = what }, Common: Common{Now: c.Now}})
	h.tick(t.Context())
	c.advance(8 * time.Second)
	h.tick(t.Context()) // too early
	if len(why) != 0 {
		t.Fatalf("quarantined at once: %v", why)
	}
	if !strings.Contains(waits, "m-2 has hash") {
		t.Errorf("it waits for %q, want the evidence", waits)
	}
	c.advance(2 * time.Second)
	h.tick(t.Context())
	if len(why) != 1 || !strings.Contains(why[0], "m-2 has hash") {
		t.Fatalf("got %v", why)
	}
	expect(t, f)

	f.Self = 1
	leader := NewHealer(f, nil, HealerOptions{Waits: func(what string) { waits = what }, Common: Common{Now: c.Now}})
	leader.tick(t.Context())
	expect(t, f)
	f.View.Members = f.View.Members[:2] // it left, and that is noticed without comparing anything
	leader.tick(t.Context())
	expect(t, f, "disarm CORRUPT 3")
	leader.tick(t.Context())
	if waits != "" {
		t.Errorf("it still waits for %q", waits)
	}
}

func TestAMemberThatLooksDifferentOnlyOnceIsKept(t *testing.T) {
	f, c := fake(t, "m-0* m-1 m-2")
	f.Self = 3
	f.View.Alarms = []member.Alarm{{MemberID: 3, Kind: member.AlarmCorrupt}}
	h := NewHealer(f, nil, HealerOptions{Quarantine: func(context.Context, string) error {
		t.Error("quarantined")
		return nil
	}, Common: Common{Now: c.Now}})
	for _, hashes := range []string{"aaA", "aaa", "aab", "abc"} {
		f.hashes = hashesOf(hashes)
		h.tick(t.Context())
		c.advance(30 * time.Second)
	}
}

func TestARemoverRemovesOnlyWhatStaysSuperfluous(t *testing.T) {
	f, c := fake(t, "m-0* m-1 m-2 m-3!dead ?4+")
	want := 5
	r := NewRemover(f, func(context.Context) ([]Wanted, error) { return wanted(want), nil }, Common{Now: c.Now})
	look := func(times int) {
		for range times {
			r.tick(t.Context())
			c.advance(10 * time.Second)
		}
	}
	look(10)
	want = 3
	look(2)
	want = 5 // somebody changed their mind
	look(2)
	want = 3
	look(3)
	expect(t, f)
	look(3)
	expect(t, f, "remove 5", "remove 4")
}

func TestAFollowersSidecarRemovesNobody(t *testing.T) {
	f, c := fake(t, "m-0* m-1 m-2")
	f.Self = 2
	r := NewRemover(f, wants(2), Common{Now: c.Now})
	r.grace = time.Second
	for range 5 {
		r.tick(t.Context())
		c.advance(10 * time.Second)
	}
	expect(t, f)
	f.Leader = 2 // it noted since when, so that a new leader need not wait again
	r.tick(t.Context())
	expect(t, f, "remove 3")
}

func TestASuperfluousLeaderHandsOn(t *testing.T) {
	f, c := fake(t, "m-0 m-1 m-2*")
	r := NewRemover(f, wants(2), Common{Now: c.Now})
	r.grace = time.Second
	r.tick(t.Context())
	c.advance(10 * time.Second)
	r.tick(t.Context())
	r.tick(t.Context())
	expect(t, f, "move leader 3 to 1")
}

func TestTheLearnerIsPromotedOnceAndEtcdHasTheLastWord(t *testing.T) {
	f, c := fake(t, "m-0* m-1 m-2+")
	f.Self = 3
	f.fail["promote 3"] = member.ErrLearnerNotReady
	var log bytes.Buffer
	p := NewPromoter(f, wants(3), Common{Now: c.Now, Log: slog.New(slog.NewTextHandler(&log, nil))})
	p.tick(t.Context())
	c.advance(time.Second)
	p.tick(t.Context())
	if n := strings.Count(log.String(), "has not caught up"); n != 1 || strings.Contains(log.String(), "promoted to a voter") {
		t.Errorf("said %d times:\n%s", n, log.String())
	}
	delete(f.fail, "promote 3")
	for range 10 {
		c.advance(time.Second)
		p.tick(t.Context())
	}
	expect(t, f, "promote 3", "promote 3", "promote 3")
	if n := strings.Count(log.String(), "promoted to a voter"); n != 1 {
		t.Errorf("promoted %d times:\n%s", n, log.String())
	}
}

func TestNewPeerURLsAreListedAndEtcdIsRestarted(t *testing.T) {
	f, c := fake(t, "m-0*")
	running := map[string]Running{"m-0": {URLs: []string{"http://m-0:2380"}}}
	fail := errors.New("the wrapper does not answer")
	restarts := 0
	m := NewMover(f, func(context.Context) ([]Wanted, error) {
		return []Wanted{{Name: "m-0", PeerURLs: []string{"https://m-0:2380"}}}, nil
	}, func(context.Context) (map[string]Running, string, error) { return running, "", nil }, func(context.Context) error {
		restarts++
		if fail == nil {
			running["m-0"] = Running{URLs: []string{"https://m-0:2380"}}
		}
		return fail
	}, Common{Now: c.Now})
	m.tick(t.Context())
	expect(t, f, "update 1")
	f.Leader = 0 // nobody finds this member where it is listed
	m.tick(t.Context())
	fail = nil
	m.tick(t.Context())
	f.Leader = 1
	m.tick(t.Context())
	expect(t, f)
	if restarts != 3 {
		t.Errorf("%d restarts, want one that failed with the update, one that failed and one that did it", restarts)
	}
}

func TestEtcdIsRestartedForNewAuthorities(t *testing.T) {
	f, c := fake(t, "m-0* m-1 m-2")
	files, restarts := "old", 0
	running := map[string]Running{}
	for i, w := range wanted(3) {
		running[fmt.Sprintf("m-%d", i)] = Running{URLs: w.PeerURLs, Authorities: "old"}
	}
	var log bytes.Buffer
	m := NewMover(f, wants(3), func(context.Context) (map[string]Running, string, error) { return running, files, nil }, func(context.Context) error {
		restarts++
		running["m-0"] = Running{URLs: running["m-0"].URLs, Authorities: files}
		return nil
	}, Common{Now: c.Now, Log: slog.New(slog.NewTextHandler(&log, nil))})
	looks := func(want int, when, says string) {
		t.Helper()
		m.tick(t.Context())
		if restarts != want || !strings.Contains(log.String(), says) {
			t.Errorf("%s: %d restarts, want %d and %q in\n%s", when, restarts, want, says, &log)
		}
		log.Reset()
	}
	looks(0, "with what it has", "")
	files = "new"
	f.change(3, func(m *Member) { m.Ill = "dead" })
	looks(0, "while another one is ill", "m-2 is not healthy: dead")
	f.change(3, func(m *Member) { m.Ill = "" })
	looks(1, "when all are healthy", "etcd runs with former certificate authorities, its files hold others, and the others are healthy")
	looks(1, "with the new ones", "")

	files, f.Leader = "newer", 0
	looks(1, "while a leader is elected", "no leader")
	c.advance(electionTime - time.Second)
	looks(1, "a moment before it is too long", "")
	f.change(1, func(m *Member) { m.Ill = "away" })
	c.advance(time.Second)
	looks(1, "while etcd does not answer", "")
	f.change(1, func(m *Member) { m.Ill = "" })
	looks(1, "when it answers again", "")
	c.advance(electionTime - time.Second)
	looks(1, "a moment before it is too long, once more", "")
	f.Leader = 1
	f.change(3, func(m *Member) { m.Ill = "dead" })
	looks(1, "there is one again", "m-2 is not healthy: dead")
	c.advance(electionTime)
	f.Leader = 0
	looks(1, "and none again", "no leader")
	c.advance(electionTime)
	looks(2, "and none for long", "and the cluster has no leader")
	expect(t, f)
}

// Whose others cannot be looked at does not know that they are healthy.
func TestEtcdIsNotRestartedForNewAuthoritiesWhenTheClusterStopsToAnswer(t *testing.T) {
	f, c := fake(t, "m-0* m-1")
	running := map[string]Running{}
	for _, w := range wanted(2) {
		running[w.Name] = Running{URLs: w.PeerURLs, Authorities: "old"}
	}
	m := NewMover(&answersOnce{fakeEtcd: f}, wants(2), func(context.Context) (map[string]Running, string, error) { return running, "new", nil }, func(context.Context) error {
		t.Error("it was restarted")
		return nil
	}, Common{Now: c.Now})
	m.tick(t.Context())
}

// answersOnce lists the members once.
type answersOnce struct {
	*fakeEtcd
	asked bool
}

func (a *answersOnce) Members(ctx context.Context) (member.Membership, error) {
	if a.asked {
		return member.Membership{}, member.ErrUnreachable
	}
	a.asked = true
	return a.fakeEtcd.Members(ctx)
}

func TestALearnerThatWasAVoterAMomentAgoIsPromotedWithTheNextLook(t *testing.T) {
	f, c := fake(t, "m-0* m-1 m-2")
	f.Self = 3
	p := NewPromoter(f, wants(3), Common{Now: c.Now})
	p.tick(t.Context())
	p.Anew() // its data were given up, and it joined once more
	f.change(3, func(m *Member) { m.Learner = true })
	c.advance(p.Interval)
	p.tick(t.Context())
	expect(t, f, "promote 3")
}
