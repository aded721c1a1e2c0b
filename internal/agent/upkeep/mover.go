package upkeep

import (
	"context"
	"log/slog"
	"time"

	"druid.internal/druid/internal/etcd/member"
)

// Mover follows changes of the own member's peer URLs.
type Mover struct {
	etcd    Etcd
	wanted  WantedFunc
	running func(ctx context.Context) (map[string][]string, error)
	restart func(ctx context.Context) error
	Common
	said said
}

// NewMover looks every five seconds. running tells the peer URLs that the members' etcds were
// started with, by name, as far as that is known, and restart has the own etcd started anew with
// its configuration as it is then.
func NewMover(etcd Etcd, wanted WantedFunc, running func(context.Context) (map[string][]string, error), restart func(context.Context) error, o Common) *Mover {
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
		return
	}
	fail := func(err error) {
		m.said.news(m.Log, slog.LevelWarn, "the peer URLs are not followed", "error", err.Error())
	}
	wanted, err := m.wanted(ctx)
	if err != nil {
		fail(err)
		return
	}
	running, err := m.running(ctx)
	if err != nil {
		fail(err)
		return
	}
	v, err := m.look(ctx, node, self)
	if err != nil {
		return // a learner, or one without its cluster
	}
	d := DecidePeerURLs(URLFacts{View: v, Wanted: wanted, Running: running})
	if d.Act == URLsUpdate || d.Act == URLsRestart { // only now the others' health is worth asking
		if full, err := observe(ctx, m.etcd); err == nil {
			d = DecidePeerURLs(URLFacts{View: full, Wanted: wanted, Running: running})
		} else if d.Act == URLsUpdate {
			fail(err)
			return
		}
	}
	switch d.Act {
	case URLsKeep:
		m.said.news(m.Log, slog.LevelInfo, "")
	case URLsWait:
		m.said.news(m.Log, slog.LevelInfo, "the peer URLs wait", "reason", d.Reason)
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

// again restarts etcd. What fails is tried at the next look, which sees that etcd still runs with
// the former URLs.
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
