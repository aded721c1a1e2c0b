package snapshotter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"druid.internal/druid/internal/backup/snapshot"
	"druid.internal/druid/internal/engine/catalog"
	"druid.internal/druid/internal/etcd/member"
)

// Snapshotter backs up one etcd. Run it once; the other methods may be called concurrently
// while it runs.
type Snapshotter struct {
	cfg Config
	log *slog.Logger

	mu      sync.Mutex
	current *session      // nil: none
	lastErr error         // why the last one ended or could not start
	ended   bool          // Run has returned
	changed chan struct{} // closed at the next change of these

	based      bool   // a session had a full to continue, or took one
	failure    error  // why the last session that failed did; nil: none failed
	fullFailed bool   // the last attempt of this process to take a full failed
	own        *Taken // the last full that this process took; nil: it took none
	tight      bool   // a delta could not be sealed for want of room: the next session begins tight

	roomless roomless // outlives sessions; the watch's own
	auth     spacing  // of fulls because of changed users; outlives sessions; followAuth's own
}

// Taken is a snapshot that is in the bucket.
type Taken struct {
	Key      snapshot.Key
	Manifest snapshot.Manifest
	// Reused: it was there before and nothing has changed since.
	Reused bool
	// Own: this process took it. Otherwise it was found in the bucket, whoever wrote it.
	Own bool
}

// ErrStopped says that the snapshotter does not run any more.
var ErrStopped = errors.New("the snapshotter has stopped")

// ErrNoBackup says that the bucket had no full when the snapshotter stopped.
var ErrNoBackup = errors.New("stopped without a backup: there is no full snapshot")

// BackedUp returns an ErrNoBackup with its cause, unless there was a full to continue or one was
// taken. It is for the time after Run.
func (s *Snapshotter) BackedUp() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.based:
		return nil
	case s.failure != nil:
		return fmt.Errorf("%w: %w", ErrNoBackup, s.failure)
	}
	return ErrNoBackup
}

// New checks cfg. Nothing is connected yet.
func New(cfg Config) (*Snapshotter, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	return &Snapshotter{cfg: cfg, log: cfg.Log, changed: make(chan struct{})}, nil
}

// Run backs up until ctx ends, which is a nil error: what is buffered then is uploaded within
// Config.Grace. It returns ErrOwned when the prefix belongs to somebody else, ErrOtherData, catalog.ErrMistaken, and other errors
// only if Config.Retry.Attempts sessions in a row could not start or do anything, or if the first ones failed for a reason that
// cannot pass.
func (s *Snapshotter) Run(ctx context.Context) (err error) {
	defer func() { s.publish(nil, cmp.Or(err, ErrStopped), true) }() // why it ended stays told
	for failures := 0; ; {
		session, err := s.begin(ctx)
		if err == nil {
			s.publish(session, nil, false)
			began := s.cfg.Now()
			err = session.run(ctx)
			s.publish(nil, err, false)
			session.end(ctx)
			session.mu.Lock()
			based := session.lastFull != nil
			session.mu.Unlock()
			s.mu.Lock()
			s.based = s.based || based
			s.mu.Unlock()
			if session.worked() || s.cfg.Now().Sub(began) > s.cfg.Retry.Max {
				failures = 0
			}
		}
		if ctx.Err() != nil {
			return nil
		}
		failures++
		s.publish(nil, err, false)
		s.mu.Lock()
		s.failure = err
		s.mu.Unlock()
		s.cfg.Metrics.failure(err)
		if s.givesUp(err, failures) {
			return err
		}
		s.log.Error("backing up was interrupted, trying again", "error", err, "failures", failures, "wait", s.cfg.Retry.delay(failures))
		if s.cfg.Retry.wait(ctx, failures) != nil {
			return nil
		}
	}
}

// Once takes one full snapshot and returns when it and its manifest are in the bucket. It takes no deltas and
// is used instead of Run. A failure is repeated as Run does; when ctx ends, the error wraps ErrNoBackup.
func (s *Snapshotter) Once(ctx context.Context) (Taken, error) {
	for failures := 1; ; failures++ {
		full, err := s.once(ctx)
		switch {
		case err == nil:
			return full, nil
		case ctx.Err() != nil:
			return Taken{}, fmt.Errorf("%w: %w", ErrNoBackup, context.Cause(ctx))
		case s.givesUp(err, failures):
			return Taken{}, err
		}
		s.log.Error("a full snapshot failed, trying again", "error", err, "failures", failures, "wait", s.cfg.Retry.delay(failures))
		if s.cfg.Retry.wait(ctx, failures) != nil {
			return Taken{}, fmt.Errorf("%w: %w", ErrNoBackup, err)
		}
	}
}

func (s *Snapshotter) once(ctx context.Context) (Taken, error) {
	session, err := s.begin(ctx)
	if err != nil {
		return Taken{}, err
	}
	defer session.finish()
	return session.takeFull(ctx, asked{unwatched: true})
}

// givesUp reports whether Run ends after so many failures in a row: at once if another writer or etcd is
// concerned, and where it may give up and nothing was backed up yet, if err cannot pass.
func (s *Snapshotter) givesUp(err error, failures int) bool {
	if errors.Is(err, ErrOwned) || errors.Is(err, ErrOtherData) || errors.Is(err, catalog.ErrMistaken) {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	most := s.cfg.Retry.Attempts
	return most > 0 && (failures >= most || !s.based && member.Permanent(err))
}

// worked reports whether the session uploaded anything. One that soon ends without that, as when
// there is no room for what it buffers, is as good as one that could not start.
func (n *session) worked() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.stored
}

func (s *Snapshotter) publish(current *session, err error, ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current, s.ended = current, ended
	if err != nil {
		s.lastErr = err
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// session waits for a session to ask something of.
func (s *Snapshotter) session(ctx context.Context) (*session, error) {
	for {
		s.mu.Lock()
		current, changed, ended, why := s.current, s.changed, s.ended, s.lastErr
		s.mu.Unlock()
		switch {
		case ended && errors.Is(why, ErrStopped):
			return nil, why
		case ended:
			return nil, fmt.Errorf("%w: %w", ErrStopped, why)
		case current != nil:
			return current, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			if why != nil {
				return nil, fmt.Errorf("%w while backing up is interrupted: %w", ctx.Err(), why)
			}
			return nil, ctx.Err()
		}
	}
}

// TakeFull takes a full snapshot now and returns when it and its manifest are in the bucket;
// until then ctx can end the attempt, and nothing is left of it. A final one is named so, for
// a planned stop of etcd; if the newest full is final and nothing has changed since, that one
// is returned.
func (s *Snapshotter) TakeFull(ctx context.Context, final bool) (Taken, error) {
	current, err := s.session(ctx)
	if err != nil {
		return Taken{}, fmt.Errorf("take a full snapshot: %w", err)
	}
	return current.takeFull(ctx, asked{final: final})
}

// TakeFinal is TakeFull for a final full with a purpose, at most 256 bytes, which stands in its manifest: the
// newest full is returned only if it was taken for the same and nothing has changed since.
func (s *Snapshotter) TakeFinal(ctx context.Context, purpose string) (Taken, error) {
	current, err := s.session(ctx)
	if err != nil {
		return Taken{}, fmt.Errorf("take a final full snapshot: %w", err)
	}
	return current.takeFull(ctx, asked{final: true, purpose: purpose})
}

// TakeDelta uploads everything etcd holds at the time of the call, and returns the delta with
// the last of it; nil if there is nothing that the bucket does not have. A failure costs no
// event: they stay buffered and the upload is tried again.
func (s *Snapshotter) TakeDelta(ctx context.Context) (*Taken, error) {
	current, err := s.session(ctx)
	if err != nil {
		return nil, fmt.Errorf("take a delta snapshot: %w", err)
	}
	return current.takeDelta(ctx)
}

func (s *Snapshotter) tell(events ...Event) {
	for _, e := range events {
		if e.Time.IsZero() {
			e.Time = s.cfg.Now().UTC()
		}
		s.log.Warn(e.Text, "event", string(e.Code), "revision", int64(e.Revision))
		if s.cfg.OnEvent != nil {
			s.cfg.OnEvent(e)
		}
	}
}
