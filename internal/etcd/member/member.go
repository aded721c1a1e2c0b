package member

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"druid.internal/druid/internal/backup/snapshot"
)

// Member is one endpoint of a cluster. Its methods may be called concurrently. The short
// questions are bounded by the configured timeout in addition to their context.
type Member struct {
	client   *clientv3.Client
	endpoint string
	timeout  time.Duration

	dialWatch func() (*clientv3.Client, error)
	mu        sync.Mutex
	watches   *clientv3.Client // the connection of all watches, made for the first
	closed    bool
}

// forWatches is the connection of watches, which is read in its own way.
func (m *Member) forWatches() (*grpc.ClientConn, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		return m.client.ActiveConnection(), nil // which says so
	case m.watches == nil:
		c, err := m.dialWatch()
		if err != nil {
			return nil, err
		}
		m.watches = c
	}
	return m.watches.ActiveConnection(), nil
}

func (m *Member) close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	err := m.client.Close()
	if m.watches != nil {
		err = errors.Join(err, m.watches.Close())
	}
	return err
}

// Endpoint is where the member is asked, for messages.
func (m *Member) Endpoint() string { return m.endpoint }

// Status is what a member says about itself.
type Status struct {
	ClusterID      uint64
	MemberID       uint64
	Leader         uint64 // 0: the member sees no leader
	Learner        bool
	Revision       snapshot.Revision // applied by this member; may be behind the cluster
	DBSize         int64             // bytes
	DBSizeInUse    int64             // bytes
	Quota          int64             // bytes DBSize may reach; 0 means unknown (below 3.6)
	Term           uint64            // of raft
	Committed      uint64            // index of raft's log known to be committed
	Applied        uint64            // index of raft's log applied to the database
	Version        string            // of etcd, as 3.6.16
	StorageVersion string            // of the database, empty below 3.6
	DowngradeTo    string            // version to which a downgrade is allowed; empty: none is
	Errors         []string          // alarms and the like, in etcd's words
}

// Status asks the member, without asking the cluster.
func (m *Member) Status(ctx context.Context) (Status, error) {
	ctx, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	r, err := pb.NewMaintenanceClient(m.client.ActiveConnection()).Status(ctx, &pb.StatusRequest{})
	if err != nil {
		return Status{}, explain("read etcd's status", m.endpoint, err)
	}
	return Status{
		ClusterID: r.Header.GetClusterId(), MemberID: r.Header.GetMemberId(), Leader: r.Leader, Learner: r.IsLearner,
		Revision: snapshot.Revision(r.Header.GetRevision()), DBSize: r.DbSize, DBSizeInUse: r.DbSizeInUse,
		Quota: r.DbSizeQuota, Term: r.RaftTerm, Committed: r.RaftIndex, Applied: r.RaftAppliedIndex,
		Version: r.Version, StorageVersion: r.StorageVersion, DowngradeTo: downgradeTo(r.DowngradeInfo), Errors: r.Errors,
	}, nil
}

// Revision is the newest revision of the cluster, which this member has applied by then: the
// read is linearizable, so it fails without a majority.
func (m *Member) Revision(ctx context.Context) (snapshot.Revision, error) {
	ctx, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	r, err := m.client.Get(ctx, "\x00", clientv3.WithCountOnly())
	if err != nil {
		return 0, explain("read etcd's revision", m.endpoint, err)
	}
	return snapshot.Revision(r.Header.Revision), nil
}

// Snapshot streams the member's database file followed by its SHA-256, and says which
// storage version it has (empty below 3.6). Nothing is verified: the stream may end early
// without an error from the network, so check the digest. The caller closes; ending ctx ends
// the stream with an error.
func (m *Member) Snapshot(ctx context.Context) (io.ReadCloser, string, error) {
	ctx, cancel := context.WithCancel(ctx)
	r, err := m.client.SnapshotWithVersion(ctx)
	if err != nil {
		cancel()
		return nil, "", explain("open etcd's snapshot stream", m.endpoint, err)
	}
	return &stream{ReadCloser: r.Snapshot, cancel: cancel, endpoint: m.endpoint}, r.Version, nil
}

type stream struct {
	io.ReadCloser
	cancel   context.CancelFunc
	endpoint string
}

func (s *stream) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	if err == io.EOF {
		return n, err
	}
	return n, explain("read etcd's snapshot stream", s.endpoint, err)
}

func (s *stream) Close() error {
	s.cancel()
	return s.ReadCloser.Close()
}

// HashKV is etcd's hash of the key space up to rev; 0 means the newest. ErrCompacted and
// ErrFutureRev say that this member cannot tell for rev. It reads the whole key space, so it
// is bounded by ctx only.
func (m *Member) HashKV(ctx context.Context, rev snapshot.Revision) (snapshot.HashKV, error) {
	r, err := pb.NewMaintenanceClient(m.client.ActiveConnection()).HashKV(ctx, &pb.HashKVRequest{Revision: int64(rev)})
	if err != nil {
		return snapshot.HashKV{}, explain("ask etcd for its HashKV", m.endpoint, err)
	}
	h := snapshot.HashKV{Revision: rev, CompactRevision: snapshot.Revision(r.CompactRevision), Hash: r.Hash}
	switch {
	case r.HashRevision != 0: // from 3.6 on etcd says itself which revision it hashed
		h.Revision = snapshot.Revision(r.HashRevision)
	case rev == 0:
		h.Revision = snapshot.Revision(r.Header.GetRevision())
	}
	return h, nil
}

// Leases are the ids of all leases that this member has applied, in no order. They come in one answer,
// which etcd sorts: of 60,000 leases that takes some 50 ms.
func (m *Member) Leases(ctx context.Context) ([]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	r, err := m.client.Leases(ctx)
	if err != nil {
		return nil, explain("list etcd's leases", m.endpoint, err)
	}
	ids := make([]int64, len(r.Leases))
	for i, l := range r.Leases {
		ids[i] = int64(l.ID)
	}
	return ids, nil
}

// AuthRevision is the revision of etcd's users, roles and authentication, which each change of them
// raises; 1: nothing was ever changed. With authentication enabled it needs the role root, as
// Snapshot does. Each call is a proposal to the cluster.
func (m *Member) AuthRevision(ctx context.Context) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	r, err := m.client.AuthStatus(ctx)
	if err != nil {
		return 0, explain("read the revision of etcd's users", m.endpoint, err)
	}
	return r.AuthRevision, nil
}

// LeaseTTL is the time to live that lease id was granted, in seconds, and what remains of it.
// A lease that does not exist (any more) has granted 0 and remaining -1.
func (m *Member) LeaseTTL(ctx context.Context, id int64) (granted, remaining int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	r, err := m.client.TimeToLive(ctx, clientv3.LeaseID(id))
	if err != nil {
		return 0, 0, explain("ask etcd for a lease", m.endpoint, err)
	}
	return r.GrantedTTL, r.TTL, nil
}
