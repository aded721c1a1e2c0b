package e2e

import (
	"context"
	"errors"
	"regexp"
	"testing"

	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/test/linear"
	"druid.internal/druid/test/members"
)

// TestAClusterGrowsAndShrinksUnderLoad goes 1 -> 3 -> 5 -> 3 -> 1, and once 3 -> 5 fails half-way.
func TestAClusterGrowsAndShrinksUnderLoad(t *testing.T) {
	t.Parallel()
	for _, with := range everyOther(t, beginnings) {
		t.Run("from "+with, func(t *testing.T) {
			t.Parallel()
			c := enlist(t, members.Options{Members: 1}, "")
			c.begin(with)
			s := c.work(0, c.Member(0))
			sizes := []int{3, 5, 3}
			if with != "nothing" && !*soak {
				sizes = []int{3} // what matters is that it begins
			}
			for _, n := range sizes {
				c.must(c.Scale(t.Context(), n))
				c.await("the clients go on", worked(s, 500))
			}
			c.failsHalfWay()
			c.await("the clients go on", worked(s, 500))
			c.must(c.Scale(t.Context(), 1))
			c.await("the clients go on", worked(s, 500))
			ops := s.end()
			if stall, from := linear.Stall(ops); stall > patience {
				t.Errorf("nothing was written for %s from %s on", stall, from)
			}
			c.proves()
		})
	}
}

// failsHalfWay wants five members, of which one never comes, and gives up.
func (c *crew) failsHalfWay() {
	c.t.Helper()
	c.must(c.Want(c.t.Context(), 5))
	c.Member(3).Start()
	c.await("the fourth member is there", func(ctx context.Context) error {
		r, err := c.client.MemberList(ctx)
		if err != nil {
			return err
		}
		for _, m := range r.Members {
			if m.Name == c.Member(3).Name {
				return nil
			}
		}
		return errors.New("it is not listed")
	})
	c.Member(3).Crash()
	c.must(c.Want(c.t.Context(), 3))
	c.ready()
	c.must(c.Retire())
}

// TestClustersOfEverySizeComeFromNothing bootstraps, and says so.
func TestClustersOfEverySizeComeFromNothing(t *testing.T) {
	t.Parallel()
	for what, n := range map[string]int{"one": 1, "five": 5} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			c := enlist(t, members.Options{Members: n}, "")
			c.start()
			c.work(2000).wait()
			c.proves()
		})
	}
}

// TestNewMembersJoinThoughTheClientURLsChanged wants other client URLs before new members have joined: the etcd that is there serves at the
// former ones until its pod is replaced, which waits for them.
func TestNewMembersJoinThoughTheClientURLsChanged(t *testing.T) {
	t.Parallel()
	c := enlist(t, members.Options{Members: 1}, "")
	c.start()
	c.work(500).wait()
	c.must(c.Want(t.Context(), 3))
	c.must(c.ServeAt(2479))
	for _, m := range c.Members()[1:] {
		m.Start()
		c.reports(m, agentapi.PromotedAsVotingMember)
	}
	c.must(c.Member(0).Stop())
	c.Member(0).Start()
	c.ready()
	c.connect()
	c.proves()
}

// TestALearnerGetsItsVoteThoughNobodyWrites has members join anew while no client writes anything, with
// logs so short that they get the data as a whole. What a learner needs is then all in the data.
func TestALearnerGetsItsVoteThoughNobodyWrites(t *testing.T) {
	t.Parallel()
	c := enlist(t, members.Options{Members: 3, Etcd: map[string]any{"snapshot-count": 100, "snapshot-catchup-entries": 10}}, "")
	c.start()
	c.work(2000).wait()
	_, rev := c.holds(2)
	for _, m := range c.Members() { // it takes luck to be ready without help: not three times
		// One that was started a second time gives its request up at once.
		late := func() int {
			return len(regexp.MustCompile(`failed to publish local member.*timed out`).FindAllString(m.EtcdLog(), -1))
		}
		before, waited := idOf(c, m), late() // all of them, when the cluster began
		c.must(m.LoseData())
		m.Start()
		c.reports(m, agentapi.PromotedAsVotingMember)
		c.ready()
		if after := idOf(c, m); after == before {
			t.Errorf("%s is still the member %x", m.Name, after)
		}
		if late() > waited {
			t.Errorf("etcd of %s was ready only when its request for an entry had timed out: %s", m.Name, m.EtcdLog())
		}
	}
	if _, now := c.holds(2); now != rev {
		t.Errorf("somebody wrote: the cluster is at revision %d, it was at %d", now, rev)
	}
	c.proves()
}
