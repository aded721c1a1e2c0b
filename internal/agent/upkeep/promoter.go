package upkeep

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"druid.internal/druid/internal/etcd/member"
)

// Promoter promotes the own member whenever it is a learner that has caught up.
type Promoter struct {
	etcd   Etcd
	wanted WantedFunc
	Common
	said said
	next time.Time // no look before
	anew atomic.Bool
}

// idle is how often a voter is asked whether it is still one.
const idle = 5 * time.Second

// NewPromoter looks twice a second while the member is a learner.
func NewPromoter(etcd Etcd, wanted WantedFunc, o Common) *Promoter {
	return &Promoter{etcd: etcd, wanted: wanted, Common: o.complete(500 * time.Millisecond)}
}

// Run works until ctx ends.
func (p *Promoter) Run(ctx context.Context) error {
	every(ctx, p.Interval, p.tick)
	return nil
}

// Anew says that etcd is about to be started: whether it was a voter says nothing any more. It may be
// called at any time.
func (p *Promoter) Anew() { p.anew.Store(true) }

func (p *Promoter) tick(ctx context.Context) {
	if p.anew.Swap(false) {
		p.next = time.Time{}
	}
	if p.Now().Before(p.next) {
		return
	}
	_, self, err := status(ctx, p.etcd.Local)
	if err != nil {
		return // etcd does not run, which is the business of others
	}
	p.Metrics.Learner(self.Learner)
	if !self.Learner {
		p.said.news(p.Log, slog.LevelInfo, "")
		p.next = p.Now().Add(min(idle, 10*p.Interval))
		return
	}
	v, wanted, err := p.look(ctx, self)
	if err != nil {
		p.said.news(p.Log, slog.LevelWarn, "the learner waits for its cluster", "error", err.Error())
		return
	}
	d := DecidePromotion(v, wanted)
	if !d.Promote {
		p.said.news(p.Log, slog.LevelInfo, "the learner is not promoted yet", "reason", d.Reason)
		return
	}
	began := p.Now()
	err = p.etcd.Promote(ctx, self.MemberID)
	if errors.Is(err, member.ErrLearnerNotReady) {
		p.said.news(p.Log, slog.LevelInfo, "the learner is not promoted yet", "reason", "etcd says that it has not caught up")
		return
	}
	p.Metrics.MemberPromoted(p.Now().Sub(began), err == nil)
	if err != nil {
		p.said.news(p.Log, slog.LevelWarn, "the learner could not be promoted", "error", err.Error())
		return
	}
	p.Metrics.Learner(false)
	p.Log.Info("the learner was promoted to a voter", "reason", d.Reason, "revision", int64(v.revision(v.Self)))
}

// look asks the leader only, and the list: members that are down must not hold up a promotion.
func (p *Promoter) look(ctx context.Context, self member.Status) (View, []Wanted, error) {
	wanted, err := p.wanted(ctx)
	if err != nil {
		return View{}, nil, err
	}
	listed, err := p.etcd.Members(ctx)
	if err != nil {
		return View{}, nil, err
	}
	v := View{Self: self.MemberID, Leader: self.Leader}
	for _, m := range listed.Peers {
		entry := Member{Peer: m}
		switch m.ID {
		case self.MemberID:
			entry.Revision = self.Revision
		case self.Leader:
			ctx, cancel := context.WithTimeout(ctx, probeTimeout)
			if _, st, err := p.etcd.Reach(ctx, m); err == nil {
				entry.Revision = st.Revision
			}
			cancel()
		}
		v.Members = append(v.Members, entry)
	}
	return v, wanted, nil
}
