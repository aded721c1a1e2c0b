package downgrader

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"druid.internal/druid/internal/etcd/member"
)

// cluster is of one member, whose data change by one step at each look.
type cluster struct {
	looks   []func() (member.Status, error)
	allowed int
	refuses error // AllowDowngrade
	until   int   // at which time it is allowed for all that; 0: never
	forbids int
}

func (c *cluster) Members(context.Context) (member.Membership, error) {
	return member.Membership{Peers: []member.Peer{{ID: 1, Name: "m"}}}, nil
}

func (c *cluster) Reach(context.Context, member.Peer) (*member.Member, member.Status, error) {
	look := c.looks[0]
	if len(c.looks) > 1 {
		c.looks = c.looks[1:]
	}
	st, err := look()
	return nil, st, err
}

func (c *cluster) AllowDowngrade(context.Context, string) error {
	if c.allowed++; c.allowed == c.until {
		return nil
	}
	return c.refuses
}

func (c *cluster) ForbidDowngrade(context.Context) error { c.forbids++; return nil }

func says(storage, to string) func() (member.Status, error) {
	return func() (member.Status, error) {
		return member.Status{Version: "3.6.16", StorageVersion: storage, DowngradeTo: to}, nil
	}
}

func silent() (member.Status, error) { return member.Status{}, errors.New("connection refused") }

func ticks() <-chan time.Time {
	c := make(chan time.Time)
	close(c)
	return c
}

func states(into *[]State) func(Verdict, []Member) {
	return func(v Verdict, _ []Member) { *into = append(*into, v.State) }
}

func TestADowngradeGoesOnWhereItWas(t *testing.T) {
	due, converting, ready := says("3.6.0", ""), says("3.6.0", "3.5.0"), says("3.5.0", "3.5.0")
	for phrase, c := range map[string]struct {
		cluster cluster
		allowed int
		want    string
	}{
		"from the beginning":      {cluster{looks: []func() (member.Status, error){due, converting, ready}}, 1, "due converting ready"},
		"somebody else was first": {cluster{looks: []func() (member.Status, error){due, converting, ready}, refuses: member.ErrDowngrading}, 1, "due converting ready"},
		"its version is not decided yet": {cluster{looks: []func() (member.Status, error){due, due, due, converting, ready},
			refuses: member.ErrDowngradeTarget, until: 3}, 3, "due due due due due converting ready"},
		"it was broken off":            {cluster{looks: []func() (member.Status, error){converting, ready}}, 0, "converting ready"},
		"it was done":                  {cluster{looks: []func() (member.Status, error){ready}}, 0, "ready"},
		"a member is away for a while": {cluster{looks: []func() (member.Status, error){due, silent, converting, ready}}, 1, "due refused converting ready"},
	} {
		t.Run(phrase, func(t *testing.T) {
			var seen []State
			if err := Run(t.Context(), &c.cluster, "3.5", ticks(), states(&seen)); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, s := range seen {
				got = append(got, string(s))
			}
			if strings.Join(got, " ") != c.want || c.cluster.allowed != c.allowed {
				t.Errorf("it was %q and was allowed %d times, want %q and %d", got, c.cluster.allowed, c.want, c.allowed)
			}
		})
	}
}

func TestADowngradeThatCannotBeginChangesNothing(t *testing.T) {
	c := &cluster{looks: []func() (member.Status, error){silent}}
	if err := Run(t.Context(), c, "3.5", ticks(), func(Verdict, []Member) {}); !errors.Is(err, ErrRefused) || c.allowed != 0 {
		t.Errorf("%v, allowed %d times", err, c.allowed)
	}
	c = &cluster{looks: []func() (member.Status, error){says("3.6.0", "")}, refuses: member.ErrDowngradeTarget}
	if err := Run(t.Context(), c, "3.4", ticks(), func(Verdict, []Member) {}); !errors.Is(err, member.ErrDowngradeTarget) {
		t.Errorf("%v, want what etcd said", err)
	}
}

func TestWhoWaitsInVainIsToldForWhom(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := &cluster{looks: []func() (member.Status, error){says("3.6.0", "3.5.0")}}
	err := Run(ctx, c, "3.5", nil, func(Verdict, []Member) { cancel() })
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "the data of m have the form of etcd 3.6.0") {
		t.Error(err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	c = &cluster{looks: []func() (member.Status, error){says("3.6.0", "")}, refuses: member.ErrDowngradeTarget}
	err = Run(ctx, c, "3.5", nil, func(Verdict, []Member) { cancel() })
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "the cluster has not decided yet") {
		t.Error(err)
	}
}

// etcd answers alike whether it ended the downgrade or not.
func TestTheEndOfADowngradeIsSeen(t *testing.T) {
	c := &cluster{looks: []func() (member.Status, error){says("3.5.0", "3.5.0"), says("3.5.0", "")}}
	if err := End(t.Context(), c, ticks()); err != nil || c.forbids != 1 || len(c.looks) != 1 {
		t.Errorf("%v after %d calls, %d looks are left", err, c.forbids, len(c.looks))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c = &cluster{looks: []func() (member.Status, error){says("3.5.0", "3.5.0")}}
	if err := End(ctx, c, nil); !errors.Is(err, ErrStill) {
		t.Error(err)
	}
}
