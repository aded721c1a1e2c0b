package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"druid.internal/druid/test/members"
)

// smallQuota is etcd's quota in the story of a full one, in bytes.
const smallQuota = 8 << 20

// TestAFullQuotaIsToldAndEndsByItselfOnceKeysAreDeleted fills the quota of a cluster. Where history may
// go the deletion of keys is enough; where etcd is configured to keep it somebody has to compact as
// well.
func TestAFullQuotaIsToldAndEndsByItselfOnceKeysAreDeleted(t *testing.T) {
	for _, test := range everyOther(t, []struct {
		what            string
		members         int
		mode, retention string
		compact         bool
	}{
		{"the sidecar compacts", 3, "revision", "10", false},
		{"history stays, somebody compacts", 1, "periodic", "30m", true},
	}) {
		t.Run(test.what, func(t *testing.T) {
			t.Parallel()
			c := enlist(t, members.Options{Members: test.members, Etcd: map[string]any{"quota-backend-bytes": smallQuota,
				"auto-compaction-mode": test.mode, "auto-compaction-retention": test.retention}}, "")
			c.start()
			keys, rounds := c.fill(0), 1
			c.await("the leader says what to do", func(ctx context.Context) error {
				leader, err := c.Leader(ctx)
				if err != nil {
					return err
				}
				s, err := leader.State(ctx)
				switch {
				case err != nil:
					return err
				case s.Etcd == nil || !slices.Equal(s.Etcd.Alarms, []string{"NOSPACE"}):
					// It may have ended by itself, where the file of another member was full and the leader's was not.
					keys = append(keys, c.fill(rounds)...)
					rounds++
					return fmt.Errorf("its etcd is %+v", s.Etcd)
				case test.compact && s.LastDefragmentation == nil: // it was in doubt whether that helps
					return errors.New("nothing was defragmented")
				case !strings.Contains(s.Waiting, "delete keys and compact, or raise quota-backend-bytes"):
					return fmt.Errorf("it waits for %q", s.Waiting)
				}
				if n, err := leader.Metric(ctx, `etcdbr_etcd_alarm{alarm="NOSPACE"}`); err != nil || n != 1 {
					return fmt.Errorf("the metric of the alarm is %v, %w", n, err)
				}
				return nil
			})
			var newest int64
			for _, key := range keys[:len(keys)*3/4] {
				c.await(key+" is deleted", func(ctx context.Context) error {
					r, err := c.client.Delete(ctx, key)
					switch {
					case err != nil: // a member may lose its leader; it is not known what became of that
						c.told.UnsureDelete(key)
						return err
					case r.Deleted > 0:
						c.told.Delete(key, r.Header.Revision)
					}
					newest = r.Header.Revision
					return nil
				})
			}
			if test.compact {
				_, err := c.client.Compact(t.Context(), newest)
				c.must(err)
			}
			c.await("no alarm is left", func(ctx context.Context) error {
				r, err := c.client.AlarmList(ctx)
				if err == nil && len(r.Alarms) > 0 {
					err = fmt.Errorf("%v", r.Alarms)
				}
				return err
			})
			c.await("nothing is waited for", func(ctx context.Context) error {
				for _, m := range c.Members() {
					s, err := m.State(ctx)
					if err == nil && s.Waiting != "" {
						err = errors.New(s.Waiting)
					}
					if err != nil {
						return fmt.Errorf("%s: %w", m.Name, err)
					}
				}
				return nil
			})
			c.ready()
			c.work(1000).wait()
			events, rev := c.holds(newest + 1)
			c.comesBack(events, newest+1, rev)
			for _, m := range c.Members() {
				c.await(m.Name+" tells its size", func(ctx context.Context) error {
					s, err := m.Etcd(ctx)
					if err == nil && s.DbSize >= smallQuota {
						t.Errorf("the file of %s has %d bytes", m.Name, s.DbSize)
					}
					return err
				})
			}
		})
	}
}

// fill writes keys until etcd refuses, and enters in the ledger what it did not refuse. What is not answered, as a
// member lost its leader, counts as nothing.
func (c *crew) fill(round int) (keys []string) {
	c.t.Helper()
	value := strings.Repeat("v", 64<<10)
	for i := 0; ; i++ {
		key := fmt.Sprintf("%sfull/%d/%04d", loadPrefix, round, i)
		r, err := c.client.Put(c.t.Context(), key, value)
		switch {
		case errors.Is(err, rpctypes.ErrNoSpace):
			c.t.Logf("%d keys fill the quota", len(keys))
			c.told.Unsure(key, value) // etcd refuses it and may have it nevertheless
			return keys
		case i > 2*smallQuota/len(value):
			c.t.Fatalf("%d keys do not fill the quota: %v", i, err)
		case err != nil:
			c.told.Unsure(key, value)
		default:
			c.told.Put(key, value, r.Header.Revision)
			keys = append(keys, key)
		}
	}
}
