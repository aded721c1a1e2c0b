package upkeep

import (
	"context"
	"log/slog"
	"time"

	"druid.internal/druid/internal/etcd/member"
)

// Mover follows changes of the own member's peer URLs and certificate authorities.
type Mover struct {
	etcd    Etcd
	wanted  WantedFunc
	running RunningFunc
	restart func(ctx context.Context) error
	Common
	said       said
	leaderless time.Time // since when no leader was seen; zero: there is one
}

// RunningFunc tells what the members' etcds were started with, by name, as far as that is known, and
// the authorities that the files of the own member hold now, as in [URLFacts].
type RunningFunc func(ctx context.Context) (all map[string]Running, authorities string, err error)

// NewMover looks every five seconds. restart has the own etcd started anew with its configuration
// as it is then.
func NewMover(etcd Etcd, wanted WantedFunc, running RunningFunc, restart func(context.Context) error, o Common) *Mover {
	return &Mover{etcd: etcd, wanted: wanted, running: running, restart: restart, Common: o.complete(5 * time.Second)}
}

// Run works until ctx ends.
func (m *Mover) Run(ctx context.Context) error {
	every(ctx, m.Interval, m.tick)
	return nil
}

func (m *Mover) tick(ctx context.Context) {
	node, self, err := status(ctx, m.etcd.Local)
	if err != nil {
		m.leaderless = time.Time{} // it may be another etcd that answers next
		return
	}
	fail := func(err error) {
		m.said.news(m.Log, slog.LevelWarn, "peer URLs and certificate authorities are not followed", "error", err.Error())
	}
	wanted, err := m.wanted(ctx)
	if err != nil {
		fail(err)
		return
	}
	running, authorities, err := m.running(ctx)
	if err != nil {
		fail(err)
		return
	}
	v, err := m.look(ctx, node, self)
	if err != nil {
		return // a learner, or one without its cluster
	}
	f := URLFacts{View: v, Wanted: wanted, Running: running, Authorities: authorities, Leaderless: m.without(v.Leader)}
	d := DecidePeerURLs(f)
	if d.Act == URLsUpdate || d.Act == URLsRestart { // only now the others' health is worth asking
		full, err := observe(ctx, m.etcd)
		switch {
		case err == nil:
			f.View = full
			d = DecidePeerURLs(f)
		case v.Leader != 0: // it is not known to be safe
			fail(err)
			return
		}
	}
	switch d.Act {
	case URLsKeep:
		m.said.news(m.Log, slog.LevelInfo, "")
	case URLsWait:
		m.said.news(m.Log, slog.LevelInfo, "a restart of etcd waits", "reason", d.Reason)
	case URLsUpdate, URLsList:
		if err := m.etcd.UpdatePeerURLs(ctx, self.MemberID, d.URLs); err != nil {
			fail(err)
			return
		}
		m.Log.Info("the peer URLs were changed", "urls", d.URLs, "reason", d.Reason)
		if d.Act == URLsUpdate {
			m.again(ctx, "the new peer URLs are listed")
		}
	case URLsRestart:
		m.again(ctx, d.Reason)
	}
}

// without tells for how long no leader was seen.
func (m *Mover) without(leader uint64) time.Duration {
	switch {
	case leader != 0:
		m.leaderless = time.Time{}
	case m.leaderless.IsZero():
		m.leaderless = m.Now()
	}
	if m.leaderless.IsZero() {
		return 0
	}
	return m.Now().Sub(m.leaderless)
}

// again restarts etcd. What fails is tried at the next look, which sees that etcd still runs with
// what it had.
func (m *Mover) again(ctx context.Context, reason string) {
	if err := m.restart(ctx); err != nil {
		m.said.news(m.Log, slog.LevelWarn, "etcd could not be restarted", "reason", reason, "error", err.Error())
		return
	}
	m.said = said{}
	m.Log.Info("etcd was restarted", "reason", reason)
}

// look lists the members as the cluster knows them, or as the own member does while the cluster
// has no majority: perhaps it has none because this member listens where nobody looks for it.
// Everybody counts as healthy.
func (m *Mover) look(ctx context.Context, node Node, self member.Status) (View, error) {
	listed, err := m.etcd.Members(ctx)
	if err != nil {
		self.Leader = 0
		if listed, err = node.Members(ctx); err != nil {
			return View{}, err
		}
	}
	v := View{Self: self.MemberID, Leader: self.Leader}
	for _, p := range listed.Peers {
		v.Members = append(v.Members, Member{Peer: p})
	}
	return v, nil
}
