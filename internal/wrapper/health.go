package wrapper

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/etcdserver"
)

// How etcd is looked at.
const (
	probeEvery   = 2 * time.Second
	probeAgain   = 200 * time.Millisecond // after a failure
	probeTimeout = 5 * time.Second
	// stuckAfter is how long etcd may fail to read its own database before the process counts as
	// dead. A defragmentation blocks reads for as long as it takes to write the database anew, and
	// must not be the reason to kill the process.
	stuckAfter = 10 * time.Minute
)

// health is what probes are told. It answers at once from what was seen last.
type health struct {
	now func() time.Time

	mu      sync.Mutex
	waiting string // why no etcd runs; empty: one runs
	ready   error  // of the last linearizable read of the etcd that runs
	local   error  // of the last read of the local database
	lastOK  time.Time
}

func newHealth(now func() time.Time) *health {
	return &health{now: now, waiting: "the process starts"}
}

// waits says that etcd does not serve, and why.
func (h *health) waits(why string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiting = why
}

// runs says that an etcd runs that was not probed yet.
func (h *health) runs() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiting, h.ready, h.local, h.lastOK = "", errors.New("etcd waits for a leader, which takes a majority of the members"), nil, h.now()
}

func (h *health) sawCluster(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ready = err
}

func (h *health) sawLocal(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.local = err; err == nil {
		h.lastOK = h.now()
	}
}

// readiness returns why clients should not be sent here; nil: the last linearizable read
// succeeded.
func (h *health) readiness() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waiting != "" {
		return errors.New(h.waiting)
	}
	return h.ready
}

// liveness returns why the process should be killed; nil: it works, or waits for others, as for a
// restoration or for a quorum.
func (h *health) liveness() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waiting != "" {
		return nil
	}
	silent := h.now().Sub(h.lastOK)
	if silent < stuckAfter {
		return nil
	}
	if h.local != nil {
		return fmt.Errorf("etcd has not read its own database for %s: %w", silent.Round(time.Second), h.local)
	}
	return fmt.Errorf("etcd has not read its own database for %s", silent.Round(time.Second))
}

// probe looks at a running etcd until the context ends. A read of the database that does not
// come back, as during a defragmentation, is waited for and does not keep the other from being
// asked.
func (h *health) probe(ctx context.Context, s *etcdserver.EtcdServer) {
	var loops sync.WaitGroup
	defer loops.Wait()
	loops.Go(func() {
		every(ctx, func(ctx context.Context) error { return readLocal(ctx, s) }, h.sawLocal)
	})
	loops.Go(func() {
		select {
		case <-s.ReadyNotify(): // before that a read can only fail
			every(ctx, func(ctx context.Context) error { return readCluster(ctx, s) }, h.sawCluster)
		case <-ctx.Done():
		}
	})
}

// every looks again and again and notes what it saw, more often while it is not good.
func every(ctx context.Context, look func(context.Context) error, saw func(error)) {
	for {
		bounded, cancel := context.WithTimeout(ctx, probeTimeout)
		err := look(bounded)
		cancel()
		if ctx.Err() != nil {
			return
		}
		saw(err)
		pause := probeEvery
		if err != nil {
			pause = probeAgain
		}
		if sleep(ctx, pause) != nil {
			return
		}
	}
}

// readLocal reads from the local database, which needs no other member.
func readLocal(ctx context.Context, s *etcdserver.EtcdServer) error {
	_, err := s.Range(s.AuthStore().WithRoot(ctx), &etcdserverpb.RangeRequest{Key: []byte("foo"), KeysOnly: true, Serializable: true})
	return err
}

// readCluster tells whether clients are served here: a linearizable read, of a member that is a
// voter and whose data nobody doubts.
func readCluster(ctx context.Context, s *etcdserver.EtcdServer) error {
	if s.IsLearner() {
		return errors.New("the member is a learner: it serves no clients until it is promoted")
	}
	for _, a := range s.Alarms() {
		// Member 0 is all: etcd found no majority. Whoever is not accused goes on serving reads.
		if a.Alarm == etcdserverpb.AlarmType_CORRUPT && (a.MemberID == 0 || a.MemberID == uint64(s.MemberID())) {
			return fmt.Errorf("the alarm CORRUPT was raised for member %x", a.MemberID)
		}
	}
	_, err := s.Range(s.AuthStore().WithRoot(ctx), &etcdserverpb.RangeRequest{Key: []byte("foo"), KeysOnly: true})
	if err != nil {
		return fmt.Errorf("a linearizable read failed: %w", err)
	}
	return nil
}
