package upkeep

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/etcd/member"
)

// fakeEtcd is a cluster that does what it is told and writes down what that was. View is as the
// sidecar of Self sees it.
type fakeEtcd struct {
	View
	mu     sync.Mutex
	did    []string
	active int // members that are being defragmented
	most   int

	hashes    Hashes
	fail      map[string]error // by what is asked, as in did
	during    func(what string)
	compacted snapshot.Revision // by somebody
}

func (f *fakeEtcd) do(format string, args ...any) error {
	what := fmt.Sprintf(format, args...)
	f.mu.Lock()
	f.did = append(f.did, what)
	during, err := f.during, f.fail[what]
	f.mu.Unlock()
	if during != nil {
		during(what)
	}
	return err
}

// took returns what was done since the last time.
func (f *fakeEtcd) took() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	did := f.did
	f.did = nil
	return did
}

func (f *fakeEtcd) Members(context.Context) (member.Membership, error) {
	if f.Leader == 0 {
		return member.Membership{}, member.ErrNoLeader
	}
	ms := member.Membership{Leader: f.Leader}
	for _, m := range f.View.Members {
		ms.Peers = append(ms.Peers, m.Peer)
	}
	return ms, nil
}

func (f *fakeEtcd) Promote(_ context.Context, id uint64) error {
	err := f.do("promote %d", id)
	if err == nil {
		f.change(id, func(m *Member) { m.Learner = false })
	}
	return err
}

func (f *fakeEtcd) change(id uint64, how func(*Member)) {
	for i := range f.View.Members {
		if f.View.Members[i].ID == id {
			how(&f.View.Members[i])
		}
	}
}

func (f *fakeEtcd) Remove(_ context.Context, id uint64) error {
	err := f.do("remove %d", id)
	if err == nil {
		f.View.Members = slices.DeleteFunc(f.View.Members, func(m Member) bool { return m.ID == id })
	}
	return err
}

func (f *fakeEtcd) UpdatePeerURLs(_ context.Context, id uint64, urls []string) error {
	err := f.do("update %d", id)
	if err == nil {
		f.change(id, func(m *Member) { m.PeerURLs = urls })
	}
	return err
}

func (f *fakeEtcd) Alarms(context.Context) ([]member.Alarm, error) { return f.View.Alarms, nil }

func (f *fakeEtcd) Disarm(_ context.Context, a member.Alarm) error {
	err := f.do("disarm %s %d", a.Kind, a.MemberID)
	if err == nil {
		f.View.Alarms = slices.DeleteFunc(f.View.Alarms, func(o member.Alarm) bool { return o == a })
	}
	return err
}

func (f *fakeEtcd) Compact(_ context.Context, rev snapshot.Revision) error {
	err := f.do("compact %d", rev)
	if err == nil {
		for i := range f.View.Members {
			f.View.Members[i].DBSizeInUse /= 2
		}
	}
	return err
}

func (f *fakeEtcd) Local(ctx context.Context) (Node, member.Status, error) {
	for _, m := range f.View.Members {
		if m.ID == f.Self {
			return f.Reach(ctx, m.Peer)
		}
	}
	return nil, member.Status{}, member.ErrUnreachable
}

func (f *fakeEtcd) Reach(_ context.Context, p member.Peer) (Node, member.Status, error) {
	m, ok := f.Member(p.ID)
	if !ok || m.Ill != "" {
		return nil, member.Status{}, errors.New(m.Ill)
	}
	st := member.Status{MemberID: m.ID, Leader: f.Leader, Learner: m.Learner, Revision: m.Revision, DBSize: m.DBSize, DBSizeInUse: m.DBSizeInUse}
	for _, a := range f.View.Alarms {
		st.Errors = append(st.Errors, fmt.Sprintf("memberID:%d alarm:%s ", a.MemberID, a.Kind))
	}
	return fakeNode{f, m.ID}, st, nil
}

type fakeNode struct {
	f  *fakeEtcd
	id uint64
}

func (n fakeNode) Endpoint() string { return fmt.Sprintf("http://m-%d:2379", n.id-1) }

func (n fakeNode) Members(context.Context) (member.Membership, error) {
	ms := member.Membership{}
	for _, m := range n.f.View.Members {
		ms.Peers = append(ms.Peers, m.Peer)
	}
	return ms, nil
}

func (n fakeNode) Revision(context.Context) (snapshot.Revision, error) { return 100, nil }

func (n fakeNode) HashKV(_ context.Context, rev snapshot.Revision) (snapshot.HashKV, error) {
	h, ok := n.f.hashes[n.id]
	if !ok {
		return h, errors.New("no hash")
	}
	return h, nil
}

func (n fakeNode) Compacted(_ context.Context, rev snapshot.Revision) (bool, error) {
	return rev < n.f.compacted, nil
}

func (n fakeNode) Defragment(ctx context.Context) error {
	if _, bounded := ctx.Deadline(); !bounded {
		return errors.New("not bounded")
	}
	n.f.mu.Lock()
	n.f.active++
	n.f.most = max(n.f.most, n.f.active)
	n.f.mu.Unlock()
	err := n.f.do("defragment %d", n.id)
	n.f.mu.Lock()
	defer n.f.mu.Unlock()
	n.f.active--
	if err == nil {
		n.f.change(n.id, func(m *Member) { m.DBSize = m.DBSizeInUse })
	}
	return err
}

func (n fakeNode) MoveLeader(_ context.Context, to uint64) error {
	err := n.f.do("move leader %d to %d", n.id, to)
	if err == nil {
		n.f.Leader = to
	}
	return err
}

// clock is a time that goes on only when it is told to.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func fake(t testing.TB, line string) (*fakeEtcd, *clock) {
	return &fakeEtcd{View: parse(t, line), fail: map[string]error{}}, &clock{now: noon}
}

func wants(n int) WantedFunc {
	return func(context.Context) ([]Wanted, error) { return wanted(n), nil }
}
