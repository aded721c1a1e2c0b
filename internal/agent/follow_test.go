package agent

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"druid.internal/druid/internal/agent/initialize"
	"druid.internal/druid/internal/agent/status"
	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/etcd/member"
)

func TestTheStateFollowsWhatEtcdSays(t *testing.T) {
	const id = 7
	at := func(state agentapi.State, sub agentapi.SubState) agentapi.Transition {
		return agentapi.Transition{State: state, SubState: sub}
	}
	leads, follows := member.Status{MemberID: id, Leader: id}, member.Status{MemberID: id, Leader: 8}
	for name, c := range map[string]struct {
		was     agentapi.Transition
		is      member.Status
		entered agentapi.Reason
		sub     agentapi.SubState // empty: nothing changes
		reason  agentapi.Reason
	}{
		"a learner begins":                  {at(agentapi.Starting, agentapi.PendingLearner), member.Status{MemberID: id, Leader: 8, Learner: true}, "", agentapi.Learner, agentapi.JoinedAsLearner},
		"a learner is promoted":             {at(agentapi.Starting, agentapi.Learner), follows, "", agentapi.Follower, agentapi.PromotedAsVotingMember},
		"a learner is promoted and leads":   {at(agentapi.Starting, agentapi.Learner), leads, "", agentapi.Leader, agentapi.PromotedAsVotingMember},
		"a follower wins the election":      {at(agentapi.Started, agentapi.Follower), leads, "", agentapi.Leader, agentapi.GainedClusterLeadership},
		"a leader loses it":                 {at(agentapi.Started, agentapi.Leader), follows, "", agentapi.Follower, agentapi.LostClusterLeadership},
		"a leader loses it to nobody":       {at(agentapi.Started, agentapi.Leader), member.Status{MemberID: id}, "", agentapi.Follower, agentapi.LostClusterLeadership},
		"it comes back as it was":           {at(agentapi.Initializing, agentapi.DBValidationFull), follows, "", agentapi.Follower, agentapi.DBValidationSucceeded},
		"it comes back and leads":           {at(agentapi.Initializing, agentapi.DBValidationSanity), leads, agentapi.DBValidationSucceeded, agentapi.Leader, agentapi.DBValidationSucceeded},
		"it comes back restored":            {at(agentapi.Initializing, agentapi.Restoration), leads, agentapi.RestorationSucceeded, agentapi.Leader, agentapi.RestorationSucceeded},
		"it comes back and sees no cluster": {at(agentapi.Initializing, agentapi.DBValidationFull), member.Status{MemberID: id}, "", "", ""},
		"nothing changes":                   {at(agentapi.Started, agentapi.Follower), follows, "", "", ""},
	} {
		_, sub, reason, message, moved := step(c.was, c.is, c.entered)
		if sub != c.sub || reason != c.reason || moved != (c.sub != "") || moved && message == "" {
			t.Errorf("%s: %s for %s (%s), want %s for %s", name, sub, reason, message, c.sub, c.reason)
		}
	}
}

func TestTheMembersAreToldAsEtcdListsThem(t *testing.T) {
	listed := member.Membership{Peers: []member.Peer{{ID: 7, Name: "a-0", PeerURLs: []string{"http://a-0:2380"}}, {ID: 8, PeerURLs: []string{"http://a-1:2380"}, Learner: true}}}
	board := status.New("a-0", time.Now, nil)
	is := member.Status{MemberID: 7, Leader: 7}
	f := &follower{board: board, timeout: time.Second, machine: quietMachine{}, healthy: func() {},
		etcd: func(context.Context) (member.Status, error) { return is, nil },
		list: func(context.Context) (member.Membership, error) { return listed, nil },
	}
	f.look(t.Context())
	want := []agentapi.Listed{{ID: "0000000000000007", Name: "a-0", PeerURLs: []string{"http://a-0:2380"}}, {ID: "0000000000000008", PeerURLs: []string{"http://a-1:2380"}, Learner: true}}
	if diff := cmp.Diff(want, board.Get().Etcd.Members); diff != "" {
		t.Errorf("members (-want +got):\n%s", diff)
	}
	is.Learner = true
	f.look(t.Context())
	if got := board.Get().Etcd.Members; got != nil {
		t.Errorf("a learner told %v, want nothing", got)
	}
}

// quietMachine initialized the member long ago.
type quietMachine struct{}

func (quietMachine) Entered() agentapi.Reason { return agentapi.DBValidationSucceeded }
func (quietMachine) Reconsider(context.Context) (initialize.Decision, bool) {
	return initialize.Decision{}, false
}
func (quietMachine) Status() agentapi.InitState { return agentapi.InitNew }

func TestALearnerThatVotesHasBeenRestored(t *testing.T) {
	board := status.New("a", time.Now, nil)
	board.Move(agentapi.Starting, agentapi.Learner, agentapi.JoinedAsLearner, "")
	board.Update(func(m *agentapi.Member) {
		m.LastRestoration = &agentapi.Restored{Type: agentapi.FromLeader, Status: agentapi.InProgress, Start: time.Now().Add(-time.Minute)}
	})
	var counted []string
	f := &follower{board: board, timeout: time.Second, machine: quietMachine{}, healthy: func() {},
		etcd: func(context.Context) (member.Status, error) { return member.Status{MemberID: 7, Leader: 8}, nil },
		list: func(context.Context) (member.Membership, error) { return member.Membership{}, nil },
		restored: func(kind string, took time.Duration, succeeded bool) {
			if took < time.Minute || took > 2*time.Minute || !succeeded {
				t.Errorf("it took %v and succeeded: %t", took, succeeded)
			}
			counted = append(counted, kind)
		},
	}
	f.look(t.Context())
	f.look(t.Context())
	if diff := cmp.Diff([]string{"multi_node"}, counted); diff != "" {
		t.Errorf("restorations (-want +got):\n%s", diff)
	}
	if r := board.Get().LastRestoration; r.Status != agentapi.Success || r.End == nil {
		t.Errorf("it is told as %+v", r)
	}
}

// loneMachine finds that the others have lost their data.
type loneMachine struct{ quietMachine }

func (loneMachine) Reconsider(context.Context) (initialize.Decision, bool) {
	return initialize.Decision{Message: "a-1: no data"}, false
}

// youngMachine did not start the etcd that runs.
type youngMachine struct{ loneMachine }

func (youngMachine) Entered() agentapi.Reason { return "" }

func TestAMemberThatIsLeftAloneTellsOfTheOthers(t *testing.T) {
	board := status.New("a-0", time.Now, nil)
	is := member.Status{MemberID: 7}
	var fails error
	f := &follower{board: board, timeout: time.Second, machine: loneMachine{}, healthy: func() {},
		etcd: func(context.Context) (member.Status, error) { return is, fails },
	}
	waits := func(want bool) {
		t.Helper()
		f.look(t.Context())
		if got := board.Get().Waiting; strings.Contains(got, "no leader since") != want || strings.Contains(got, "a-1: no data") != want {
			t.Errorf("it waits for %q; want it to tell of the others: %t", got, want)
		}
	}
	waits(false)
	f.reconsider(t.Context())
	waits(true)
	fails = errors.New("it is busy")
	f.answered = time.Now().Add(-2 * quiet)
	waits(true)
	f.machine = youngMachine{}
	f.tell("")
	waits(true)
	is.Leader, fails = 8, nil
	waits(false)
}

func TestTheLastLookIsHadAsTheSidecarEnds(t *testing.T) {
	board := status.New("a-0", time.Now, nil)
	ctx, end := context.WithCancel(t.Context())
	is := member.Status{MemberID: 7, Leader: 7, Revision: 1000}
	f := &follower{board: board, interval: time.Hour, timeout: time.Second, machine: quietMachine{}, healthy: func() {},
		etcd: func(ctx context.Context) (member.Status, error) {
			was := is
			is.Revision = 1001 // written after it
			end()
			return was, context.Cause(ctx)
		},
	}
	_ = f.run(ctx)
	if e := board.Get().Etcd; e == nil || e.Revision != 1001 {
		t.Errorf("etcd is told as %+v, want revision 1001", e)
	}
}
