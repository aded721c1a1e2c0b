package snapshotter

import (
	"context"
	"errors"
	"time"

	"druid.internal/druid/internal/etcd/member"
)

// The pace at which etcd's users are looked at: after each delta, but not more often than
// authPause, and without deltas every authPeriod. Each look is a proposal to the cluster.
const (
	authPause  = time.Second
	authPeriod = 30 * time.Second
)

// followAuth has a full taken when users, roles or authentication changed since the last one: they
// are in no delta. Such fulls become rarer while changes go on, see spacing: the first follows at
// once, the next ones after Retry.Max and ever longer, up to the time between two scheduled fulls.
func (n *session) followAuth(ctx context.Context) error {
	period := time.NewTicker(authPeriod)
	defer period.Stop()
	for refused := false; ; {
		err := n.checkAuth(ctx)
		if errors.Is(err, member.ErrForbidden) && !refused {
			refused = true
			n.log.Warn("changes of users, roles and authentication are not noticed, and are backed up by scheduled full snapshots alone", "error", err)
		}
		select {
		case <-time.After(authPause):
		case <-ctx.Done():
			return ctx.Err()
		}
		select {
		case <-n.wrote:
		case <-period.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// checkAuth has a full taken if users changed since the last one, unless one was taken for that reason too recently.
func (n *session) checkAuth(ctx context.Context) error {
	changed, err := n.authChanged(ctx)
	now := n.cfg.Now()
	if err != nil || !changed || now.Before(n.auth.next) {
		return err
	}
	n.auth.next = now.Add(n.auth.note(now, n.cfg.Retry, n.fullPeriod(now)))
	n.wantFull("users, roles or authentication changed since the last full snapshot")
	return nil
}

// authChanged reports whether users, roles or authentication changed since the last full. Of a full
// that does not record their revision it is true if there was ever a change.
func (n *session) authChanged(ctx context.Context) (bool, error) {
	m, err := n.cfg.Connect(ctx)
	if err != nil {
		return false, err
	}
	now, err := m.AuthRevision(ctx)
	if err != nil {
		return false, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.lastFull != nil && now != max(n.lastFull.Manifest.AuthRevision, 1), nil
}

// endPatience bounds how long the end of the program waits for etcd to report a change of its users.
const endPatience = 2 * time.Second

// endAuth takes a full before the program ends if users changed since the last one. It is named after
// the revision that etcd has, as nothing is watched any more.
func (n *session) endAuth(ctx context.Context) {
	asking, cancel := context.WithTimeout(ctx, endPatience)
	changed, err := n.authChanged(asking)
	cancel()
	if err != nil || !changed || n.ending(ctx) {
		return
	}
	if _, err := n.takeFull(ctx, asked{unwatched: true}); err != nil {
		n.log.Warn("changes of users, roles and authentication since the last full snapshot are not backed up; the next start takes a full", "error", err)
	}
}
