package upkeep

import (
	"context"
	"log/slog"
	"time"
)

// Remover removes superfluous members while its member leads, one per look.
type Remover struct {
	etcd   Etcd
	wanted WantedFunc
	grace  time.Duration
	Common
	said  said
	since map[uint64]time.Time
}

// removalGrace is longer than a changed configuration needs to reach all sidecars.
const removalGrace = 30 * time.Second

// NewRemover looks every two seconds.
func NewRemover(etcd Etcd, wanted WantedFunc, o Common) *Remover {
	return &Remover{etcd: etcd, wanted: wanted, grace: removalGrace, Common: o.complete(2 * time.Second), since: map[uint64]time.Time{}}
}

// Run works until ctx ends.
func (r *Remover) Run(ctx context.Context) error {
	every(ctx, r.Interval, r.tick)
	return nil
}

func (r *Remover) tick(ctx context.Context) {
	node, self, err := status(ctx, r.etcd.Local)
	if err != nil {
		return
	}
	listed, err := r.etcd.Members(ctx)
	if err != nil {
		return
	}
	r.Metrics.ClusterSize(len(listed.Peers))
	wanted, err := r.wanted(ctx)
	if err != nil {
		r.said.news(r.Log, slog.LevelWarn, "the wanted members are not known; no member is removed", "error", err.Error())
		return
	}
	v := View{Self: self.MemberID, Leader: self.Leader}
	for _, p := range listed.Peers {
		v.Members = append(v.Members, Member{Peer: p})
	}
	if !r.note(v, wanted) || !v.Leads() {
		r.said.news(r.Log, slog.LevelInfo, "")
		return
	}
	if v, err = observe(ctx, r.etcd); err != nil {
		r.said.news(r.Log, slog.LevelWarn, "the cluster has superfluous members, but cannot be observed", "error", err.Error())
		return
	}
	d := DecideRemoval(RemovalFacts{View: v, Wanted: wanted, Since: r.since, Grace: r.grace, Now: r.Now()})
	switch d.Act {
	case Wait:
		r.said.news(r.Log, slog.LevelInfo, "a superfluous member stays for now", "reason", d.Reason)
	case HandOn:
		err = node.MoveLeader(ctx, d.Member)
		r.done("the leadership was handed on", d, v, err)
	case Remove:
		began := r.Now()
		err = r.etcd.Remove(ctx, d.Member)
		r.Metrics.MemberRemoved(r.Now().Sub(began), err == nil)
		r.done("a superfluous member was removed", d, v, err)
	}
}

func (r *Remover) done(what string, d Removal, v View, err error) {
	if err != nil {
		r.said.news(r.Log, slog.LevelWarn, "not done: "+what, "reason", d.Reason, "error", err.Error())
		return
	}
	r.said = said{}
	r.Log.Info(what, "member", v.name(d.Member), "reason", d.Reason)
}

// note keeps, on every sidecar, since when members are superfluous, and says whether any is.
func (r *Remover) note(v View, wanted []Wanted) bool {
	since := map[uint64]time.Time{}
	for _, m := range Superfluous(v, wanted) {
		since[m.ID] = r.Now()
		if before, ok := r.since[m.ID]; ok {
			since[m.ID] = before
		}
	}
	r.since = since
	return len(since) > 0
}
