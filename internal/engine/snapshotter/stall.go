package snapshotter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/store"
)

// StallError is returned when nothing of a full moved for StreamTimeout, neither from etcd nor to the
// store. A full that moves may take any time.
type StallError struct {
	Name    snapshot.Name
	Timeout time.Duration
	Etcd    bool  // etcd sent nothing; otherwise the store took nothing
	Read    int64 // bytes of etcd's database so far
	Total   int64 // bytes that etcd has; 0: unknown
	Sent    int64 // bytes that requests to the store sent, those that were repeated included
	Took    time.Duration
}

func (e *StallError) Error() string {
	where, remedy := "to the store", "check the store and the network"
	if e.Etcd {
		where, remedy = "from etcd", "check etcd and its disk"
	}
	of := ""
	if e.Total > 0 {
		of = fmt.Sprintf(" of %d", e.Total)
	}
	rate := int64(float64(e.Read) / max(e.Took-e.Timeout, time.Second).Seconds())
	return fmt.Sprintf("%s: nothing moved %s for %s, after %d%s bytes of the database at %d bytes per second (%d bytes sent): %s, "+
		"or raise --etcd-snapshot-timeout (spec.backup.etcdSnapshotTimeout)", e.Name, where, e.Timeout, e.Read, of, rate, e.Sent, remedy)
}

// Unwrap lets callers treat a stall like other timeouts.
func (e *StallError) Unwrap() error { return context.DeadlineExceeded }

// stall ends the context of a full when nothing moves.
type stall struct {
	timeout    time.Duration
	timer      *time.Timer
	cancel     context.CancelCauseFunc
	read, sent atomic.Int64
	etcd       atomic.Bool // a read of etcd's stream is under way
}

// watchStall returns a context that ends with a *StallError when nothing moves for the timeout. The
// stall must be stopped.
func watchStall(ctx context.Context, name snapshot.Name, total int64, timeout time.Duration) (context.Context, *stall) {
	ctx, cancel := context.WithCancelCause(ctx)
	s, began := &stall{timeout: timeout, cancel: cancel}, time.Now()
	s.etcd.Store(true) // the stream is opened
	s.timer = time.AfterFunc(timeout, func() {
		cancel(&StallError{Name: name, Timeout: timeout, Etcd: s.etcd.Load(), Read: s.read.Load(), Total: total, Sent: s.sent.Load(), Took: time.Since(began)})
	})
	return store.WithProgress(ctx, func(n int) {
		s.sent.Add(int64(n))
		s.timer.Reset(timeout)
	}), s
}

// stalled is the stall that ended ctx in place of err, which is what it led to.
func stalled(ctx context.Context, err error) error {
	var s *StallError
	if errors.As(context.Cause(ctx), &s) {
		return s
	}
	return err
}

func (s *stall) stop() {
	s.timer.Stop()
	s.cancel(nil)
}

// of is r, reads of which are movements.
func (s *stall) of(r io.Reader) io.Reader { return stalling{r, s} }

type stalling struct {
	io.Reader
	stall *stall
}

func (r stalling) Read(p []byte) (int, error) {
	r.stall.timer.Reset(r.stall.timeout) // the store took what was read before
	r.stall.etcd.Store(true)
	n, err := r.Reader.Read(p)
	r.stall.etcd.Store(false)
	r.stall.read.Add(int64(n))
	if n > 0 {
		r.stall.timer.Reset(r.stall.timeout)
	}
	return n, err
}
