package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"

	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/internal/agentapi/auth"
	"druid.internal/druid/test/members"
)

// linked are clients, one at each member, that write all the time over the connections that they have.
type linked struct {
	c     *crew
	acked []atomic.Int64 // writes, by member
	last  []atomic.Value // errors, by member; of a success an empty one
	ended sync.WaitGroup
}

func (c *crew) link(ctx context.Context) *linked {
	c.t.Helper()
	all := c.Members()
	w := &linked{c: c, acked: make([]atomic.Int64, len(all)), last: make([]atomic.Value, len(all))}
	for i, m := range all {
		client, err := c.ClientOf(m)
		c.must(err)
		c.t.Cleanup(func() { client.Close() })
		w.ended.Go(func() { w.write(ctx, i, client) })
	}
	return w
}

func (w *linked) write(ctx context.Context, i int, client *clientv3.Client) {
	for n := 0; ctx.Err() == nil; n++ {
		bounded, cancel := context.WithTimeout(ctx, 3*time.Second)
		key, value := fmt.Sprintf("%slinked/%d/%d", loadPrefix, i, n%50), fmt.Sprint(n)
		r, err := client.Put(bounded, key, value)
		cancel()
		if err == nil {
			w.c.told.Put(key, value, r.Header.Revision)
			w.acked[i].Add(1)
			w.last[i].Store("")
		} else {
			w.last[i].Store(err.Error())
			if !refused(err) {
				w.c.told.Unsure(key, value)
			}
		}
		time.Sleep(20 * time.Millisecond) // a client that hammers would only take time from the members
	}
}

// refused: the call was certainly not carried out, as the cluster falls asleep.
func refused(err error) bool {
	return err != nil && strings.Contains(err.Error(), "falling asleep") && !strings.Contains(err.Error(), "not known")
}

// say waits until the client at a member was refused, or served, once more.
func (w *linked) say(i int, isRefused bool) {
	w.c.t.Helper()
	before := w.acked[i].Load()
	w.c.await(fmt.Sprintf("of client %d can be said: refused %t", i, isRefused), func(context.Context) error {
		said, _ := w.last[i].Load().(string)
		if isRefused && refused(errors.New(said)) || !isRefused && w.acked[i].Load() > before {
			return nil
		}
		return fmt.Errorf("it was told %q, and %d writes succeeded", said, w.acked[i].Load()-before)
	})
}

// refuse has the etcds of members refuse clients, or serve them with 0, by way of their sidecars.
func (c *crew) refuse(d time.Duration, at ...*members.Member) {
	c.t.Helper()
	for _, m := range at {
		sidecar, err := m.Sidecar()
		c.must(err)
		told, err := sidecar.Refuse(c.t.Context(), d)
		sidecar.Close()
		c.must(err)
		if left := d - told.Left(); left < 0 || left > time.Second {
			c.t.Errorf("%s refuses clients for %s, want %s", m.Name, told.Left(), d)
		}
	}
}

// TestAClusterThatRefusesClientsIsBackedUpToTheLastRevision: whoever has a connection from before is refused, watches
// included, and the sidecars go on.
func TestAClusterThatRefusesClientsIsBackedUpToTheLastRevision(t *testing.T) {
	t.Parallel()
	for phrase, secure := range map[string]members.TLS{"plain text": {}, "TLS": members.Everywhere} {
		t.Run(phrase, func(t *testing.T) {
			c := enlist(t, members.Options{Members: 3, TLS: secure}, "")
			c.start()
			c.await("somebody makes backups", func(ctx context.Context) error { _, err := c.BackupLeader(ctx); return err })
			ctx, end := context.WithCancel(t.Context())
			w := c.link(ctx)
			defer w.ended.Wait()
			defer end()
			all := c.Members()
			for i := range all {
				w.say(i, false)
			}
			var seen atomic.Int64
			watched := c.client.Watch(ctx, loadPrefix, clientv3.WithPrefix())
			w.ended.Go(func() {
				for r := range watched {
					seen.Add(int64(len(r.Events)))
				}
			})
			more := func(than int64) func(context.Context) error {
				return func(context.Context) error {
					if seen.Load() == than {
						return errors.New("it does not")
					}
					return nil
				}
			}
			c.await("the watch sees what is written", more(0))

			c.refuse(10*time.Minute, all...)
			for i := range all {
				w.say(i, true)
			}
			acked := w.acknowledged()
			for who, ctx := range map[string]context.Context{
				"without a pass":    t.Context(),
				"with a wrong pass": metadata.AppendToOutgoingContext(t.Context(), auth.PassKey, strings.Repeat("0", 64)),
				"with the token":    metadata.AppendToOutgoingContext(t.Context(), auth.PassKey, c.Token()),
			} {
				bounded, cancel := context.WithTimeout(ctx, patience)
				if _, err := c.client.Put(bounded, loadPrefix+"nobody", "x"); !refused(err) {
					t.Errorf("a client %s: %v", who, err)
				}
				cancel()
			}

			// A final full has everything that anybody has.
			sidecar, err := all[0].Sidecar()
			c.must(err)
			defer sidecar.Close()
			var full agentapi.Snapshot
			c.await("a final full is taken", func(ctx context.Context) (err error) { // asked again for the same purpose it is the same one
				full, err = sidecar.Final(ctx, "test/1")
				return err
			})
			last := max(full.LastRevision, full.ContentRevision)
			for _, m := range all {
				c.await(m.Name+" tells the last revision", func(ctx context.Context) error {
					s, err := m.State(ctx)
					if err != nil {
						return err
					}
					if s.Etcd == nil || s.Etcd.Revision != last || s.Refusal == nil || s.Refusal.Left() < 8*time.Minute {
						return fmt.Errorf("%+v, refusal %+v; the full ends at %d", s.Etcd, s.Refusal, last)
					}
					return nil
				})
			}
			if now := w.acknowledged(); now != acked {
				t.Errorf("%d writes were acknowledged, and %d after all clients had been refused", acked, now-acked)
			}
			if c.list().end() < last {
				t.Errorf("the bucket ends at %d, want %d", c.list().end(), last)
			}

			// One that was started anew serves clients until it is asked again. It has to: nobody may be there to ask.
			before := all[1].EtcdLife().Starts
			if !all[1].KillEtcd() {
				t.Fatal("etcd does not run")
			}
			c.await("the member runs again", func(ctx context.Context) error {
				if all[1].EtcdLife().Starts == before {
					return errors.New("it was not started anew")
				}
				return all[1].Ready(ctx)
			})
			w.say(1, false)
			c.await("its sidecar says so", c.treats(all[1], func(r agentapi.Refusal) bool { return r.Left() == 0 }))
			c.refuse(10*time.Minute, all[1])
			w.say(1, true)
			// A sidecar that was started anew passes, and tells what the one before it was asked for.
			all[2].KillSidecar()
			c.await("the young sidecar tells", c.treats(all[2], func(r agentapi.Refusal) bool { return r.Left() > 5*time.Minute && r.For() > 0 }))
			c.await("it sees its etcd", func(ctx context.Context) error {
				s, err := all[2].State(ctx)
				if err == nil && s.Etcd == nil {
					err = errors.New("it does not")
				}
				return err
			})

			c.refuse(0, all[0], all[1])
			w.say(0, false)
			w.say(1, false)
			c.refuse(2*time.Second, all[2])
			w.say(2, false) // its time is over
			c.await("the watch goes on", more(seen.Load()))
			end()
			w.ended.Wait()
			c.ready()
			c.proves()
		})
	}
}

func (w *linked) acknowledged() (all int64) {
	for i := range w.acked {
		all += w.acked[i].Load()
	}
	return all
}

// treats is nil if a member tells of a refusal so.
func (c *crew) treats(m *members.Member, is func(agentapi.Refusal) bool) func(context.Context) error {
	return func(ctx context.Context) error {
		s, err := m.State(ctx)
		if err == nil && (s.Refusal == nil || !is(*s.Refusal)) {
			err = fmt.Errorf("%s tells %+v", m.Name, s.Refusal)
		}
		return err
	}
}
