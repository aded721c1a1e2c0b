package member

import (
	"context"
	"errors"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"druid.internal/druid/internal/backup/snapshot"
)

// Compact forgets the history before rev on all members, and returns when the member that was
// asked has freed the room in its database file; the file itself becomes no smaller. It is done
// already if the history before rev is gone. ErrFutureRev.
func (c *Cluster) Compact(ctx context.Context, rev snapshot.Revision) error {
	return c.ask(ctx, "compact etcd's history", func(ctx context.Context, m *Member, _ Status) error {
		_, err := pb.NewKVClient(m.client.ActiveConnection()).Compact(ctx, &pb.CompactionRequest{Revision: int64(rev), Physical: true})
		err = explain("compact etcd's history", m.endpoint, err)
		if errors.Is(err, ErrCompacted) {
			return nil
		}
		return err
	})
}

// Compacted says whether the member can no longer tell what the keys were at rev, because somebody
// has compacted to a later revision.
func (m *Member) Compacted(ctx context.Context, rev snapshot.Revision) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	_, err := m.client.Get(ctx, "\x00", clientv3.WithRev(int64(rev)), clientv3.WithSerializable())
	if err = explain("read at an earlier revision", m.endpoint, err); errors.Is(err, ErrCompacted) {
		return true, nil
	}
	return false, err
}
