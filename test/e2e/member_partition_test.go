package e2e

import (
	"context"
	"errors"
	"testing"
	"time"

	"druid.internal/druid/test/members"
	"druid.internal/druid/test/sites"
	"druid.internal/druid/test/stores"
)

// onANetwork lays out three members with network namespaces and a store of their own.
func onANetwork(t *testing.T) *crew {
	t.Helper()
	n, err := members.NewNetwork(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	minio, err := stores.StartMinIO(t.Context(), stores.MinIOOptions{Host: n.Stores().String()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := minio.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := minio.CreateBucket(t.Context(), "bucket", stores.Versioned, 1); err != nil {
		t.Fatal(err)
	}
	c := enlist(t, members.Options{Members: 3, Network: n, Backup: sites.S3Way(&minio.S3, "bucket", minio.Endpoint, minio.Root)}, "")
	c.start()
	return c
}

// TestTheBackupLeaderIsCutOffFromTheOthersAndOneChainSurvives leaves the old leader the store, so that
// for a while two sidecars believe that they write the backups.
func TestTheBackupLeaderIsCutOffFromTheOthersAndOneChainSurvives(t *testing.T) {
	t.Parallel()
	c := onANetwork(t)
	operations, least := 1_500, 3
	if *soak {
		operations, least = 1_000_000, 20
	}
	s := c.work(0)
	giveUp := time.Now().Add(atMost)
	cuts := 0
	for ; cuts < least || s.answered() < operations; cuts++ {
		if time.Now().After(giveUp) {
			t.Fatalf("after %s %d operations are answered and the leader was cut off %d times", atMost, s.answered(), cuts)
		}
		old := c.writer()
		c.must(c.Partition(t.Context(), []*members.Member{old}, c.Others(old)))
		c.await("another one writes the backups", func(ctx context.Context) error {
			for _, m := range c.Others(old) {
				if state, err := m.State(ctx); err == nil && state.BackupLeader {
					return nil
				}
			}
			return errors.New("none of the others says so")
		})
		c.await("the one that is cut off no longer does", func(ctx context.Context) error {
			state, err := old.State(ctx)
			if err == nil && state.BackupLeader {
				err = errors.New("it says that it writes the backups")
			}
			return err
		})
		c.must(c.Heal(t.Context()))
		c.ready()
	}
	s.end()
	t.Logf("the leader was cut off %d times", cuts)
	c.proves()
	if l := c.list(); len(l.Lineages) != 1 || len(l.Lineages[0].Restorable) != 1 {
		t.Errorf("the bucket has %+v, want one lineage that can be restored throughout", l.Lineages)
	}
}

// TestALeaderThatIsCutOffFromTheStoreKeepsServing while the others could reach it: its state says that
// nothing is uploaded, and the chain has no gap afterwards.
func TestALeaderThatIsCutOffFromTheStoreKeepsServing(t *testing.T) {
	t.Parallel()
	c := onANetwork(t)
	writer := c.writer()
	s := c.work(0)
	c.must(c.CutStore(t.Context(), writer))
	c.await("the metrics say that nothing is uploaded, or another one writes", func(ctx context.Context) error {
		now, err := c.BackupLeader(ctx)
		if err != nil || now != writer {
			return err
		}
		return c.unprotected(func(s float64) bool { return s >= 5 })(ctx)
	})
	c.await("the clients go on", worked(s, 500))
	c.must(c.Heal(t.Context()))
	s.end()
	c.proves()
}

// TestACutOffMemberWithoutDataBeginsNoClusterOfItsOwn loses its data while it sees nobody.
func TestACutOffMemberWithoutDataBeginsNoClusterOfItsOwn(t *testing.T) {
	t.Parallel()
	c := onANetwork(t)
	victim := c.follower()
	s := c.work(0, c.Others(victim)...)
	c.must(c.Partition(t.Context(), []*members.Member{victim}, c.Others(victim)))
	c.must(victim.LoseVolume())
	victim.Start()
	c.await("it waits for the others", func(ctx context.Context) error {
		state, err := victim.State(ctx)
		if err == nil && state.Waiting == "" {
			err = errors.New("it waits for nothing")
		}
		return err
	})
	c.await("the others go on", worked(s, 500))
	if status, err := victim.Etcd(t.Context()); err == nil {
		t.Errorf("it serves at revision %d", status.Header.Revision)
	}
	c.must(c.Heal(t.Context()))
	c.ready()
	s.end()
	c.proves()
}

// TestAClusterThatIsTornInThreeServesNobodyAndForgetsNothing has no majority anywhere.
func TestAClusterThatIsTornInThreeServesNobodyAndForgetsNothing(t *testing.T) {
	t.Parallel()
	c := onANetwork(t)
	s := c.work(0)
	c.await("the clients are at work", worked(s, 500))
	var alone [][]*members.Member
	for _, m := range c.Members() {
		alone = append(alone, []*members.Member{m})
	}
	c.must(c.Partition(t.Context(), alone...))
	c.await("nobody leads", func(ctx context.Context) error {
		if leader, err := c.Leader(ctx); err == nil {
			return errors.New(leader.Name + " leads")
		}
		return nil
	})
	for _, m := range c.Members() {
		c.await(m.Name+" is not ready", func(ctx context.Context) error {
			if err := m.Ready(ctx); err == nil {
				return errors.New("it says that it is")
			}
			return nil
		})
		c.await("a lost quorum is no reason to kill "+m.Name, m.Alive)
	}
	nobody, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if _, err := c.client.Put(nobody, "/torn", "in three"); err == nil {
		t.Error("a write was answered, so nothing was cut")
	}
	before := s.record.Count()
	c.must(c.Heal(t.Context()))
	c.ready()
	c.await("the clients go on", func(context.Context) error {
		if s.record.Count() <= before+1000 {
			return errors.New("they do not")
		}
		return nil
	})
	s.end()
	c.proves()
}
