package upkeep

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// Claimant has the own member lead instead of one outside.
type Claimant struct {
	etcd   Etcd
	wanted WantedFunc
	waits  func(what string)
	Common
	said  said
	since time.Time // when a member outside was first seen to lead, or was last asked to hand on
}

// claimGrace is longer than it takes a new member to settle. It also lies between two attempts.
const claimGrace = 15 * time.Second

// NewClaimant looks every two seconds. waits, which may be nil, is told what is waited for; "": nothing.
func NewClaimant(etcd Etcd, wanted WantedFunc, waits func(what string), o Common) *Claimant {
	if waits == nil {
		waits = func(string) {}
	}
	return &Claimant{etcd: etcd, wanted: wanted, waits: waits, Common: o.complete(2 * time.Second)}
}

// Run works until ctx ends.
func (c *Claimant) Run(ctx context.Context) error {
	every(ctx, c.Interval, c.tick)
	return nil
}

func (c *Claimant) tick(ctx context.Context) {
	_, self, err := status(ctx, c.etcd.Local)
	if err != nil || self.Learner || self.Leader == 0 || self.Leader == self.MemberID {
		c.settled()
		return
	}
	wanted, err := c.wanted(ctx)
	if err != nil {
		return // the remover says so
	}
	listed, err := c.etcd.Members(ctx)
	if err != nil {
		return
	}
	v := View{Self: self.MemberID, Leader: self.Leader}
	for _, p := range listed.Peers {
		v.Members = append(v.Members, Member{Peer: p})
	}
	if leader, ok := v.Member(v.Leader); !ok || !foreign(leader, wanted) {
		c.settled()
		return
	}
	if v, err = observe(ctx, c.etcd); err != nil { // only now the others' health is worth asking
		return
	}
	if c.since.IsZero() {
		c.since = c.Now()
	}
	switch d := DecideClaim(ClaimFacts{View: v, Wanted: wanted, Since: c.since, Grace: claimGrace, Now: c.Now()}); d.Act {
	case ClaimNone:
		c.settled()
	case ClaimWait:
		c.tell(slog.LevelInfo, d.Reason)
	case ClaimLead:
		c.since = c.Now()
		if err := c.claim(ctx, v); err != nil {
			c.tell(slog.LevelWarn, fmt.Sprintf("%s; it was asked to hand on, and did not: %v; move the leadership with etcdctl move-leader, or remove that member from the cluster", d.Reason, err))
			return
		}
		c.Log.Info("the leadership came here from a member outside", "from", v.name(v.Leader))
		c.settled()
	}
}

// claim asks the leader, who alone can hand on.
func (c *Claimant) claim(ctx context.Context, v View) error {
	ctx, cancel := context.WithTimeout(ctx, 2*probeTimeout)
	defer cancel()
	leader, _ := v.Member(v.Leader)
	node, _, err := c.etcd.Reach(ctx, leader.Peer)
	if err != nil {
		return err
	}
	return node.MoveLeader(ctx, v.Self)
}

func (c *Claimant) tell(level slog.Level, what string) {
	c.said.news(c.Log, level, "a member outside leads", "reason", what)
	c.waits(what)
}

func (c *Claimant) settled() {
	c.since = time.Time{}
	c.said.news(c.Log, slog.LevelInfo, "")
	c.waits("")
}
