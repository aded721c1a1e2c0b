package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/test/members"
)

// TestAMemberThatEtcdAccusesOfCorruptionIsGivenUpAndJoinsAnew changes a value in the database of a
// member while it is stopped, and lets the others forget the history that this member has, so that
// etcd cannot compare it as it starts. It finds out when it has caught up, and raises CORRUPT.
// Whoever reads from the others notices nothing; who writes is refused until the member is gone.
func TestAMemberThatEtcdAccusesOfCorruptionIsGivenUpAndJoinsAnew(t *testing.T) {
	t.Parallel()
	c := enlist(t, members.Options{Members: 3, Etcd: map[string]any{"compact-hash-check-time": int64(time.Second)}}, "")
	c.start()
	const key, value = "/flipped", "the value that was written"
	c.put(c.client, key, value)
	c.work(2000).wait()
	_, rev := c.holds(2)
	c.upload(rev)
	writer := c.writer()
	victim := c.Others(writer, c.leader())[0]
	others := c.Others(victim)
	before := idOf(c, victim)

	c.must(victim.Stop())
	c.must(victim.FlipValue(key))
	later := c.put(c.client, loadPrefix+"later", "than what the victim has")
	c.await("the others forget all history", func(ctx context.Context) error {
		_, err := c.client.Compact(ctx, later, clientv3.WithCompactPhysical())
		if errors.Is(err, rpctypes.ErrCompacted) { // that was answered to nobody
			return nil
		}
		return err
	})
	reading := c.read(others, key, value)
	victim.Start()
	told := map[string]bool{} // each at some time: a few seconds later the victim is given up
	tells := func(ctx context.Context, m *members.Member) error {
		s, err := m.State(ctx)
		if err != nil {
			return err
		}
		if s.Etcd == nil || !slices.Equal(s.Etcd.Alarms, []string{"CORRUPT"}) || !strings.Contains(s.Waiting, "CORRUPT") {
			return fmt.Errorf("%s has etcd %+v and waits for %q", m.Name, s.Etcd, s.Waiting)
		}
		if n, err := m.Metric(ctx, `etcdbr_etcd_alarm{alarm="CORRUPT"}`); err != nil || n != 1 {
			return fmt.Errorf("the metric of %s is %v, %w", m.Name, n, err)
		}
		return nil
	}
	c.await("the members tell of CORRUPT", func(ctx context.Context) error {
		var errs []error
		for _, m := range c.Members() {
			if told[m.Name] {
				continue
			}
			err := tells(ctx, m)
			told[m.Name] = err == nil
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	})
	// Backing up goes on, with what the majority has.
	sidecar, err := writer.Sidecar()
	c.must(err)
	defer sidecar.Close()
	c.await("a full is taken", func(ctx context.Context) error {
		full, err := sidecar.Full(ctx, false)
		if err == nil && full.LastRevision < later {
			err = fmt.Errorf("it ends at %d of %d", full.LastRevision, later)
		}
		return err
	})
	state := c.reports(victim, agentapi.Quarantined)
	for _, tr := range state.Transitions {
		if tr.Reason == agentapi.Quarantined {
			says(t, tr.Message, "CORRUPT", "hash", victim.Name)
		}
	}
	c.await("the alarm is over", func(ctx context.Context) error {
		r, err := c.client.AlarmList(ctx)
		if err == nil && len(r.Alarms) > 0 {
			err = fmt.Errorf("%v", r.Alarms)
		}
		return err
	})
	c.reports(victim, agentapi.PromotedAsVotingMember)
	c.ready()
	reading.end()
	if after := idOf(c, victim); after == before {
		t.Errorf("%s is still the member %x", victim.Name, after)
	}
	if got := c.says(t.Context(), victim, key); got != value {
		t.Errorf("%s says %q, want what was written", victim.Name, got)
	}
	for _, f := range c.list().Findings {
		if f.Severity != "info" {
			t.Errorf("finding about the bucket: %+v", f)
		}
	}
	for _, m := range others {
		if s := c.state(m); came(s, agentapi.Quarantined) {
			t.Errorf("%s was given up as well: %+v", m.Name, s.Transitions)
		}
	}
	c.work(1000).wait()
	from := later + 1
	events, rev := c.holds(from)
	c.comesBack(events, from, rev)
}

// says is what a member alone says about a key, empty if it does not tell.
func (c *crew) says(ctx context.Context, m *members.Member, key string) string {
	c.t.Helper()
	client, err := c.ClientOf(m)
	c.must(err)
	defer client.Close()
	r, err := client.Get(ctx, key, clientv3.WithSerializable())
	if err != nil || len(r.Kvs) == 0 {
		return ""
	}
	return string(r.Kvs[0].Value)
}

// reading is somebody who reads a key of some members again and again.
type reading struct {
	c      *crew
	cancel context.CancelFunc
	done   chan struct{}
	reads  int
	wrong  []string // what was not as it should be
}

// unnoticed is how long a member may not serve while it is read: an election of a busy machine, and
// less than the alarm of a story lasts.
const unnoticed = 8 * time.Second

// read reads a key of members, each of which is to serve and to tell the value all the time.
func (c *crew) read(at []*members.Member, key, value string) *reading {
	c.t.Helper()
	var clients []*clientv3.Client
	for _, m := range at {
		client, err := c.ClientOf(m)
		c.must(err)
		clients = append(clients, client)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &reading{c: c, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		for ctx.Err() == nil {
			for i, client := range clients {
				err := r.one(ctx, at[i], client, key, value)
				for begun := time.Now(); err != nil && ctx.Err() == nil && time.Since(begun) < unnoticed; {
					err = r.one(ctx, at[i], client, key, value)
				}
				if ctx.Err() == nil && err != nil && len(r.wrong) < 10 {
					r.wrong = append(r.wrong, at[i].Name+": "+err.Error())
				}
				r.reads++
			}
		}
		for _, client := range clients {
			client.Close()
		}
	}()
	c.t.Cleanup(func() {
		cancel()
		<-r.done
	})
	return r
}

func (r *reading) one(ctx context.Context, m *members.Member, client *clientv3.Client, key, value string) error {
	if err := m.Ready(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	got, err := client.Get(ctx, key)
	if err == nil && (len(got.Kvs) != 1 || string(got.Kvs[0].Value) != value) {
		err = fmt.Errorf("it says %v", got.Kvs)
	}
	return err
}

// end ends the reading and holds the members to it.
func (r *reading) end() {
	r.c.t.Helper()
	r.cancel()
	<-r.done
	if len(r.wrong) > 0 {
		r.c.t.Errorf("of %d reads:\n  %s", r.reads, strings.Join(r.wrong, "\n  "))
	}
	r.c.t.Logf("%d reads", r.reads)
}
