package snapshotter

import (
	"context"
	"errors"
	"fmt"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/etcd/member"
)

// watch moves events from etcd into the buffer, whatever else goes on, and opens the watch anew
// when it breaks. It ends only with the session.
func (n *session) watch(ctx context.Context) error {
	for failures := 0; ; {
		before, _ := n.buffer.position()
		err := n.watchOnce(ctx)
		after, _ := n.buffer.position()
		var gap *member.GapError
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, errRoom):
			if err = n.overflow(ctx, err); err != nil {
				return err
			}
		case errors.Is(err, errHistory), errors.Is(err, errBuffer):
			return err
		case errors.Is(err, member.ErrCompacted), errors.As(err, &gap):
			err = n.lost(ctx, err)
			if ctx.Err() != nil || errors.Is(err, errHistory) {
				return err
			}
		}
		if after > before {
			failures = 0
		}
		failures++
		if err != nil {
			n.cfg.Metrics.failure(err)
			n.log.Warn("the watch broke, opening it again", "error", err, "from", int64(after), "failures", failures)
		}
		if err := n.cfg.Retry.wait(ctx, failures); err != nil {
			return err
		}
	}
}

// errBuffer: events cannot be buffered any more, for example because the disk is full. They
// are still in etcd, from where the next session fetches them.
var errBuffer = errors.New("events cannot be buffered")

// watchOnce watches until that fails. A watch that is opened anew begins with the last revision
// that was told before, to see that it still is the same; if etcd cannot tell that one any more,
// the watch begins behind it.
func (n *session) watchOnce(ctx context.Context) error {
	m, st, err := n.connect(ctx)
	if err != nil {
		return err
	}
	n.buffer.watchedOn(st.Version)
	next, _ := n.buffer.position()
	if n.seen.rev > 0 && n.seen.rev == next-1 {
		again := n.seen
		err := n.follow(ctx, m, &again)
		var gap *member.GapError
		if again.rev == 0 || !errors.Is(err, member.ErrCompacted) && !errors.As(err, &gap) {
			return err
		}
	}
	return n.follow(ctx, m, &trace{})
}

// follow moves events into the buffer until the watch fails. If again has a revision, the watch
// begins with that, which has to be as it was; it is cleared once that is seen.
func (n *session) follow(ctx context.Context, m Member, again *trace) error {
	from, _ := n.buffer.position()
	if again.rev > 0 {
		from = again.rev
	}
	return m.WatchAll(ctx, from, n.cfg.Pace, func(b member.Batch) error {
		next, _ := n.buffer.position()
		if b.Known > 0 && b.Known < next-1 {
			return fmt.Errorf("%w: etcd is at revision %d and was at %d before", errHistory, b.Known, next-1)
		}
		if again.rev > 0 && len(b.Events) > 0 {
			first, rest := firstOf(b.Events, again.rev)
			if traceOf(again.rev, first) != *again {
				return fmt.Errorf("%w: what happened in its revision %d is not what it told before", errHistory, again.rev)
			}
			*again, b.Events = trace{}, rest
		}
		n.leases.see(b.Events)
		if err := n.buffer.add(ctx, b); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("%w: %w", errBuffer, err)
		}
		if len(b.Events) > 0 {
			n.seen = lastTrace(b.Events)
			n.cfg.Metrics.need(snapshot.Delta, true)
			n.cfg.Metrics.need(snapshot.Full, true)
		}
		return nil
	})
}

// lost goes on from where etcd is now, because the revisions before it are gone. A full makes
// the backup whole again, and an event says what cannot be restored.
func (n *session) lost(ctx context.Context, why error) error {
	n.cfg.Metrics.failure(why)
	m, _, err := n.connect(ctx)
	if err != nil {
		return errors.Join(why, err)
	}
	rev, err := m.Revision(ctx)
	if err != nil {
		return errors.Join(why, err)
	}
	next, _ := n.buffer.position()
	n.buffer.restart(rev + 1)
	n.tell(Event{Code: HistoryLost, Revision: next,
		Text: fmt.Sprintf("revisions %d to %d are not in any delta (%v); a full snapshot is taken, but single revisions among them cannot be restored", next, rev, why)})
	n.wantFull("etcd no longer tells every revision")
	return nil
}

// wantFull has a full taken as soon as possible. What another full has too, that clients wrote on, takes the place of no
// other reason: deltas may wait for the full.
func (n *session) wantFull(why string) {
	n.mu.Lock()
	if n.due == "" || why != writtenOn {
		n.due = why
	}
	n.mu.Unlock()
	select {
	case n.asked <- struct{}{}:
	default:
	}
}
