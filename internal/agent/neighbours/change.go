package neighbours

import (
	"context"
	"errors"
	"time"

	"druid.internal/druid/internal/etcd/member"
)

// What bounds one attempt of a change through one endpoint. A majority has to write it, which
// takes milliseconds; but an etcd that just makes another change drops this one without a word and lets
// who asked wait, so that asking again is what helps. Where a majority takes long, each failed
// attempt makes the next one longer.
const (
	firstChange   = 2 * time.Second
	changeTimeout = 10 * time.Second // also of the list of members
)

// The changes of a cluster that a member needs before its etcd runs. Each goes through one endpoint
// after the other until one of them decides; the outcome is that of [member.Cluster].

// Members lists the members of the cluster behind the endpoints, as its majority confirms.
func (a *Asker) Members(ctx context.Context, endpoints []string) (m member.Membership, err error) {
	err = a.through(endpoints, func(c *member.Cluster) (err error) {
		m, err = c.Members(ctx)
		return err
	})
	return m, err
}

// AddLearner lists a new member without a vote.
func (a *Asker) AddLearner(ctx context.Context, endpoints, peerURLs []string) (p member.Peer, err error) {
	err = a.change(ctx, endpoints, func(ctx context.Context, c *member.Cluster) (err error) {
		p, err = c.AddLearner(ctx, peerURLs)
		return err
	})
	return p, err
}

// Remove takes a member off the list.
func (a *Asker) Remove(ctx context.Context, endpoints []string, id uint64) error {
	return a.change(ctx, endpoints, func(ctx context.Context, c *member.Cluster) error { return c.Remove(ctx, id) })
}

// UpdatePeerURLs lists a member at other addresses.
func (a *Asker) UpdatePeerURLs(ctx context.Context, endpoints []string, id uint64, peerURLs []string) error {
	return a.change(ctx, endpoints, func(ctx context.Context, c *member.Cluster) error { return c.UpdatePeerURLs(ctx, id, peerURLs) })
}

// change makes one attempt through each endpoint until one decides. Whoever asks for it looks
// again before the next: what was not answered may have been done.
func (a *Asker) change(ctx context.Context, endpoints []string, do func(context.Context, *member.Cluster) error) error {
	a.mu.Lock()
	patience := a.patience
	a.mu.Unlock()
	err := a.through(endpoints, func(c *member.Cluster) error {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		return do(ctx, c)
	})
	patience = firstChange
	a.mu.Lock()
	defer a.mu.Unlock()
	if errors.Is(err, member.ErrNoLeader) || errors.Is(err, member.ErrUnreachable) {
		patience = min(2*a.patience, changeTimeout)
	}
	a.patience = patience
	return err
}

// through asks by one endpoint after the other as long as they cannot decide.
func (a *Asker) through(endpoints []string, ask func(*member.Cluster) error) error {
	var errs []error
	for _, endpoint := range endpoints {
		c, err := a.Cluster(endpoint)
		if err == nil {
			err = ask(c)
		}
		switch {
		case err == nil:
			return nil
		case errors.Is(err, member.ErrUnreachable), errors.Is(err, member.ErrNoLeader), errors.Is(err, member.ErrLearner):
			errs = append(errs, err)
		default:
			return err
		}
	}
	if len(errs) == 0 {
		return member.ErrUnreachable
	}
	return errors.Join(errs...)
}
