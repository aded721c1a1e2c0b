package e2e

import (
	"context"
	"testing"
	"time"

	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/test/members"
)

// beginnings are where a story can begin.
var beginnings = []string{"nothing", oldEtcd}

// TestTheLeaderIsKilledUnderLoadAndNoAcknowledgedWriteIsLost lets three members come from nothing,
// kills the leader with SIGKILL every few seconds, now and then with its sidecar, and compares the
// cluster and a restore of the bucket with what sixteen clients were told.
func TestTheLeaderIsKilledUnderLoadAndNoAcknowledgedWriteIsLost(t *testing.T) {
	t.Parallel()
	for _, with := range everyOther(t, beginnings) {
		t.Run("from "+with, func(t *testing.T) {
			t.Parallel()
			c := enlist(t, members.Options{Members: 3}, "")
			c.begin(with)
			operations, least := 3_000, 6
			switch {
			case *soak:
				operations, least = 1_000_000, 24 // of two minutes, every five seconds
			case with != "nothing":
				operations, least = 1_000, 1 // what matters is that it begins
			}
			s := c.work(0)
			kills := 0
			every := time.NewTicker(5 * time.Second)
			defer every.Stop()
			for giveUp := time.After(atMost); kills < least || s.answered() < operations; {
				select {
				case <-giveUp:
					t.Fatalf("after %s %d operations are answered and the leader was killed %d times", atMost, s.answered(), kills)
				case <-every.C:
				}
				leader, err := c.Leader(t.Context())
				if err != nil {
					continue // nobody leads yet
				}
				if kills%3 == 2 {
					leader.Crash()
					leader.Start()
				} else {
					leader.KillEtcd()
				}
				kills++
			}
			s.end()
			t.Logf("the leader was killed %d times", kills)
			c.ready()
			c.proves()
		})
	}
}

// TestASidecarThatDiesAgainAndAgainLeavesNoGap kills the sidecar of the leader only: etcd goes on.
func TestASidecarThatDiesAgainAndAgainLeavesNoGap(t *testing.T) {
	t.Parallel()
	c := enlist(t, members.Options{Members: 3}, "")
	c.start()
	s := c.work(0)
	starts := map[string]int{}
	for _, m := range c.Members() {
		starts[m.Name] = m.EtcdLife().Starts
	}
	for range 5 {
		var writer *members.Member
		c.await("somebody writes the backups", func(ctx context.Context) (err error) {
			writer, err = c.BackupLeader(ctx)
			return err
		})
		before := writer.SidecarLife().Starts
		writer.KillSidecar()
		c.await("the sidecar is back", func(ctx context.Context) error {
			if writer.SidecarLife().Starts == before {
				return context.DeadlineExceeded
			}
			_, err := writer.State(ctx)
			return err
		})
	}
	s.end()
	for _, m := range c.Members() {
		if got := m.EtcdLife().Starts; got != starts[m.Name] {
			t.Errorf("etcd of %s was started %d times, it had been %d", m.Name, got, starts[m.Name])
		}
		// Nor was it started anew within its process: then the data would have been examined again.
		state := c.state(m)
		if m.SidecarLife().Starts > 1 && (came(state, agentapi.DetectedPreviousCleanExit) || came(state, agentapi.DetectedPreviousUncleanExit)) {
			t.Errorf("%s was initialized again because its sidecar died: %+v", m.Name, state.Transitions)
		}
	}
	c.proves()
}
