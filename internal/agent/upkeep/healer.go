package upkeep

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/etcd/member"
)

// HealerOptions say what the healer may do.
type HealerOptions struct {
	// Quota is etcd's quota-backend-bytes as configured, 0: its default, negative: none.
	Quota func() int64
	// Retention is etcd's auto-compaction as configured; the zero value: it is off, and the history
	// is others' to compact.
	Retention func() Retention
	// Uploaded is the newest revision in the bucket; negative: there is no store. Nil likewise.
	Uploaded func() snapshot.Revision
	// Quarantine gives the own member up: its etcd stops, and initialization treats its data as
	// invalid, so that it joins anew. It is called again until the member has left.
	Quarantine func(ctx context.Context, why string) error
	// Waits publishes in one sentence what an alarm waits for; empty: nothing. It is called at
	// every look, also if nothing has changed. Nil: nobody wants to know.
	Waits  func(what string)
	Common // an interval of 2 seconds
}

// Healer answers alarms: NOSPACE and disarming on the leader's sidecar, quarantine on the
// accused member's own.
type Healer struct {
	etcd   Etcd
	defrag *Defragmenter
	HealerOptions
	said      said
	history   History
	compacted snapshot.Revision
	tried     time.Time         // see ReliefFacts
	readable  snapshot.Revision // history that was there at the last look, 0: not known; see freed
	condemned string            // the last verdict, if it was quarantine: it takes two
	hashed    time.Time         // when the members' hashes were asked for
}

// Between two comparisons of the members, each of which reads all their data.
const (
	hashEvery    = 30 * time.Second
	confirmAfter = 10 * time.Second // of a first verdict: etcd refuses all writes meanwhile
)

// NewHealer lets d defragment for NOSPACE.
func NewHealer(etcd Etcd, d *Defragmenter, o HealerOptions) *Healer {
	if o.Quota == nil {
		o.Quota = func() int64 { return 0 }
	}
	if o.Retention == nil {
		o.Retention = func() Retention { return Retention{} }
	}
	if o.Uploaded == nil {
		o.Uploaded = func() snapshot.Revision { return -1 }
	}
	if o.Waits == nil {
		o.Waits = func(string) {}
	}
	o.Common = o.complete(2 * time.Second)
	return &Healer{etcd: etcd, defrag: d, HealerOptions: o}
}

// Run works until ctx ends.
func (h *Healer) Run(ctx context.Context) error {
	every(ctx, h.Interval, h.tick)
	return nil
}

func (h *Healer) tick(ctx context.Context) {
	node, self, err := status(ctx, h.etcd.Local)
	if err != nil {
		return
	}
	retention := h.Retention()
	h.history.Add(self.Revision, retention, h.Now())
	space, corrupt := self.Alarmed(member.AlarmNoSpace), self.Alarmed(member.AlarmCorrupt)
	h.Metrics.Alarmed(member.AlarmNoSpace, space)
	h.Metrics.Alarmed(member.AlarmCorrupt, corrupt)
	if !corrupt {
		h.condemned, h.hashed = "", time.Time{}
	}
	if !space {
		h.compacted, h.tried, h.readable = 0, time.Time{}, 0
	}
	leads := self.Leader == self.MemberID
	if !corrupt && !(space && leads) {
		h.said.news(h.Log, slog.LevelInfo, "")
		h.Waits("")
		return
	}
	v, err := observe(ctx, h.etcd)
	if err != nil {
		h.said.news(h.Log, slog.LevelError, "etcd raised an alarm and the cluster cannot be observed", "error", err.Error())
		return
	}
	if corrupt { // first: while it lasts etcd compacts nothing
		h.judge(ctx, v)
		return
	}
	if h.freed(ctx, node, self.Revision) {
		h.tried = time.Time{} // and what was in doubt is so again
	}
	h.relieve(ctx, v, self, retention)
}

// freed says whether somebody has compacted history since it last said so, or first looked. That
// is seen only of the newest history there was then, which is what goes when keys were deleted
// to make room.
func (h *Healer) freed(ctx context.Context, node Node, newest snapshot.Revision) bool {
	look := cmp.Or(h.readable, newest-1)
	gone, err := node.Compacted(ctx, look)
	switch {
	case err != nil:
		return false
	case !gone:
		h.readable = look
		return false
	}
	was := h.readable
	h.readable = 0
	return was > 0
}

func (h *Healer) relieve(ctx context.Context, v View, self member.Status, retention Retention) {
	d := DecideRelief(ReliefFacts{View: v, Quota: h.Quota(), Compacted: h.compacted, Tried: h.tried, Now: h.Now(),
		Compactable: h.history.Compactable(retention, self.Revision, h.Uploaded(), h.Now())})
	var err error
	switch d.Act {
	case ReliefNone:
		return
	case ReliefDisarm:
		err = h.etcd.Disarm(ctx, d.Alarm)
	case ReliefDefragment:
		if op := h.defrag.Operation(); op != nil && op.Status == agentapi.InProgress {
			return // what comes next depends on what comes out of it
		}
		h.tried = h.Now()
		h.defrag.forAlarm(d.Members)
	case ReliefCompact:
		if err = h.etcd.Compact(ctx, d.Compact); err == nil {
			h.compacted, h.tried = d.Compact, time.Time{}
		}
	}
	h.tell("etcd is out of space", string(d.Act), d.Reason, err)
}

func (h *Healer) tell(what, act, reason string, err error) {
	h.Waits(what + ", so that it refuses writes: " + reason)
	if err != nil {
		h.said.news(h.Log, slog.LevelError, what, "step", act, "reason", reason, "error", err.Error())
		return
	}
	h.said.news(h.Log, slog.LevelWarn, what, "step", act, "reason", reason)
}

func (h *Healer) judge(ctx context.Context, v View) {
	d := DecideCorrupt(v, nil)
	if d.Act != VerdictDisarm { // for which nothing needs to be compared
		pause := hashEvery
		if h.condemned != "" {
			pause = confirmAfter
		}
		if !h.hashed.IsZero() && h.Now().Sub(h.hashed) < pause {
			return
		}
		h.hashed = h.Now()
		d = DecideCorrupt(v, h.hashes(ctx, v))
	}
	if ctx.Err() != nil {
		return
	}
	var err error
	switch d.Act {
	case VerdictDisarm:
		err = h.etcd.Disarm(ctx, d.Alarm)
	case VerdictQuarantine:
		first := h.condemned == ""
		h.condemned = d.Reason
		switch {
		case first: // members that apply a compaction at different moments look different for one
			h.tell("etcd's data are corrupt", "confirm", d.Reason, nil)
			return
		case h.Quarantine != nil:
			err = h.Quarantine(ctx, d.Reason)
		}
	}
	if d.Act != VerdictQuarantine {
		h.condemned = ""
	}
	h.tell("etcd's data are corrupt", string(d.Act), d.Reason, err)
}

// hashTimeout bounds one member's hash, for which it reads all its data.
const hashTimeout = 5 * time.Minute

// hashes asks all members at once for their hash at the newest revision that all have.
func (h *Healer) hashes(ctx context.Context, v View) Hashes {
	ctx, cancel := context.WithTimeout(ctx, hashTimeout)
	defer cancel()
	var rev snapshot.Revision
	for _, m := range v.Members {
		if m.Revision > 0 && (rev == 0 || m.Revision < rev) {
			rev = m.Revision
		}
	}
	all := Hashes{}
	var mu sync.Mutex
	var asked sync.WaitGroup
	for _, m := range v.Members {
		if m.Revision == 0 {
			continue
		}
		asked.Go(func() {
			node, _, err := h.etcd.Reach(ctx, m.Peer)
			if err != nil {
				return
			}
			if hash, err := node.HashKV(ctx, rev); err == nil {
				mu.Lock()
				all[m.ID] = hash
				mu.Unlock()
			}
		})
	}
	asked.Wait()
	return all
}
