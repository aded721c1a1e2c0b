package wrapper

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
)

// startGrace is how long the process waits, once it shall end, for an etcd that is just being
// started: only then can it be stopped properly.
const startGrace = 20 * time.Second

// errStarting says that etcd was left in the middle of its start.
var errStarting = errors.New("etcd was still starting when the process had to end: its data will be examined fully at the next start")

// startEtcd starts etcd on examined data. It returns as soon as etcd takes part in its cluster,
// which is before it serves. If the context ends meanwhile, an etcd that came up is stopped
// again, and the error is the context's cause.
func startEtcd(ctx context.Context, c *embed.Config) (*embed.Etcd, error) {
	type result struct {
		etcd *embed.Etcd
		err  error
	}
	started := make(chan result, 1)
	go func() {
		e, err := embed.StartEtcd(c)
		started <- result{e, err}
	}()
	select {
	case r := <-started:
		if r.err != nil {
			return nil, fmt.Errorf("start etcd: %w", r.err)
		}
		return r.etcd, nil
	case <-ctx.Done():
	}
	// etcd's start cannot be interrupted. The goroutine is left behind if it takes too long, and
	// ends with the process.
	grace := time.NewTimer(startGrace)
	defer grace.Stop()
	select {
	case r := <-started:
		if r.err != nil {
			return nil, fmt.Errorf("start etcd: %w", r.err)
		}
		return r.etcd, nil
	case <-grace.C:
		return nil, errStarting
	}
}

// stopEtcd stops a running etcd. Requests that go on get a few seconds to come to their end.
func stopEtcd(e *embed.Etcd) {
	select {
	case <-e.Server.ReadyNotify():
	default:
		// Close would wait for the client interface, which is opened only once there is a leader.
		e.Server.HardStop()
	}
	e.Close()
}

// outcome is how a life of etcd came to its end.
type outcome struct {
	end   End   // the word for the exit code file; empty: not a clean end
	again bool  // another life shall follow
	anew  bool  // etcd shall be started once more as it was, on the data that it has by now
	err   error // of an unclean end
}

// attend waits for the end of a running etcd: asked for, or its own.
func (w *wrapper) attend(ctx context.Context, e *embed.Etcd, log *lastError, i introduction) outcome {
	ready := e.Server.ReadyNotify()
	var late <-chan time.Time // never, if there is no limit
	if w.ReadyTimeout > 0 {
		t := time.NewTimer(w.ReadyTimeout)
		defer t.Stop()
		late = t.C
	}
	look := time.NewTicker(introductionEvery)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return outcome{end: endOf(ctx)}
		case <-look.C:
			if i.missed(time.Now(), introducible(e.Server)) {
				w.log.Info("etcd is started once more: what the cluster answered to its introduction came with the data, where etcd does not look for it")
				return outcome{anew: true}
			}
		case why := <-w.restart:
			w.log.Info("restart of etcd", "why", why)
			return outcome{end: Terminated, again: true}
		case <-ready:
			w.log.Info("etcd is ready", "took", time.Since(i.started).String())
			ready, late = nil, nil
			look.Stop()
		case <-late:
			return outcome{err: fmt.Errorf("etcd was not ready within %s: it waits for a leader, which takes a majority of the members", w.ReadyTimeout)}
		case err := <-e.Err():
			return outcome{err: fmt.Errorf("etcd failed: %w", err)}
		case <-e.Server.StopNotify():
			return outcome{err: ownEnd(e, log.String())}
		}
	}
}

// ownEnd is why an etcd stopped by itself, of which it tells nothing but the last error it logged.
func ownEnd(e *embed.Etcd, logged string) error {
	switch {
	case !e.Server.IsMemberExist(e.Server.MemberID()), strings.Contains(logged, "permanently removed"):
		return fmt.Errorf("member %s was removed from the cluster: with the next start the backup sidecar decides whether it joins anew", e.Server.MemberID())
	case logged == "":
		return errors.New("etcd stopped by itself: its log says why")
	}
	return fmt.Errorf("etcd stopped by itself: %s", logged)
}

// endOf is the word for the cause of a context's end.
func endOf(ctx context.Context) End {
	var e End
	if errors.As(context.Cause(ctx), &e) {
		return e
	}
	return Terminated
}
