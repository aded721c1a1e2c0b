package upkeep

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"druid.internal/druid/internal/agentapi"
)

// step looks at the cluster and takes the run one step further.
func (d *Defragmenter) step(ctx context.Context) {
	r := d.run
	v, err := observe(ctx, d.etcd)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		d.postpone(err.Error())
		return
	}
	next := DecideDefragmentation(DefragFacts{View: v, Reason: r.reason, Left: r.left, HandedOn: r.handedOn,
		Longest: r.longest, Stall: d.Stall, Now: d.Now()})
	own := next.Act == DefragNext && next.Member == v.Self || next.Act == DefragHandOn
	if own && d.Streams != nil && d.Streams() {
		d.postpone("a full snapshot is read from this member, which would answer nobody until that has ended, or lose it with the leadership")
		return
	}
	switch next.Act {
	case DefragFinish:
		d.finish("")
	case DefragStop:
		d.finish(next.Reason)
	case DefragPostpone:
		d.postpone(next.Reason)
	case DefragSkip:
		d.Log.Info("a member is not defragmented", "member", v.name(next.Member), "reason", next.Reason)
		r.treated(next.Member, fmt.Sprintf("%s: %s", v.name(next.Member), next.Reason))
	case DefragHandOn:
		d.phase("hands the leadership to " + v.name(next.Member))
		d.handOn(ctx, v, next)
	case DefragNext:
		m, _ := v.Member(next.Member)
		d.phase("defragments " + m.String())
		d.defragment(ctx, m)
	}
}

// handOn moves the leadership. The next steps come quickly: the own member must begin before the
// new leader's sidecar does anything.
func (d *Defragmenter) handOn(ctx context.Context, v View, next Defragmentation) {
	node, _, err := status(ctx, d.etcd.Local)
	if err == nil {
		err = node.MoveLeader(ctx, next.Member)
	}
	if err != nil {
		d.postpone("the leadership could not be handed on: " + err.Error())
		return
	}
	d.run.handedOn = d.Now()
	d.Log.Info("the leadership was handed on", "member", v.name(next.Member), "reason", next.Reason)
}

// defragment treats one member and keeps what became of it.
func (d *Defragmenter) defragment(ctx context.Context, m Member) {
	r, began := d.run, d.Now()
	result := agentapi.Defragmentation{Start: began, Status: agentapi.InProgress, Reason: r.reason, InitialDBSize: m.DBSize}
	d.Result(m.Peer, result)
	bounded, cancel := context.WithTimeout(ctx, d.Timeout)
	defer cancel()
	node, before, err := d.etcd.Reach(bounded, m.Peer)
	endpoint := m.Name
	if err == nil {
		endpoint, result.InitialDBSize = node.Endpoint(), before.DBSize
		err = node.Defragment(bounded)
	}
	if ctx.Err() != nil {
		return
	}
	end := d.Now()
	d.Metrics.Defragmented(endpoint, end.Sub(began), err == nil)
	result.End, result.Status = &end, agentapi.Success
	r.longest = max(r.longest, end.Sub(began))
	attempt := &Attempt{End: end, Failed: err != nil, Promised: m.Free()}
	d.attempts[m.ID] = attempt
	if err != nil {
		r.tries[m.ID]++
		result.Status, result.Message = agentapi.Failed, err.Error()
		d.Result(m.Peer, result)
		d.Log.Warn("a member could not be defragmented", "member", m.Name, "attempt", r.tries[m.ID], "error", err.Error())
		if r.tries[m.ID] >= maxAttempts {
			r.failed = true
			r.treated(m.ID, fmt.Sprintf("%s: %s", m, err))
			return
		}
		d.postpone(fmt.Sprintf("%s could not be defragmented: %s", m, err))
		return
	}
	if _, after, err := d.etcd.Reach(bounded, m.Peer); err == nil {
		result.FinalDBSize = after.DBSize
		attempt.Gave = result.InitialDBSize - after.DBSize
	}
	d.Result(m.Peer, result)
	d.Log.Info("a member was defragmented", "member", m.Name, "before", result.InitialDBSize, "after", result.FinalDBSize, "took", end.Sub(began))
	r.treated(m.ID, fmt.Sprintf("%s: %d bytes, now %d", m, result.InitialDBSize, result.FinalDBSize))
}

func (r *run) treated(id uint64, outcome string) {
	r.left = slices.DeleteFunc(r.left, func(o uint64) bool { return o == id })
	r.outcome = append(r.outcome, outcome)
}

// postpone tries again later, which is soon only after the leadership was handed on. What was
// asked for fails in the end, so that nobody waits for ever.
func (d *Defragmenter) postpone(why string) {
	now := d.Now()
	wait := d.Retry
	if !d.run.handedOn.IsZero() && now.Sub(d.run.handedOn) < handedOnFor {
		wait = min(wait, quick)
	}
	if (d.run.reason == ByRequest || d.run.reason == ByAlarm) && now.Sub(d.run.began) > patience {
		d.finish(fmt.Sprintf("given up after %s: %s", patience, why))
		return
	}
	d.notBefore = now.Add(wait)
	d.phase("postponed: " + why)
	d.said.news(d.Log, slog.LevelWarn, "the defragmentation is postponed", "reason", why)
}

// finish ends the run; why says what kept it from its end, if anything.
func (d *Defragmenter) finish(why string) {
	r, now := d.run, d.Now()
	if why != "" && len(r.left) > 0 {
		r.failed = true
		r.outcome = append(r.outcome, fmt.Sprintf("%d members left: %s", len(r.left), why))
		if r.reason == BySchedule && now.Sub(r.began) < catchUp {
			d.due = r.began // for the case that this member leads again soon
		}
	}
	d.run, d.said = nil, said{}
	d.notBefore = time.Time{}
	d.mu.Lock()
	defer d.mu.Unlock()
	op := d.operation
	op.Status, op.End, op.Phase, op.Done = agentapi.Success, &now, "", int64(r.total-len(r.left))
	if r.failed {
		op.Status = agentapi.Failed
	}
	op.Message = strings.Join(r.outcome, "; ")
	d.Log.Info("defragmentation ended", "reason", r.reason, "status", string(op.Status), "members", op.Message)
}
