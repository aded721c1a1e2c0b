package agent

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"druid.internal/druid/internal/agent/initialize"
	"druid.internal/druid/internal/agent/metrics"
	"druid.internal/druid/internal/agent/status"
	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/etcd/member"
)

// follower tells the board what the own etcd is.
type follower struct {
	etcd     func(context.Context) (member.Status, error)
	list     func(context.Context) (member.Membership, error) // as the own etcd knows it
	board    *status.Board
	interval time.Duration
	timeout  time.Duration
	machine  machine
	restart  func(context.Context) error // of etcd, by way of an initialization
	log      *slog.Logger
	// healthy is called once after each start of etcd, when it votes and sees a leader.
	healthy func()
	// restored, if set, counts a restoration that ended.
	restored func(kind string, took time.Duration, succeeded bool)

	was   bool      // etcd answered, voted and saw a leader at the last look
	since time.Time // when that was last so, or the following began, or etcd was judged

	answered time.Time // when etcd answered last, or the following began
	led      time.Time // when it last saw a leader, or the following began
	alone    string    // what the others say meanwhile; empty: it was not asked for long enough
	waiting  string    // as it is told
}

// machine is what initialization knows about how etcd was started.
type machine interface {
	Entered() agentapi.Reason
	Reconsider(context.Context) (initialize.Decision, bool)
	Status() agentapi.InitState
}

const (
	// followInterval is how often etcd is asked, at least; followTimeout bounds a question.
	followInterval = time.Second
	followTimeout  = 2 * time.Second
	// lonely is for how long an etcd may see no leader before it is asked whether it is of any use
	// where it is.
	lonely = 20 * time.Second
	// quiet is for how long an etcd may not answer until that is told.
	quiet = 10 * time.Second
)

// run looks until ctx ends, and once more then: what is told last is what etcd had when the sidecar was told to end.
func (f *follower) run(ctx context.Context) error {
	tick := time.NewTicker(f.interval)
	defer tick.Stop()
	f.since = time.Now()
	f.answered, f.led = f.since, f.since
	for {
		f.look(ctx)
		f.reconsider(ctx)
		select {
		case <-ctx.Done():
			f.look(context.WithoutCancel(ctx))
			return nil
		case <-tick.C:
		}
	}
}

func (f *follower) look(ctx context.Context) {
	asked, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	s, err := f.etcd(asked)
	if err != nil {
		f.board.Update(func(m *agentapi.Member) { m.Etcd = nil })
		f.was = false
		f.silent(err)
		return
	}
	f.answered = time.Now()
	if s.Leader != 0 {
		f.led, f.alone = f.answered, ""
	}
	f.tell(f.alone)
	members := f.members(asked, s)
	f.board.Update(func(m *agentapi.Member) {
		m.ID, m.ClusterID = hexID(s.MemberID), hexID(s.ClusterID)
		m.Etcd = &agentapi.Etcd{Version: s.Version, Learner: s.Learner, Leader: hexID(s.Leader), Revision: int64(s.Revision),
			DBSize: s.DBSize, DBSizeInUse: s.DBSizeInUse, Alarms: alarms(s), Members: members}
	})
	if state, sub, reason, message, moved := step(f.board.State(), s, f.machine.Entered()); moved {
		f.board.Move(state, sub, reason, message)
		if reason == agentapi.PromotedAsVotingMember {
			f.learned()
		}
	}
	good := !s.Learner && s.Leader != 0
	if good && !f.was && f.healthy != nil {
		f.healthy()
	}
	f.was = good
	if good {
		f.since = time.Now()
	}
}

// members are who belongs to the cluster; none if etcd does not say. A learner is not asked, as it
// would refuse.
func (f *follower) members(ctx context.Context, s member.Status) (listed []agentapi.Listed) {
	if s.Learner || f.list == nil {
		return nil
	}
	all, err := f.list(ctx)
	if err != nil {
		return nil // it answered a moment ago, and is asked again in a moment
	}
	for _, p := range all.Peers {
		listed = append(listed, agentapi.Listed{ID: hexID(p.ID), Name: p.Name, PeerURLs: p.PeerURLs, ClientURLs: p.ClientURLs, Learner: p.Learner})
	}
	return listed
}

// silent says what an etcd waits for that does not answer for long.
func (f *follower) silent(err error) {
	switch {
	case f.machine.Status() == agentapi.InitProgress || time.Since(f.answered) < quiet:
		return
	case f.alone != "":
		f.tell(f.alone)
		return
	case f.machine.Entered() == "": // whether there is one is not known
		return
	}
	f.tell(fmt.Sprintf("the own etcd has not answered since %s: it waits for a leader, which takes a majority of the members, or it is not started; etcd's log says more (%v)",
		f.answered.UTC().Format(time.RFC3339), err))
}

// tell publishes what is waited for, unless somebody else says something; empty: nothing.
func (f *follower) tell(what string) {
	before := f.waiting
	if before == "" && what == "" {
		return
	}
	f.waiting = what
	f.board.Update(func(m *agentapi.Member) {
		if m.Waiting == before {
			m.Waiting = what
		}
	})
}

// learned ends the restoration from the leader.
func (f *follower) learned() {
	now := time.Now().UTC()
	var began time.Time
	f.board.Update(func(m *agentapi.Member) {
		if r := m.LastRestoration; r != nil && r.Type == agentapi.FromLeader && r.Status == agentapi.InProgress {
			r.End, r.Status, began = &now, agentapi.Success, r.Start
		}
	})
	if f.restored != nil && !began.IsZero() {
		f.restored(metrics.OfACluster, now.Sub(began), true)
	}
}

// reconsider restarts an etcd that has no leader for long, if that is of use.
func (f *follower) reconsider(ctx context.Context) {
	if time.Since(f.since) < lonely {
		return
	}
	f.since = time.Now()
	d, useless := f.machine.Reconsider(ctx)
	if !useless {
		if d.Message != "" {
			f.alone = fmt.Sprintf("etcd has seen no leader since %s: %s", f.led.UTC().Format(time.RFC3339), d.Message)
		}
		return
	}
	f.log.Warn("etcd is restarted: it is of no use as it was started", "rule", d.Rule, "reason", d.Message)
	if err := f.restart(ctx); err != nil {
		f.log.Error("etcd was not restarted", "error", err)
	}
}

// alarms are the kinds that etcd has raised.
func alarms(s member.Status) (kinds []string) {
	for _, kind := range s.Alarms() {
		kinds = append(kinds, string(kind))
	}
	return kinds
}

// hexID is an id as etcd prints it, in sixteen digits; empty for none.
func hexID(id uint64) string {
	if id == 0 {
		return ""
	}
	return fmt.Sprintf("%016x", id)
}

// step is the transition from what was to what etcd says it is.
func step(was agentapi.Transition, s member.Status, entered agentapi.Reason) (agentapi.State, agentapi.SubState, agentapi.Reason, string, bool) {
	is := agentapi.Follower
	switch {
	case s.Learner:
		is = agentapi.Learner
	case s.Leader == s.MemberID && s.Leader != 0:
		is = agentapi.Leader
	}
	if was.SubState == is {
		return "", "", "", "", false
	}
	id := hexID(s.MemberID)
	switch {
	case is == agentapi.Learner:
		return agentapi.Starting, is, agentapi.JoinedAsLearner, "member " + id + " receives the data from the leader", true
	case was.SubState == agentapi.Learner:
		return agentapi.Started, is, agentapi.PromotedAsVotingMember, "member " + id + " has a vote", true
	case is == agentapi.Leader && was.State == agentapi.Started:
		return agentapi.Started, is, agentapi.GainedClusterLeadership, "member " + id + " leads", true
	case was.SubState == agentapi.Leader:
		return agentapi.Started, is, agentapi.LostClusterLeadership, "another member than " + id + " leads", true
	case s.Leader == 0:
		return "", "", "", "", false // it votes, but there is no cluster yet
	}
	message := "member " + id + " follows"
	if is == agentapi.Leader {
		message = "member " + id + " leads"
	}
	return agentapi.Started, is, cmp.Or(entered, agentapi.DBValidationSucceeded), message, true
}
