package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"druid.internal/druid/internal/agentapi"
	"druid.internal/druid/test/members"
	"druid.internal/druid/test/sites"
)

// rejoinBytes is what a member that lost its data has to get from the others.
const rejoinBytes = 512 << 20

// electionTimeout is etcd's default: a member that hears nothing of a leader stands for election after
// one to two of it.
const electionTimeout = time.Second

// settled is how long members have to be connected before etcd lets the membership be changed, and a
// little more: who waits for that has only come too early.
const settled = 7 * time.Second

// measureOperations does to one member at a time what happens to members, and looks at how long it takes
// and how long nobody can write.
func measureOperations(ctx context.Context, b *bench, dir string) (*result, error) {
	size := int64(b.of(rejoinBytes, rejoinBytes/16))
	alone, election, err := b.plainOperations(ctx, filepath.Join(dir, "plain"), size)
	if err != nil {
		return nil, err
	}
	bucket := filepath.Join(dir, "bucket")
	if err := os.MkdirAll(bucket, 0o700); err != nil {
		return nil, err
	}
	done := doing("three members with %s each", bytesString(size))
	c, err := b.cluster(ctx, members.Options{Members: 3, Dir: filepath.Join(dir, "members"), Backup: sites.Way{Provider: "Local", Container: bucket}})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := ready(ctx, c); err != nil {
		return nil, err
	}
	client, err := c.Client()
	if err != nil {
		return nil, err
	}
	defer client.Close()
	if err := populate(ctx, client, size); err != nil {
		return nil, err
	}
	if err := backedUp(ctx, c); err != nil {
		return nil, err
	}
	done()
	var all result
	if b.rows.MatchString("rejoin") {
		r, err := b.rejoin(ctx, c, size, alone)
		if err != nil {
			return nil, err
		}
		all.add(r)
	}
	if b.rows.MatchString("stalls") {
		r, err := b.stalls(ctx, c, max(election, 2*electionTimeout))
		if err != nil {
			return nil, err
		}
		r.remarks = append(r.remarks, "The first defragmentation begins when the leader has led for a minute; its time includes what is left of that.", fmt.Sprintf("One leader election is the longest of %d of etcd alone, %.2f s until a write was answered, but at least %s, which is what etcd allows for one.",
			b.elections(), election.Seconds(), 2*electionTimeout))
		all.add(r)
	}
	return &all, nil
}

// rejoin lets one member after the other lose its data and come back.
func (b *bench) rejoin(ctx context.Context, c *members.Cluster, size int64, alone *measured) (*result, error) {
	ours := &measured{name: fmt.Sprintf("rejoin of a member with %s", bytesString(size))}
	for round := range b.rejoins() {
		if err := pause(settled)(ctx); err != nil {
			return nil, err
		}
		if err := b.round(ctx, round, ours, func(ctx context.Context) (time.Duration, func() error, error) {
			m, err := follower(ctx, c)
			if err != nil {
				return 0, nil, err
			}
			if err := m.LoseData(); err != nil {
				return 0, nil, err
			}
			began := time.Now()
			err = ready(ctx, c)
			return time.Since(began), nil, err
		}); err != nil {
			return nil, err
		}
		b.keepLogs(ctx, c, fmt.Sprintf("rejoin-%d", round+1))
	}
	return &result{
		programs: []*measured{alone, ours},
		criteria: []criterion{{"Rejoin of one member through a learner, " + bytesString(size), "time beyond that of etcd alone", max(0, ours.median(wall)-fastest(alone)), atMost, 2, "s", disturbed(alone, ours)}},
		remarks: []string{fmt.Sprintf("The median of the rejoins, %.2f s, is compared with the fastest of etcd alone, %.2f s, whose median is %.2f s: in about every second rejoin etcd waits until seven seconds have passed, when what it says about itself first came to it with the data; etcd-wrapper starts it once more then.",
			ours.median(wall), fastest(alone), alone.median(wall))},
	}, nil
}

// rejoins is how often a member loses its data.
func (b *bench) rejoins() int { return b.chosen("rejoin", b.of(6, 3)) }

// fastest is the shortest wall time, in seconds, of the runs that count.
func fastest(m *measured) float64 {
	runs, _ := m.counting()
	least := wall(runs[0])
	for _, r := range runs {
		least = min(least, wall(r))
	}
	return least
}

// elections is how often the leader of etcd alone is killed.
func (b *bench) elections() int { return b.chosen("stalls", b.of(8, 2)) }

// chosen is n, or 0 if that row is not to be measured.
func (b *bench) chosen(row string, n int) int {
	if !b.rows.MatchString(row) {
		return 0
	}
	return n
}

// plainOperations is how long etcd alone takes for a rejoin, and how long writes stall by an election.
func (b *bench) plainOperations(ctx context.Context, dir string, size int64) (rejoin *measured, election time.Duration, err error) {
	done := doing("three etcds alone with %s each", bytesString(size))
	p, err := newPlain(dir, 3)
	if err != nil {
		return nil, 0, err
	}
	defer p.close()
	if err := errors.Join(p.startAll(), p.serving(ctx)); err != nil {
		return nil, 0, err
	}
	client, err := p.dial()
	if err != nil {
		return nil, 0, err
	}
	defer client.Close()
	if err := populate(ctx, client, size); err != nil {
		return nil, 0, err
	}
	done()
	rejoin = &measured{name: fmt.Sprintf("rejoin of an etcd alone with %s", bytesString(size))}
	for round := range b.rejoins() {
		if err := pause(settled)(ctx); err != nil {
			return nil, 0, err
		}
		if err := b.round(ctx, round, rejoin, func(ctx context.Context) (time.Duration, func() error, error) {
			leader, err := p.leader(ctx)
			if err != nil {
				return 0, nil, err
			}
			m := p.members[0]
			if m == leader {
				m = p.members[1]
			}
			m.proc.Kill()
			if err := os.RemoveAll(m.dir); err != nil {
				return 0, nil, err
			}
			began := time.Now()
			err = p.rejoin(ctx, m)
			return time.Since(began), nil, err
		}); err != nil {
			return nil, 0, err
		}
	}
	w, err := startWriters(ctx, p.dial)
	if err != nil {
		return nil, 0, err
	}
	defer w.stop()
	for range b.elections() {
		s, err := w.during(ctx, func(ctx context.Context) error {
			leader, err := p.leader(ctx)
			if err != nil {
				return err
			}
			leader.proc.Kill()
			if err := w.answered(ctx, time.Now()); err != nil {
				return err
			}
			return errors.Join(p.start(leader, "existing"), p.serving(ctx))
		})
		if err != nil {
			return nil, 0, err
		}
		fmt.Printf("  an election of etcd alone: %s\n", s)
		election = max(election, s.gap)
	}
	return rejoin, election, nil
}

// stalls does everything that happens to a member while others write.
func (b *bench) stalls(ctx context.Context, c *members.Cluster, election time.Duration) (*result, error) {
	w, err := startWriters(ctx, c.Client)
	if err != nil {
		return nil, err
	}
	defer w.stop()
	var all result
	for _, o := range []struct {
		work string
		do   func(context.Context, *members.Cluster) error
	}{
		{"Defragmentation of all members, one at a time", defragmentAll},
		{"Rejoin of a member that lost its data", loseFollower},
		{"The leader's etcd killed", killLeader},
		{"Restart of all members, one at a time", restartAll},
	} {
		m := &measured{name: strings.ToLower(o.work[:1]) + o.work[1:] + ", while others write"}
		var worst stall
		for round := range b.rounds {
			if err := b.round(ctx, round, m, func(ctx context.Context) (time.Duration, func() error, error) {
				began := time.Now()
				s, err := w.during(ctx, func(ctx context.Context) error { return o.do(ctx, c) })
				if err != nil {
					err = fmt.Errorf("%w\n%s", err, c.Tell(context.WithoutCancel(ctx)))
				}
				worst.gap, worst.slow = max(worst.gap, s.gap), max(worst.slow, s.slow)
				return time.Since(began), nil, err
			}); err != nil {
				return nil, err
			}
			b.keepLogs(ctx, c, fmt.Sprintf("%s-%d", strings.ToLower(strings.ReplaceAll(o.work, " ", "-")), round+1))
		}
		m.note = worst.String()
		fmt.Printf("       %s\n", m.note)
		all.programs = append(all.programs, m)
		all.criteria = append(all.criteria, criterion{o.work, "no write answered for", worst.gap.Seconds(), atMost, election.Seconds(), "s", false})
	}
	return &all, nil
}

func follower(ctx context.Context, c *members.Cluster) (*members.Member, error) {
	leader, err := c.Leader(ctx)
	if err != nil {
		return nil, err
	}
	for _, m := range c.Members() {
		if m != leader {
			return m, nil
		}
	}
	return nil, errors.New("nobody follows")
}

// defragmentAll asks for what a schedule asks for.
func defragmentAll(ctx context.Context, c *members.Cluster) error {
	client, err := c.Member(0).Sidecar()
	if err != nil {
		return err
	}
	defer client.Close()
	var op agentapi.Operation
	// A backup leader that was just chosen may not be ready yet.
	if err := c.Await(ctx, "the defragmentation begins", func(ctx context.Context) (err error) {
		op, err = client.Defragment(ctx)
		return err
	}); err != nil {
		return err
	}
	// It goes on in the sidecar of whoever led when it was asked for.
	return c.Await(ctx, "the defragmentation is done", func(ctx context.Context) error {
		last := errors.New("no sidecar knows of it")
		for _, m := range c.Members() {
			o, err := defragmentation(ctx, m)
			switch {
			case err != nil:
				last = err
			case o.Start.Before(op.Start):
			case o.Status == agentapi.Success:
				return nil
			default:
				last = fmt.Errorf("%s says: %s %s %s", m.Name, o.Status, o.Phase, o.Message)
			}
		}
		return last
	})
}

// defragmentation is the last one that a member's sidecar knows of, the zero value if none.
func defragmentation(ctx context.Context, m *members.Member) (found agentapi.Operation, err error) {
	client, err := m.Sidecar()
	if err != nil {
		return found, err
	}
	defer client.Close()
	all, err := client.Operations(ctx)
	for _, o := range all {
		if o.Kind == "defragment" && o.Start.After(found.Start) {
			found = o
		}
	}
	return found, err
}

func loseFollower(ctx context.Context, c *members.Cluster) error {
	m, err := follower(ctx, c)
	if err != nil {
		return err
	}
	if err := m.LoseData(); err != nil {
		return err
	}
	return ready(ctx, c)
}

func killLeader(ctx context.Context, c *members.Cluster) error {
	m, err := c.Leader(ctx)
	if err != nil {
		return err
	}
	m.KillEtcd()
	return c.AwaitReady(ctx)
}

func restartAll(ctx context.Context, c *members.Cluster) error {
	for _, m := range c.Members() {
		if err := m.Stop(); err != nil {
			return err
		}
		m.Start()
		if err := c.AwaitReady(ctx); err != nil {
			return err
		}
	}
	return nil
}

// populate writes so many bytes of values, in values of 64 KB so that it takes no longer than it must.
func populate(ctx context.Context, client *clientv3.Client, size int64) error {
	const value, parallel = 64 << 10, 16
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	noise := newNoise(size)
	for i := range size / value {
		v := make([]byte, value)
		if _, err := io.ReadFull(noise, v); err != nil {
			return errors.Join(err, g.Wait())
		}
		g.Go(func() error {
			return again(ctx, "a key is written", func(ctx context.Context) error { // new members may elect once more
				_, err := client.Put(ctx, fmt.Sprintf("/populated/%08d", i), string(v))
				return err
			})
		})
	}
	return g.Wait()
}
