package snapshotter

import (
	"context"
	"fmt"

	"druid.internal/druid/internal/backup/snapshot"
)

// overflow answers that the delta that grows found no room, as on a full disk. What it held is
// forgotten and said, and a full is taken, which needs no room here. Then the watch fetches the
// same revisions from etcd again; those which found no room twice are left to the full.
func (n *session) overflow(ctx context.Context, why error) error {
	n.cfg.Metrics.failure(why)
	first, last := n.buffer.drop()
	again := first == n.dropped
	n.dropped = first
	text := fmt.Sprintf("revisions %d to %d were buffered and are dropped (%v); a full snapshot is taken, and then they are fetched from etcd again", first, last, why)
	if again {
		text = fmt.Sprintf("revisions from %d on found no room again (%v); a full snapshot is taken, and single revisions before it cannot be restored", first, why)
	}
	n.tell(Event{Code: BufferDropped, Revision: first, Text: text})
	n.wantFull("there is no room to buffer etcd's events")
	base, err := n.fullFrom(ctx, last)
	if err != nil {
		return err
	}
	if again {
		n.tell(Event{Code: HistoryLost, Revision: first,
			Text: fmt.Sprintf("revisions %d to %d are not in any delta, because there was no room for them; %s makes up for it", first, base.Last, base)})
		first = base.Last + 1
	}
	n.buffer.resume(first)
	return nil
}

// fullFrom waits until a full named after revision last or a later one is in the bucket.
func (n *session) fullFrom(ctx context.Context, last snapshot.Revision) (snapshot.Name, error) {
	var name snapshot.Name
	err := n.buffer.await(ctx, func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.lastFull != nil {
			name = n.lastFull.Key.Name
		}
		return n.lastFull != nil && name.Last >= last
	})
	return name, err
}
