package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"druid.internal/druid/test/members"
)

// memberPart is what is measured in one place, by the names of its rows.
type memberPart struct {
	rows    []string
	measure func(context.Context, *bench, string) (*result, error)
}

var memberParts = []memberPart{
	{[]string{"idle"}, measureIdle},
	{[]string{"load"}, measureLoad},
	{[]string{"restart", "validation"}, measureStarts},
	{[]string{"bootstrap"}, measureBootstraps},
	{[]string{"rejoin", "stalls"}, measureOperations},
}

// memberRows are the names of all rows.
func memberRows() (names []string) {
	for _, p := range memberParts {
		names = append(names, p.rows...)
	}
	return names
}

// measureMembers runs members as their users do: two processes each, and etcd alone beside them for
// what etcd takes by itself.
func measureMembers(ctx context.Context, b *bench) (*result, error) {
	if _, err := os.Stat(b.wrapper); err != nil {
		return nil, fmt.Errorf("%w; `make build` builds it", err)
	}
	if err := b.room(int64(b.of(16, 2)) << 30); err != nil {
		return nil, err
	}
	var all result
	for _, part := range memberParts {
		if !slices.ContainsFunc(part.rows, b.rows.MatchString) {
			continue
		}
		dir := filepath.Join(b.scratch("member"), part.rows[0])
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
		r, err := part.measure(ctx, b, dir)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", part.rows[0], err)
		}
		all.add(r)
		if err := os.RemoveAll(dir); err != nil {
			return nil, err
		}
	}
	return &all, nil
}

// cluster lays members out with what the sidecar does by default, where tests have it do things more
// often.
func (b *bench) cluster(ctx context.Context, o members.Options) (*members.Cluster, error) {
	o.Programs = members.Programs{Etcdbrctl: b.etcdbrctl, Wrapper: b.wrapper}
	if o.Etcd == nil {
		o.Etcd = map[string]any{}
	}
	o.Etcd["quota-backend-bytes"] = int64(memberQuota)
	more := o.Sidecar
	o.Sidecar = func(member string, c map[string]any) {
		if more != nil {
			more(member, c)
		}
		snapshotter := c["snapshotterConfig"].(map[string]any)
		delete(snapshotter, "deltaSnapshotPeriod")
		delete(c, "leaderElectionConfig")
		c["serverConfig"].(map[string]any)["enableProfiling"] = b.profiles != ""
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, err
	}
	return members.New(ctx, o)
}

// memberQuota is room for everything that is written here.
const memberQuota = 8 << 30

// ready starts all members and waits for them.
func ready(ctx context.Context, c *members.Cluster) error {
	for _, m := range c.Members() {
		m.Start()
	}
	if err := c.AwaitReady(ctx); err != nil {
		return fmt.Errorf("%w\n%s", err, c.Tell(context.WithoutCancel(ctx)))
	}
	return nil
}

// backedUp waits until the first full of a cluster is stored.
func backedUp(ctx context.Context, c *members.Cluster) error {
	err := c.Await(ctx, "the first full is stored", func(ctx context.Context) error {
		m, err := c.BackupLeader(ctx)
		if err != nil {
			return err
		}
		s, err := m.State(ctx)
		if err == nil && (s.Snapshots == nil || s.Snapshots.LastFull == nil) {
			err = errors.New("there is none yet")
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("%w\n%s", err, c.Tell(context.WithoutCancel(ctx)))
	}
	return nil
}

// most is the largest of a quantity over several programs.
func most(all []*measured, of func(run) float64) (worst float64) {
	for _, m := range all {
		worst = max(worst, m.worst(of))
	}
	return worst
}
