package downgrader

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"druid.internal/druid/internal/etcd/member"
)

// The failures a caller branches on.
var (
	// ErrRefused: something stands against the downgrade, and the error says what.
	ErrRefused = errors.New("the downgrade cannot begin")
	// ErrStill: the cluster did not end the downgrade.
	ErrStill = errors.New("the downgrade is still allowed")
)

// Cluster is what is asked of the cluster.
type Cluster interface {
	Members(context.Context) (member.Membership, error)
	Reach(context.Context, member.Peer) (*member.Member, member.Status, error)
	AllowDowngrade(ctx context.Context, minor string) error
	ForbidDowngrade(context.Context) error
}

// Look asks every member. It fails only if the members cannot be listed.
func Look(ctx context.Context, c Cluster) ([]Member, error) {
	list, err := c.Members(ctx)
	if err != nil {
		return nil, err
	}
	var all []Member
	for _, p := range list.Peers {
		m := Member{Name: p.Name, Learner: p.Learner}
		if m.Name == "" {
			m.Name = fmt.Sprintf("member %x", p.ID)
		}
		_, st, err := c.Reach(ctx, p)
		if err != nil {
			m.Problem = err.Error()
		}
		m.Version, m.Storage, m.Allowed = st.Version, st.StorageVersion, st.DowngradeTo
		all = append(all, m)
	}
	return all, nil
}

// Run allows the downgrade unless it is allowed already, and returns when every member may be started
// with the earlier etcd. It looks again at each tick, and tells what it saw. Errors: ErrRefused before anything was
// changed; afterwards only those of allowing it, and of ctx, with what was still to come.
//
// A new cluster has no version of its own for some seconds, or a very old one, and refuses every downgrade
// meanwhile. That is waited for if the members run what can be downgraded so.
func Run(ctx context.Context, c Cluster, to string, tick <-chan time.Time, tell func(Verdict, []Member)) error {
	begun := false
	for {
		all, err := Look(ctx, c)
		v := Verdict{}
		switch {
		case err == nil:
			v = Decide(all, to)
		case !begun:
			return err
		default: // a member may be replaced meanwhile
			v = Verdict{Converting, []string{err.Error()}}
		}
		tell(v, all)
		switch {
		case v.State == Ready || v.State == Done:
			return nil
		case v.State == Refused && !begun:
			return fmt.Errorf("%w: %s", ErrRefused, strings.Join(v.Reasons, "; "))
		case v.State == Due:
			switch err := c.AllowDowngrade(ctx, to); {
			case errors.Is(err, member.ErrDowngradeTarget) && precedes(to, all):
				v.Reasons = []string{"the cluster has not decided yet that its version is that of its members"}
				tell(v, all)
			case err != nil && !errors.Is(err, member.ErrDowngrading):
				return err
			default:
				begun = true
			}
		case v.State == Converting:
			begun = true
		}
		select {
		case <-tick:
		case <-ctx.Done():
			return fmt.Errorf("wait for the members (%s): %w", strings.Join(v.Reasons, "; "), ctx.Err())
		}
	}
}

// End ends a downgrade that no member followed yet, and returns when nobody knows of it any more.
func End(ctx context.Context, c Cluster, tick <-chan time.Time) error {
	if err := c.ForbidDowngrade(ctx); err != nil {
		return err
	}
	for {
		all, err := Look(ctx, c)
		if err != nil {
			return err
		}
		still := ""
		for _, m := range all {
			if m.Allowed != "" {
				still = fmt.Sprintf("%s says to %s", m.Name, m.Allowed)
			}
		}
		if still == "" {
			return nil
		}
		select {
		case <-tick:
		case <-ctx.Done():
			return fmt.Errorf("%w: %s: %w", ErrStill, still, ctx.Err())
		}
	}
}
