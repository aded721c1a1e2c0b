package status

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"druid.internal/druid/internal/agentapi"
)

// clock advances by a second with every look.
func clock() func() time.Time {
	at := time.Date(2024, 5, 1, 12, 0, 0, 0, time.UTC)
	return func() time.Time { at = at.Add(time.Second); return at }
}

func TestTheSameStateForTheSameReasonIsOneTransition(t *testing.T) {
	b := New("etcd-0", clock(), nil)
	start := clock()()
	for _, c := range []struct {
		sub     agentapi.SubState
		reason  agentapi.Reason
		message string
		want    bool
	}{
		{agentapi.PendingLearner, agentapi.WaitingToJoinAsLearner, "first", true},
		{agentapi.PendingLearner, agentapi.WaitingToJoinAsLearner, "second", false},
		{agentapi.Learner, agentapi.JoinedAsLearner, "third", true},
		{agentapi.PendingLearner, agentapi.WaitingToJoinAsLearner, "fourth", true},
	} {
		if got := b.Move(agentapi.Starting, c.sub, c.reason, c.message); got != c.want {
			t.Errorf("moving to %s is a transition: %t, want %t", c.message, got, c.want)
		}
	}
	want := []agentapi.Transition{
		{State: agentapi.Starting, SubState: agentapi.PendingLearner, Reason: agentapi.WaitingToJoinAsLearner, Time: start, Message: "second"},
		{State: agentapi.Starting, SubState: agentapi.Learner, Reason: agentapi.JoinedAsLearner, Time: start.Add(time.Second), Message: "third"},
		{State: agentapi.Starting, SubState: agentapi.PendingLearner, Reason: agentapi.WaitingToJoinAsLearner, Time: start.Add(2 * time.Second), Message: "fourth"},
	}
	if diff := cmp.Diff(want, b.Get().Transitions); diff != "" {
		t.Errorf("transitions (-want +got):\n%s", diff)
	}
	if got := b.State(); got != want[2] {
		t.Errorf("the newest transition is %v, want %v", got, want[2])
	}
}

func TestOldTransitionsAreForgotten(t *testing.T) {
	b := New("etcd-0", clock(), nil)
	if got := b.State(); got != (agentapi.Transition{}) {
		t.Errorf("a new board has the transition %v", got)
	}
	for i := range agentapi.MaxTransitions + 5 {
		b.Move(agentapi.Started, agentapi.Follower, agentapi.Reason(fmt.Sprint(i)), "")
	}
	got := b.Get().Transitions
	if len(got) != agentapi.MaxTransitions || got[0].Reason != "5" || got[agentapi.MaxTransitions-1].Reason != agentapi.Reason(fmt.Sprint(agentapi.MaxTransitions+4)) {
		t.Errorf("%d transitions, from %s to %s", len(got), got[0].Reason, got[len(got)-1].Reason)
	}
	b.Update(func(m *agentapi.Member) {
		m.Transitions = append(m.Transitions, agentapi.Transition{Reason: "last"})
	})
	if got := b.Get().Transitions; len(got) != agentapi.MaxTransitions || got[agentapi.MaxTransitions-1].Reason != "last" {
		t.Errorf("after an update there are %d transitions", len(got))
	}
}

func TestWhoAsksGetsACopy(t *testing.T) {
	b := New("etcd-0", clock(), nil)
	b.Move(agentapi.New, "", agentapi.NewClusterCreated, "")
	b.Update(func(m *agentapi.Member) {
		m.Bootstrap = &agentapi.Bootstrap{Cluster: "c", Saw: map[string]string{"etcd-1": "n"}}
		m.Etcd = &agentapi.Etcd{Alarms: []string{"NOSPACE"}}
	})
	first := b.Get()
	want := b.Get()
	first.Transitions[0].Reason = "changed"
	first.Bootstrap.Saw["etcd-1"] = "changed"
	first.Etcd.Alarms[0] = "changed"
	first.Name = "changed"
	if diff := cmp.Diff(want, b.Get()); diff != "" {
		t.Errorf("the board changed with the copy (-was +is):\n%s", diff)
	}
}

func TestManyMayWriteAndReadAtOnce(t *testing.T) {
	b := New("etcd-0", time.Now, nil)
	var wg sync.WaitGroup
	const each = 100
	for i := range 4 {
		wg.Go(func() {
			for j := range each {
				b.Move(agentapi.Started, agentapi.Leader, agentapi.Reason(fmt.Sprint(i, j)), "")
				b.Update(func(m *agentapi.Member) { m.Data.Revision++ })
				_ = b.Get()
			}
		})
	}
	wg.Wait()
	if got := b.Get().Data.Revision; got != 4*each {
		t.Errorf("%d updates arrived, want %d", got, 4*each)
	}
}
