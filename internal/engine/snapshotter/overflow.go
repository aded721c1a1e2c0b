package snapshotter

import (
	"context"
	"fmt"
	"time"

	"druid.internal/druid/internal/backup/snapshot"
)

// roomless are the fulls that were taken because events found no room; the watch's own.
type roomless struct {
	spacing
	delayed snapshot.Revision // the last one that is told to wait for next
}

// spacing makes fulls for one reason rarer the longer the reason persists.
type spacing struct {
	fulls int       // in a row
	next  time.Time // no further one before
}

// overflow answers that the delta that grows found no room, as on a full disk. What it held is
// forgotten and said, and fetched from etcd again, in deltas that fit into memory. Only what does
// not fit there either is left to a full, which needs no room here. Such fulls come ever more
// rarely, because a bucket may keep every one of them for long; meanwhile it is tried again
// whether there is room.
func (n *session) overflow(ctx context.Context, why error) error {
	n.cfg.Metrics.failure(why)
	first, last := n.buffer.dropped()
	helps, already := n.buffer.tighten()
	if helps {
		n.tell(Event{Code: BufferDropped, Revision: first,
			Text: fmt.Sprintf("revisions %d to %d were buffered and are dropped (%v); they are fetched from etcd again, and until the next full snapshot deltas are cut at %d MiB, which needs no disk", first, last, why, tightLimit>>20)})
		n.buffer.resume(first)
		return nil
	}
	base, covered := n.fullUpTo(first)
	if !covered {
		now := n.cfg.Now()
		if now.Before(n.roomless.next) {
			if n.roomless.delayed != first {
				n.roomless.delayed = first
				n.tell(Event{Code: BufferDropped, Revision: first,
					Text: fmt.Sprintf("revisions from %d on found no room (%v); they are tried again, and if there is no room until %s a full snapshot is taken; make room in the directory for temporary files", first, why, n.roomless.next.UTC().Format(time.RFC3339))})
			}
			return nil // the buffer stays paused until something fits
		}
		delay := n.roomless.note(now, n.cfg.Retry, n.fullPeriod(now))
		n.tell(Event{Code: BufferDropped, Revision: first,
			Text: fmt.Sprintf("revisions from %d on found no room (%v); a full snapshot is taken, and no further one for that reason within %s; make room in the directory for temporary files", first, why, delay)})
		n.wantFull("there is no room to buffer etcd's events")
		var err error
		if base, err = n.fullFrom(ctx, last); err != nil {
			return err
		}
		n.roomless.next = n.cfg.Now().Add(delay)
	}
	if already {
		n.tell(Event{Code: HistoryLost, Revision: first,
			Text: fmt.Sprintf("revisions %d to %d are not in any delta, because there was no room for them; %s makes up for it", first, base.Last, base)})
		first = base.Last + 1
	}
	n.buffer.resume(first)
	return nil
}

// note counts a full at now and returns how long no further one is taken: at first as long as the
// longest wait after a failure, for a full costs more than an attempt. It begins anew when none
// was needed for as long again.
func (r *spacing) note(now time.Time, retry Backoff, period time.Duration) time.Duration {
	b := Backoff{First: retry.Max, Max: period, Multiply: max(retry.Multiply, 2)}.complete()
	if r.fulls > 0 && now.Sub(r.next) > b.delay(r.fulls) {
		r.fulls = 0
	}
	r.fulls++
	return b.delay(r.fulls)
}

// fullPeriod is the time between two scheduled fulls; a day without a schedule.
func (n *session) fullPeriod(now time.Time) time.Duration {
	if n.cfg.Schedule == nil {
		return 24 * time.Hour
	}
	next := n.cfg.Schedule.Next(now)
	return n.cfg.Schedule.Next(next).Sub(next)
}

// fullUpTo reports whether the newest full is named after revision last or a later one.
func (n *session) fullUpTo(last snapshot.Revision) (snapshot.Name, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.lastFull == nil {
		return snapshot.Name{}, false
	}
	return n.lastFull.Key.Name, n.lastFull.Key.Name.Last >= last
}

// fullFrom waits until a full named after revision last or a later one is in the bucket.
func (n *session) fullFrom(ctx context.Context, last snapshot.Revision) (name snapshot.Name, err error) {
	err = n.buffer.await(ctx, func() (ok bool) {
		name, ok = n.fullUpTo(last)
		return ok
	})
	return name, err
}
