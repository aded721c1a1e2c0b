package kube

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/agentapi"
)

func TestWhatSomebodyWaitsForIsWrittenAtOnceAndNumbersAreNot(t *testing.T) {
	for phrase, c := range map[string]struct {
		change func(*agentapi.Member)
		within time.Duration
		not    time.Duration // not yet after that
	}{
		"it makes the backups": {func(m *agentapi.Member) { m.BackupLeader = true }, 2 * time.Second, 0},
		"an alarm":             {func(m *agentapi.Member) { m.Etcd = &agentapi.Etcd{Alarms: []string{"NOSPACE"}} }, 2 * time.Second, 0},
		"a transition": {func(m *agentapi.Member) {
			m.Transitions = append(m.Transitions, agentapi.Transition{State: agentapi.Started, SubState: agentapi.Follower, Reason: agentapi.LostClusterLeadership})
		}, 2 * time.Second, 0},
		"it waits": {func(m *agentapi.Member) { m.Waiting = "for a person" }, 2 * time.Second, 0},
		"an upload failed": {func(m *agentapi.Member) {
			m.BackupFailure = &agentapi.BackupFailure{Reason: agentapi.StoreAccessDenied}
		}, 2 * time.Second, 0},
		"a full": {func(m *agentapi.Member) {
			m.Snapshots = &agentapi.Snapshots{LastFull: &agentapi.Uploaded{Name: "Full-1"}}
		}, 2 * time.Second, 0},
		"a restoration ended": {func(m *agentapi.Member) { m.LastRestoration = &agentapi.Restored{Status: agentapi.Success} }, 2 * time.Second, 0},
		"another version":     {func(m *agentapi.Member) { m.Etcd = &agentapi.Etcd{Version: "3.6.17"} }, 11 * time.Second, 5 * time.Second},
		"another revision":    {func(m *agentapi.Member) { e := *m.Etcd; e.Revision = 8; m.Etcd = &e }, 51 * time.Second, 40 * time.Second},
		"nothing":             {func(*agentapi.Member) {}, 301 * time.Second, 290 * time.Second},
	} {
		s := newServer()
		story(t, s, working(), func(sc *sidecar) {
			s.forget()
			sc.update(c.change)
			pass(c.not)
			if n := s.count("PATCH", "status"); n != 0 {
				t.Errorf("%s is written %d times within %v", phrase, n, c.not)
			}
			pass(c.within - c.not)
			if n := s.count("PATCH", "status"); n != 1 {
				t.Errorf("%s is written %d times within %v, want once", phrase, n, c.within)
			}
		})
	}
}

func TestABusyMemberIsWrittenSeldom(t *testing.T) {
	s := newServer()
	story(t, s, working(), func(c *sidecar) {
		s.forget()
		for i := range 10 * 60 {
			c.update(func(m *agentapi.Member) {
				m.Etcd = &agentapi.Etcd{Version: "3.6.16", Leader: m.ID, Revision: int64(i), DBSize: int64(i) << 20}
			})
			pass(time.Second)
		}
		if n := s.count("PATCH", "status"); n < 10 || n > 13 {
			t.Errorf("%d writes in ten minutes of other revisions, want at most every 50 seconds", n)
		}
		s.forget()
		for i := range 60 {
			c.update(func(m *agentapi.Member) { m.Waiting = fmt.Sprint("for port ", i) })
			pass(time.Second)
		}
		if n := s.count("PATCH", "status"); n > 7 {
			t.Errorf("%d writes in a minute of other messages, want at most every 10 seconds", n)
		}
	})
}

func TestThatNothingIsNewIsRepeatedEveryTwoMinutes(t *testing.T) {
	s, m := newServer(), working()
	m.BackupLeader = true
	story(t, s, m, func(c *sidecar) {
		for range 10 * 60 {
			now := time.Now()
			c.update(func(m *agentapi.Member) {
				if u := m.Snapshots; u == nil || now.Sub(*u.NothingNew) >= 30*time.Second { // as the backup leader tells it
					m.Snapshots = &agentapi.Snapshots{NothingNew: &now}
				}
			})
			pass(time.Second)
			if age := time.Since(s.status().Snapshots.NothingNew.Time); age > 2*time.Minute+15*time.Second {
				t.Fatalf("what stands there is %v old", age)
			}
		}
		if n := s.count("PATCH", "status"); n > 7 {
			t.Errorf("%d writes in ten minutes of nothing new", n)
		}
	})
}

func TestTheAnnotationGoesWhenTheMemberVotes(t *testing.T) {
	s := newServer()
	s.member.Annotations = map[string]string{druidv1alpha1.AnnotationCreateAsLearner: "", "other": "stays"}
	m := working()
	m.Etcd.Learner, m.Etcd.Leader = true, "17"
	m.Transitions = []agentapi.Transition{{State: agentapi.Starting, SubState: agentapi.Learner, Reason: agentapi.JoinedAsLearner, Time: epoch}}
	story(t, s, m, func(c *sidecar) {
		pass(10 * time.Minute)
		if n := s.count("PATCH", "member"); n != 0 {
			t.Fatalf("%d requests to remove it while the member is a learner", n)
		}
		c.update(func(m *agentapi.Member) {
			m.Etcd = &agentapi.Etcd{Leader: "17"}
			m.Transitions = append(m.Transitions, agentapi.Transition{State: agentapi.Started, SubState: agentapi.Follower, Reason: agentapi.PromotedAsVotingMember, Time: time.Now()})
		})
		pass(2 * time.Second)
		s.change(func() {
			if _, there := s.member.Annotations[druidv1alpha1.AnnotationCreateAsLearner]; there || s.member.Annotations["other"] != "stays" {
				t.Errorf("the annotations are %v", s.member.Annotations)
			}
		})
		pass(10 * time.Minute)
		if n := s.count("PATCH", "member"); n != 1 {
			t.Errorf("%d requests, want one", n)
		}
	})
}

func TestAnObjectThatWasReplacedGetsEverythingAnew(t *testing.T) {
	s := newServer()
	story(t, s, working(), func(c *sidecar) {
		s.change(func() { s.member = &druidv1alpha1.EtcdMember{}; uid(s, "second") })
		pass(6 * time.Minute)
		got := s.status()
		if got.State != "Started" || len(got.Transitions) != 1 {
			t.Errorf("the new object says %+v", got)
		}
		if n := c.logged("situation=conflict"); n != 1 {
			t.Errorf("the conflict is logged %d times, want once", n)
		}
	})
}

func TestAnObjectThatWasAwayForAWhileIsNotCountedTwice(t *testing.T) {
	s := newServer()
	s.member.Status.Transitions = []druidv1alpha1.MemberTransition{{State: druidv1alpha1.MemberNew, Reason: druidv1alpha1.MemberReasonNewSingleNodeClusterCreated}}
	s.member.Status.VolumeMismatches = []druidv1alpha1.VolumeMismatch{{VolumeID: "v", NumRestarts: 2}}
	m := working()
	m.VolumeMismatches = []agentapi.Mismatch{{VolumeID: "v", Restarts: 1}}
	story(t, s, m, func(*sidecar) {
		want := text(s.status())
		kept := s.member
		s.change(func() { s.member = nil }) // as while the definition is applied anew
		pass(6 * time.Minute)
		s.change(func() { s.member = kept })
		pass(time.Minute)
		if got := text(s.status()); got != want {
			t.Errorf("afterwards it says\n%s\nand before\n%s", got, want)
		}
		if got := s.status(); got.VolumeMismatches[0].NumRestarts != 3 || len(got.Transitions) != 2 {
			t.Errorf("it says %+v", got)
		}
	})
}

func TestARestartedSidecarContinuesItsHistory(t *testing.T) {
	s := newServer()
	story(t, s, working(), func(c *sidecar) { pass(time.Second) })
	again := working()
	again.Transitions = []agentapi.Transition{{State: agentapi.Started, SubState: agentapi.Leader, Reason: agentapi.DBValidationSucceeded, Time: epoch.Add(time.Hour)}}
	story(t, s, again, func(c *sidecar) {
		pass(time.Second)
		got := s.status().Transitions
		if len(got) != 1 || !got[0].TransitionTime.Time.Equal(epoch) || got[0].Reason != "NewSingleNodeClusterCreated" {
			t.Errorf("beside a running etcd the transitions are %+v, want the one from before", got)
		}
	})
}

func TestWhatIsWrittenStaysSmall(t *testing.T) {
	m := working()
	long := strings.Repeat("ü\n", 10_000)
	m.Waiting = long
	m.BackupFailure = &agentapi.BackupFailure{Message: long}
	m.LastRestoration = &agentapi.Restored{Message: long}
	m.LastDefragmentation = &agentapi.Defragmentation{Message: long}
	for i := range 100 {
		m.Transitions = append(m.Transitions, agentapi.Transition{State: agentapi.Initializing, Reason: agentapi.Reason(fmt.Sprint(i)), Message: long})
		m.VolumeMismatches = append(m.VolumeMismatches, agentapi.Mismatch{VolumeID: fmt.Sprint(i) + long})
	}
	once := since(druidv1alpha1.MemberReport{}, describe(m))
	twice := since(once, describe(m))
	if n := len(text(twice)); n > 50_000 {
		t.Errorf("%d bytes", n)
	}
	if len(twice.Transitions) != agentapi.MaxTransitions || len(twice.VolumeMismatches) > agentapi.MaxMismatches {
		t.Errorf("%d transitions, %d mismatches", len(twice.Transitions), len(twice.VolumeMismatches))
	}
	if got := twice.Transitions[agentapi.MaxTransitions-1].Reason; got != "99" {
		t.Errorf("the newest transition is %s, want 99", got)
	}
	if w := twice.Waiting; len(w) > agentapi.MaxText || !strings.HasSuffix(w, "...") || !utf8.ValidString(w) || strings.ContainsRune(w, '\n') {
		t.Errorf("the message is %q", w)
	}
}

// What a member wrote last before it ends decides whether volumes may be deleted: the operator compares the revision in the
// EtcdMember with that of the final snapshot when the pods are gone.
func TestTheLastRevisionIsToldBeforeTheSidecarEnds(t *testing.T) {
	at := func(c *sidecar, rev int64) {
		c.update(func(m *agentapi.Member) { m.Etcd = &agentapi.Etcd{Version: "3.6.16", Leader: m.ID, Revision: rev} })
	}
	for phrase, end := range map[string]func(*sidecar){
		"etcd still works":       func(*sidecar) {},
		"etcd ended before":      func(c *sidecar) { c.update(func(m *agentapi.Member) { m.Etcd = nil }) },
		"etcd ended long before": func(c *sidecar) { c.update(func(m *agentapi.Member) { m.Etcd = nil }); pass(time.Minute) },
		"etcd ended, and is told": func(c *sidecar) {
			c.update(func(m *agentapi.Member) { m.Etcd, m.Waiting = nil, "for etcd" })
			pass(2 * time.Second)
		},
	} {
		s := newServer()
		story(t, s, working(), func(c *sidecar) {
			at(c, 1000)
			pass(52 * time.Second)
			at(c, 1001) // after the members were compared
			pass(40 * time.Second)
			end(c)
		})
		if got := s.status().Revision; got != 1001 {
			t.Errorf("%s: revision %d stands in the EtcdMember after the end, and the member was at 1001 for 40 seconds", phrase, got)
		}
	}
}

func TestNothingIsToldAtTheEndThatStandsThere(t *testing.T) {
	s := newServer()
	story(t, s, working(), func(*sidecar) { s.forget() })
	if n := s.count("PATCH", "status"); n != 0 {
		t.Errorf("%d writes as it ended, want none", n)
	}
}
