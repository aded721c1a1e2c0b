package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/test/linear"
	"druid.internal/druid/test/members"
)

// patience is how long writes may stall: some leader elections of a busy machine.
const patience = 30 * time.Second

// TestOneMembersDataAreLostCutAndFlippedAndItRejoinsWhileTheOthersServe damages one member after the
// other way. Clients work on the other members alone, and never stop.
func TestOneMembersDataAreLostCutAndFlippedAndItRejoinsWhileTheOthersServe(t *testing.T) {
	t.Parallel()
	for _, with := range everyOther(t, beginnings) {
		t.Run("from "+with, func(t *testing.T) {
			t.Parallel()
			c := enlist(t, members.Options{Members: 3}, "")
			c.begin(with)
			for _, damage := range []struct {
				what   string
				do     func(*members.Member) error
				reason agentapi.Reason
			}{
				{"its data directory is deleted", (*members.Member).LoseData, agentapi.JoinedAsLearner},
				{"its write-ahead log is truncated", (*members.Member).TruncateWAL, agentapi.DBCorruptionDetected},
				{"a bit of its database is flipped", (*members.Member).FlipDB, agentapi.DBCorruptionDetected},
				{"its whole volume is empty", (*members.Member).LoseVolume, agentapi.JoinedAsLearner},
			} {
				victim := c.follower()
				before := idOf(c, victim)
				s := c.work(0, c.Others(victim)...)
				c.await("the clients are at work", worked(s, 500))
				c.must(damage.do(victim))
				c.await("the others go on", worked(s, 500))
				victim.Start()
				c.ready()
				state := c.reports(victim, damage.reason)
				c.reports(victim, agentapi.PromotedAsVotingMember)
				c.await("the clients go on", worked(s, 500))
				ops := s.end()
				if stall, from := linear.Stall(ops); stall > patience {
					t.Errorf("%s: the others did not serve for %s from %s on", damage.what, stall, from)
				}
				if after := idOf(c, victim); after == before {
					t.Errorf("%s: it is still the member %x", damage.what, after)
				}
				if r := state.LastRestoration; r == nil || r.Type != agentapi.FromLeader {
					t.Errorf("%s: its last restoration is %+v, want one from the leader", damage.what, r)
				}
				c.holds(2)
			}
			c.proves()
		})
	}
}

// worked is nil when so many more operations were recorded.
func worked(s *shift, more int) func(context.Context) error {
	goal := s.record.Count() + more
	return func(context.Context) error {
		if n := s.record.Count(); n < goal {
			return fmt.Errorf("%d of %d operations", n, goal)
		}
		return nil
	}
}

func idOf(c *crew, m *members.Member) uint64 {
	c.t.Helper()
	r, err := c.client.MemberList(c.t.Context())
	c.must(err)
	for _, other := range r.Members {
		if other.Name == m.Name {
			return other.ID
		}
	}
	c.t.Fatalf("%s is not listed", m.Name)
	return 0
}

// TestAMemberWhoseVolumeTurnsReadOnlySaysSoAndTheOthersServe needs a file system that fails.
func TestAMemberWhoseVolumeTurnsReadOnlySaysSoAndTheOthersServe(t *testing.T) {
	t.Parallel()
	c := enlist(t, members.Options{Members: 3, Volume: 512 << 20}, "")
	c.start()
	victim := c.leader()
	s := c.work(0, c.Others(victim)...)
	c.await("the clients are at work", worked(s, 500))
	c.must(victim.FailVolume(t.Context()))
	c.reports(victim, agentapi.VolumeReadOnly)
	c.await("the others go on", worked(s, 500))
	if err := victim.Alive(t.Context()); err != nil {
		t.Logf("its wrapper: %v", err)
	}
	c.must(victim.MendVolume(t.Context()))
	victim.Start()
	c.ready()
	ops := s.end()
	if stall, from := linear.Stall(ops); stall > patience {
		t.Errorf("the others did not serve for %s from %s on", stall, from)
	}
	c.proves()
}

// TestAValueThatOneMemberHasOtherwiseIsNotBackedUp flips a bit in a value of a member: its database is
// sound, and says something else. The majority is right, and is what the bucket holds.
func TestAValueThatOneMemberHasOtherwiseIsNotBackedUp(t *testing.T) {
	t.Parallel()
	c := enlist(t, members.Options{Members: 3}, "")
	c.start()
	const key = "/flipped"
	c.put(c.client, key, "the value that was written")
	s := c.work(5000)
	s.wait()
	victim := c.follower()
	c.must(victim.Stop())
	c.must(victim.FlipValue(key))
	victim.Start()
	// Either etcd refuses to start with it and the member takes the data of the others, or the
	// comparison before a full finds it: in the end all say the same.
	sidecar, err := c.Others(victim)[0].Sidecar()
	c.must(err)
	defer sidecar.Close()
	c.await("a full is taken", func(ctx context.Context) error {
		_, err := sidecar.Full(ctx, false)
		return err
	})
	c.await("all members have the value", func(ctx context.Context) error {
		for _, m := range c.Members() {
			client, err := c.ClientOf(m)
			if err != nil {
				return err
			}
			r, err := client.Get(ctx, key, clientv3.WithSerializable())
			client.Close()
			if err != nil {
				return err
			}
			if r.Count != 1 || string(r.Kvs[0].Value) != "the value that was written" {
				return errors.New(m.Name + " says something else")
			}
		}
		return nil
	})
	c.ready()
	c.proves()
}
