package wrapper

import (
	"cmp"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/storage/wal"
)

// An etcd introduces itself: at its start it has an entry made in the log with its name and its client
// URLs, and opens its client interface when it comes across that entry.
//
//	learner             leader
//	   |--- introduction -->|  entry 100
//	   |                    |
//	   |<-- snapshot 99 ----|            or: <-- snapshot 100 ---
//	   |<-- entry 100 ------|
//	 ready                                    knows itself, waits
//
// A new member gets its data as a whole. If the leader was quick to make the entry, it is among them,
// and will never come by itself: etcd waits until its request times out, seven seconds after its start,
// and only then introduces itself again. That happens to about every second learner. As it serves nobody
// and has no vote, it is started once more instead, unless that would take longer.

// introduction is that of an etcd that was started.
type introduction struct {
	fresh   bool // it had no log when it was started
	started time.Time
	timeout time.Duration // after which etcd introduces itself again
	known   bool          // at the last look the member knew its introduction
}

// introductionEvery lies between two looks. What etcd finds in its log makes it ready in far less.
const introductionEvery = 100 * time.Millisecond

// What a start takes, and on most machines half of it: all of the database is read, and the index of its
// keys is made anew.
const (
	startTakes     = 500 * time.Millisecond
	startTakesByte = time.Second / (256 << 20)
)

func newIntroduction(c *embed.Config, now time.Time) introduction {
	log := cmp.Or(c.WalDir, filepath.Join(c.Dir, "member", "wal"))
	// As etcd computes it for every request.
	timeout := 5*time.Second + 2*time.Duration(c.ElectionMs)*time.Millisecond
	return introduction{fresh: !wal.Exist(log), started: now, timeout: timeout}
}

// introduced is what an etcd that is not ready knows of itself.
type introduced struct {
	known  bool  // it is a learner, and its introduction is part of its data
	dbSize int64 // bytes
}

func introducible(s *etcdserver.EtcdServer) introduced {
	self := s.Cluster().Member(s.MemberID())
	if self == nil || !self.IsLearner || len(self.ClientURLs) == 0 { // its name it knows from the configuration
		return introduced{}
	}
	return introduced{true, s.Backend().Size()}
}

// missed says, of an etcd that is not ready, whether its introduction came with its data and another
// start is the shorter way to another one. That was so at two looks in a row: between coming across
// the entry and being ready is a moment.
func (i *introduction) missed(now time.Time, is introduced) bool {
	known := i.known
	i.known = is.known
	if !i.fresh || !known || !is.known {
		return false
	}
	waits := i.timeout - now.Sub(i.started)%i.timeout
	return waits > startTakes+time.Duration(is.dbSize)*startTakesByte
}
